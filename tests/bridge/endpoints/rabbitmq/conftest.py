"""What the tests of RabbitMQ's endpoints share: a live broker, and a server in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from bindings.testing.server import AmqpServer
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import Server


@pytest.fixture
def broker(rabbitmq: Server) -> Iterator[Broker]:
    with closing(Broker(rabbitmq)) as found:
        yield found


@pytest.fixture
def server() -> Iterator[AmqpServer]:
    with AmqpServer() as running:
        yield running
