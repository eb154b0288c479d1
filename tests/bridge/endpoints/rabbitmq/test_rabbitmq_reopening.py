"""A source that connects again equals one that was made anew: nothing that its first connection saw outlives it."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from bindings.testing.server import AmqpServer
from bridge.endpoint import Disconnected, EndOfStream
from bridge.endpoints.rabbitmq.addresses import parse_broker, read_brokers
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.table import Table
from tests.support.bridge.behaviour import on_a_loop, read_all_of
from tests.support.bridge.certificates import authority_in
from tests.support.bridge.relay import relay_to
from tests.support.waiting import find_limit, until

TYPES = ("classic", "quorum", "stream")


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpServer]:
    with AmqpServer() as running:
        yield running


@pytest.fixture
def channel(server: AmqpServer) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        yield channel
        channel.queue_delete("q")


def make_anew(channel: BlockingChannel, kind: str, first: int, stop: int) -> None:
    """Delete the queue, declare it with this type, and put numbered messages into it."""
    channel.queue_delete("q")
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    for number in range(first, stop):
        channel.basic_publish("", "q", b"%d" % number)


async def read_and_settle(source: RabbitmqSource, count: int) -> list[int]:
    found = await read_all_of(source, count)
    source.settle(found[-1])
    return [int(each.message.body) for each in found]


@pytest.mark.parametrize("keeps_offsets", [False, True])
@pytest.mark.parametrize(("old", "new"), [(a, b) for a in TYPES for b in TYPES if (a, b) != ("stream", "stream")])
@on_a_loop
async def test_a_queue_that_was_made_anew_is_read_from_its_first_message_whatever_its_type(
    server: AmqpServer, channel: BlockingChannel, old: str, new: str, keeps_offsets: bool, tmp_path: Path
) -> None:
    source = RabbitmqSource(
        "from", [parse_broker(server.url)], "q", offsets=tmp_path / "offset" if keeps_offsets else None
    )
    make_anew(channel, old, 0, 5)
    await source.open()
    assert await read_and_settle(source, 5) == [0, 1, 2, 3, 4]
    make_anew(channel, new, 5, 9)  # while it is connected: the broker cancels its consumer
    with pytest.raises(Disconnected, match="cancelled"):
        await source.read(1)
    await source.close()
    await source.open()
    assert await read_and_settle(source, 4) == [5, 6, 7, 8]
    await source.close()
    make_anew(channel, old, 9, 15)  # while it is not connected, and back to what the first connection saw
    if keeps_offsets and old == "stream":
        with pytest.raises(Disconnected, match=r"declared anew; remove .*offset"):
            await source.open()
        (tmp_path / "offset").unlink()
    await source.open()
    assert await read_and_settle(source, 6) == [9, 10, 11, 12, 13, 14]
    await source.close()


@on_a_loop
async def test_without_a_file_a_stream_that_was_made_anew_is_reported_and_then_read_from_its_first_message(
    server: AmqpServer, channel: BlockingChannel
) -> None:
    source = RabbitmqSource("from", [parse_broker(server.url)], "q")
    make_anew(channel, "stream", 0, 5)
    await source.open()
    assert await read_and_settle(source, 3) == [0, 1, 2]
    await source.close()
    make_anew(channel, "stream", 5, 10)
    with pytest.raises(Disconnected, match="another message at offset 2"):
        await source.open()
    await source.open()
    assert await read_and_settle(source, 5) == [5, 6, 7, 8, 9]
    await source.close()


@pytest.mark.parametrize("kind", TYPES)
@on_a_loop
async def test_a_queue_that_stays_is_read_on_after_the_last_settled_message(
    kind: str, server: AmqpServer, channel: BlockingChannel
) -> None:
    source = RabbitmqSource("from", [parse_broker(server.url)], "q")
    make_anew(channel, kind, 0, 9)
    for expected in ([0, 1, 2], [3, 4, 5], [6, 7, 8]):
        await source.open()
        assert await read_and_settle(source, 3) == expected
        await source.close()


@on_a_loop
async def test_a_stream_that_is_kept_in_memory_is_known_when_the_broker_has_answered(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer is begun as that of a stream, and a reload must not take a queue for one meanwhile."""
    source, kept = RabbitmqSource("from", [parse_broker(server.url)], "q"), []
    begin = source._begin

    async def look(*arguments: Any) -> None:
        kept.append(source.settled_in)
        await begin(*arguments)

    monkeypatch.setattr(source, "_begin", look)
    for kind, then in (("quorum", ""), ("stream", None)):
        make_anew(channel, kind, 0, 2)
        await source.open()
        assert source.settled_in == then
        await source.close()
    assert kept == ["", "", ""]


@on_a_loop
async def test_a_refused_consumer_is_explained_and_leaves_no_connection(
    server: AmqpServer, channel: BlockingChannel
) -> None:
    source = RabbitmqSource("from", [parse_broker(server.url)], "q")
    with pytest.raises(Disconnected, match="queue 'q': there is none; declare it"):
        await source.open()
    assert source._connection is None
    assert source.settled_in == "", "a reload is refused to a stream without a file only, and it is not known to be one"
    make_anew(channel, "quorum", 0, 2)
    await source.open()
    assert await read_and_settle(source, 2) == [0, 1]
    await source.close()


@on_a_loop
async def test_certificates_are_read_again_whenever_a_source_connects(
    server: AmqpServer, channel: BlockingChannel, tmp_path: Path
) -> None:
    """Of authorities and of the client: a rotation needs no restart."""
    authority = authority_in(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    context.load_verify_locations(authority / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    files = {"ca_file": "authorities.pem", "cert_file": "own.pem", "key_file": "own.key"}
    values: dict[str, Any] = {key: str(tmp_path / name) for key, name in files.items()}

    def rotate(ca: str, own: str) -> None:
        for old, new in ((ca, "authorities.pem"), (f"{own}.pem", "own.pem"), (f"{own}.key", "own.key")):
            shutil.copy(authority / old, tmp_path / new)

    rotate("other.pem", "other")
    make_anew(channel, "classic", 0, 1)
    parts = urlsplit(server.url)
    with relay_to("127.0.0.1", parts.port or 0, context) as relay:
        url = f"amqps://guest:guest@localhost:{relay.port}"
        source = RabbitmqSource("from", read_brokers("from", url, Table(values, "bridge.toml")), "q")
        with pytest.raises(Disconnected, match="no authority in ca_file knows"):
            await source.open()
        rotate("ca.pem", "other")
        with pytest.raises(Disconnected):
            await source.open()
        rotate("ca.pem", "client")
        await source.open()
        assert await read_and_settle(source, 1) == [0]
        await source.close()
        (tmp_path / "own.pem").write_text("half of a file")
        with pytest.raises(Disconnected, match=r"cert_file: .*own\.pem cannot be used"):
            await source.open()


@on_a_loop
async def test_a_source_that_takes_no_more_gives_all_that_waits_in_its_socket(
    server: AmqpServer, channel: BlockingChannel
) -> None:
    make_anew(channel, "classic", 0, 0)
    for _ in range(30):
        channel.basic_publish("", "q", bytes(100_000))
    source = RabbitmqSource("from", [parse_broker(server.url)], "q", window_bytes=4)  # a buffer of one byte
    await source.open()
    await until(lambda: source._connection is not None and source._connection.is_paused)
    count = 0
    async with asyncio.timeout(find_limit()):
        assert await source.stop_taking()  # whose answer is behind all messages
        while count < 30:
            count += len(await source.read(5))
        with pytest.raises(EndOfStream):
            await source.read(5)
    await source.close()
