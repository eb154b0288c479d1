"""Filter values of streams on live brokers: what they leave out, what they send besides, and what a target sets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pika
import pytest

from bridge.endpoint import Disconnected
from bridge.endpoints.memory import MemoryTarget
from bridge.endpoints.rabbitmq.consumer.filtering import StreamFilter
from bridge.pump.pump import Inlet, Pump
from exchange.amqp.streams import FILTER_VALUE
from tests.support.bridge.behaviour import QUICK, Silent, on_a_loop, read_all_of, router_to
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import Server
from tests.support.waiting import find_limit, until

EU = StreamFilter(frozenset({"eu"}))
OTHERS = StreamFilter(frozenset({"us", "asia"}), unfiltered=True)


def put(broker: Broker, stream: str, values: Sequence[str | None], first: int = 0) -> None:
    """Publish numbered messages of these filter values, each in a chunk of its own."""
    for number, value in enumerate(values, first):
        headers = {} if value is None else {FILTER_VALUE: value}
        broker.put(stream, b"%d" % number, headers=headers)


def put_together(broker: Broker, stream: str, values: Sequence[str | None], first: int = 0) -> None:
    """Publish them without waiting for confirms, so that they share chunks."""
    channel = broker.connection.channel()
    for number, value in enumerate(values, first):
        headers = {} if value is None else {FILTER_VALUE: value}
        channel.basic_publish("", stream, b"%d" % number, pika.BasicProperties(headers=headers))
    channel.close()


@on_a_loop
async def test_exactly_the_wanted_messages_are_moved_whatever_shares_their_chunks(
    rabbitmq_servers: list[Server], tmp_path: Path
) -> None:
    values = ["eu", "us", None, "asia"] * 25 + ["us"] * 100 + ["eu"] + [None] * 50
    for server in rabbitmq_servers:
        with closing(Broker(server)) as broker:
            stream = broker.queue(x_queue_type="stream")
            put_together(broker, stream, values)
            for wanted in (EU, OTHERS):
                expected = [
                    b"%d" % n
                    for n, value in enumerate(values)
                    if (wanted.unfiltered if value is None else value in wanted.values)
                ]
                path, target = tmp_path / f"{broker.port} {wanted.unfiltered}", MemoryTarget()
                source = broker.source(stream, offsets=path, stream_filter=wanted)
                pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)
                running = asyncio.ensure_future(pump.run())
                await until(lambda: len(target.messages) >= len(expected))  # noqa: B023  it is over in this turn
                pump.stop()
                await asyncio.wait_for(running, find_limit())
                assert [outgoing.message.body for outgoing in target.messages] == expected, server.version_info
                assert int(path.read_text().split()[0]) >= int(expected[-1])


@on_a_loop
async def test_a_broker_leaves_out_chunks_and_a_run_with_another_filter_goes_on_behind_what_was_settled(
    broker: Broker, tmp_path: Path
) -> None:
    stream, path = broker.queue(x_queue_type="stream"), tmp_path / "offset"
    put(broker, stream, ["eu"] * 3 + ["us"] * 20 + ["eu"] * 2)
    source = broker.source(stream, offsets=path, stream_filter=EU)
    await source.open()
    found = await read_all_of(source, 5)
    assert [each.message.body for each in found] == [b"0", b"1", b"2", b"23", b"24"], "chunks are sent that have no eu"
    source.settle(found[1])
    await source.close()
    [position] = [each for each in await source.check() if each.key == "offsets"]
    assert (position.level, "goes on after offset 1" in position.text) == ("ok", True)
    us = broker.source(stream, offsets=path, stream_filter=StreamFilter(frozenset({"us"})))
    await us.open()
    found = await read_all_of(us, 20)
    assert [int(each.message.body) for each in found] == [*range(3, 23)]
    us.settle(found[-1])
    await us.close()
    none = broker.source(stream, offsets=path, stream_filter=StreamFilter(frozenset({"none"})))
    await none.open()  # though nothing comes
    put(broker, stream, ["eu", "none"], 25)
    assert [each.message.body for each in await read_all_of(none, 1)] == [b"26"]
    assert (none.lag, none.vanished) == (None, 0)
    await none.close()


@on_a_loop
async def test_a_target_that_is_a_stream_gets_the_filter_values_that_its_messages_have(broker: Broker) -> None:
    first, second = broker.queue(x_queue_type="stream"), broker.queue(x_queue_type="stream")
    put(broker, first, ["eu", "us", None, "eu"])
    target = broker.target("", second)
    pump = Pump([Inlet(broker.source(first), "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)
    running = asyncio.ensure_future(pump.run())
    source = broker.source(second)
    await source.open()
    headers = [each.message.headers.get(FILTER_VALUE) for each in await read_all_of(source, 4)]
    assert headers == ["eu", "us", None, "eu"]
    await source.close()
    pump.stop()
    await asyncio.wait_for(running, find_limit())
    put(broker, second, ["us"] * 10 + ["asia"], 4)
    source = broker.source(second, stream_filter=StreamFilter(frozenset({"asia"})))
    await source.open()
    assert b"14" in [each.message.body for each in await read_all_of(source, 1)]
    await source.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@on_a_loop
async def test_a_queue_is_refused_by_the_check_and_when_it_is_opened(broker: Broker, kind: str) -> None:
    source = broker.source(broker.queue(x_queue_type=kind), stream_filter=EU)
    with pytest.raises(Disconnected, match=r"stream_filter: queue '.*' is no stream"):
        await source.open()
    assert [each.key for each in await source.check() if each.level == "error"] == ["stream_filter"]
