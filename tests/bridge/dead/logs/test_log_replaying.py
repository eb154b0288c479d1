"""A replay of a topic loses nothing, doubles what was under way at most, and keeps the order, on a model of a cluster.

What is modelled is what a log and a target see: fetches, sends, reports and losses. Live brokers are in other files.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead import replaying
from bridge.dead.choices import Order, Outcome
from bridge.dead.ledger import Ledger
from bridge.dead.logs.log import Letter, Log, LogLane, look
from bridge.dead.logs.origins import Goal
from bridge.dead.reading import Bounds
from bridge.dead.replaying import WINDOW, User, plan, replay
from bridge.dead.restoring import REPLAY
from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from bridge.interop import Record, to_amqp
from exchange.errors import InputError
from exchange.selector import Selector
from tests.support.cases import with_each
from tests.support.tiers import examples
from tests.support.virtual_loop import end_all, pass_time, run_virtually


@dataclass
class Cluster:
    """A topic of letters, and the topics where they died."""

    random: Random
    losses: int = 0
    """Number of connections that are yet to be lost."""
    refusals: int = 0
    topic_id: str = "one"
    letters: dict[int, list[tuple[int, Record]]] = field(default_factory=dict)
    """Partition -> time and record of each letter; None stands for an offset without one."""
    first: Counter[int] = field(default_factory=Counter)
    """Partition -> first offset that retention has left."""
    written: list[Record] = field(default_factory=list)
    alive: bool = True
    opens_after: float = 0.01
    writes_after: float = 0.0
    """Seconds until a target is open, and until it then begins to write."""
    said: list[str] = field(default_factory=list)
    """What the user of a replay was shown."""

    def put(
        self, partition: int, time: int, key: bytes, value: bytes, topic: str = "orders", tenant: str = "x"
    ) -> None:
        headers = [("tenant", tenant.encode()), ("__connect.errors.topic", topic.encode())]
        self.letters.setdefault(partition, []).append((time, Record("dead", key, value, headers)))


class ModelLog(Log):
    """Reads the letters of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("kafka://model", "dead")
        self.cluster = cluster
        self.topic_id = cluster.topic_id

    async def connect(self) -> list[LogLane]:
        await pass_time(0.01)
        if self.cluster.topic_id != self.topic_id:
            raise InputError("made anew")
        return [
            LogLane(each, f"dead-{each}", self.cluster.first[each], len(found))
            for each, found in self.cluster.letters.items()
        ]

    async def fetch(self, lane: LogLane) -> None:
        """Others get some at the same time, as of a client that reads all partitions."""
        cluster = self.cluster
        await pass_time(cluster.random.uniform(0, 0.02))
        if cluster.losses and cluster.random.random() < 0.2:
            cluster.losses -= 1
            raise Disconnected("lost")
        for each in (lane, *[other for other in self.lanes if other is not lane and cluster.random.random() < 0.3]):
            partition = int(str(each.key))
            each.pass_to(max(each.next, min(cluster.first[partition], each.end)))
            for _ in range(cluster.random.randint(0, 5)):
                if each.next < each.end:
                    time, record = cluster.letters[partition][each.next]
                    record = record._replace(partition=partition, offset=each.next)
                    each.add(Letter(to_amqp(record), record, time, each.name, each.next, self.topic_id))

    async def disconnect(self) -> None:
        await pass_time(0.001)


