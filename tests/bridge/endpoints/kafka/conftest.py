"""Fixtures of Kafka's live tests: a broker that tests may stop and start, and topics of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics, topics_at


@pytest.fixture(scope="module")
def broker(kafka_broker: Broker) -> Broker:
    return kafka_broker


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Iterator[Topics]:
    with topics_at(broker.url) as made:
        yield made
