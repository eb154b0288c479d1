"""What the live tests of RocketMQ's endpoints share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rocketmq.topics import Topics, topics_at
from tests.support.servers import Server


@pytest.fixture(scope="module")
def topics(rocketmq: Server) -> Iterator[Topics]:
    with topics_at(rocketmq.url) as made:
        yield made