class ModelTarget(Target):
    """Writes to a cluster, in order; a report may come late, be a refusal, or never come."""

    name = "model"

    def __init__(self, cluster: Cluster, goals: Mapping[str, Goal]) -> None:
        self.cluster = cluster
        self.goals = goals
        self.receiver: Receiver | None = None
        self.under_way: list[Outgoing] = []
        self.task: asyncio.Task[None] | None = None

    async def open(self, receiver: Receiver) -> None:
        await pass_time(self.cluster.opens_after)
        self.receiver, self.under_way = receiver, []
        self.task = asyncio.create_task(self.work())

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.under_way += messages
        assert len(self.under_way) <= WINDOW

    async def work(self) -> None:
        cluster = self.cluster
        await pass_time(cluster.writes_after)
        while True:
            await pass_time(cluster.random.uniform(0, 0.03))
            count = cluster.random.randint(1, 8)
            taken, self.under_way = self.under_way[:count], self.under_way[count:]
            if not taken or self.receiver is None or not cluster.alive:
                continue
            confirmed = []
            for each in taken:
                record = self.goals[each.delivery.identity or ""].stored
                assert isinstance(record, Record)
                if record.value == b"refused":
                    self.receiver.failed(each, Failure("too large", final=True))
                    continue
                cluster.written.append(record)
                confirmed.append(each)
            if cluster.losses and cluster.random.random() < 0.1:  # it is written, and nobody is told
                cluster.losses -= 1
                self.receiver.lost(Disconnected("lost"))
                return
            await pass_time(cluster.random.uniform(0, 0.02))
            if cluster.alive:
                self.receiver.confirmed(confirmed)

    async def close(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            task.cancel()


class Paper(Ledger):
    """A ledger of a process that may be killed."""

    cluster: Cluster

    def _write(self, entries: Any) -> None:
        if self.cluster.alive:
            super()._write(entries)


def run(cluster: Cluster, path: Path, order: Order, kill_at: float | None = None) -> Outcome | None:
    """Run a replay to its end, or until it is killed."""

    async def work(ledger: Ledger) -> Outcome:
        log = ModelLog(cluster)
        planned = await plan(order, ledger, log)
        assert planned.left["no topic"] == 0
        topics = [name for _, name in planned.goes]
        return await replay(order, ledger, User(cluster.said.append), log, topics)

    async def live() -> Outcome | None:
        ledger = Paper(path, "topic")
        task = asyncio.ensure_future(work(ledger))
        try:
            done, _ = await asyncio.wait([task], timeout=kill_at)
            cluster.alive = bool(done)
            return task.result() if done else None
        finally:
            task.cancel()
            await end_all()
            ledger.close()

    async def find_missing(_: str, topics: Sequence[str]) -> list[str]:
        return [each for each in topics if each == "gone"]

    cluster.alive, losses = True, cluster.losses
    with (
        patch.object(replaying, "make_target", lambda _, __, goals: ModelTarget(cluster, goals)),
        patch.object(replaying, "find_missing", find_missing),
        patch.object(Paper, "cluster", cluster, create=True),
    ):
        try:
            return run_virtually(live())
        except Disconnected:  # the plan goes through the topic once, and does not wait for brokers
            assert cluster.losses < losses
            return None


def run_to_end(cluster: Cluster, path: Path, order: Order) -> Outcome:
    """Run a replay again until it comes to its end: one that loses its broker while it plans does not."""
    while (done := run(cluster, path, order)) is None:
        pass
    return done


LETTERS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([b"k", b"l"]), st.sampled_from(["orders", "orders", "bills", "gone"]),
        st.sampled_from(["x", "x", "y"]),
    ),
    max_size=60,
)  # fmt: skip
ORDER = Order("kafka://model", "", 10_000, to="topic", where=Selector.parse("tenant = 'x'"))


@examples(60)
@given(LETTERS, LETTERS, st.lists(st.floats(0.02, 1.0), max_size=4), st.integers(0, 3), st.integers(0, 999))
def test_a_replay_loses_nothing_keeps_the_order_and_publishes_nothing_again(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[int, bytes, str, str]],
    later: list[tuple[int, bytes, str, str]],
    kills: list[float],
    losses: int,
    seed: int,
) -> None:
    cluster = Cluster(Random(seed), losses)
    path = tmp_path_factory.mktemp("replay") / "ledger"
    wanted: dict[tuple[str, bytes], list[bytes]] = {}
    number, interrupted = 0, 0
    for letters in (drawn, later):  # the second ones come when the first were published; partitions may be new
        for partition, key, topic, tenant in letters:
            value = b"%d" % number
            cluster.put(partition, number, key, value, topic, tenant)
            if topic != "gone" and tenant == "x":
                wanted.setdefault((topic, key), []).append(value)
            number += 1
        for kill in kills:
            interrupted += run(cluster, path, ORDER, kill) is None
        done = run_to_end(cluster, path, ORDER)
        assert set(done.left) <= {"there is no topic 'gone', or this user may not see it"}
    gone = [topic == "gone" and tenant == "x" for _, _, topic, tenant in (*drawn, *later)]
    assert done.left.total() == sum(gone)
    found: dict[tuple[str, bytes], list[bytes]] = {}
    for each in cluster.written:
        assert [name for name, _ in each.headers] == ["tenant", REPLAY]
        assert each.key is not None
        assert each.value is not None
        values = found.setdefault((each.topic, each.key), [])
        if each.value not in values:
            values.append(each.value)
    assert found == wanted
    copies = len(cluster.written) - sum(map(len, wanted.values()))
    assert copies <= (interrupted + losses) * min(WINDOW, number)
    last = run_to_end(cluster, path, ORDER)
    assert (last.moved, last.done_before) == (0, sum(map(len, wanted.values())))


def fill(cluster: Cluster, *values: bytes, partition: int = 0) -> None:
    for at, value in enumerate(values):
        cluster.put(partition, at, b"k", value)


