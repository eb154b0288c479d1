"""What the live tests of RabbitMQ's endpoints share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import Server


@pytest.fixture
def broker(rabbitmq: Server) -> Iterator[Broker]:
    with closing(Broker(rabbitmq)) as found:
        yield found
