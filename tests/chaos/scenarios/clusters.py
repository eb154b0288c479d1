"""What happens to nodes of clusters of three: leaders are killed, frozen or cut off, two of three are killed, so that
nothing can be written or read, all are restarted one after the other.

Queues have no delivery limit, as order holds only then (the guide says why); topics need two replicas for each write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from tests.chaos.brokers import CommandFailed
from tests.chaos.clusters import NODES, KafkaCluster, RabbitmqCluster
from tests.chaos.places import HEARTBEAT, Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

RABBITMQ: Final = "rabbitmq cluster"
KAFKA: Final = "kafka cluster"
AWAY: Final = 10.0
"""Seconds until a killed leader is started again."""


class _Flow(NamedTuple):
    """Messages that flow slowly between the clusters, in one direction."""

    rabbitmq: RabbitmqCluster
    kafka: KafkaCluster
    source: Queue | Topic
    target: Queue | Topic

    @property
    def queue(self) -> str:
        return next(place.name for place in (self.source, self.target) if isinstance(place, Queue))

    @property
    def topic(self) -> Topic:
        return next(place for place in (self.source, self.target) if isinstance(place, Topic))

    def leader_of_queue(self) -> int:
        """Return the node that leads the queue."""
        return self.rabbitmq.find_leader(self.queue)

    def leader_of_partition(self) -> int:
        """Return the node that leads the first partition."""
        topics = self.topic.topics.admin.list_topics(self.topic.name, timeout=find_limit()).topics
        return int(topics[self.topic.name].partitions[0].leader) - 1

    def kill_two(self, cluster: RabbitmqCluster | KafkaCluster) -> None:
        """Kill two of three nodes, the first among them."""
        for n in (0, 1):
            cluster.kill_node(n)


def _flow(trial: Trial, *, from_queue: bool) -> _Flow:
    rabbitmq, kafka = trial.brokers[RABBITMQ], trial.brokers[KAFKA]
    assert isinstance(rabbitmq, RabbitmqCluster)
    assert isinstance(kafka, KafkaCluster)
    limit = {} if rabbitmq.version.startswith("3.") else {"x-delivery-limit": -1}
    sides = ("source", "target") if from_queue else ("target", "source")
    queue = trial.use(Queue("quorum", trial.brokers, sides[0], trial.folder, limit, HEARTBEAT, broker=RABBITMQ))
    topic = trial.use(Topic(False, trial.brokers, sides[1], trial.folder, kind=KAFKA))
    flow = _Flow(rabbitmq, kafka, *((queue, topic) if from_queue else (topic, queue)))
    trial.put(flow.source, 20_000)
    trial.bridge(flow.source, flow.target, policy="rate = 200")
    trial.wait_until_flowing(flow.source)
    return flow


def _kill_leaders(from_queue: bool, trial: Trial) -> Sequence[Writable]:
    flow = _flow(trial, from_queue=from_queue)
    _suffer_each(trial, flow, flow.rabbitmq.kill_node, flow.kafka.kill_node)
    return [flow.target]


def _pause_leaders(from_queue: bool, trial: Trial) -> Sequence[Writable]:
    flow = _flow(trial, from_queue=from_queue)
    _suffer_each(trial, flow, flow.rabbitmq.pause_node, flow.kafka.pause_node)
    return [flow.target]


def _suffer_each(trial: Trial, flow: _Flow, queues: Callable[[int], None], partitions: Callable[[int], None]) -> None:
    """Have this happen to the leader of the queue, and then to that of the first partition."""
    for happen, find, cluster in (
        (queues, flow.leader_of_queue, flow.rabbitmq),
        (partitions, flow.leader_of_partition, flow.kafka),
    ):
        trial.suffer(partial(happen, find()), cluster.start_nodes, seconds=AWAY, shows=False)
        trial.faults += 1  # a killed broker forgets the latest acknowledgements
    trial.drain(flow.source, 300)


def _isolate_leader(from_queue: bool, trial: Trial) -> Sequence[Writable]:
    flow = _flow(trial, from_queue=from_queue)
    leader = flow.leader_of_queue()
    other = (leader + 1) % NODES

    def another_leads() -> bool:
        with suppress(CommandFailed, StopIteration, ValueError):  # no node may be known to lead it
            return flow.rabbitmq.find_leader(flow.queue, other) != leader
        return False

    def rejoin() -> None:
        trial.faults += flow.rabbitmq.rejoin_node(leader)

    trial.suffer(
        partial(flow.rabbitmq.isolate_node, leader), rejoin, seconds=AWAY, shows=False,
        meanwhile=partial(trial.wait_until, another_leads, "another leads the queue"),
    )  # fmt: skip
    trial.faults += 1
    trial.drain(flow.source, 300)
    return [flow.target]


def _restart_each(from_queue: bool, trial: Trial) -> Sequence[Writable]:
    flow = _flow(trial, from_queue=from_queue)
    for cluster in (flow.rabbitmq, flow.kafka):
        trial.suffer(cluster.restart_each, cluster.start_nodes, shows=False)
        trial.faults += NODES - 1
    trial.drain(flow.source, 300)
    return [flow.target]


def _kill_two(from_queue: bool, trial: Trial) -> Sequence[Writable]:
    flow = _flow(trial, from_queue=from_queue)
    for cluster in (flow.rabbitmq, flow.kafka):
        trial.suffer(partial(flow.kill_two, cluster), cluster.start_nodes)
        trial.faults += 1
    trial.drain(flow.source, 300)
    return [flow.target]


def _scenarios(name: str, act: Callable[[bool, Trial], Sequence[Writable]]) -> list[Scenario]:
    rows = (("RabbitMQ -> Kafka", True), ("Kafka -> RabbitMQ", False))
    return [Scenario("cluster", f"{name}, {way}", [RABBITMQ, KAFKA], partial(act, first)) for way, first in rows]


SCENARIOS: Final = [
    *_scenarios("leaders killed", _kill_leaders),
    *_scenarios("leaders frozen", _pause_leaders),
    *_scenarios("leader of the queue cut off from the others", _isolate_leader),
    *_scenarios("all nodes restarted one by one", _restart_each),
    *_scenarios("two of three killed", _kill_two),
]
