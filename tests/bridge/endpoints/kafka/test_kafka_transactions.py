"""What is in a transaction, and when it is whole, with a producer that writes nowhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.consumer.assignment import METADATA, PartitionAssignment, PartitionLane, is_current
from bridge.endpoints.kafka.producer.batches import ONE_BY_ONE
from bridge.endpoints.kafka.producer.target import ASK_EVERY
from bridge.endpoints.kafka.producer.transaction import Incomplete, Transacting
from bridge.endpoints.kafka.producer.transactional import STALLED, TransactionalTarget, _call_within
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from bridge.pump.dead_letters import FEWEST, DeadLetterLimit, count_accepted
from bridge.pump.window import Window
from exchange import Message
from tests.support.bridge.behaviour import on_a_loop
from tests.support.tiers import examples
from tests.support.virtual_loop import run_virtually
from tests.support.waiting import find_limit

DESTINATIONS = {"a": TopicDestination("out"), "b": TopicDestination("out")}


class Producer:
    """Keeps the messages that it is given."""

    def __init__(self) -> None:
        self.produced: list[bytes] = []
        self.aborted = 0
        self.under_way = 0
        """Number of messages that brokers have not answered for."""

    def __len__(self) -> int:
        return self.under_way

    def poll(self, _: float) -> int:
        return 0

    def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        self.produced.append(value)

    def abort_transaction(self, _: float) -> None:
        self.aborted += 1

    def init_transactions(self, _: float) -> None:
        """Do nothing."""


class Answers:
    """The receiver of a target, which keeps the numbers of messages that failed."""

    def __init__(self) -> None:
        self.bad: list[int] = []
        self.moot: list[int] = []

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        raise AssertionError("nothing is confirmed before a commit")

    def failed(self, message: Outgoing, failure: Failure) -> None:
        (self.moot if failure.moot else self.bad).append(message.number)

    def lost(self, error: Disconnected) -> None:
        raise AssertionError(error)


class Scene:
    """A target with a transaction, and a partition whose deliveries have a copy for each of two queues."""

    def __init__(self, messages: int = 1_000) -> None:
        self.target = TransactionalTarget("k", {}, DESTINATIONS)
        self.answers, writer = Answers(), RecordWriter(DESTINATIONS, {"out": KafkaTopic(1, None)})
        self.state = Transacting(self.answers, writer, Reasons(), 10.0, messages)
        producer: Any = Producer()
        self.producer = self.state.producer = producer
        assignment = PartitionAssignment("m", 1_000, transactional=True)
        self.lane = assignment.lanes["in", 0] = PartitionLane(assignment, "in", 0)
        self.window = Window(1_000, 1 << 30, lambda _: None)

    def copies(self, count: int, queues: str = "ab") -> list[Outgoing]:
        """Return the copies of ``count`` deliveries, in their order."""
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
async def test_a_transaction_takes_its_maximum_and_all_copies_of_its_last_delivery() -> None:
    scene = Scene(messages=3)
    scene.state.waiting += scene.copies(5)
    scene.state.take()
    assert scene.inside == [0, 1, 2, 3]
    assert len(scene.state.waiting) == 6
    scene.state.take()
    assert scene.inside == [0, 1, 2, 3]
    scene.state.inside = []
    scene.state.take()
    assert scene.inside == [4, 5, 6, 7]
    assert scene.producer.produced == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]


@on_a_loop
async def test_a_transaction_is_whole_when_all_copies_of_all_its_deliveries_are_inside() -> None:
    """Committed without one, the copy would be lost: the offset is behind it."""
    scene = Scene()
    copies = scene.copies(3)
    scene.state.take()
    whole = []
    for outgoing in copies:
        scene.state.waiting.append(outgoing)
        scene.state.take()
        whole.append(scene.state.is_whole())
    assert whole == [False, True] * 3
    [offsets] = scene.state.offsets().values()
    assert offsets == {scene.lane: 3}


@on_a_loop
async def test_offsets_are_committed_up_to_the_first_delivery_that_is_not_whole() -> None:
    scene = Scene()
    copies = scene.copies(3)
    scene.state.waiting += [*copies[:2], copies[2], *copies[4:]]
    scene.state.take()
    [offsets] = scene.state.offsets().values()
    assert offsets == {scene.lane: 1}
    assert not scene.state.is_whole()


@on_a_loop
async def test_after_one_that_was_not_whole_a_transaction_takes_what_makes_it_whole_and_the_next_one_the_rest() -> None:
    scene = Scene(messages=4)
    copies = scene.copies(5)
    scene.state.waiting += [*copies[8:], *copies[2:6], *copies[:2]]  # the fourth delivery waits for one of these
    scene.state.is_knotted = True
    scene.state.untie()
    scene.state.take()
    assert scene.inside == [2, 3, 0, 1]
    assert scene.state.is_whole()
    assert [outgoing.number for outgoing in scene.state.waiting] == [8, 9, 4, 5]
    scene.state.is_knotted, scene.state.inside = False, []
    scene.state.untie()
    scene.state.take()
    assert scene.inside == [8, 9, 4, 5]


@on_a_loop
async def test_what_the_next_owner_of_a_partition_writes_is_given_up_though_the_rest_is_to_be_whole() -> None:
    scene = Scene()
    scene.state.waiting += scene.copies(2, "a")
    scene.lane.assignment.lanes.clear()
    scene.window.drop()
    scene.state.is_knotted = True
    scene.state._only = {object(): 3}
    scene.state.take()
    assert scene.answers.moot == [0, 1]


@on_a_loop
async def test_a_transaction_takes_all_where_nothing_would_make_it_whole() -> None:
    scene = Scene()
    copies = scene.copies(3)
    scene.state.waiting += copies[1:]
    scene.state.is_knotted = True
    scene.state.untie()
    scene.state.take()
    assert scene.inside == [1, 2, 3, 4, 5]


@on_a_loop
async def test_after_an_abort_messages_come_again_in_their_order_without_those_refused_alone() -> None:
    scene = Scene()
    scene.state.batching.part(0.0)
    copies = scene.copies(3)
    scene.state.waiting += copies[:5]
    scene.state.take()
    scene.state.waiting.append(copies[5])
    scene.state.refused.append((copies[2], Failure("too large", final=True)))
    calls = Calls()
    await asyncio.wait_for(scene.target._abort(scene.state, calls), find_limit())
    calls.end()
    assert scene.producer.aborted == 1
    assert [outgoing.number for outgoing in scene.state.waiting] == [0, 1, 3, 4, 5]
    assert scene.answers.bad == [2]
    assert scene.inside == []
    assert scene.state.refused == []


@on_a_loop
async def test_messages_that_were_refused_in_a_batch_are_not_refused_and_go_alone_until_they_are_committed() -> None:
    scene, made = Scene(), list[Any]()
    scene.state.waiting += scene.copies(3)

    async def renew(changes: Mapping[str, Any]) -> None:
        made.append(changes)

    scene.state.renew = renew
    scene.state.take()
    for outgoing in scene.state.inside[2:4]:
        scene.state._on_delivery(outgoing, KafkaError(KafkaError.INVALID_RECORD), None)
    calls = Calls()
    await asyncio.wait_for(scene.target._abort(scene.state, calls), find_limit())
    calls.end()
    assert [outgoing.number for outgoing in scene.state.waiting] == [0, 1, 2, 3, 4, 5]
    assert scene.answers.bad == []
    assert made == [ONE_BY_ONE]
    batching = scene.state.batching
    assert not batching.may_join(1e9)
    for outgoing in scene.state.waiting:
        batching.clear(outgoing)
    assert batching.may_join(1e9)
    assert not batching.may_join(asyncio.get_running_loop().time())


@on_a_loop
async def test_a_message_over_a_limit_that_was_asked_for_long_ago_waits_until_it_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    scene = Scene()
    monkeypatch.setattr(scene.producer, "produce", refuse)
    copies = scene.copies(1)
    scene.state.waiting += copies
    scene.state.limits_asked_at -= ASK_EVERY
    scene.state.take()
    assert scene.state.outgrown
    assert [*scene.state.waiting] == copies
    scene.state.limits_asked_at += ASK_EVERY
    scene.state.take()
    assert not scene.state.waiting
    assert scene.answers.bad == [outgoing.number for outgoing in copies]


@on_a_loop
async def test_messages_of_a_partition_that_was_taken_away_are_left_to_its_next_owner() -> None:
    scene = Scene()
    scene.state.waiting += scene.copies(2)
    scene.lane.assignment.lanes.clear()
    scene.state.take()
    assert scene.producer.produced == []
    assert not scene.state.waiting


@on_a_loop
async def test_what_brokers_refuse_is_not_confirmed_and_no_offset_behind_it_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stay(*_: Any) -> None:
        """Go on with the same producer."""

    def report() -> None:
        if scene.state.inside and not scene.state.refused:
            scene.state._on_delivery(copies[2], KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)

    scene, good = Scene(), list[Outgoing]()
    monkeypatch.setattr(scene.target, "_renew", stay)
    monkeypatch.setattr(scene.answers, "confirmed", good.extend)
    monkeypatch.setattr(scene.producer, "begin_transaction", lambda: None, raising=False)
    monkeypatch.setattr(scene.producer, "poll", lambda _: report())
    copies = scene.copies(3)
    scene.state.waiting += copies
    calls = Calls()
    try:
        await scene.target._transact(scene.state, calls)
    finally:
        calls.end()
    assert scene.producer.aborted == 1
    assert not good
    assert scene.lane.committed == -1
    assert [*scene.state.waiting] == copies


@on_a_loop
async def test_what_an_aborted_transaction_had_of_a_lost_partition_is_the_next_owners() -> None:
    scene = Scene()
    copies = scene.copies(3, "a")
    scene.state.waiting += copies[:2]
    scene.state.take()
    scene.lane.assignment.lanes.clear()
    scene.state.put_back()
    scene.state.waiting.append(copies[2])
    scene.state.take()
    assert (scene.inside, [*scene.state.waiting]) == ([], [])
    assert scene.answers.moot == [0, 1, 2]
    assert scene.answers.bad == []


@pytest.mark.parametrize(
    ("generation", "member", "is_one"), [(0, "m", True), (3, "m", True), (-1, "m", False), (3, "", False)]
)
def test_a_consumer_without_a_generation_is_no_member_of_its_group(generation: int, member: str, is_one: bool) -> None:
    """Brokers would take its offsets unchecked, over those of the next owner."""
    metadata = METADATA + generation.to_bytes(4, sys.byteorder, signed=True) + b"group"
    assignment = PartitionAssignment("m", 1_000, transactional=True)
    consumer: Any = SimpleNamespace(consumer_group_metadata=lambda: metadata, memberid=lambda: member)
    assignment.consumer = consumer
    assert assignment.group_metadata() == (metadata if is_one else None)


@on_a_loop
async def test_a_producer_that_does_not_come_back_from_a_call_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.producer.transactional.CLOSING", 0.1)
    calls, hangs = Calls(), Event()

    def hang() -> None:
        hangs.wait()

    with pytest.raises(Disconnected, match="has not come back"):
        await _call_within(calls, hang, 0.1)
    hangs.set()
    await _call_within(calls, lambda: None, 30.0)
    calls.end()


@pytest.mark.parametrize("under_way", [0, 1])
def test_what_brokers_have_taken_behind_a_message_that_waits_counts_for_its_limit_once(under_way: int) -> None:
    """Nothing behind it is committed before it is decided on, and the share of dead letters would never be lower."""

    async def play() -> None:
        scene = Scene()
        limit = scene.window.limit = DeadLetterLimit(0.5, lambda _: None)
        for n in range(FEWEST):
            assert limit.permit(n, "a", "large", lambda: True, 0.0)
        copies = scene.copies(31, "a")
        assert not limit.permit(copies[0].context, "a", "large", lambda: True, 0.0)
        scene.producer.under_way = under_way
        scene.state.waiting += copies[1:]
        with pytest.raises(Incomplete):
            await scene.target._fill(scene.state)
        if not under_way:
            count_accepted(scene.state.inside)  # of the next transaction, with the same messages
        why = limit.describe()
        assert (why is not None and "of the latest 10 messages" in why) == bool(under_way)
        assert limit.permit(copies[0].context, "a", "large", lambda: True, 0.0) == (not under_way)

    run_virtually(play())


@examples(300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "send half", "send the rest", "take away", "break"]),
            st.integers(0, 1), st.sampled_from([0.0, 0.02, 0.3, 2.0]),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_a_transaction_that_may_be_committed_is_whole_and_all_of_its_partitions_are_ours(
    events: list[tuple[str, int, float]],
) -> None:
    """Else it is begun anew: as soon as a partition is taken away, and after a while when it does not become whole."""

    async def play() -> None:
        scene = Scene()
        state, loop = scene.state, asyncio.get_running_loop()
        assignment = scene.lane.assignment
        lanes = [scene.lane, PartitionLane(assignment, "in", 1)]
        assignment.lanes["in", 1] = lanes[1]
        half: list[Outgoing] = []
        numbers = [0, 0]
        gone: float | None = None

        def send(which: int) -> list[Outgoing]:
            lane, at = lanes[which], numbers[which]
            numbers[which] += 1
            [pending] = scene.window.admit([Delivery(Message("x", "k", {}, {}, b"x"), lane, at)], 0.0)
            pending.copies = 2
            return [
                Outgoing(pending.delivery.message, pending.delivery, queue, None, 10 * at + n, 0, pending)
                for n, queue in enumerate("ab")
            ]

        state.waiting += send(0)
        filling = asyncio.create_task(scene.target._fill(state))
        began = loop.time()
        for event, which, seconds in events:
            await asyncio.wait([filling], timeout=seconds)
            if filling.done():
                break
            if event == "send":
                state.waiting += send(which)
            elif event == "send half":
                first, second = send(which)
                state.waiting.append(first)
                half.append(second)
            elif event == "send the rest":
                state.waiting += half
                half.clear()
            elif event == "take away":
                if any(outgoing.delivery.lane is lanes[which] for outgoing in state.inside) and lanes[which].current:
                    gone = gone or loop.time()
                assignment.lanes.pop(("in", which), None)
            else:
                state.broken = True
            state.news.set()
        await asyncio.wait([filling], timeout=60)
        assert loop.time() - began < scene.target._seconds + STALLED + 0.1
        if gone is not None:
            assert loop.time() - gone < 0.1
        if isinstance(filling.exception(), Incomplete):
            return
        filling.result()
        assert state.broken or (state.is_whole() and all(is_current(each.delivery) for each in state.inside))

    run_virtually(play())
