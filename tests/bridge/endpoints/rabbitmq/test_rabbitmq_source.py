"""Acknowledgements of a RabbitMQ source, and the reading of its socket, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, Removal
from bridge.endpoints.rabbitmq.consumer import reading
from bridge.endpoints.rabbitmq.consumer.acknowledging import SECONDS
from bridge.endpoints.rabbitmq.consumer.deliveries import FIXED_BYTES
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rabbitmq.frames import Acked, Arrived, Event, encode_ack
from exchange.amqp import ContentHeader
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually


class Wire:
    """A connection that keeps what is written and whether it is paused; it is its own channel, too."""

    number = 1
    prefetch = 2_000

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.paused = False
        self.lost: list[Disconnected] = []

    def lose(self, error: Disconnected) -> None:
        self.lost.append(error)

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    async def close(self) -> None:
        """Do nothing."""


class Scene:
    """A source that consumes from a queue."""

    def __init__(self, window_bytes: int = 1 << 20) -> None:
        self.source = RabbitmqSource("rabbit", [], "orders", window_bytes=window_bytes)
        self.tags = 0
        self.connect()

    def connect(self) -> None:
        wire: Any = Wire()
        self.wire = wire
        self.source._epoch += 1
        self.source._forget()
        self.source._last = self.source._settled = self.source._acked = 0
        self.source._connection = self.source._channel = wire
        self.source._is_stream = False
        self.tags = 0

    def arrive(self, count: int, size: int = 0) -> None:
        first = self.tags + 1
        self.tags += count
        self.source._take([Arrived(tag, False, b"", b"k", b"\0\0", bytes(size)) for tag in range(first, self.tags + 1)])


def ack_frame(tag: int) -> bytes:
    return encode_ack(1, tag, multiple=True)


def play_scene(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(scene())


def test_settled_deliveries_are_acknowledged_once_and_as_a_prefix() -> None:
    async def play() -> None:
        scene = Scene()
        scene.arrive(5)
        found = await scene.source.read(10)
        for delivery in found[:3]:
            scene.source.settle(delivery)
        assert scene.wire.writes == []
        await pass_time(0.1)
        assert scene.wire.writes == [ack_frame(3)]
        await pass_time(10)
        scene.source._ack()
        assert scene.wire.writes == [ack_frame(3)]
        scene.source.settle(found[4])
        await pass_time(0.1)
        assert scene.wire.writes == [ack_frame(3), ack_frame(5)]
        wire = scene.wire
        await scene.source.close()
        assert wire.writes == [ack_frame(3), ack_frame(5)]

    play_scene(play)


def test_what_is_settled_one_by_one_is_acknowledged_a_few_times() -> None:
    """A quorum queue forgets what it has not written yet of more than 32 acknowledgements when the channel closes."""

    async def play() -> None:
        scene = Scene()
        scene.arrive(500)
        for delivery in await scene.source.read(500):
            scene.source.settle(delivery)
            await pass_time(0.000_1)
        assert len(scene.wire.writes) <= 500 * 0.000_1 / SECONDS + 2
        await pass_time(0.1)
        assert scene.wire.writes[-1] == ack_frame(500)

    play_scene(play)


@examples(200)
@given(st.lists(st.sampled_from(["keep", "keep", "keep", "leave out", "send twice", "confirm"]), min_size=1), st.data())
def test_a_channel_that_leaves_out_a_delivery_is_lost_and_gives_nothing_from_there_on(
    steps: list[str], data: st.DataObject
) -> None:
    """What is settled later acknowledges all before it: what was left out must not be among that."""

    async def play() -> None:
        scene = Scene()
        events: list[Event] = []
        for number, step in enumerate(steps, 1):
            arrived = Arrived(number, False, b"", b"k", b"\0\0", b"")
            given: dict[str, list[Event]] = {
                "keep": [arrived],
                "leave out": [],
                "send twice": [arrived] * 2,
                "confirm": [Acked(1, True, False)],
            }
            events += given[step]
        whole = list(range(1, len(events) + 1))
        right = 0
        while right < len(events) and getattr(events[right], "tag", 0) == whole[right]:
            right += 1
        while events:
            count = data.draw(st.integers(1, len(events)))
            now, events = events[:count], events[count:]
            if not scene.wire.lost:
                scene.source._take(now)
        assert bool(scene.wire.lost) == (right < len(whole))
        tags = [arrived.tag for arrived in scene.source._arrived]
        assert tags == list(range(1, len(tags) + 1))
        assert len(tags) <= right
        if right == len(whole):
            assert len(tags) == right

    play_scene(play)


def test_a_delivery_of_an_earlier_connection_acknowledges_nothing() -> None:
    """Its tag may be that of another message now."""

    async def play() -> None:
        scene = Scene()
        scene.arrive(5)
        old = await scene.source.read(10)
        scene.connect()
        scene.arrive(2)
        new = await scene.source.read(10)
        scene.source.settle(old[4])
        await pass_time(0.1)
        assert scene.wire.writes == []
        scene.source.settle(new[0])
        await pass_time(0.1)
        assert scene.wire.writes == [ack_frame(1)]

    play_scene(play)


def test_the_shortest_expiration_of_what_was_read_bounds_the_outage_that_is_survived() -> None:
    """No setting of the queue shows it. One counts over an outage, and is forgotten ten minutes of reading later."""

    async def play() -> None:
        scene = Scene()

        async def read(*expirations: str) -> list[float | None]:
            for each in expirations:
                scene.tags += 1
                header = ContentHeader.encode({}, {"expiration": each, "priority": 1}).raw if each else b"\0\0"
                scene.source._take([Arrived(scene.tags, False, b"", b"k", header, b"")])
            await scene.source.read(100)
            return [each.seconds for each in await scene.source.find_removals() or ()]

        assert await read("") == []
        assert await read("soon", "9" * 255, "60000", "") == [60.0]
        await pass_time(60)
        assert await read("30000", "90000") == [30.0]
        assert "their publisher lets expire after 30 s (expiration)" in scene.source._removed.expirations[0].what
        await pass_time(3_600)
        assert [each.seconds for each in await scene.source.find_removals()] == [30.0]
        assert await read("") == []
        assert await read("90000") == [90.0]
        scene.source._is_stream = True
        assert await read("1000") == []

    play_scene(play)


def test_expirations_count_where_the_management_api_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what it has answered before forgotten."""
    answers: list[Any] = [None, [Removal("its TTL", 9.0)], None, Disconnected("the broker is away")]

    async def look_up(*_: object) -> Any:
        return answers.pop(0)

    async def find(_: object) -> Any:
        if isinstance(answers[0], Disconnected):
            raise answers.pop(0)
        return None, {}

    monkeypatch.setattr(reading, "look_up_removals", look_up)
    monkeypatch.setattr(reading, "find_host", find)

    async def play() -> None:
        source = RabbitmqSource("rabbit", [], "orders", management="http://127.0.0.1:9")
        source._removed.see_expiration(ContentHeader.encode({}, {"expiration": "60000"}))
        found = [[each.seconds for each in await source.find_removals()] for _ in range(4)]
        assert found == [[60.0], *[[9.0, 60.0]] * 3]

    run_virtually(play())


