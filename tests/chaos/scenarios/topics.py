"""Topics of Kafka that are deleted and created again, or get a further partition, while a bridge runs.

Before a topic is deleted, all that was put is through, and of a target it was read: what an operator deletes is gone by
the operator's hand. A number is never used twice, so what a remade topic has is told from what the old one had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tests.chaos.daemon import TOPOLOGY
from tests.chaos.places import PARTITIONS, Queue, Readable, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

HALF: Final = 1_000
GONE: Final = 20.0
"""Seconds until it is created again; in CI, until that is visible."""
FEWER: Final = 2
MORE: Final = 7

PARTITIONED: Final = TOPOLOGY.replace("queue out", "queue out: partitioned kafka.murmur2 over {count}")
BESIDE: Final = "exchange other: fanout\nqueue beside\nother -> beside\n"

FIRST: Final = 4_000
BURST: Final = 6_000


def read_epoch(topic: Topic) -> int:
    """Return the epoch of the leader of the topic's first partition."""
    first = TopicPartition(topic.name, 0)
    admin = AdminClient(topic.topics.settings)  # one that knows no earlier epoch, which the broker would refuse
    offsets = admin.list_offsets({first: OffsetSpec.latest()})  # type: ignore[no-untyped-call]
    return int(offsets[first].result(find_limit()).leader_epoch)


def require_lower_epoch(trial: Trial, topic: Topic, old: int) -> None:
    """Require that a topic that was made anew has a lower epoch than the old one had."""
    new = read_epoch(topic)
    trial.require(new < old, f"the epoch of the new topic's leader is {new}, that of the old one's was {old}")


def _target_remade(trial: Trial, *, partitioned: bool) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    trial.put(source, HALF)
    if partitioned:
        trial.bridge(source, target, topology=PARTITIONED.format(count=PARTITIONS))
    else:
        trial.bridge(source, target)
    trial.wait_for_written(HALF)
    trial.drain(source)
    trial.collect(target)

    def remake_wrong() -> None:
        target.delete_topic()
        trial.put(source, HALF)
        target.make(FEWER)

    def remake_right() -> None:
        trial.collect(target)  # what fitted before the bridge saw that the topic was another
        target.delete_topic()
        target.make(PARTITIONS)

    def delete() -> None:
        target.delete_topic()
        trial.put(source, HALF)

    seconds = 0.0 if trial.short else GONE
    if partitioned:  # with another number of partitions than the topology's it waits, and goes on with the right one
        trial.suffer(remake_wrong, remake_right, seconds=seconds)
    else:
        trial.suffer(delete, lambda: target.make(FEWER), seconds=seconds)
    trial.drain(source)
    return [target]


def _target_of_lower_epochs(trial: Trial, *, once: bool, running: bool) -> Sequence[Writable]:
    """Remake the target after restarts of its broker: each raises the epochs of leaders, a new topic counts from 0."""
    source: Readable = trial.use(
        Topic(True, trial.brokers, "source", trial.folder)
        if once
        else Queue("quorum", trial.brokers, "source", trial.folder)
    )
    target = trial.use(Topic(once, trial.brokers, "target", trial.folder))
    trial.put(source, HALF)
    daemon = trial.bridge(source, target)
    trial.wait_for_written(HALF)
    trial.drain(source)
    for _ in range(3):
        assert target.broker is not None
        target.broker.restart()
        trial.faults += 1
        trial.wait_until_ready()
        trial.put(source, HALF)
        trial.drain(source)
    trial.collect(target)
    if not running:
        trial.kill(daemon)
    old = read_epoch(target)
    target.delete_topic()
    target.make(PARTITIONS)
    trial.put(source, HALF)
    require_lower_epoch(trial, target, old)
    trial.faults += 1
    if not running:
        trial.start(daemon)
    trial.drain(source)
    trial.wait_until_ready()
    return [target]


