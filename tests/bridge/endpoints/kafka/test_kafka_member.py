"""What a member of a Kafka group reads, counts and commits, with a consumer that the test controls."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Found
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.consumer.assignment import PartitionLane
from bridge.endpoints.kafka.consumer.backlog import Backlog
from bridge.endpoints.kafka.consumer.member import GroupMember
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually


class Consumer:
    """Returns what the test puts in, and keeps what is committed."""

    def __init__(self, settings: object, logger: object = None) -> None:
        self.found: deque[Found] = deque()
        self.commits: list[dict[tuple[str, int], int]] = []
        self.refuses: KafkaError | None = None
        """Error that a commit raises at once."""

    def put(self, *offsets: int, partition: int = 0) -> None:
        self.found += [
            Found(topic="orders", partition=partition, offset=offset, key=b"k", value=b"%d" % offset, timestamp=(0, -1))
            for offset in offsets
        ]

    def consume(self, count: int, timeout: float) -> list[Found]:
        return [self.found.popleft() for _ in range(min(count, len(self.found)))]

    def commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        if self.refuses is not None:
            raise KafkaException(self.refuses)
        self.commits.append({(each.topic, each.partition): each.offset for each in offsets})

    def assignment(self) -> list[TopicPartition]:
        return []

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: nothing is fetched anyway."""

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing, too."""


class Scene:
    """A member with the partitions that it is assigned."""

    def __init__(self, window: int = 10, *, transactional: bool = False) -> None:
        self.backlog = Backlog("kafka", reads_committed=True)
        self.member = GroupMember(
            "kafka", {}, Reasons(), window=window, transactional=transactional, backlog=self.backlog
        )
        self.member.connect()
        self.consumer: Any = self.member.consumer

    def assign(self, *partitions: int) -> None:
        self.member._on_assign(self.consumer, [TopicPartition("orders", each) for each in partitions])
        for each in partitions:
            self.lane(each).checked = True

    def take_away(self, *partitions: int) -> None:
        self.member._on_revoke(self.consumer, [TopicPartition("orders", each) for each in partitions])

    def lane(self, partition: int = 0) -> PartitionLane:
        return self.member.assignment.lanes["orders", partition]

    def read(self, limit: int = 100) -> list[Delivery]:
        return self.member.take(limit)

    def settle(self, delivery: Delivery) -> None:
        self.member.assignment.settle(delivery)

    def answer(self) -> None:
        """Have the broker answer the last commit."""
        offsets = [TopicPartition(topic, n, offset) for (topic, n), offset in self.consumer.commits[-1].items()]
        self.member.assignment.on_commit(None, offsets)


@pytest.fixture(autouse=True)
def _without_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.consumer.member.Consumer", Consumer)


def run_scene(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(scene())


def positions(deliveries: Sequence[Delivery]) -> list[int]:
    return [delivery.position for delivery in deliveries]


def test_no_more_than_a_window_is_read_beyond_what_was_committed() -> None:
    async def play() -> None:
        scene = Scene(window=4)
        scene.assign(0)
        scene.member._start(scene.member.assignment.keep_committing())
        scene.consumer.put(*range(20))
        found = scene.read()
        assert positions(found) == [0, 1, 2, 3]
        scene.settle(found[1])
        assert scene.read() == []  # settled, and not committed
        await pass_time(1)
        scene.answer()
        assert positions([*scene.read(), *scene.read()]) == [4, 5]
        assert scene.read() == []

    run_scene(play)


def test_when_offsets_go_back_older_deliveries_settle_and_commit_nothing() -> None:
    """The topic was deleted and made anew: deliveries of the old one must not commit offsets of the new one."""

    async def play() -> None:
        scene = Scene(window=100)
        scene.assign(0)
        scene.consumer.put(5, 6)
        old = scene.read()
        scene.consumer.put(7, 0, 1)
        lane = scene.lane()
        assert scene.read() == []  # 7 is of before, and whether 0 is of this topic is asked first
        assert scene.lane() is not lane
        new = scene.lane().kept
        assert positions(new) == [0, 1]
        assert not lane.current
        scene.settle(old[1])
        assert scene.lane().settled == -1
        assert scene.member.assignment.uncommitted == 2
        scene.lane().checked = True
        scene.settle(new[0])
        assert scene.lane().settled == 1

    run_scene(play)


def test_offsets_that_go_back_to_the_middle_of_what_is_not_settled_end_the_connection() -> None:
    """A log has lost its end: what was read before that, and is not settled, must be read again."""

    async def play() -> None:
        scene = Scene(window=100)
        scene.assign(0)
        scene.consumer.put(5, 6, 7)
        settled = scene.read()
        scene.settle(settled[0])
        scene.member.assignment.note_committed(scene.lane(), 6)
        scene.consumer.put(7)
        with pytest.raises(Disconnected, match="its offsets are back at 7, from 8: its log has lost its end"):
            scene.read()

    run_scene(play)


def test_a_quota_that_leaves_a_member_without_records_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers answer then, with nothing. One that is slow, and not still, is none."""

    async def play() -> None:
        monkeypatch.setattr(
            "bridge.endpoints.kafka.consumer.member.monotonic", lambda: asyncio.get_running_loop().time()
        )
        scene = Scene(window=100)
        scene.assign(0)

        def look(throttle: int) -> str | None:
            broker = {
                "name": "b/1", "nodename": "b", "nodeid": 1, "source": "learned", "state": "UP", "stateage": 0,
                "waitresp_cnt": 0, "rx": 1, "throttle": {"max": throttle},
            }  # fmt: skip
            known = {
                "leader": 1, "fetch_state": "active", "lo_offset": 0, "hi_offset": 9, "ls_offset": 9,
                "app_offset": 0, "committed_offset": -1, "next_offset": -1,
            }  # fmt: skip
            text = {
                "brokers": {"b": broker}, "topics": {"orders": {"partitions": {"0": known}}},
                "cgrp": {"state": "up", "join_state": "steady"},
            }  # fmt: skip
            scene.member._on_statistics(json.dumps(text))
            return scene.member.trouble

        assert look(9_000) is None
        await pass_time(6)
        assert look(9_000) == "nothing is read: a quota of this client lets it wait for 9 s"
        scene.consumer.put(0)
        scene.read()
        assert look(9_000) is None
        await pass_time(60)
        assert look(0) is None

    run_scene(play)


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_deliveries_before_a_transactions_offset_are_committed(offset: int) -> None:
    async def play() -> None:
        scene = Scene(transactional=True)
        scene.assign(0)
        scene.consumer.put(0, 1, 2)
        scene.read()
        scene.member.assignment.note_committed(scene.lane(), offset)
        assert list(scene.lane().offsets) == [0, 1, 2][offset:]
        assert scene.member.assignment.uncommitted == 3 - offset

    run_scene(play)


