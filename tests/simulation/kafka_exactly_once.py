"""The real transactional target over a model of transactions, and what happens to both.

Brokers are silent, for longer than a transaction may last; coordinators are not available, or answers of theirs are
lost, so that nobody knows whether a transaction was committed; producers are fenced; batches are refused as a whole.
A process that is killed leaves its transaction open, or has its commit under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.topics import KafkaTopic as Topic
from bridge.endpoints.kafka.producer.transactional import TransactionalTarget
from bridge.endpoints.topics import TopicDestination
from tests.simulation.blocking import Calls, block, ending_calls
from tests.simulation.kafka import LIMIT
from tests.simulation.kafka_topic import Late
from tests.simulation.kafka_transactions import ModelCoordinator, ModelTransactionalProducer, Record
from tests.simulation.plan import Fault
from tests.simulation.sources import Client
from tests.simulation.world import World

ANSWER_FAULTS: Final = ("unavailable", "lose answer", "lose answer", "lose request")
"""What happens to requests to a coordinator."""


class ExactlyOnceServer(Client):
    """Topics of two partitions each, one for each queue, that the real target writes to."""

    def __init__(self, name: str, world: World, coordinator: ModelCoordinator, queues: Sequence[str]) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.random = world.random
        self.coordinator = coordinator
        destinations = {queue: TopicDestination(queue) for queue in queues}
        # With an id of its own, a process takes over what the one before had open.
        own = f"bridge-{name}" if world.plan.seed % 2 else None
        self.endpoint = TransactionalTarget(name, {"host": self}, destinations, 6, 0.1, own)

    def is_at_fault(self, number: int) -> bool:
        """Return whether a message is refused by itself."""
        return self.world.odd.get(number) == "refused"

    @property
    def is_silent(self) -> bool:
        """Whether no broker answers."""
        return self.is_dead or self.has("down") or self.has("hang") or self.has("mute")

    @property
    def answer_fault(self) -> str:
        """What happens to requests to the coordinator, "" if nothing."""
        return ANSWER_FAULTS[self.numbers["coordinator"] % len(ANSWER_FAULTS)] if self.has("coordinator") else ""

    def take_abortable(self) -> bool:
        """Return whether a transaction must be aborted for an error of now."""
        return self.has("abortable") and self.random.random() < 0.5

    def refuse(self, batch: Sequence[Record]) -> int | None:
        """Return the code with which a batch is refused; None: it is not."""
        if sum(len(record.value) for record in batch) > LIMIT:
            return KafkaError.MSG_SIZE_TOO_LARGE
        if not self.world.well and any(self.is_at_fault(int(record.value)) for record in batch):
            return KafkaError.INVALID_RECORD
        return None

    def answer(self, result: Any) -> Any:
        """Return the answer of brokers, or raise that there is none."""
        if self.is_silent:
            raise Late(6.0 if self.has("hang") else 0.1, KafkaException(KafkaError(KafkaError._TRANSPORT)))
        return result

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        identity = self.endpoint._id
        if fault.what == "fenced" and identity in self.coordinator.names:
            self.coordinator.fence(identity)

    def lose(self) -> None:
        connection = self.endpoint._connection
        if connection is not None:
            connection.lose(Disconnected("cut"))
        self.news.set()

    def kill(self) -> None:
        self.is_dead = True
        connection = self.endpoint._connection
        for task in self.endpoint._tasks:
            task.cancel()
        if connection is not None:
            connection.closed = True
            connection.waiting.clear()


@contextmanager
def transactions_simulated() -> Iterator[None]:
    """Have the target's producers be models, and its calls block in virtual time."""

    def fetch_topics(settings: Any, names: Sequence[str], *_: Any, **__: Any) -> dict[str, Topic]:
        found: dict[str, Topic] = settings["host"].answer({name: Topic(2, None) for name in names})
        return found

    def now() -> float:
        return asyncio.get_running_loop().time()

    with ExitStack() as stack:
        stack.enter_context(ending_calls())
        for name, replaced in {
            "target.Producer": ModelTransactionalProducer, "target.Calls": Calls, "target.fetch_topics": fetch_topics,
            "target.monotonic": now, "transaction.monotonic": now, "transaction.sleep": block,
            "transactional.fetch_cluster_id": lambda *_: "cluster", "watching.Calls": Calls,
            "watching.LOOK_EVERY": 1e9,
        }.items():  # fmt: skip
            stack.enter_context(patch(f"bridge.endpoints.kafka.producer.{name}", replaced))
        yield
