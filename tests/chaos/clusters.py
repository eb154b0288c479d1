"""Clusters of three nodes, each in a container of its own that can be killed and started again.

The nodes share the network of one more container, which stays: so they have one address, 127.0.0.1, inside and here,
and differ in their ports. There are no relays: what happens here happens to nodes.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

from tests.chaos.brokers import GRACE, Broker, CommandFailed
from tests.support.kafka.broker import image_for_transactions
from tests.support.servers import SERVERS, connect_docker
from tests.support.starting import Unavailable, wait_for_service
from tests.support.unique import free_ports
from tests.support.waiting import find_limit

NODES: Final = 3
COOKIE: Final = "chaos"
OWN: Final = "/var/lib/kafka/own"
"""A file that a node of Kafka makes once it has formatted its folder."""
FORMAT: Final = f"find /var/lib/kafka -mindepth 1 -delete && /opt/kafka/kafka format && touch {OWN}"


class Cluster(Broker):
    """A cluster; subclasses define its nodes."""

    size = NODES
    keeper: ClassVar[Sequence[str]] = ("sleep", "1000000")
    """Command of the container whose network the nodes share."""

    def __init__(self, image: str = "") -> None:
        from docker import from_env  # type: ignore[import-untyped]
        from testcontainers.core.docker_client import DockerClient

        connect_docker(DockerClient, self.kind).close()  # raises Unavailable
        self.image = image = image or self.chosen_image()
        self.relays = {}
        self.node_ports = free_ports(NODES)
        self._client = from_env()
        self._containers: list[Any] = []
        try:
            ports = {f"{port}/tcp": ("127.0.0.1", port) for port in self.node_ports}
            self._containers.append(
                self._client.containers.run(image, self.keeper[1:], entrypoint=self.keeper[0], detach=True, ports=ports)
            )
            for n in range(NODES):
                self._containers.append(self._run_node(n))
            self.version = self.wait()
            self.assemble()
        except Exception as reason:
            self.close()
            raise Unavailable(f"no cluster of {image} ({reason})") from reason

    def _run_node(self, n: int) -> Any:
        network = f"container:{self._containers[0].id}"
        return self._client.containers.run(
            self.image, self.command, environment=self.node_environment(n), detach=True, network_mode=network
        )

    command: ClassVar[Sequence[str] | None] = None
    """Command of a node; None: that of the image."""

    @abstractmethod
    def node_environment(self, n: int) -> Mapping[str, str]:
        """Return the environment of the node of this number, from 0 on."""

    def assemble(self) -> None:
        """Make a cluster of the nodes, once they answer."""

    def environment(self) -> Mapping[str, str]:
        return {}

    @property
    def alive(self) -> list[int]:
        """Numbers of the nodes that run."""
        for container in self._containers:
            container.reload()
        return [n for n, container in enumerate(self._containers[1:]) if container.status == "running"]

    @property
    def url(self) -> str:
        return self.kind.build_url("127.0.0.1", self.node_ports[self.alive[0]])

    def address(self, side: str) -> str:
        return ",".join([f"127.0.0.1:{port}" for port in self.node_ports])

    def kill_node(self, n: int) -> None:
        """End a node with SIGKILL."""
        self._containers[n + 1].kill()
        self._containers[n + 1].wait(timeout=find_limit())

    def pause_node(self, n: int) -> None:
        """Freeze a node: its connections stay open, and it answers nothing."""
        self._containers[n + 1].pause()

    def restart_each(self) -> None:
        """Stop each node with SIGTERM, start it on its data, and wait until it answers, before the next."""
        for n in range(NODES):
            self._containers[n + 1].stop(timeout=GRACE)
            self.start_nodes()

    def start_node(self, n: int) -> None:
        """Start a node that was killed, on its data; it may not answer yet."""
        self._containers[n + 1].start()

    def start_nodes(self) -> None:
        """Start all nodes that do not run, on their data, and those that are frozen, and wait until all answer."""
        for n in {*range(NODES)} - {*self.alive}:
            container = self._containers[n + 1]
            if container.status == "paused":
                container.unpause()
            else:
                container.start()
        self.wait()

    def run_in(self, n: int, *command: str) -> str:
        """Run a command in the container of a node, and return its output. Raises CommandFailed."""
        code, output = self._containers[n + 1].exec_run([*command])
        text = bytes(output).decode(errors="replace")
        if code != 0:
            raise CommandFailed(f"{' '.join(command)}: exit code {code}: {text[-400:]}")
        return text

    def wait(self) -> str:
        version = ""
        for n, port in enumerate(self.node_ports):
            log = partial(_read_end_of_log, self._containers[n + 1])
            version = wait_for_service(f"{self.image} at {port}", partial(self._ask_node, n), log)
        return version

    def _ask_node(self, n: int) -> str:
        """Return the version of a node. One that has ended by itself is started again, as a supervisor would: nodes of
        RabbitMQ with Mnesia may end when others start beside them.
        """
        container = self._containers[n + 1]
        container.reload()
        if container.status == "exited":
            container.start()
        return self.kind.read_version(self.kind.build_url("127.0.0.1", self.node_ports[n]))

    def close(self) -> None:
        for container in reversed(self._containers):
            with suppress(Exception):
                container.remove(force=True, v=True)
        self._client.close()


def _read_end_of_log(container: Any) -> str:
    return bytes(container.logs(tail=40)).decode(errors="replace")


class RabbitmqCluster(Cluster):
    """Three nodes of RabbitMQ, whose quorum queues have a replica at each."""

    kind = SERVERS["rabbitmq"]
    keeper = ("epmd",)  # which must outlive the nodes, as they register there only when they start

    def node_environment(self, n: int) -> Mapping[str, str]:
        return {
            "RABBITMQ_NODENAME": f"rabbit{n}@localhost", "RABBITMQ_NODE_PORT": str(self.node_ports[n]),
            "RABBITMQ_DIST_PORT": str(25_672 + n), "RABBITMQ_CTL_ERL_ARGS": f"-setcookie {COOKIE}",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"+S 1:1 -setcookie {COOKIE}",
            "RABBITMQ_SERVER_START_ARGS": f"-rabbitmq_management listener [{{port,{15_672 + n}}}]",
        }  # fmt: skip

    def assemble(self) -> None:
        for n in range(1, NODES):
            for step in (["stop_app"], ["join_cluster", "rabbit0@localhost"], ["start_app"]):
                self.run_in(n, "rabbitmqctl", "--quiet", *step)
        self.wait()

    def isolate_node(self, n: int) -> None:
        """Cut a node off from the others, and not from clients: each side refuses the other's cookie."""
        self._set_cookies(n, "another")

    def rejoin_node(self, n: int) -> bool:
        """End what `isolate_node` began, and return whether the node was started anew for that.

        Mnesia, which keeps queues and bindings in releases before Khepri, stays parted when the nodes are connected
        again: what is declared then is known to some of them only, until an operator starts the others anew.
        """
        self._set_cookies(n, COOKIE)
        is_parted = wait_for_service(f"node {n} of {self.image} with the others", partial(self._is_parted, n))
        if is_parted:
            for step in ("stop_app", "start_app"):
                self.run_in(n, "rabbitmqctl", "--quiet", step)
        self.wait()
        return is_parted

    def _is_parted(self, n: int) -> bool:
        """Return whether a node is connected with the others, and parted from them in Mnesia. Raises CommandFailed
        while it is alone.
        """
        command = ("rabbitmqctl", "--quiet", "cluster_status", "--formatter", "json")
        status: dict[str, Any] = json.loads(self.run_in(n, *command))
        if len(status["running_nodes"]) < NODES and not status["partitions"]:
            raise CommandFailed(f"it sees only {status['running_nodes']}")
        return bool(status["partitions"])

    def _set_cookies(self, n: int, cookie: str) -> None:
        others = [f"rabbit{each}@localhost" for each in range(NODES) if each != n]
        ends = f"[begin erlang:set_cookie(N, {cookie}), erlang:disconnect_node(N) end || N <- [{', '.join(others)}]]."
        self.run_in(n, "rabbitmqctl", "--quiet", "eval", ends)

    def find_leader(self, queue: str, at: int | None = None) -> int:
        """Return the number of the node that leads a quorum queue, as the node ``at`` or any knows it."""
        node = self.alive[0] if at is None else at
        rows = self.run_in(node, "rabbitmqctl", "--quiet", "list_queues", "name", "leader").splitlines()
        leader = next(row.split("\t")[1] for row in rows if row.startswith(f"{queue}\t"))
        return int(leader.removeprefix("rabbit").partition("@")[0])


