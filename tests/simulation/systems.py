"""The systems of a life, which outlive all processes of the bridge, and the clients by which these reach them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.simulation.archive import ModelArchive, archive_simulated
from tests.simulation.kafka import KafkaServer
from tests.simulation.kafka_exactly_once import ExactlyOnceServer
from tests.simulation.kafka_share import ShareTopic
from tests.simulation.kafka_share_group import ModelShareGroup
from tests.simulation.kafka_source import KafkaTopic
from tests.simulation.kafka_topic import ModelTopic
from tests.simulation.kafka_transactions import ModelCoordinator, Record
from tests.simulation.plan import TARGETS, TRANSACTIONAL, Fault, Plan
from tests.simulation.rabbitmq import RabbitmqQueue, RabbitmqServer
from tests.simulation.rocketmq import RocketmqServer, RocketmqTopic
from tests.simulation.rocketmq_broker import ModelBroker
from tests.simulation.sources import Broker, Client, LogSource, QueueSource
from tests.simulation.targets import ModelTarget
from tests.simulation.world import World


class Systems:
    """Brokers by the names of sources and targets, and the clients that a running pump has there."""

    def __init__(self, world: World, disk: Path) -> None:
        self.world = world
        self._disk = disk
        self.brokers = {f"{kind}-{at}": _make_broker(kind) for at, kind in enumerate(world.plan.sources)}
        self._written = {name: ModelBroker(f"{name}-topic", 2) for name in TARGETS}
        """Target -> the broker that has its topic, if it is of RocketMQ."""
        self._coordinator = ModelCoordinator(self._judge_transaction)
        if world.plan.is_transactional:
            self._coordinator.sources.update(self.brokers)
        self.clients: list[Client] = []
        """Clients of pumps that run, or ran last."""

    @property
    def sources(self) -> list[Client]:
        """Clients of sources."""
        return [each for each in self.clients if each.name in self.brokers]

    @property
    def targets(self) -> list[Client]:
        """Clients of targets."""
        return [each for each in self.clients if each.name not in self.brokers]

    @property
    def are_empty(self) -> bool:
        """Whether all sources are."""
        return all(each.is_empty for each in self.sources)

    def make_source(self, name: str) -> Client:
        """Make a client that reads; nothing changes before it takes the place of another."""
        kinds: dict[str, Callable[[str, World, Any], Client]] = {
            "queue": QueueSource, "log": LogSource, "rabbitmq": RabbitmqQueue, "kafka": KafkaTopic,
            "share": ShareTopic, "rocketmq": RocketmqTopic, "orderly": RocketmqTopic,
        }  # fmt: skip
        return kinds[name.partition("-")[0]](name, self.world, self.brokers[name])

    def make_target(self, name: str) -> Client:
        """Make a client that writes."""
        kind, world = self.world.plan.targets, self.world
        if kind == "archive":
            return ModelArchive(name, world, self._disk)
        if world.plan.is_transactional and name == "all":
            queues = [each for each in ("all", "odd") if world.plan.target_of(each) == "all"]
            return ExactlyOnceServer(name, world, self._coordinator, queues)
        if kind == "rocketmq":
            return RocketmqServer(name, world, self._written[name])
        kinds: dict[str, Callable[[str, World], Client]] = {
            **dict.fromkeys(("model", *TRANSACTIONAL), ModelTarget), "rabbitmq": RabbitmqServer, "kafka": KafkaServer,
        }  # fmt: skip
        return kinds[kind](name, world)

    def replace(self, gone: list[Client], coming: list[Client]) -> None:
        """Have clients take the places of others, and let faults of systems outlive them."""
        before = {each.name: each for each in self.clients}
        self.clients = [*[each for each in self.clients if each not in gone], *coming]
        for each in coming:
            each.take_over(before.get(each.name))

    def put(self, number: int) -> None:
        """Publish a message."""
        name = self.world.source_of(number)
        known = [each for each in self.clients if each.name == name]
        (known[0] if known else self.make_source(name)).put(number)
        for each in known[1:]:
            each.note_put()

    def strike(self, fault: Fault) -> None:
        """Begin a fault of a system."""
        for each in [each for each in self.clients if each.name == fault.where]:
            each.strike(fault)

    def _judge_transaction(self, records: Sequence[Record]) -> None:
        """Judge a transaction as it is committed: readers see its records, and its offsets are the group's."""
        world = self.world
        for record in records:
            number = int(record.value)
            if world.stored[record.topic][number]:
                world.breaks("exactly once", f"{record.topic} has {number} twice")
            world.store(record.topic, number, "")
        for topic in self._coordinator.sources.values():
            for partition, log in enumerate(topic.partitions):
                end = topic.offset_of(partition)
                for offset, number in [(at, int(each[1])) for at, each in enumerate(log) if each is not None]:
                    if offset >= end and world.stored["all"][number]:
                        world.breaks("exactly once", f"all has {number} without the offset behind it")
                    if offset < end and not world.is_safe(number, is_narrow=world.plan.may_be_narrow):
                        world.breaks("exactly once", f"the offset is behind {number}, which is not there")

    def judge(self) -> None:
        """Judge what is on disks, at the end."""
        for each in self.targets:
            if isinstance(each, ModelArchive):
                each.judge()


def _make_broker(kind: str) -> Any:
    """Make what outlives the clients of a kind of source."""
    if kind == "kafka":
        return ModelTopic()
    if kind == "share":
        return ModelShareGroup()
    return ModelBroker("in", 2) if kind in ("rocketmq", "orderly") else Broker()


@contextmanager
def make_disk(plan: Plan) -> Iterator[Path]:
    """Make a folder for archives, if there are any; in memory where that can be had."""
    if plan.targets != "archive":
        yield Path()
        return
    memory = Path("/dev/shm")  # noqa: S108  a folder of its own is made there
    with archive_simulated(), TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
