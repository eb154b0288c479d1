"""The brokers of a run, by their kinds: each is started when it is first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from tests.chaos.brokers import Broker, KafkaBroker, RabbitmqBroker, RocketmqBroker, SmallDiskBroker, TransactionsBroker
from tests.chaos.clusters import KafkaCluster, RabbitmqCluster, TransactionsCluster
from tests.support.servers import SERVERS
from tests.support.starting import Unavailable

KINDS: Final[Mapping[str, type[Broker]]] = {
    "rabbitmq": RabbitmqBroker, "kafka": KafkaBroker, "kafka for transactions": TransactionsBroker,
    "kafka on a small disk": SmallDiskBroker, "rocketmq": RocketmqBroker, "rabbitmq cluster": RabbitmqCluster,
    "kafka cluster": KafkaCluster, "kafka cluster for transactions": TransactionsCluster,
}  # fmt: skip


CHOOSE: Final = ("kafka for transactions", "kafka cluster for transactions")
"""Kinds whose brokers choose their own image, unless one is given for that kind."""


class Brokers:
    """The brokers of a run, each started when it is first used, and removed at the end."""

    def __init__(self, images: Mapping[str, str] | None = None) -> None:
        self._images = images or {}
        """Kind of server -> image to use instead of the default."""
        self._started: dict[str, Broker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for kind in reversed([*self._started]):
            self.drop(kind)

    def __getitem__(self, kind: str) -> Broker:
        """Return the broker of a kind, started if need be. Raises Unavailable."""
        if kind not in self._started:
            image = self._images.get(kind) or ("" if kind in CHOOSE else self._images.get(KINDS[kind].kind.name, ""))
            self._started[kind] = KINDS[kind](image)
        return self._started[kind]

    def rabbitmq(self) -> RabbitmqBroker:
        """Return the broker of RabbitMQ. Raises Unavailable."""
        broker = self["rabbitmq"]
        assert isinstance(broker, RabbitmqBroker)
        return broker

    def drop(self, kind: str) -> None:
        """Remove the broker of a kind, if there is one; its next use starts a new one."""
        broker = self._started.pop(kind, None)
        if broker is not None:
            broker.close()

    @property
    def versions(self) -> str:
        """Images and versions of the brokers that were started."""
        return ", ".join([f"{broker.image} ({broker.version})" for broker in self._started.values()])

    @staticmethod
    def images_of(kinds: Sequence[str]) -> list[str]:
        """Return the kinds of servers whose images brokers of these kinds use."""
        return list(dict.fromkeys(KINDS[kind].kind.name for kind in kinds))

    def versions_of(self, kinds: Sequence[str]) -> str:
        """Return names and versions of started brokers: ``rabbitmq 4.0.5, kafka 4.3.1``."""
        named = [f"{self._started[kind].kind.name} {self._started[kind].version}" for kind in kinds]
        return ", ".join(dict.fromkeys(named))


def rounds_of(images: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield rounds, kind of server -> image, until each image was in one; at least one round.

    Raises Unavailable for an image whose name contains no kind.
    """
    by_kind: dict[str, list[str]] = {}
    for image in images:
        kind = next((kind for kind in SERVERS if kind in image), None)
        if kind is None:
            raise Unavailable(f"{image}: its name must contain one of {', '.join(SERVERS)}")
        by_kind.setdefault(kind, []).append(image)
    for n in range(max([1, *[len(each) for each in by_kind.values()]])):
        yield {kind: each[n % len(each)] for kind, each in by_kind.items()}
