"""Fixtures for the tests that talk to real servers; started only when a test asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import SERVERS, Server, running


@pytest.fixture(scope="session")
def rabbitmq_servers() -> Iterator[list[Server]]:
    """All RabbitMQ servers of this run, at least one."""
    with running(SERVERS["rabbitmq"]) as servers:
        yield servers


@pytest.fixture(scope="session")
def rabbitmq(rabbitmq_servers: list[Server]) -> Server:
    """The RabbitMQ server for tests that need only one."""
    return rabbitmq_servers[0]