def test_the_socket_is_not_read_while_much_waits_to_be_read() -> None:
    async def play() -> None:
        scene = Scene(window_bytes=4 * 100_000)
        scene.arrive(10, 9_000)
        assert not scene.wire.paused
        scene.arrive(4, 9_000)
        assert scene.wire.paused
        await scene.source.read(4)
        assert scene.wire.paused  # there is more than half of it still
        await scene.source.read(6)
        assert not scene.wire.paused
        scene.arrive(30, 9_000)
        assert scene.wire.paused
        await scene.source.read(1_000)
        assert not scene.wire.paused
        assert scene.source._arrived_bytes == 0
        assert FIXED_BYTES > 0

    play_scene(play)


WINDOW_BYTES = 400_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.lists(st.sampled_from([0, 9_000, 60_000]), min_size=1, max_size=8)),
        st.tuples(st.sampled_from(["read", "settle"]), st.integers(1, 12)),
        st.tuples(st.sampled_from(["turn", "lose", "close"]), st.none()),
    ),
    max_size=40,
)


@examples(400)
@given(STEPS)
@example([("arrive", [0, 0]), ("read", 2), ("settle", 1)])
def test_the_broker_is_told_what_is_settled_and_the_socket_waits_only_for_what_is_unread(
    steps: list[tuple[str, Any]],
) -> None:
    """Of this connection alone, whatever earlier ones have left; and what was settled last is told at the end."""

    async def play() -> None:
        scene = Scene(WINDOW_BYTES)
        unread: list[int] = []
        given_: list[Delivery] = []
        settled = 0
        paused = False
        for step, number in [*steps, ("close", None)]:
            if step == "arrive":
                first = scene.tags + 1
                scene.tags += len(number)
                scene.source._take([
                    Arrived(tag, False, b"", b"k", b"\0\0", bytes(size)) for tag, size in enumerate(number, first)
                ])  # fmt: skip
                unread += [size + FIXED_BYTES for size in number]
                paused = paused or sum(unread) > scene.source._buffer_bytes
            elif step == "read" and unread:
                found = await scene.source.read(number)
                assert len(found) == min(number, len(unread))
                given_ += found
                del unread[: len(found)]
                paused = paused and sum(unread) > scene.source._buffer_bytes // 2
            elif step == "settle" and given_:
                done = given_[: min(number, len(given_))]
                del given_[: len(done)]
                for delivery in done:
                    scene.source.settle(delivery)
                settled = done[-1].position
            elif step == "turn":
                await pass_time(0.01)
                assert scene.wire.writes[-1:] == ([ack_frame(settled)] if settled else [])
            elif step in ("lose", "close"):
                wire = scene.wire
                if step == "close":
                    await scene.source.close()
                    assert wire.writes[-1:] == ([ack_frame(settled)] if settled else [])
                scene.connect()
                unread, given_, settled, paused = [], [], 0, False
            assert scene.wire.paused == paused
            assert len(set(scene.wire.writes)) == len(scene.wire.writes)

    play_scene(play)
