"""Brokers in containers that can be restarted, with a relay before them for each side that a bridge connects to.

Ports of 127.0.0.1 are chosen here, so that a broker has the same ones after a restart. Whoever does not want to suffer
the faults connects directly.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, ClassVar, Final, Self, cast

from tests.bridge.kafka_broker import image_for_transactions
from tests.bridge.relay import Relay
from tests.servers import SERVERS, ServerKind, Unavailable, kafka_environment, rocketmq_environment

__all__ = ["SIDES", "Broker", "Brokers"]

SIDES: Final = ("source", "target")

SECONDS: Final = 120.0
"""That a broker may take to answer."""

GRACE: Final = 30
"""Seconds that a broker may take to stop, before Docker kills it."""


class Broker(ABC):
    """A broker; a kind says how it is started, and which ports of the container clients connect to."""

    kind: ClassVar[ServerKind]
    ports: Sequence[int]
    """Where the container listens: for us, and for each of `SIDES`."""

    def __init__(self) -> None:
        from testcontainers.core.container import DockerContainer  # not needed by those who only read the table

        self.image = image = self.chosen_image()
        published = {port: _free_port() for port in dict.fromkeys(self.ports)}
        self.port = published[self.ports[0]]
        """Where it is reached directly."""
        self.relays = self.relayed(published)
        try:
            self._container = DockerContainer(image)
            self._container.env.update(self.environment())
            cast("dict[Any, Any]", self._container.ports).update(
                {port: ("127.0.0.1", number) for port, number in published.items()}
            )
            self._container.start()
        except Exception as reason:
            self._close_relays()
            raise Unavailable(f"Docker cannot start {image} ({reason})") from reason
        try:
            self.version = self.wait()
        except BaseException:
            self.close()
            raise

    def relayed(self, published: Mapping[int, int]) -> dict[str, Relay]:
        """Side -> the relay that it connects to; ports of the container are published at those of this machine."""
        return {side: Relay("127.0.0.1", published[port]) for side, port in zip(SIDES, self.ports[1:], strict=True)}

    def chosen_image(self) -> str:
        """Of those of this run."""
        return self.kind.images()[0]

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """What the container is told."""

    @property
    def url(self) -> str:
        """Where it is reached directly."""
        return self.kind.build_url("127.0.0.1", self.port)

    def restart(self, *, kill: bool = False) -> None:
        """Have it stop, or end all its processes with SIGKILL; start it on the same data, and wait for an answer."""
        container = self._container.get_wrapped_container()
        if kill:
            container.kill()
            container.wait(timeout=GRACE)
        else:
            container.stop(timeout=GRACE)
        container.start()
        self.wait()

    def wait(self) -> str:
        """Wait until it answers; its version. Raises Unavailable."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return self.kind.read_version(self.url)
            except Exception as error:
                if time.monotonic() > deadline:
                    raise Unavailable(f"{self.image} did not answer in {SECONDS:.0f} s ({error})") from error
            time.sleep(0.1)

    def close(self) -> None:
        """Remove it."""
        with suppress(Exception):
            self._container.stop()
        self._close_relays()

    def _close_relays(self) -> None:
        for relay in {*self.relays.values()}:
            relay.close()


class RabbitmqBroker(Broker):
    """A node of RabbitMQ."""

    kind = SERVERS["rabbitmq"]
    ports = (5672, 5672, 5672)

    def environment(self) -> Mapping[str, str]:
        return {}


class KafkaBroker(Broker):
    """A node of Kafka. It tells clients where to connect, so each side has a listener that names the side's relay."""

    kind = SERVERS["kafka"]
    ports = (9092, 9095, 9096)

    def environment(self) -> Mapping[str, str]:
        source, target = (self.relays[side].port for side in SIDES)
        listeners = "SOURCE:PLAINTEXT,TARGET:PLAINTEXT"
        base = kafka_environment(self.port)
        return base | {
            "KAFKA_LISTENERS": f"{base['KAFKA_LISTENERS']},SOURCE://:9095,TARGET://:9096",
            "KAFKA_ADVERTISED_LISTENERS": (
                f"{base['KAFKA_ADVERTISED_LISTENERS']},SOURCE://127.0.0.1:{source},TARGET://127.0.0.1:{target}"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{base['KAFKA_LISTENER_SECURITY_PROTOCOL_MAP']},{listeners}",
            "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "3",
            "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
        }


class TransactionsBroker(KafkaBroker):
    """A node of a Kafka that ends its transactions although it is restarted."""

    def chosen_image(self) -> str:
        return image_for_transactions()


class RocketmqBroker(Broker):
    """A name server and a broker of RocketMQ.

    The broker tells everyone to come to the port at which it listens itself: so there is where a relay listens here,
    one for both sides and for us. Nothing is between anyone and the name server.
    """

    kind = SERVERS["rocketmq"]

    def __init__(self) -> None:
        port = _free_port()
        self.ports = (9876, port, port)
        super().__init__()

    def relayed(self, published: Mapping[int, int]) -> dict[str, Relay]:
        port = self.ports[1]
        return dict.fromkeys(SIDES, Relay("127.0.0.1", published[port], listen=port))

    def environment(self) -> Mapping[str, str]:
        return rocketmq_environment(self.ports[1])


KINDS: Final[Mapping[str, type[Broker]]] = {
    "rabbitmq": RabbitmqBroker,
    "kafka": KafkaBroker,
    "kafka for transactions": TransactionsBroker,
    "rocketmq": RocketmqBroker,
}


class Brokers:
    """The brokers of a run, each started when it is first asked for, and removed at the end."""

    def __init__(self) -> None:
        self._started: dict[str, Broker] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __getitem__(self, kind: str) -> Broker:
        """The broker of a kind. Raises Unavailable."""
        if kind not in self._started:
            broker = self._started[kind] = KINDS[kind]()
            self._stack.callback(broker.close)
        return self._started[kind]

    @property
    def versions(self) -> str:
        """Of those that were started."""
        return ", ".join([f"{broker.image} ({broker.version})" for broker in self._started.values()])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
