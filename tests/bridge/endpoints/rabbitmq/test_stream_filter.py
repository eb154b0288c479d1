"""Filter values of a stream: whatever a broker leaves out, and whatever else it sends, what is wanted is moved."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.testing.server import AmqpServer
from bindings.testing.server.consumers import ChannelConsumer
from bridge.daemon.config import read_config
from bridge.endpoint import Disconnected
from bridge.endpoints.memory import MemorySource
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import RabbitmqSource
from bridge.endpoints.rabbitmq.consumer.filtering import StreamFilter
from bridge.interop.filtering import Filter
from bridge.pump.inlet import Inlet
from exchange import InputError, Message
from exchange.amqp.streams import FILTER, FILTER_VALUE, MATCH_UNFILTERED
from exchange.lifecycle.consumers import Consumer, Delivery
from exchange.lifecycle.streams import StreamQueue
from exchange.selector import Selector
from exchange.values.field_values import Typed
from tests.support.bridge.behaviour import on_a_loop
from tests.support.tiers import examples
from tests.support.waiting import find_limit

CHUNK = 3
"""Number of messages of a chunk."""


def may_have(messages: Sequence[Any], asked: Mapping[str, Any]) -> bool:
    """Return whether a chunk's Bloom filter may have one of the values that a consumer has asked for."""
    values = [each.content.message.headers.get(FILTER_VALUE) for each in messages]
    wanted = {*asked[FILTER], *([None] if asked[MATCH_UNFILTERED] else [])}
    return any(value in wanted or crc32(f"{value} {sorted(map(str, wanted))}".encode()) % 5 == 0 for value in values)


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpServer]:
    """Run a server whose streams leave out chunks, as a broker does: by a filter that has false positives."""
    asked: dict[Consumer, Mapping[str, Any]] = {}
    begin = ChannelConsumer.__init__

    def note(self: ChannelConsumer, channel: Any, queue: str, prefetch: int, given: Mapping[str, Any]) -> None:
        begin(self, channel, queue, prefetch, given)
        if FILTER in given["arguments"]:
            asked[self] = given["arguments"]

    def run(self: StreamQueue) -> None:
        for consumer in self.turns.consumers:
            while (at := self._next[consumer]) < len(self._messages) and consumer.held < consumer.most:
                chunk = self._messages[(begun := at // CHUNK * CHUNK) : begun + CHUNK]
                if consumer in asked and not may_have(chunk, asked[consumer]):
                    self._next[consumer] = begun + len(chunk)
                    continue
                self._next[consumer] = at + 1
                consumer.held += 1
                given = {"x-stream-offset": at}
                consumer.deliveries.append(Delivery(self.name, self, self._messages[at], consumer, False, given))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChannelConsumer, "__init__", note)
        patch.setattr(StreamQueue, "run", run)
        with AmqpServer() as running:
            yield running


def declare(server: AmqpServer, kind: str, values: Sequence[str | None], first: int = 0) -> None:
    """Declare the queue anew, with numbered messages of these filter values."""
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_delete("q")
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
        channel.confirm_delivery()
        for number, value in enumerate(values, first):
            headers = {} if value is None else {FILTER_VALUE: value}
            channel.basic_publish("", "q", b"%d" % number, pika.BasicProperties(headers=headers))


def make_source(server: AmqpServer, path: Path, *values: str, unfiltered: bool = False) -> RabbitmqSource:
    wanted = StreamFilter(frozenset(values), unfiltered)
    return RabbitmqSource("from", [parse_broker(server.url)], "q", offsets=path, stream_filter=wanted)


async def move(source: RabbitmqSource, count: int) -> list[int]:
    """Open a source, read until so many messages have passed its filter, settle all that were read, and close it."""
    wanted, found = Inlet(source).filter, list[int]()
    assert wanted is not None
    await source.open()
    async with asyncio.timeout(find_limit()):
        while len(found) < count:
            [delivery] = await source.read(1)
            if wanted.objection(delivery.message) is None:
                found.append(int(delivery.message.body))
            source.settle(delivery)
    await source.close()
    return found


FILTER_VALUES = st.sampled_from(["eu", "us", "asia", None])
RUNS = st.lists(
    st.tuples(st.sets(st.sampled_from(["eu", "us", "asia", "none"]), min_size=1), st.booleans(), st.integers(0, 9)),
    min_size=1, max_size=4,
)  # fmt: skip


@examples(40)
@given(st.lists(FILTER_VALUES, min_size=CHUNK, max_size=40), RUNS)
def test_what_is_wanted_is_moved_once_and_in_order_however_the_filter_changes_between_runs(
    server: AmqpServer, values: list[str | None], runs: list[tuple[set[str], bool, int]]
) -> None:
    declare(server, "stream", values)
    with tempfile.TemporaryDirectory() as folder:
        first = 0
        for names, unfiltered, count in runs:
            wanted = [
                number
                for number, value in enumerate(values)
                if number >= first and (unfiltered if value is None else value in names)
            ][:count]
            source = make_source(server, Path(folder) / "offset", *names, unfiltered=unfiltered)
            assert asyncio.run(move(source, len(wanted))) == wanted
            first = wanted[-1] + 1 if wanted else first


@on_a_loop
async def test_a_stream_that_was_made_anew_is_noticed_though_the_filter_leaves_out_what_was_settled(
    server: AmqpServer, tmp_path: Path
) -> None:
    declare(server, "stream", ["eu"] * 6 + ["us"] * 6)
    assert await move(make_source(server, tmp_path / "offset", "eu"), 4) == [0, 1, 2, 3]
    assert await move(make_source(server, tmp_path / "offset", "us"), 1) == [6]
    declare(server, "stream", ["us"] * 5 + ["eu"] * 20, first=100)
    with pytest.raises(Disconnected, match=r"another message at offset 6 .*; remove .*offset"):
        await make_source(server, tmp_path / "offset", "us").open()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@on_a_loop
async def test_a_queue_is_refused_as_what_is_left_out_would_be_lost_from_it(
    server: AmqpServer, tmp_path: Path, kind: str
) -> None:
    declare(server, kind, ["eu", "us"])
    source = make_source(server, tmp_path / "offset", "eu")
    with pytest.raises(Disconnected, match="stream_filter: queue 'q' is no stream") as caught:
        await source.open()
    assert caught.value.key == "stream_filter"
    assert [each.key for each in await source.check() if each.level == "error"] == ["stream_filter"]
    declare(server, "stream", [])
    await source.open()
    assert source.lag is None
    await source.close()


def test_only_a_text_is_a_filter_value() -> None:
    wanted, also = StreamFilter(frozenset({"5"})), StreamFilter(frozenset({"5"}), unfiltered=True)
    for value, expected in (
        ("5", (True, True)), ("6", (False, False)), (5, (False, True)), ("", (False, True)), (None, (False, True)),
        (Typed("longstr", b"\xff"), (False, False)),
    ):  # fmt: skip
        message = Message("", "q", {FILTER_VALUE: value})
        assert (wanted(message), also(message)) == expected, value
    assert (wanted(Message()), also(Message())) == (False, True)


def test_a_source_wants_what_both_its_own_condition_and_its_selector_accept() -> None:
    class Conditional(MemorySource):
        condition = StreamFilter(frozenset({"eu"}))

    wanted = Inlet(Conditional(), filter=Filter(Selector.parse("n > 1"))).filter
    assert wanted is not None
    found = {
        (value, n): wanted.objection(Message("", "k", {FILTER_VALUE: value, "n": n}))
        for value in ("eu", "us")
        for n in (1, 2)
    }
    assert found == {("eu", 1): "no match", ("eu", 2): None, ("us", 1): "no match", ("us", 2): "no match"}


CONFIG = """
topology = "t.bindings"
[sources.log]
url = "amqp://localhost"
queue = "log"
LINES
[targets.out]
url = "archive:out"
queues = { q = "." }
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", None),
        ('stream_filter = "eu"', StreamFilter(frozenset({"eu"}))),
        ('stream_filter = ["eu", "us"]\nstream_match_unfiltered = true', StreamFilter(frozenset({"eu", "us"}), True)),
        ("stream_match_unfiltered = true", "stream_match_unfiltered: is for sources with stream_filter"),
        ("stream_filter = []", "stream_filter: has no value"),
        ("stream_filter = 5", "stream_filter: must be a list of texts"),
    ],
)
def test_filter_values_are_configured_at_their_source(
    tmp_path: Path, lines: str, expected: StreamFilter | str | None
) -> None:
    (tmp_path / "t.bindings").write_text('vhost "/"\nexchange events: fanout\nqueue q\nevents -> q\n')
    (tmp_path / "bridge.toml").write_text(CONFIG.replace("LINES", lines))
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            read_config(tmp_path / "bridge.toml", {})
        return
    inlet = read_config(tmp_path / "bridge.toml", {}).inlets[0]
    assert inlet.source.condition == expected
    assert inlet.filter == (None if expected is None else Filter(condition=expected))
