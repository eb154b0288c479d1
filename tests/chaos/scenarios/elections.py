"""Kafka elects a leader that has not all records: others come to offsets that were read, or what was written is gone.

What the leader had alone Kafka loses. A source must pass over no records that take the offsets of these; a target must
lose no more than these, and go on by itself. In transactions nothing may come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from tests.chaos.clusters import KafkaCluster
from tests.chaos.daemon import Daemon
from tests.chaos.places import Folder, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

KAFKA: Final = "kafka cluster"
TRANSACTIONS: Final = "kafka cluster for transactions"
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
ALONE: Final = 1_000
"""Number of records that the leader has alone, and loses."""


class _Log:
    """The only partition of a topic with two replicas, of which one can be made to lead without the latest records."""

    def __init__(self, trial: Trial, side: str, *, transactional: bool) -> None:
        kind = TRANSACTIONS if transactional else KAFKA
        cluster = trial.brokers[kind]
        assert isinstance(cluster, KafkaCluster)
        self._trial, self._cluster = trial, cluster
        self.topic = trial.use(Topic(transactional, trial.brokers, side, trial.folder, kind, 1, UNCLEAN, 2))
        trial.wait_until(lambda: self._partition().leader != -1, "the partition has a leader")
        self._leader = self._partition().leader
        self._follower = next(each for each in self._partition().replicas if each != self._leader)

    def _partition(self) -> Any:
        """Return what a broker says of the partition, once one knows it: they hear of a new topic one by one."""
        admin, name = self.topic.topics.admin, self.topic.name
        partitions: dict[int, Any] = {}

        def is_known() -> bool:
            partitions.update(admin.list_topics(name, timeout=find_limit()).topics[name].partitions)
            return 0 in partitions

        self._trial.wait_until(is_known, "a broker knows the partition")
        return partitions[0]

    def leave_alone(self) -> None:
        """Kill the follower, and wait until the leader writes without it."""
        self._trial.at_end(self._cluster.start_nodes)  # before topics are deleted
        self._cluster.kill_node(self._follower - 1)
        self._trial.wait_until(lambda: self._partition().isrs == [self._leader], "the follower is not in sync")

    def elect(self) -> None:
        """Kill the leader, start the follower, and wait until that leads."""
        self._cluster.kill_node(self._leader - 1)
        self._cluster.start_node(self._follower - 1)
        self._trial.wait_until(lambda: self._partition().leader == self._follower, "the follower leads")
        self._trial.faults += 3


def _flow(trial: Trial, *, transactional: bool, at: str) -> tuple[_Log, Topic, Writable, Daemon]:
    """Return the log at this side, source and target, and a bridge that writes slowly what the source has."""
    log = _Log(trial, at, transactional=transactional)
    kind = TRANSACTIONS if transactional else KAFKA
    source, target = log.topic, cast("Writable", log.topic)
    if at == "target":
        source = trial.use(Topic(transactional, trial.brokers, "source", trial.folder, kind, 1))
    elif transactional:
        target = trial.use(Topic(True, trial.brokers, "target", trial.folder, kind))
    else:
        target = trial.use(Folder(trial.brokers, "target", trial.folder))
    trial.put(source, ALONE)
    return log, source, target, trial.bridge(source, target, policy="rate = 300")


def _elect_at_source(transactional: bool, is_away: bool, trial: Trial) -> Sequence[Writable]:
    """Have a leader be elected without the records that the bridge read last; others come to their offsets."""
    log, source, target, daemon = _flow(trial, transactional=transactional, at="source")
    trial.drain(source)
    log.leave_alone()
    trial.put(source, ALONE)
    trial.drain(source)
    if is_away:
        trial.kill(daemon)
    log.elect()
    source.skip(-ALONE)
    trial.put(source, 2 * ALONE)
    if is_away:
        trial.start(daemon)
    trial.drain(source, 300)
    _require_line(trial, daemon)
    return [target]


def _elect_while_read(transactional: bool, trial: Trial) -> Sequence[Writable]:
    """Have a leader be elected without the records of which the bridge has read some, and not all."""
    log, source, target, daemon = _flow(trial, transactional=transactional, at="source")
    trial.drain(source)
    log.leave_alone()
    trial.put(source, ALONE)
    trial.wait_for_written(ALONE + ALONE // 3)
    log.elect()
    source.skip(-ALONE)
    trial.put(source, 2 * ALONE)
    trial.drain(source, 300)
    _require_line(trial, daemon)
    trial.lost_by_broker = lambda lost: 0 < len(lost) < ALONE and lost == [*range(2 * ALONE - len(lost), 2 * ALONE)]
    return [target]


def _require_line(trial: Trial, daemon: Daemon) -> None:
    shown = any("its log has lost its end" in str(event) for event in daemon.events())
    trial.require(shown, "no line of the bridge's log says that the topic has lost its end")


def _elect_at_target(transactional: bool, trial: Trial) -> Sequence[Writable]:
    """Have a leader be elected without the records that the bridge wrote last, while it writes."""
    log, source, target, _ = _flow(trial, transactional=transactional, at="target")
    trial.put(source, 5 * ALONE)
    trial.wait_for_written(ALONE)
    before = trial.count_written()
    log.leave_alone()
    trial.wait_for_written(trial.count_written() + ALONE)
    log.elect()
    after = trial.count_written() + trial.window
    trial.drain(source, 300)

    def were_alone(lost: list[int]) -> bool:
        return 0 < len(lost) < after - before and lost == [*range(lost[0], lost[0] + len(lost))] and lost[0] >= before

    trial.lost_by_broker, trial.confirmed = were_alone, trial.count_written()
    return [target]


def _rows(variant: str, act: Callable[[bool, Trial], Sequence[Writable]]) -> list[Scenario]:
    return [
        Scenario("unclean-election", variant, [KAFKA], partial(act, False)),
        Scenario("unclean-election", f"{variant}, in transactions", [TRANSACTIONS], partial(act, True)),
    ]


SCENARIOS: Final = [
    *_rows("at the source", lambda transactional, trial: _elect_at_source(transactional, False, trial)),
    *_rows("at the source, bridge away", lambda transactional, trial: _elect_at_source(transactional, True, trial)),
    *_rows("of what is being read", _elect_while_read),
    *_rows("at the target", _elect_at_target),
]