PASSING = KafkaError.REBALANCE_IN_PROGRESS
PARTITIONS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "settle"]), PARTITIONS, st.integers(1, 4)),
        st.tuples(st.sampled_from(["assign", "take away", "answer in part"]), PARTITIONS, st.none()),
        st.tuples(st.sampled_from(["answer", "refuse", "forget", "raise"]), st.none(), st.none()),
        st.tuples(st.just("wait"), st.none(), st.sampled_from([0.0, 0.05, 0.2, 3.0])),
    ),
    max_size=50,
)


SETTLED_AND_COMMITTED: list[tuple[str, Any, Any]] = [("put", 0, 2), ("settle", 0, 1), ("wait", None, 0.2)]


@examples(400)
@given(STEPS)
@example([*SETTLED_AND_COMMITTED, ("forget", None, None)])
@example([*SETTLED_AND_COMMITTED, ("answer in part", 0, None)])
def test_the_group_has_in_the_end_exactly_what_is_settled_whatever_brokers_answer(  # noqa: PLR0915  a branch a step
    steps: list[tuple[str, Any, Any]],
) -> None:
    """At no time more, and the window is free for what is committed; a member that leaves commits what is left."""

    async def play() -> None:  # noqa: PLR0915
        scene = Scene(window=1_000)
        scene.member._start(scene.member.assignment.keep_committing())
        assignment, commits = scene.member.assignment, scene.consumer.commits
        broker: dict[tuple[str, int], int] = {}
        """The offsets that the group has."""
        settled: dict[tuple[str, int], int] = {}
        scene.assign(0, 1, 2)
        given_: dict[tuple[str, int], deque[Delivery]] = {("orders", n): deque() for n in range(3)}
        ends = dict.fromkeys([("orders", n) for n in range(3)], 0)

        def answer(refused: int | None = None) -> None:
            if not commits:
                return
            offsets = commits.pop(0)
            broker.update({lane: offset for lane, offset in offsets.items() if lane[1] != refused})
            error = KafkaError(PASSING)
            rows: Any = [
                SimpleNamespace(
                    topic=lane[0],
                    partition=lane[1],
                    offset=offset,
                    metadata=None,
                    leader_epoch=None,
                    error=error if lane[1] == refused else None,
                )
                for lane, offset in offsets.items()
            ]
            assignment.on_commit(None, rows)

        def take_away(partition: int) -> None:
            lane = "orders", partition
            commits.clear()
            scene.take_away(partition)
            while commits:  # librdkafka waits for it before the partition goes
                answer()
            given_.pop(lane, None)
            if lane in settled:
                assert broker[lane] == settled[lane]

        for step, partition, number in steps:
            lane = "orders", partition
            if step == "assign" and lane not in given_:
                scene.assign(partition)
                given_[lane] = deque()
                ends[lane] = broker.get(lane, 0)
            elif step == "take away" and lane in given_ and scene.consumer.refuses is None:
                take_away(partition)
            elif step == "put" and lane in given_:
                scene.consumer.put(*range(ends[lane], ends[lane] + number), partition=partition)
                ends[lane] += number
                given_[lane] += scene.read()
            elif step == "settle" and given_.get(lane):
                done = [given_[lane].popleft() for _ in range(min(number, len(given_[lane])))]
                scene.settle(done[-1])
                settled[lane] = done[-1].position + 1
            elif step == "answer":
                scene.consumer.refuses = None
                answer()
            elif step == "answer in part":
                answer(partition)
            elif step == "refuse" and commits:
                commits.pop(0)
                assignment.on_commit(KafkaError(PASSING), [])
            elif step == "forget":
                del commits[:1]
            elif step == "raise":
                scene.consumer.refuses = KafkaError(KafkaError._STATE)
            elif step == "wait":
                await pass_time(number)
            assert all(offset <= settled[lane] for lane, offset in broker.items())
        assert assignment.trouble is None
        scene.consumer.refuses = None
        for _ in range(4):
            await pass_time(2)
            while commits:
                answer()
        await pass_time(5)
        assert not commits  # there is no news
        assert {lane: broker.get(lane) for lane in given_} == {lane: settled.get(lane) for lane in given_}
        assert assignment.uncommitted == sum(len(left) for left in given_.values())
        last = {lane: left[-1] for lane, left in given_.items() if left}
        for delivery in last.values():
            scene.settle(delivery)
        assignment.close()
        assert commits == ([{lane: each.position + 1 for lane, each in last.items()}] if last else [])

    run_scene(play)