def _source_remade(trial: Trial, *, first: int, burst: int, noticed: bool, restarts: int = 0) -> Sequence[Writable]:
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder, partitions=4))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    trial.put(source, first)
    trial.bridge(source, target)
    trial.wait_for_written(first)
    trial.drain(source)
    for _ in range(restarts):  # each raises the epochs of leaders; a new topic counts them from 0 again
        trial.brokers["kafka"].restart()
        trial.faults += 1
    trial.wait_until_ready()
    old = read_epoch(source) if restarts else 0
    source.delete_topic()
    trial.let_pass(5.0 if noticed else 0.0)
    source.make(4)
    if noticed:  # the bridge has met the new topic while it was empty
        trial.let_pass(20.0)
    trial.put(source, burst)
    trial.faults += 1
    if restarts:
        require_lower_epoch(trial, source, old)
    trial.wait_until(lambda: trial.count_written() >= first + 1, "messages of the new topic are read")
    trial.wait_until(lambda: trial.count_written() >= trial.sent, "all of the new topic was written")
    trial.drain(source)
    return [target]


def _of_source(first: int, burst: int, *, noticed: bool, restarts: int = 0) -> Callable[[Trial], Sequence[Writable]]:
    return lambda trial: _source_remade(trial, first=first, burst=burst, noticed=noticed, restarts=restarts)


def _add_partition(trial: Trial) -> Sequence[Writable]:
    """Add partitions to the topic. The bridge waits until the topology is corrected and it was restarted;
    what else the bridge does goes on meanwhile.
    """
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    other_source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    other_target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    other = (
        f'[sources.other]\nexchange = "other"\n{other_source.table()}'
        f"[targets.beside]\n{other_target.table().replace('queues.out.', 'queues.beside.')}"
    )
    policy = 'drain = "3 s"\n'
    daemon = trial.bridge(
        source, target, policy=policy, rest=other, topology=PARTITIONED.format(count=PARTITIONS) + BESIDE
    )
    trial.put(source, HALF)
    trial.wait_for_written(HALF)
    trial.drain(source)

    def beside() -> None:
        trial.put(source, HALF)
        other_source.put([("beside", b"%d" % n) for n in range(HALF)])
        trial.wait_until(lambda: other_target.count()[0] == HALF, "the other flow of the bridge goes on", 30.0)

    def correct() -> None:
        trial.stop(1)  # with what it could not write unsettled
        trial.collect(target)
        daemon.configure(
            policy=policy + trial.stalled_after, rest=trial.tables(other),
            topology=PARTITIONED.format(count=MORE) + BESIDE,
        )  # fmt: skip
        trial.start(daemon)

    trial.suffer(lambda: target.add_partitions(MORE), correct, meanwhile=beside)
    trial.drain(source)
    return [target]


KINDS: Final = ("rabbitmq", "kafka")
SCENARIOS: Final = [
    Scenario(
        "remake-topic", "target, from 6 partitions to 2", KINDS,
        lambda trial: _target_remade(trial, partitioned=False), short=True,
    ),
    Scenario(
        "remake-topic", "target of a partitioned queue, from 6 to 2 to 6", KINDS,
        lambda trial: _target_remade(trial, partitioned=True),
    ),
    *[
        Scenario(
            "remake-topic", f"target of lower epochs, {'exactly once, ' * once}{'at once' if running else 'no bridge'}",
            ["kafka for transactions"] if once else KINDS,
            partial(_target_of_lower_epochs, once=once, running=running),
        )
        for once in (False, True) for running in (True, False)
    ],
    Scenario("remake-topic", "source, then a burst of 6,000", KINDS, _of_source(FIRST, BURST, noticed=True)),
    Scenario(
        "remake-topic", "source, a shorter one at once", KINDS, _of_source(FIRST, 1_000, noticed=False), short=True
    ),
    Scenario(
        "remake-topic", "source, at once, after three restarts of the broker", KINDS,
        _of_source(1_000, 1_000, noticed=False, restarts=3), short=True,
    ),
    Scenario("remake-topic", "source, a longer one at once", KINDS, _of_source(1_000, BURST, noticed=False)),
    Scenario("add-partition", "to the target of a partitioned queue", KINDS, _add_partition),
]  # fmt: skip
