"""A name server with its broker, of our own, that tests may stop and start again on the same data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest

from tests.support.servers import SERVERS, connect_docker, missing, rocketmq_environment, rocketmq_version, started
from tests.support.starting import has_ended, read_log, wait_for_service
from tests.support.unique import free_ports


class Broker:
    """A broker in a container."""

    def __init__(self, container: Any, url: str) -> None:
        self._container = container
        self.url = url
        """Address of the name server."""

    def wait(self) -> None:
        """Wait until it answers."""
        wait_for_service(
            f"RocketMQ at {self.url}",
            partial(rocketmq_version, self.url),
            partial(read_log, self._container),
            has_ended=partial(has_ended, self._container),
        )

    def stop(self, *, kill: bool = False) -> None:
        """Stop it, or kill it."""
        container = self._container.get_wrapped_container()
        if kill:
            container.kill()
        else:
            container.stop(timeout=10)

    def pause(self) -> None:
        """Freeze it: its connections stay, and nothing answers."""
        self._container.get_wrapped_container().pause()

    def unpause(self) -> None:
        """End the freeze."""
        self._container.get_wrapped_container().unpause()

    def start(self) -> None:
        """Start it again, on the same data."""
        self._container.get_wrapped_container().start()


@contextmanager
def broker(settings: Mapping[str, str] | None = None, image: str = "") -> Iterator[Broker]:
    """Start one of the first image of this run, or of another, with ``broker.conf`` settings of its own.

    Where servers are given by their addresses, none can be had, and the test is skipped.
    """
    kind = SERVERS["rocketmq"]
    if os.environ.get(kind.url_variable):
        pytest.skip("it stops and starts its broker, and those of this run are somebody's")
    image = image or kind.images()[0]
    try:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.docker_client import DockerClient

        connect_docker(DockerClient, kind).close()  # else a socket stays open without Docker
        container = DockerContainer(image)
    except Exception as reason:  # noqa: BLE001  it lets the errors of the libraries below it through
        missing(f"no broker can be started ({reason})")
    namesrv, port = free_ports(2)
    container.env.update(rocketmq_environment(port))
    container.env.update({f"ROCKETMQ_{name}": value for name, value in (settings or {}).items()})
    published = {kind.port: ("127.0.0.1", namesrv), port: ("127.0.0.1", port)}
    cast("dict[Any, Any]", container.ports).update(published)
    try:
        started(container, image)
        found = Broker(container, f"127.0.0.1:{namesrv}")
        found.wait()
        yield found
    finally:
        container.stop()
