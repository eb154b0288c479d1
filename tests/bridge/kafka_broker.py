"""A broker of our own that tests may restart: with transactions, and a listener that wants a password."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from tests.servers import SERVERS, kafka_version, listed, missing

__all__ = ["PASSWORD", "USER", "Broker", "brokers"]

SECONDS = 90.0
USER = "bridge"
PASSWORD = "secret, and = odd"  # noqa: S105  of a container that listens on 127.0.0.1


class Broker:
    """A container; ``url`` is that of the listener for everyone, ``login_url`` of the other one."""

    def __init__(self, container: Any, port: int, login_port: int) -> None:
        self._container = container
        self.url = f"127.0.0.1:{port}"
        self.login_url = f"127.0.0.1:{login_port}"

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                kafka_version(self.url)
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.25)
            else:
                return

    def stop(self) -> None:
        """Stop it, as a restart does first."""
        self._container.get_wrapped_container().stop(timeout=5)

    def start(self) -> None:
        """Start it again, on the same data."""
        self._container.get_wrapped_container().start()


def _environment(port: int, login_port: int) -> Mapping[str, str]:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,LOGIN://:9095,INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        "KAFKA_ADVERTISED_LISTENERS": (
            f"PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port},INTERNAL://127.0.0.1:9094"
        ),
        # Where the broker finds itself, as it must for transactions: the port of 127.0.0.1 is not its own.
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "KAFKA_LISTENER_NAME_LOGIN_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_LISTENER_NAME_LOGIN_PLAIN_SASL_JAAS_CONFIG": login,
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "3",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "3",
        "KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "1000",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def brokers() -> Iterator[Broker]:
    """A broker of the first image of this run."""
    kind = SERVERS["kafka"]
    image = (listed(os.environ.get(kind.image_variable, "")) or [kind.default_image])[0]
    try:
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(image)
    except Exception as reason:  # noqa: BLE001  it lets the errors of the libraries below it through
        missing(f"no broker can be started ({reason})")
    port, login_port = _free_port(), _free_port()
    container.env.update(_environment(port, login_port))
    cast("dict[Any, Any]", container.ports).update({9092: ("127.0.0.1", port), 9095: ("127.0.0.1", login_port)})
    try:
        try:
            container.start()
        except Exception as reason:  # noqa: BLE001  the same
            missing(f"Docker cannot start {image} ({reason})")
        broker = Broker(container, port, login_port)
        broker.wait()
        yield broker
    finally:
        container.stop()
