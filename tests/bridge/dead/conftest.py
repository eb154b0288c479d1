"""Brokers of the live tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import Server


@pytest.fixture
def brokers(rabbitmq_servers: list[Server]) -> Iterator[list[Broker]]:
    made = [Broker(server) for server in rabbitmq_servers]
    yield made
    for each in made:
        with closing(each):
            pass