def published(cluster: Cluster) -> list[bytes]:
    return [each.value or b"" for each in cluster.written]


def test_equal_letters_of_a_topic_that_was_made_anew_are_published(tmp_path: Path) -> None:
    cluster = Cluster(Random(0))
    fill(cluster, b"0", b"1")
    for topic_id in ("one", "two", "two"):
        cluster.topic_id = topic_id
        done = run(cluster, tmp_path / "l", ORDER)
        assert done is not None
    assert published(cluster) == [b"0", b"1"] * 2


def test_letters_that_retention_removes_meanwhile_are_passed_by(tmp_path: Path) -> None:
    cluster = Cluster(Random(0))
    fill(cluster, *[b"%d" % at for at in range(10)])
    few = Order("kafka://model", "", 3, to="topic")
    first = run(cluster, tmp_path / "l", few)
    assert first is not None
    assert (first.moved, first.unread) == (3, 7)
    cluster.first[0] = 6
    second = run(cluster, tmp_path / "l", few)
    assert second is not None
    assert (second.moved, second.done_before, second.unread) == (3, 0, 1)
    assert published(cluster) == [b"0", b"1", b"2", b"6", b"7", b"8"]


def test_the_limit_counts_what_no_earlier_run_has_published(tmp_path: Path) -> None:
    cluster = Cluster(Random(0))
    fill(cluster, *[b"%d" % at for at in range(10)])
    for count in (4, 4, 2, 0):
        done = run(cluster, tmp_path / "l", Order("kafka://model", "", 4, to="topic"))
        assert done is not None
        assert done.moved == count
    assert len(cluster.written) == 10


def test_what_a_cluster_refuses_stays_and_others_pass(tmp_path: Path) -> None:
    cluster = Cluster(Random(0))
    fill(cluster, b"0", b"refused", b"2")
    for moved in (2, 0):
        done = run(cluster, tmp_path / "l", ORDER)
        assert done is not None
        assert (done.moved, done.left) == (moved, {"too large": 1})
    assert published(cluster) == [b"0", b"2"]


def test_a_replay_that_waits_says_for_what_and_how_long_and_no_other_says_anything(tmp_path: Path) -> None:
    cluster = Cluster(Random(0), opens_after=12.0, writes_after=22.0)
    fill(cluster, b"0", b"1")
    assert run(cluster, tmp_path / "slow", ORDER) is not None
    assert cluster.said == [
        "model: not connected for 5 s; it is waited for",
        "model: not connected for 10 s; it is waited for",
        "model: 2 messages not confirmed for 5 s: no answer yet; it is waited for",
        "model: 2 messages not confirmed for 10 s: no answer yet; it is waited for",
        "model: 2 messages not confirmed for 20 s: no answer yet; it is waited for",
    ]
    cluster = Cluster(Random(0))
    fill(cluster, *[b"%d" % number for number in range(20)])
    assert run(cluster, tmp_path / "at-a-rate", replace(ORDER, rate=0.1)) is not None  # it lasts for minutes
    assert cluster.said == []


def test_letters_die_again_into_the_topic_that_is_read_and_the_run_ends(tmp_path: Path) -> None:
    cluster = Cluster(Random(0))
    fill(cluster, b"0", b"1")
    for at in range(2):
        cluster.put(0, at, b"k", b"again", "dead")
    done = run(cluster, tmp_path / "l", ORDER)
    assert done is not None
    assert done.moved == 4


@with_each("seconds", [0.02, 0.05, 0.11, 0.3, 60.0])
@with_each("most", [None, 0, 7])
def test_what_a_look_has_not_read_in_time_is_counted(seconds: float, most: int | None) -> None:
    cluster = Cluster(Random(3))
    for partition in range(3):
        fill(cluster, *[b"%d" % at for at in range(20)], partition=partition)
    batches: list[pa.RecordBatch] = []
    read = run_virtually(look(ModelLog(cluster), Bounds(most, seconds), batches.append))
    looked_at = sum([each.num_rows for each in batches])
    assert looked_at + (read.left or 0) == 60
    assert looked_at == (60 if most is None else most) or seconds < 60


def test_two_runs_do_not_use_one_ledger_at_once(tmp_path: Path) -> None:
    cluster = Cluster(Random(0))
    fill(cluster, b"0")
    with patch.object(Paper, "cluster", cluster, create=True):
        ledger = Paper(tmp_path / "l", "topic")
    with pytest.raises(InputError, match="another replay is using it"):
        run(cluster, tmp_path / "l", ORDER)
    ledger.close()
    assert not cluster.written
