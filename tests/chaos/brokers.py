"""Brokers in containers that can be restarted, with a relay in front for each side that a bridge connects to.

The ports at 127.0.0.1 are chosen here, so that a broker has the same ones after a restart. Tests that must not be hit
by the faults connect directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, cast

from tests.support.bridge.relay import Relay
from tests.support.kafka.broker import image_for_transactions
from tests.support.servers import SERVERS, ServerKind, connect_docker, kafka_environment, rocketmq_environment
from tests.support.starting import Unavailable, has_ended, read_log, wait_for_service
from tests.support.unique import free_port
from tests.support.waiting import find_limit

SIDES: Final = ("source", "target")

GRACE: Final = 30
"""Seconds that a broker may take to stop, before Docker kills it."""


class CommandFailed(Exception):
    """A command in a container has failed; the message has its output."""


class Broker(ABC):
    """A broker; subclasses define its image, environment and ports."""

    kind: ClassVar[ServerKind]
    ports: Sequence[int]
    """Ports of the container: for us, and for each of `SIDES`."""
    more_ports: ClassVar[Sequence[int]] = ()
    """Further ports of the container, for direct connections."""
    size: ClassVar[int] = 1
    """Number of its nodes."""

    def __init__(self, image: str = "") -> None:
        from testcontainers.core.container import DockerContainer  # listing the scenarios does not need it
        from testcontainers.core.docker_client import DockerClient

        connect_docker(DockerClient, self.kind).close()  # raises Unavailable, and leaves no socket open, without Docker
        self.image = image = image or self.chosen_image()
        published = self.published = {port: free_port() for port in dict.fromkeys((*self.ports, *self.more_ports))}
        self.port = published[self.ports[0]]
        """Port for direct connections."""
        self.relays = self.make_relays(published)
        try:
            self._container = DockerContainer(image)
            self._container.env.update(self.environment())
            cast("dict[Any, Any]", self._container.ports).update(
                {port: ("127.0.0.1", number) for port, number in published.items()}
            )
            self.prepare(self._container)
            self._container.start()
        except Exception as reason:
            self._close_relays()
            self.clean()
            raise Unavailable(f"Docker cannot start {image} ({reason})") from reason
        try:
            self.version = self.wait()
        except BaseException:
            self.close()
            raise

    def make_relays(self, published: Mapping[int, int]) -> dict[str, Relay]:
        """Return side -> its relay; ``published`` maps ports of the container to ports of this machine."""
        return {side: Relay("127.0.0.1", published[port]) for side, port in zip(SIDES, self.ports[1:], strict=True)}

    def chosen_image(self) -> str:
        """Return the image to use if none is given."""
        return self.kind.images()[0]

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """Return the environment of the container."""

    def prepare(self, container: Any) -> None:  # noqa: B027  most brokers need nothing more
        """Complete a container before it starts."""

    def clean(self) -> None:  # noqa: B027  most brokers leave nothing
        """Remove what `prepare` made."""

    @property
    def url(self) -> str:
        """Address for direct connections."""
        return self.kind.build_url("127.0.0.1", self.port)

    def address(self, side: str) -> str:
        """Return ``HOST:PORT`` at which the bridge finds it, several with commas between."""
        return f"127.0.0.1:{self.relays[side].port}"

    def restart(self, *, kill: bool = False) -> None:
        """Stop it, with SIGTERM or SIGKILL, start it again on the same data, and wait until it answers."""
        self.stop(kill=kill)
        self.start()

    def stop(self, *, kill: bool = False) -> None:
        """End its processes, with SIGTERM or with SIGKILL."""
        container = self._container.get_wrapped_container()
        if kill:
            container.kill()
            container.wait(timeout=find_limit())
        else:
            container.stop(timeout=GRACE)

    def start(self) -> None:
        """Start it again on the same data, and wait until it answers."""
        self._container.get_wrapped_container().start()
        self.wait()

    def wipe(self) -> None:
        """Start a new one without any data at its address, as after the loss of its disk."""
        self._container.get_wrapped_container().remove(force=True, v=True)
        self._container.start()
        self.wait()

    def pause(self) -> None:
        """Freeze its processes: connections stay open, and nothing answers."""
        self._container.get_wrapped_container().pause()

    def unpause(self) -> None:
        """Let it continue, if it is frozen."""
        container = self._container.get_wrapped_container()
        container.reload()
        if container.status == "paused":
            container.unpause()

    def unplug(self) -> None:
        """Take it off its network: it keeps its connections, which end here."""
        self._network.disconnect(self._container.get_wrapped_container())

    def plug_in(self) -> None:
        """Put it back on its network, at the ports that it had."""
        self._network.connect(self._container.get_wrapped_container())

    @property
    def _network(self) -> Any:
        return self._container.get_wrapped_container().client.networks.get("bridge")  # that of all containers

    @property
    def is_running(self) -> bool:
        """Whether its container has a process."""
        container = self._container.get_wrapped_container()
        container.reload()
        return bool(container.status in ("running", "paused"))

    def run(self, *command: str) -> str:
        """Run a command in the container, and return its output. Raises CommandFailed."""
        code, output = self._container.get_wrapped_container().exec_run([*command])
        text = bytes(output).decode(errors="replace")
        if code != 0:
            raise CommandFailed(f"{' '.join(command)}: exit code {code}: {text[-400:]}")
        return text

    def wait(self) -> str:
        """Wait until it answers, and return its version. Raises Unavailable."""
        return wait_for_service(
            self.image,
            partial(self.kind.read_version, self.url),
            partial(read_log, self._container),
            has_ended=partial(has_ended, self._container),
        )

    def close(self) -> None:
        """Remove its container and relays."""
        with suppress(Exception):
            self.unpause()
        with suppress(Exception):
            self._container.stop()
        self._close_relays()
        self.clean()

    def _close_relays(self) -> None:
        for relay in {*self.relays.values()}:
            relay.close()


class RabbitmqBroker(Broker):
    """A node of RabbitMQ."""

    kind = SERVERS["rabbitmq"]
    ports = (5672, 5672, 5672)
    more_ports = (15672,)

    def environment(self) -> Mapping[str, str]:
        return {}

    @property
    def management(self) -> str:
        """Address of the management API."""
        return f"http://127.0.0.1:{self.published[15672]}"

    def control(self, *arguments: str) -> str:
        """Run ``rabbitmqctl``, which may work some seconds later than AMQP. Raises CommandFailed."""
        return self.run("rabbitmqctl", "--quiet", *arguments)


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
            "KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
        }


class TransactionsBroker(KafkaBroker):
    """A node of a release of Kafka that ends its transactions even if it is restarted."""

    def chosen_image(self) -> str:
        return image_for_transactions()


class SmallDiskBroker(KafkaBroker):
    """A node of Kafka whose log is on a disk of `DISK_MEGABYTES`.

    The disk is a volume in memory, which exists only while a container uses it, and a broker halts when the disk is
    full. So a second container uses it, too, in which it is filled and emptied again.
    """

    DISK_MEGABYTES: ClassVar[int] = 256
    BALLAST: ClassVar[str] = "/var/lib/kafka/ballast"

    def prepare(self, container: Any) -> None:
        from docker import from_env  # type: ignore[import-untyped]

        self._client = from_env()
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={self.DISK_MEGABYTES}m,mode=1777"}
        self._volume: Any = self._client.volumes.create(driver="local", driver_opts=options)
        volumes = {self._volume.name: {"bind": "/var/lib/kafka", "mode": "rw"}}
        self._holder: Any = self._client.containers.run(
            self.image, ["1000000"], entrypoint=["sleep"], detach=True, volumes=volumes, user="root"
        )
        environment = [f"{name}={value}" for name, value in container.env.items()]
        code, output = self._holder.exec_run(["/opt/kafka/kafka", "format"], user="kafka", environment=environment)
        if code != 0:
            raise Unavailable(f"Kafka cannot format its disk: {bytes(output).decode(errors='replace')[-400:]}")
        container.with_volume_mapping(self._volume.name, "/var/lib/kafka", "rw")

    def fill(self) -> None:
        """Fill the disk, so that it has no room."""
        self._holder.exec_run(["dd", "if=/dev/zero", f"of={self.BALLAST}", "bs=64k"], user="root")

    def make_room(self) -> None:
        """Remove what `fill` has written."""
        self._holder.exec_run(["rm", "-f", self.BALLAST], user="root")

    def clean(self) -> None:
        for each in (getattr(self, "_holder", None), getattr(self, "_volume", None)):
            if each is not None:
                with suppress(Exception):
                    each.remove(force=True)
        if (client := getattr(self, "_client", None)) is not None:
            client.close()


class RocketmqBroker(Broker):
    """A name server and a broker of RocketMQ.

    The broker gives clients the port that it listens at, so one relay listens at that port of this machine, for both
    sides and for us. There is no relay in front of the name server.
    """

    kind = SERVERS["rocketmq"]

    def __init__(self, image: str = "") -> None:
        port = free_port()
        self.ports = (9876, port, port)
        super().__init__(image)

    def make_relays(self, published: Mapping[int, int]) -> dict[str, Relay]:
        port = self.ports[1]
        return dict.fromkeys(SIDES, Relay("127.0.0.1", published[port], listen=port))

    def environment(self) -> Mapping[str, str]:
        return rocketmq_environment(self.ports[1])