class KafkaCluster(Cluster):
    """Three nodes of Kafka, each a broker and a controller."""

    kind = SERVERS["kafka"]
    # The image has the data of a node 1; what a node has written itself stays when it is started again.
    command = ("sh", "-c", f"[ -e {OWN} ] || {{ {FORMAT}; }} && exec /opt/kafka/kafka run")

    def node_environment(self, n: int) -> Mapping[str, str]:
        controllers = [f"{each + 1}@127.0.0.1:{9_193 + each}" for each in range(NODES)]
        return {
            "KAFKA_NODE_ID": str(n + 1),
            "KAFKA_LISTENERS": f"PLAINTEXT://:{self.node_ports[n]},CONTROLLER://127.0.0.1:{9_193 + n}",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{self.node_ports[n]}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": ",".join(controllers),
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": str(NODES), "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "3",
            "KAFKA_DEFAULT_REPLICATION_FACTOR": str(NODES), "KAFKA_MIN_INSYNC_REPLICAS": "2",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": str(NODES),
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "2", "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "3",
            "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000", "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_METADATA_MAX_IDLE_INTERVAL_MS": "500",  # by default; none in the image, for a node that is alone
            "KAFKA_INITIAL_BROKER_REGISTRATION_TIMEOUT_MS": "600000",  # on a busy machine its quorum takes long to form
        }  # fmt: skip

    @property
    def url(self) -> str:
        return self.address("")


class TransactionsCluster(KafkaCluster):
    """Three nodes of a release of Kafka that ends its transactions even if a partition has no leader."""

    def chosen_image(self) -> str:
        return image_for_transactions()
