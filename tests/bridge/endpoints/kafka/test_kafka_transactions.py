"""What is in a transaction, and when it is whole, over a producer that writes nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.errors import Reasons
from bridge.endpoints.kafka.membership import Lane
from bridge.endpoints.kafka.records import Destination, Writer
from bridge.endpoints.kafka.topics import Topic
from bridge.endpoints.kafka.transacting import Transacting
from bridge.endpoints.kafka.transactions import TransactionalTarget
from bridge.pump.window import Window
from exchange import Message
from tests.support.bridge.behaviour import on_a_loop

DESTINATIONS = {"a": Destination("out"), "b": Destination("out")}


class Producer:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.produced: list[bytes] = []
        self.aborted = 0

    def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        self.produced.append(value)

    def abort_transaction(self, _: float) -> None:
        self.aborted += 1


class Owner:
    """The member that the partition is assigned to."""

    name = "m"
    transactional = True
    closed = False

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, int], Lane] = {}


class Answers:
    """What the pump is told."""

    def __init__(self) -> None:
        self.bad: list[int] = []

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Nothing is, before a commit."""

    def failed(self, message: Outgoing, failure: Failure) -> None:
        self.bad.append(message.number)

    def lost(self, error: Disconnected) -> None:
        raise AssertionError(error)


class Scene:
    """A target with a transaction, and a partition whose deliveries have a copy for each of two queues."""

    def __init__(self, messages: int = 1_000) -> None:
        self.target = TransactionalTarget("k", {}, DESTINATIONS, messages=messages)
        self.producer, self.answers = Producer(), Answers()
        producer: Any = self.producer
        writer = Writer(DESTINATIONS, {"out": Topic(1, None)})
        self.state = Transacting(producer, self.answers, writer, Reasons(), 10.0)
        member: Any = Owner()
        self.lane = member.lanes["in", 0] = Lane(member, "in", 0)
        self.window = Window(1_000, 1 << 30, lambda _: None)

    def copies(self, count: int, queues: str = "ab") -> list[Outgoing]:
        """Copies of so many deliveries, in their order."""
        deliveries = [Delivery(Message("x", "k", {}, {}, b"%d" % n), self.lane, n) for n in range(count)]
        made: list[Outgoing] = []
        for pending in self.window.admit(deliveries, 0.0):
            pending.copies = len(queues)
            for queue in queues:
                number = len(made)
                made.append(Outgoing(pending.delivery.message, pending.delivery, queue, None, number, 0, pending))
        return made

    @property
    def inside(self) -> list[int]:
        return [outgoing.number for outgoing in self.state.inside]


@on_a_loop
async def test_a_transaction_takes_so_many_messages_and_all_copies_of_its_last_delivery() -> None:
    scene = Scene(messages=3)
    scene.state.waiting += scene.copies(5)
    scene.target._take(scene.state)
    assert scene.inside == [0, 1, 2, 3]
    assert len(scene.state.waiting) == 6
    scene.target._take(scene.state)
    assert scene.inside == [0, 1, 2, 3]
    scene.state.inside = []
    scene.target._take(scene.state)
    assert scene.inside == [4, 5, 6, 7]
    assert scene.producer.produced == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]


@on_a_loop
async def test_a_transaction_is_whole_when_all_copies_of_all_its_deliveries_are_inside() -> None:
    """Committed without one, the copy would be lost: the offset is behind it."""
    scene = Scene()
    copies = scene.copies(3)
    scene.target._take(scene.state)
    whole = []
    for outgoing in copies:
        scene.state.waiting.append(outgoing)
        scene.target._take(scene.state)
        whole.append(scene.target._whole(scene.state))
    assert whole == [False, True] * 3
    [offsets] = scene.target._offsets(scene.state).values()
    assert offsets == {scene.lane: 3}


@on_a_loop
async def test_what_is_committed_ends_before_the_first_delivery_that_is_not_whole() -> None:
    scene = Scene()
    copies = scene.copies(3)
    scene.state.waiting += [*copies[:2], copies[2], *copies[4:]]
    scene.target._take(scene.state)
    [offsets] = scene.target._offsets(scene.state).values()
    assert offsets == {scene.lane: 1}
    assert not scene.target._whole(scene.state)


@on_a_loop
async def test_after_an_abort_messages_come_again_in_their_order_without_the_refused() -> None:
    scene = Scene()
    copies = scene.copies(3)
    scene.state.waiting += copies[:5]
    scene.target._take(scene.state)
    scene.state.waiting.append(copies[5])
    scene.state.refused.append((copies[2], Failure("too large", final=True)))
    calls = Calls()
    await asyncio.wait_for(scene.target._abort(scene.state, calls), 30)
    calls.end()
    assert scene.producer.aborted == 1
    assert [outgoing.number for outgoing in scene.state.waiting] == [0, 1, 3, 4, 5]
    assert scene.answers.bad == [2]
    assert scene.inside == []
    assert scene.state.refused == []


@on_a_loop
async def test_what_is_of_a_partition_that_was_taken_away_is_written_by_its_next_owner() -> None:
    scene = Scene()
    scene.state.waiting += scene.copies(2)
    scene.lane.member.lanes.clear()
    scene.target._take(scene.state)
    assert scene.producer.produced == []
    assert not scene.state.waiting
