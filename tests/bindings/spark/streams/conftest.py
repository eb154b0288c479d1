"""The streams of a RabbitMQ for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bindings.live_streams import Streams
from tests.support.servers import Server


@pytest.fixture
def streams(rabbitmq: Server) -> Iterator[Streams]:
    """Yield what declares streams, and deletes them at the end."""
    made = Streams(rabbitmq.url)
    yield made
    made.close()
