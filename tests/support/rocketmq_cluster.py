"""A second RocketMQ broker beside the one of a server: what failover, avoidance and rebalance need.

Clients go to the address that a broker tells the name server, and that is the port at which it listens in its
container. There is where a relay listens here; Docker publishes the broker at another port.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.support.bridge.relay import Relay, relay_to
from tests.support.servers import Server, _rocketmq_answer, missing, started
from tests.support.starting import Unavailable, has_ended, read_log, wait_for_service
from tests.support.unique import free_ports

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer


@dataclass(frozen=True)
class Broker:
    """A broker that can be slowed, cut off, killed and started again."""

    name: str
    # Where it tells clients to go: the relay.
    address: str
    relay: Relay
    _container: DockerContainer
    _behind: str
    _namesrv: str

    def kill(self) -> None:
        """Kill it, as a crash does."""
        self._container.get_wrapped_container().kill()

    def start(self) -> None:
        """Start it again with the files that it left, and wait until the name server knows it."""
        self._container.get_wrapped_container().start()
        self.wait()

    def wait(self) -> None:
        """Wait until it answers and the name server knows it."""
        try:
            wait_for_service(
                self.name, self._ask, partial(read_log, self._container), has_ended=partial(has_ended, self._container)
            )
        except Unavailable as reason:
            missing(str(reason))

    def _ask(self) -> None:
        _rocketmq_answer(self._behind, 28)  # GET_BROKER_RUNTIME_INFO
        if self.address.encode() not in _rocketmq_answer(self._namesrv, 106):  # GET_BROKER_CLUSTER_INFO
            raise Unavailable("the name server does not know it")


@dataclass(frozen=True)
class Cluster:
    """A name server with two brokers: ``broker``, and ``broker-b`` behind a relay."""

    server: Server
    broker_b: Broker


@contextmanager
def cluster_with(server: Server) -> Iterator[Cluster]:
    """Yield the cluster of a server, until its second broker is removed."""
    if server.inside is None:
        missing(f"a second broker needs the first in a container, and {server.origin} names that one")
    from testcontainers.core.container import DockerContainer

    port, published = free_ports(2)
    container = DockerContainer(server.origin)
    container.ports[port] = ("127.0.0.1", published)  # type: ignore[index,assignment]
    container.env.update({
        "ROCKETMQ_brokerName": "broker-b", "ROCKETMQ_namesrvAddr": server.inside,
        "ROCKETMQ_listenPort": str(port), "ROCKETMQ_brokerIP1": "127.0.0.1",
    })  # fmt: skip
    with relay_to("127.0.0.1", published, listen=port) as relay:
        try:
            started(container, server.origin)
            behind = f"127.0.0.1:{published}"
            broker = Broker("broker-b", f"127.0.0.1:{port}", relay, container, behind, server.url)
            broker.wait()
            yield Cluster(server, broker)
        finally:
            container.stop()
