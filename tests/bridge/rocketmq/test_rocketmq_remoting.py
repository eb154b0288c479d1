"""Commands and frames of the remoting protocol, against what RocketMQ's Java wrote and read; signatures as well."""

from __future__ import annotations

import asyncio
import json
import struct
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.channel import FLUSH_BYTES, SCAN_SECONDS, Channel, ChannelSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode, find_response_name
from bridge.rocketmq.remoting.command import (
    FRAME_MAX,
    LANGUAGES,
    ONEWAY,
    RESPONSE,
    Command,
    Decoder,
    SerializeType,
    encode,
    encode_field,
    join_frame,
    load_json,
)
from bridge.rocketmq.remoting.errors import BrokerError, CommandError, RemotingError
from exchange.partition.clients.rocketmq.send import EXCEPTIONS
from tests.recorders import golden
from tests.recorders.rocketmq_remoting import COMMANDS, CREDENTIALS, to_json
from tests.support.virtual_loop import pass_time, run_virtually

RECORDED = [golden.read(name) for name in golden.names("rocketmq-remoting-")]
VERSIONS = [each["version"] for each in RECORDED]

INT = st.integers(-(1 << 31), (1 << 31) - 1)
SHORT = st.integers(-(1 << 15), (1 << 15) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMAND = st.builds(
    Command, SHORT, st.dictionaries(TEXT, TEXT, max_size=5), st.binary(max_size=50), INT, INT,
    st.none() | TEXT.filter(bool), st.sampled_from(LANGUAGES), SHORT,
)  # fmt: skip


@pytest.mark.parametrize("recorded", RECORDED, ids=VERSIONS)
def test_commands_that_java_encodes_are_decoded(recorded: dict[str, Any]) -> None:
    for command, frames in zip(COMMANDS, recorded["encoded"], strict=True):
        for header in SerializeType:
            (read,) = Decoder().feed(b64decode(frames[header.name]))
            assert read == command


@pytest.mark.parametrize("recorded", RECORDED, ids=VERSIONS)
def test_java_decodes_commands_that_we_encode(recorded: dict[str, Any]) -> None:
    ours = [(command, encode(command, header)) for command in COMMANDS for header in SerializeType]
    for (command, frame), asked, answer in zip(ours, recorded["frames"], recorded["decoded"], strict=True):
        assert b64encode(frame).decode() == asked  # else record anew
        assert answer == to_json(command)


@pytest.mark.parametrize("recorded", RECORDED, ids=VERSIONS)
def test_signatures_are_java_s(recorded: dict[str, Any]) -> None:
    for command, signatures in zip(COMMANDS, recorded["signatures"], strict=True):
        for access_key, secret_key, token in CREDENTIALS:
            signed = Credentials(access_key, secret_key, token).sign(command)
            assert signed.fields["Signature"] == signatures[access_key]
            assert Credentials(access_key, secret_key, token).sign(signed) == signed


def test_a_secret_is_not_shown() -> None:
    assert "12345678" not in repr(Credentials("reader", "12345678", "87654321"))


@given(st.lists(st.tuples(COMMAND, st.sampled_from(SerializeType)), max_size=5), st.data())
def test_commands_are_decoded_from_bytes_in_pieces_of_any_size(
    commands: list[tuple[Command, SerializeType]], data: st.DataObject
) -> None:
    stream = b"".join([encode(command, header) for command, header in commands])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    decoder = Decoder()
    read = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        read += decoder.feed(stream[start:stop])
    assert read == [command for command, _ in commands]


@given(st.binary(max_size=60), st.sampled_from(SerializeType))
def test_a_header_of_any_bytes_is_a_command_or_an_error(header: bytes, kind: SerializeType) -> None:
    frame = struct.pack(">iI", 4 + len(header), kind << 24 | len(header)) + header
    try:
        commands = Decoder().feed(frame)
    except CommandError:
        return
    assert len(commands) == 1


@given(COMMAND)
def test_a_frame_joined_from_encoded_fields_is_the_encoded_command(command: Command) -> None:
    command = command._replace(language="PYTHON", version=Command(0).version, remark=None)
    fields = b"".join([encode_field(name, value) for name, value in command.fields.items()])
    assert join_frame(command.code, command.opaque, command.flag, fields, command.body) == encode(command)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (struct.pack(">i", 3), "a frame of 3 bytes"),
        (struct.pack(">i", -1), "a frame of -1 bytes"),
        (struct.pack(">i", FRAME_MAX + 1), "a frame of 16,777,217 bytes"),
        (struct.pack(">iI", 4, 1), "a header of 1 bytes in a frame of 4"),
        (struct.pack(">iI", 4, 2 << 24), "a header of type 2"),
        (struct.pack(">iI", 6, 2) + b"[]", "a header that cannot be read"),
        (struct.pack(">iI", 6, 2) + b"\xff{", "a header that cannot be read"),
    ],
)
def test_a_malformed_frame_is_an_error(frame: bytes, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        Decoder().feed(frame)


@pytest.mark.parametrize(
    ("command", "header", "told"),
    [
        (Command(1, opaque=1 << 31), SerializeType.ROCKETMQ, "a number of the header is too great"),
        (Command(1, {"k" * (1 << 15): ""}), SerializeType.ROCKETMQ, "32,768 bytes; 32,767 are allowed"),
        (Command(1, {"k": "\ud800"}), SerializeType.ROCKETMQ, "not text"),
        (Command(1, {"k": "\ud800"}), SerializeType.JSON, "not text"),
        (Command(1, remark="\ud800"), SerializeType.JSON, "not text"),
        (Command(1, body=bytes(FRAME_MAX)), SerializeType.JSON, "16,777,216 are allowed"),
    ],
)
def test_a_command_that_fits_in_no_frame_is_an_error(command: Command, header: SerializeType, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        encode(command, header)


@given(st.integers(0, 1 << 20), st.sampled_from(SerializeType))
def test_a_code_that_fits_in_no_binary_header_has_one_in_json(code: int, header: SerializeType) -> None:
    command = Command(code, {"topic": "t"}, b"body", 5)
    (read,) = Decoder().feed(encode(command, header))
    assert read == command


def test_a_response_answers_its_request() -> None:
    request = Command(40, opaque=7)
    response = request.response(ResponseCode.SYSTEM_ERROR, "no")
    assert (response.opaque, response.flag, response.code, response.remark) == (7, RESPONSE, 1, "no")
    assert response.is_response
    assert not request.is_response
    assert Command(40, flag=ONEWAY).is_oneway


@given(st.recursive(st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_a_json_body_is_parsed(value: Any) -> None:
    assert load_json(json.dumps(value).encode()) == value


def test_numbers_may_be_keys_of_json() -> None:
    found = load_json(b'{0:"a",-1 :{ 2:[{3:"{4:\\"5:"}]},"6":7}')
    assert found == {"0": "a", "-1": {"2": [{"3": '{4:"5:'}]}, "6": 7}


def test_a_body_that_is_not_json_is_an_error() -> None:
    for wrong in (b"", b"{", b"\xff", b"{a:1}"):
        with pytest.raises(CommandError, match="no JSON"):
            load_json(wrong)


def test_errors_are_those_that_java_s_producer_knows() -> None:
    def kinds(error: type[RemotingError]) -> list[type[RemotingError]]:
        return [error, *[each for kind in error.__subclasses__() for each in kinds(kind)]]

    assert {kind.exception for kind in kinds(RemotingError)} <= set(EXCEPTIONS)


def test_a_broker_s_refusal_has_the_name_of_its_code() -> None:
    assert str(BrokerError(17, "no topic x", "127.0.0.1:10911")) == "127.0.0.1:10911: TOPIC_NOT_EXIST (17): no topic x"
    assert str(BrokerError(9999, None)) == "9999 (9999)"
    several = BrokerError(23, "cannot be parsed\nwas expecting one of:\n  ...", "b:1")
    assert str(several) == "b:1: SUBSCRIPTION_PARSE_FAILED (23): cannot be parsed"
    assert several.remark.endswith("...")
    assert find_response_name(RequestCode.SEND_MESSAGE_V2) == "310"


class Transport:
    """A socket that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def set_write_buffer_limits(self, _: int) -> None:
        pass


def test_frames_of_a_turn_are_written_together_and_large_ones_at_once() -> None:
    async def work() -> list[list[int]]:
        channel, transport = Channel("h:1", ChannelSettings()), Transport()
        channel.connection_made(transport)  # type: ignore[arg-type]
        seen = []
        for sizes in ((100, 200), (FLUSH_BYTES - 1, 5, 6), (FLUSH_BYTES,)):
            for size in sizes:
                channel.write(bytes(size))
            seen.append([len(data) for data in transport.written])  # before the turn ends
            await asyncio.sleep(0)
            seen.append([len(data) for data in transport.written])
            transport.written.clear()
        return seen

    large = FLUSH_BYTES + 4
    assert asyncio.run(work()) == [[], [300], [large], [large, 6], [FLUSH_BYTES], [FLUSH_BYTES]]


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 30)), min_size=1, max_size=8))
def test_requests_end_by_their_deadlines_which_are_one_timer(requests: list[tuple[float, float]]) -> None:
    late: list[float] = []
    turns = 0

    async def work() -> None:
        loop, channel = asyncio.get_running_loop(), Channel("b:1", ChannelSettings())
        scan = channel._end_late

        def count() -> None:
            nonlocal turns
            turns += 1
            scan()

        channel._end_late = count  # type: ignore[method-assign]
        for at, timeout in sorted(requests):
            await pass_time(at - loop.time() if at > loop.time() else 0.0)
            deadline = loop.time() + timeout
            channel.expect(lambda _, due=deadline: late.append(loop.time() - due), timeout)  # type: ignore[misc]
        await pass_time(40)

    run_virtually(work())
    assert len(late) == len(requests)
    assert all(-1e-6 <= each <= SCAN_SECONDS + 1e-6 for each in late)
    assert turns <= len(requests)
