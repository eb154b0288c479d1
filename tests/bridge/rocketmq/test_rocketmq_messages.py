"""Messages of RocketMQ as bytes, as its Java client writes and reads them (`tests.recorders.rocketmq_message`)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bridge.rocketmq.remoting.ids import OffsetId, UniqueId, UniqueIds
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage, decode_batch, encode_batch
from bridge.rocketmq.remoting.properties import (
    GROUP_LENGTH,
    PROPERTIES_BYTES,
    RESERVED,
    SYSTEM,
    TOPIC_LENGTH,
    IllegalMessage,
    check_body,
    check_group,
    check_property,
    check_topic,
    decode_properties,
    encode_checked_properties,
    encode_properties,
    is_legal_name,
)
from bridge.rocketmq.remoting.stored import parse_stored_messages
from exchange.errors import InputError
from exchange.rocketmq.stored_record import PACKED
from tests.recorders import golden
from tests.recorders.rocketmq_message import BATCHES, GROUPS, RECORDS, STRINGS, TOPICS, USER_PROPERTIES

recordings = pytest.mark.parametrize("recorded", [golden.read(name) for name in golden.names("rocketmq-message-")])

words = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9)
some_properties = st.dictionaries(words, words, max_size=6)


def passes(check: Callable[..., object], *arguments: str) -> bool:
    try:
        check(*arguments)
    except IllegalMessage:
        return False
    return True


def is_old(recorded: dict[str, Any]) -> bool:
    """In 4.x groups may have 255 characters, the last property ends with the text, and a flag is not changed."""
    return str(recorded["version"]).startswith("4.")


# Properties and names.


@recordings
def test_properties_are_read_as_java_reads_them(recorded: dict[str, Any]) -> None:
    assert [decode_properties(text.encode()) for text in STRINGS] == recorded["strings"]


@given(some_properties)
def test_legal_properties_are_decoded_as_they_were_encoded(properties: dict[str, str]) -> None:
    assert decode_properties(encode_checked_properties(properties)) == properties


@given(st.dictionaries(st.text("ab\x01\x02", max_size=3), st.text("ab\x01\x02", max_size=3), max_size=4))
@example({"a": "b\x01c"})
def test_properties_that_would_arrive_changed_are_refused(properties: dict[str, str]) -> None:
    if decode_properties(encode_properties(properties)) != properties:
        assert not passes(encode_checked_properties, properties)  # type: ignore[arg-type]


def test_bytes_that_are_no_text_are_kept() -> None:
    assert encode_properties({"a": "ü"}).decode() == "a\x01ü\x02"
    assert decode_properties(b"a\x01\xff\x02") == {"a": "\udcff"}


def test_properties_may_have_32_kib_together() -> None:
    most = {"n": "x" * (PROPERTIES_BYTES - 3)}
    assert len(encode_checked_properties(most)) == PROPERTIES_BYTES
    with pytest.raises(IllegalMessage, match="its properties are 32768 bytes; RocketMQ takes 32767"):
        encode_checked_properties({"n": most["n"] + "x"})


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"": "v"}, "a property's name is empty"),
        ({"n": ""}, "property 'n': its value is empty; RocketMQ would lose it"),
        ({"n\x01": "v"}, "a character 1 or 2"),
        ({"n": "\x02"}, "a character 1 or 2"),
        ({"n": "\udc80"}, "is not text that UTF-8 can hold"),
    ],
)
def test_illegal_properties_are_refused_with_the_reason(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(IllegalMessage, match=reason):
        encode_checked_properties(properties)


@recordings
def test_names_are_accepted_as_in_java(recorded: dict[str, Any]) -> None:
    assert [passes(check_topic, topic) for topic in TOPICS] == [verdict is None for verdict in recorded["topics"]]
    for group, verdict in zip(GROUPS, recorded["groups"], strict=True):
        is_long = GROUP_LENGTH < len(group) <= 255
        assert passes(check_group, group) == (verdict is None and not (is_old(recorded) and is_long))


def test_user_properties_are_accepted_as_in_java() -> None:
    recorded = golden.read("rocketmq-message-5.5.0")
    verdicts = [passes(check_property, *pair) for pair in USER_PROPERTIES]
    assert verdicts == [verdict is None for verdict in recorded["user properties"]]
    assert sorted(RESERVED) == recorded["reserved"]
    assert RESERVED < SYSTEM


@pytest.mark.parametrize(
    ("check", "name", "reason"),
    [
        (check_topic, " ", "topic: its name is blank"),
        (check_topic, "a.b", r"topic 'a\.b': '\.' cannot be in it; letters, digits, % | _ - can"),
        (check_topic, "x" * (TOPIC_LENGTH + 1), "it has 128 characters; RocketMQ allows 127"),
        (check_group, "x" * (GROUP_LENGTH + 1), "it has 121 characters; RocketMQ allows 120"),
    ],
)
def test_illegal_names_are_refused_with_the_reason(check: Callable[[str], str], name: str, reason: str) -> None:
    with pytest.raises(IllegalMessage, match=reason.replace("|", r"\|")):
        check(name)


def test_a_legal_name_has_letters_digits_and_few_signs() -> None:
    assert is_legal_name("a-Z_0|%")
    assert not is_legal_name("")
    assert not is_legal_name("a\n")


def test_a_body_is_neither_empty_nor_too_large() -> None:
    assert check_body(b"x") == b"x"
    with pytest.raises(IllegalMessage, match="its body is empty"):
        check_body(b"")
    with pytest.raises(IllegalMessage, match="its body has 11 bytes; the limit is 10"):
        check_body(bytes(11), 10)


# Messages.


def test_the_arguments_of_a_message_are_its_properties() -> None:
    message = RocketMessage.build(
        "t", b"b", {"region": "eu"}, tags="TagA", keys=["k1", "k2"], sharding_key="s", delay_level=3, flag=-1
    )
    assert message.properties == {
        "region": "eu", "TAGS": "TagA", "KEYS": "k1 k2", "__SHARDINGKEY": "s", "DELAY": "3", "WAIT": "true"
    }  # fmt: skip
    assert (message.tags, message.keys, message.sharding_key) == ("TagA", ("k1", "k2"), "s")
    assert (message.delay_level, message.deliver_ms, message.wait_store_ok, message.flag) == (3, 0, True, -1)
    timed = RocketMessage.build("t", b"b", deliver_ms=1_700_000_000_000, wait_store_ok=False)
    assert timed.properties == {"TIMER_DELIVER_MS": "1700000000000", "WAIT": "false"}
    assert (timed.deliver_ms, timed.wait_store_ok, timed.tags, timed.keys) == (1_700_000_000_000, False, None, ())
    assert timed.with_property("a", "b").properties["a"] == "b"


def test_a_user_cannot_give_a_reserved_property() -> None:
    with pytest.raises(IllegalMessage, match="property 'TAGS': the name is RocketMQ's own"):
        RocketMessage.build("t", b"b", {"TAGS": "x"})
    with pytest.raises(IllegalMessage, match="does not fit in 32 bits"):
        RocketMessage.build("t", b"b", flag=1 << 31)


@pytest.mark.parametrize("text", ["", "x", "1.5"])
def test_a_property_that_is_no_number_is_no_delay(text: str) -> None:
    assert RocketMessage("t", b"b", {"DELAY": text}).delay_level == 0


# Batches.


def build_message(message: dict[str, Any]) -> RocketMessage:
    return RocketMessage("t", b64decode(message["body"]), message["properties"], message["flag"])


@recordings
def test_a_batch_is_the_bytes_that_java_writes(recorded: dict[str, Any]) -> None:
    for asked, written in zip(BATCHES, recorded["batches"], strict=True):
        messages = [build_message(each) for each in asked]
        raw = b64decode(written)
        kept = [{name: value for name, value in each.properties.items() if value} for each in messages]
        assert decode_batch("t", raw) == [
            each._replace(properties=left) for each, left in zip(messages, kept, strict=True)
        ]
        if (
            not is_old(recorded)
            and all(left == each.properties for each, left in zip(messages, kept, strict=True))
            and not any(
                message.delay_level or message.wait_store_ok != messages[0].wait_store_ok for message in messages
            )
        ):
            assert encode_batch(messages) == raw


flags = st.integers(-(2**31), 2**31 - 1)


meant = st.dictionaries(
    st.sampled_from(["WAIT", "DELAY", "TIMER_DELIVER_MS", "UNIQ_KEY", "a"]),
    st.sampled_from(["true", "True", "false", "0", "3", "-1", "0A", "\xe9" * 9]),
)
batches = st.lists(
    st.builds(RocketMessage, st.just("t"), st.binary(max_size=9), meant | some_properties, flags),
    min_size=1,
    max_size=8,
)


def is_mixed(batch: list[RocketMessage]) -> bool:
    """Return whether a batch has messages that wait for the store and others, or delayed ones."""
    is_delayed = any(message.delay_level > 0 or message.deliver_ms > 0 for message in batch)
    return is_delayed or len({message.wait_store_ok for message in batch}) > 1


@given(batches)
def test_a_batch_is_read_as_it_was_written_and_refused_if_it_is_mixed(batch: list[RocketMessage]) -> None:
    if is_mixed(batch):
        with pytest.raises(IllegalMessage, match="batch"):
            encode_batch(batch)
    else:
        assert decode_batch("t", encode_batch(batch)) == batch


@given(batches)
def test_a_batch_is_its_messages_one_after_the_other_each_with_its_id(batch: list[RocketMessage]) -> None:
    assume(not is_mixed(batch))
    ids = [f"7F{number:06X}" for number in range(len(batch))]
    whole = [
        message._replace(properties={**message.properties, "UNIQ_KEY": message.properties.get("UNIQ_KEY", unique_id)})
        for message, unique_id in zip(batch, ids, strict=True)
    ]
    assert encode_batch(batch, ids) == b"".join([encode_batch([message]) for message in whole])


def test_the_id_counts_for_the_limit_of_properties() -> None:
    room = PROPERTIES_BYTES - len("a\x01\x02")
    messages = [RocketMessage("t", b"x", {"a": "b" * room})] * 2
    assert len(decode_batch("t", encode_batch(messages))) == 2
    with pytest.raises(IllegalMessage, match=f"its properties are {PROPERTIES_BYTES + 12} bytes"):
        encode_batch(messages, ["01", "02"])


@given(st.data())
def test_a_torn_batch_is_an_error(data: st.DataObject) -> None:
    raw = encode_batch([RocketMessage("t", b"body", {"a": "b"}), RocketMessage("t", b"c")])
    cut = data.draw(st.integers(1, len(raw) - 1))
    try:
        assert decode_batch("t", raw[:cut]) == [RocketMessage("t", b"body", {"a": "b"})]
    except InputError as error:
        assert "do not fit" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "a batch without messages"),
        ([RocketMessage("t", b"1"), RocketMessage("u", b"2")], "of one topic"),
        ([RocketMessage("t", b"1"), RocketMessage("t", b"2", {"WAIT": "false"})], "wait for the store alike"),
        ([RocketMessage("t", b"1", {"DELAY": "1"})], "delayed"),
        ([RocketMessage("t", b"1", {"TIMER_DELIVER_MS": "1"})], "delayed"),
        ([RocketMessage("%RETRY%g", b"1")], "a retry cannot be in a batch"),
        ([RocketMessage("t", b"1", {"a": ""})], "its value is empty"),
    ],
)
def test_messages_that_cannot_be_a_batch_are_refused(messages: list[RocketMessage], reason: str) -> None:
    with pytest.raises(IllegalMessage, match=reason):
        encode_batch(messages)


# Records.


def facts(message: StoredMessage) -> dict[str, Any]:
    host, _, port = message.store_host.rpartition(":")
    by_id = OffsetId.parse(message.offset_id)
    assert (str(by_id.host), by_id.port) == (host.strip("[]"), int(port))
    return {
        "topic": message.topic, "body": message.body, "flag": message.flag, "properties": message.properties,
        "queue": message.queue_id, "offset": message.queue_offset, "place": message.log_offset,
        "system flag": message.system_flag, "born": message.born_time, "stored": message.store_time,
        "born host": address(message.born_host), "store host": address(message.store_host),
        "reconsumed": message.reconsume_times, "prepared": message.prepared_offset, "size": message.size,
        "id": message.message_id, "offset id": message.offset_id, "place by id": by_id.log_offset,
        "host by id": address(message.store_host), "tags": message.tags, "keys": message.properties.get("KEYS"),
        "waits": message.wait_store_ok, "level": message.delay_level,
    }  # fmt: skip


def address(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return str(ip_address(name.strip("[]"))), int(port)


@recordings
def test_records_are_read_as_java_reads_them(recorded: dict[str, Any]) -> None:
    raw = b"".join(b64decode(each["record"]) for each in recorded["records"])
    messages = parse_stored_messages(raw, "broker-a")
    for message, each in zip(messages, recorded["records"], strict=True):
        read = each["read"]
        read["body"] = b64decode(read["body"])
        for host in ("born host", "store host", "host by id"):
            read[host] = address(read[host])
        if is_old(recorded):
            read["system flag"] &= ~PACKED
        assert facts(message) == {name: read.get(name) for name in facts(message)}
        assert message.broker == "broker-a"
        assert message.to_send() == RocketMessage(message.topic, message.body, message.properties, message.flag)


def test_a_body_may_be_packed_in_each_way() -> None:
    recorded = golden.read("rocketmq-message-5.5.0")
    packings = {each["system flag"] >> 8 & 7 for each in RECORDS if each["system flag"] & PACKED}
    assert packings == {0, 1, 2, 3}
    for asked, each in zip(RECORDS, recorded["records"], strict=True):
        [message] = parse_stored_messages(b64decode(each["record"]), "b")
        assert message.body == b64decode(asked["body"])


def test_a_batch_in_one_record_is_its_messages() -> None:
    recorded = golden.read("rocketmq-message-5.5.0")
    raw = bytearray(b64decode(recorded["records"][0]["record"]))
    [plain] = parse_stored_messages(bytes(raw), "b")
    batch = encode_batch([RocketMessage("t", b"1", {"a": "b"}, 7), RocketMessage("t", b"2")])
    body_at = 84 + (12 if plain.system_flag & 0x10 else 0) + (12 if plain.system_flag & 0x20 else 0)
    length = int.from_bytes(raw[body_at : body_at + 4], "big")
    raw[body_at : body_at + 4 + length] = len(batch).to_bytes(4, "big") + batch
    raw[:4] = len(raw).to_bytes(4, "big")
    flag = int.from_bytes(raw[36:40], "big") & ~PACKED | 0xC0
    raw[36:40] = flag.to_bytes(4, "big")
    one, two = parse_stored_messages(bytes(raw), "b")
    assert (one.body, one.properties, one.flag, one.queue_offset) == (b"1", {"a": "b"}, 7, plain.queue_offset)
    assert (two.body, two.properties, two.flag, two.queue_offset) == (b"2", {}, 0, plain.queue_offset + 1)
    assert one.topic == plain.topic


WHOLE = [b64decode(each["record"]) for each in golden.read("rocketmq-message-5.5.0")["records"]]


@given(st.data())
def test_an_answer_that_is_torn_or_damaged_never_crashes(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(WHOLE)))
    cut = data.draw(st.integers(1, len(raw)))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(0, 255))
    try:
        parse_stored_messages(bytes(raw[:cut]), "b")
    except InputError as error:
        assert str(error)  # noqa: PT017


# Ids.


@recordings
def test_unique_ids_are_parsed_as_by_java(recorded: dict[str, Any]) -> None:
    ids = recorded["unique ids"]
    for n, each in enumerate(ids):
        found = UniqueId.parse(each["id"])
        assert (found.host, found.process) == (ip_address(each["host"].replace("/", "")), each["process"])
        assert found.counter == UniqueId.parse(ids[0]["id"]).counter + n
        now = datetime.fromtimestamp(each["now"] / 1000, UTC) + timedelta(milliseconds=each["offset"])
        begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        assert 0 <= (now - begin) / timedelta(milliseconds=1) - found.since_month < 1000


def test_generated_unique_ids_are_parsed_to_their_parts() -> None:
    clock = [1_700_000_000_123]
    ids = UniqueIds("10.0.0.7", 70_000, -1, lambda: clock[0])
    one, two = ids.next(), ids.next()
    assert len(one) == 32
    found = UniqueId.parse(one)
    assert (str(found.host), found.process, found.number) == ("10.0.0.7", 70_000 & 0xFFFF, 0xFFFFFFFF)
    assert UniqueId.parse(two).counter == found.counter + 1
    clock[0] += 5
    assert UniqueId.parse(ids.next()).since_month == found.since_month + 5
    clock[0] += 40 * 86_400_000
    assert 0 <= UniqueId.parse(ids.next()).since_month < 31 * 86_400_000
    clock[0] -= 40 * 86_400_000  # a clock that is put back by a month
    assert UniqueId.parse(ids.next()).since_month < 0
    assert len(UniqueIds("::1", 1, 2, lambda: 0).next()) == 56


def test_many_ids_are_all_different() -> None:
    ids = UniqueIds("127.0.0.1", 1, 1, lambda: 1_700_000_000_000)
    assert len({ids.next() for _ in range(65_536)}) == 65_536


@given(st.lists(st.integers(0, 300), max_size=6), st.integers(0, 65_535))
def test_ids_taken_at_once_are_those_taken_one_by_one(counts: list[int], start: int) -> None:
    at_once, one_by_one = (UniqueIds("127.0.0.1", 1, 1, lambda: 1_700_000_000_000) for _ in range(2))
    at_once.take(start)
    one_by_one.take(start)
    for count in counts:
        assert at_once.take(count) == [one_by_one.next() for _ in range(count)]


@given(st.ip_addresses(), st.integers(0, 2**16 - 1), st.integers(0, 2**63 - 1))
def test_an_offset_id_is_read_as_it_was_written(host: Any, port: int, offset: int) -> None:
    found = OffsetId(host, port, offset)
    assert OffsetId.parse(found.text) == found
    assert len(found.text) == (32 if host.version == 4 else 56)


@pytest.mark.parametrize("port", [2**16, 2**31 - 1, 2**31, 2**32 - 1])
def test_an_offset_id_has_no_port_above_65535(port: int) -> None:
    """Java's InetSocketAddress refuses it."""
    with pytest.raises(InputError, match=f"is not an offset id: {port} is no port"):
        OffsetId.parse(f"0a000001{port:08x}{7:016x}")


@pytest.mark.parametrize("text", ["", "x", "00" * 15, "00" * 17, "zz" * 16, " ".join(["00"] * 16), "0" * 31])
def test_a_malformed_id_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="is not an offset id"):
        OffsetId.parse(text)
    with pytest.raises(InputError, match="is not a unique id"):
        UniqueId.parse(text)
