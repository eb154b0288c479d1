"""Topics that are deleted and made anew, whatever a member has read, asked and committed meanwhile."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from confluent_kafka import Message as Found
from confluent_kafka import TopicPartition
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.consumer.backlog import Backlog
from bridge.endpoints.kafka.consumer.member import GroupMember
from bridge.endpoints.kafka.consumer.topic_ids import MARK, Ids, mark_of
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

TOPIC = "orders"
Key = tuple[str, int]


class Cluster:
    """A topic, what a group has committed in it, and the only consumer of the group."""

    def __init__(self) -> None:
        self.epoch = 1
        """Number of times that the topic was made; its id."""
        self.ends: dict[int, int] = defaultdict(int)
        self.committed: dict[Key, tuple[int, str]] = {}
        self.positions: dict[int, int] = {}
        """Partition that is assigned -> offset that is fetched next."""
        self.commits: list[list[TopicPartition]] = []
        """Commits that have no answer yet."""
        self.delay = 0.0
        """Seconds that an answer about ids takes."""

    def remake(self) -> None:
        """Delete the topic and make it anew: its offsets count from 0, and the group has none in it."""
        self.epoch += 1
        self.ends.clear()
        self.committed.clear()

    # What the consumer does.

    def consume(self, count: int, timeout: float) -> list[Found]:
        found = []
        for partition, position in self.positions.items():
            # An offset beyond the end is out of range; one before it is taken, whichever topic it was of.
            at = 0 if position > self.ends[partition] else position
            found += [
                Found(
                    topic=TOPIC, partition=partition, offset=offset, value=b"%d %d" % (self.epoch, offset),
                    timestamp=(0, -1),
                )
                for offset in range(at, self.ends[partition])
            ]  # fmt: skip
            self.positions[partition] = self.ends[partition]
        return found

    def seek(self, there: TopicPartition) -> None:
        self.positions[there.partition] = 0

    def commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        self.commits.append(list(offsets))

    # What the asker does.

    def ask(
        self, topics: Collection[str], partitions: Collection[Key], paused: Collection[Key], *, with_given: bool
    ) -> Ids:
        known = {key: self.committed[key] for key in partitions if key in self.committed}
        marks = {key: mark.removeprefix(MARK) for key, (_, mark) in known.items() if mark}
        return Ids({TOPIC: str(self.epoch)}, marks, {key: offset for key, (offset, _) in known.items()}, {})

    def connect(self) -> None:
        """Do nothing: it is connected."""

    end = connect

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        loop, result = asyncio.get_running_loop(), function()
        future: asyncio.Future[Any] = loop.create_future()

        def answer() -> None:
            if not future.done():
                future.set_result(result)

        loop.call_later(self.delay, answer)
        return future


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "settle"]), st.integers(0, 1), st.integers(1, 4)),
        st.tuples(st.sampled_from(["assign", "take away"]), st.integers(0, 1), st.none()),
        st.tuples(st.sampled_from(["remake", "read", "answer", "forget"]), st.none(), st.none()),
        st.tuples(st.sampled_from(["wait", "delay"]), st.none(), st.sampled_from([0.0, 0.05, 0.3, 4.0])),
    ),
    max_size=40,
)
READ: list[tuple[str, Any, Any]] = [("put", 0, 3), ("wait", None, 0.3), ("read", None, None), ("settle", 0, 3)]
COMMITTED: list[tuple[str, Any, Any]] = [*READ, ("wait", None, 0.3), ("answer", None, None)]
REMADE: list[tuple[str, Any, Any]] = [("remake", None, None), ("put", 0, 2), ("wait", None, 4.0)]


@examples(300)
@given(STEPS)
@example([*READ, ("wait", None, 0.3), *REMADE, ("read", None, None), ("answer", None, None)])
@example([*COMMITTED, ("take away", 0, None), *REMADE[:2], ("delay", None, 0.3), ("wait", None, 4.0),
          ("assign", 0, None), ("read", None, None), ("settle", 0, 4)])  # fmt: skip
@example([*READ, ("wait", None, 0.3), *REMADE[:2], ("answer", None, None), ("delay", None, 4.0), ("wait", None, 4.0),
          ("take away", 0, None), ("assign", 0, None)])  # fmt: skip
@example([*READ, ("wait", None, 0.3), REMADE[0], ("put", 0, 4), ("answer", None, None), ("take away", 0, None),
          ("wait", None, 4.0), ("delay", None, 0.3), ("read", None, None), ("wait", None, 0.4),
          ("assign", 0, None)])  # fmt: skip
def test_all_of_a_topic_is_read_however_often_it_was_made_anew_and_the_group_has_offsets_of_the_last(  # noqa: PLR0915
    steps: list[tuple[str, Any, Any]],
) -> None:
    async def play() -> None:  # noqa: PLR0915  a branch a step
        cluster = Cluster()
        with pytest.MonkeyPatch.context() as patch:
            for name in ("Asker", "Calls"):
                patch.setattr(f"bridge.endpoints.kafka.consumer.remade_topics.{name}", lambda *_: cluster)
            consumer: Any = cluster
            ids: dict[tuple[str, int], str] = {}
            given_: list[Delivery] = []
            settled: set[bytes] = set()

            def connect() -> GroupMember:
                member = GroupMember(
                    "kafka", {"group.id": "g"}, Reasons(), window=1_000, transactional=False,
                    backlog=Backlog("kafka", reads_committed=True), known=ids,
                )  # fmt: skip
                member.consumer = member.assignment.consumer = consumer
                member._start(member.assignment.keep_committing())
                member._start(member._remade.keep_looking())
                return member

            member = connect()

            def assign(partition: int) -> None:
                offset, _ = cluster.committed.get((TOPIC, partition), (0, ""))
                cluster.positions[partition] = offset
                member._on_assign(consumer, [TopicPartition(TOPIC, partition)])

            def answer() -> None:
                rows: Any = cluster.commits.pop(0) if cluster.commits else []
                cluster.committed |= {(each.topic, each.partition): (each.offset, each.metadata or "") for each in rows}
                member.assignment.on_commit(None, rows)

            def read() -> None:
                nonlocal member
                if member.is_outdated:  # as the source does: another client takes its place
                    member.leave()
                    while cluster.commits:
                        answer()
                    member = connect()
                    for partition in [*cluster.positions]:
                        assign(partition)
                given_.extend(member.take(1_000))

            def settle(partition: int, most: int) -> None:
                lane = member.assignment.lanes.get((TOPIC, partition))
                done = [each for each in given_ if each.lane is lane][:most]
                if done:
                    member.assignment.settle(done[-1])
                    settled.update(each.message.body for each in done)
                    given_[:] = [each for each in given_ if each not in done]

            assign(0)
            assign(1)
            for step, partition, number in steps:
                if step == "assign" and partition not in cluster.positions:
                    assign(partition)
                elif step == "take away" and partition in cluster.positions:
                    member._on_revoke(consumer, [TopicPartition(TOPIC, partition)])
                    while cluster.commits:  # librdkafka waits for it before the partition goes
                        answer()
                    del cluster.positions[partition]
                elif step == "put":
                    cluster.ends[partition] += number
                elif step == "settle":
                    settle(partition, number)
                elif step == "remake":
                    cluster.remake()
                elif step == "read":
                    read()
                elif step == "answer":
                    answer()
                elif step == "forget":
                    del cluster.commits[:1]
                elif step == "wait":
                    await pass_time(number)
                elif step == "delay":
                    cluster.delay = number
            cluster.delay = 0.0
            for partition in {0, 1} - cluster.positions.keys():
                assign(partition)
            for _ in range(8):
                await pass_time(5)
                read()
                for partition in (0, 1):
                    settle(partition, 1_000)
                await pass_time(1)
                while cluster.commits:
                    answer()
            assert member.assignment.trouble is None
            for partition, end in cluster.ends.items():
                assert {b"%d %d" % (cluster.epoch, offset) for offset in range(end)} <= settled
                if end:
                    assert cluster.committed[TOPIC, partition] == (end, mark_of(str(cluster.epoch)))
            assert member.assignment.uncommitted == 0

    run_virtually(play())
