"""Fixtures for the tests that talk to real servers; started only when a test asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.rocketmq_cluster import Cluster, cluster_with
from tests.support.servers import SERVERS, Server, running

# Its asserts are those of tests, in a module that is none.
pytest.register_assert_rewrite("tests.support.bridge.behaviour")

# How long an example takes says how busy the machine is, not whether the law holds.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make mutants` asks the same of each mutant, so that what one is killed by is no luck; how simply does not matter.
settings.register_profile(
    "mutants", settings.get_profile("untimed"), derandomize=True, database=None, max_examples=200,
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def rabbitmq_servers() -> Iterator[list[Server]]:
    """All RabbitMQ servers of this run, at least one."""
    with running(SERVERS["rabbitmq"]) as servers:
        yield servers


@pytest.fixture(scope="session")
def rabbitmq(rabbitmq_servers: list[Server]) -> Server:
    """The RabbitMQ server for tests that need only one."""
    return rabbitmq_servers[0]


@pytest.fixture(scope="session")
def kafka_servers() -> Iterator[list[Server]]:
    """All Kafka servers of this run, at least one; each is one cluster, at the one address that its url is."""
    with running(SERVERS["kafka"]) as servers:
        yield servers


@pytest.fixture(scope="module")
def rocketmq_servers() -> Iterator[list[Server]]:
    """All RocketMQ name servers of this run, at least one; each has one broker.

    For one module: few have use for them, and they are large.
    """
    with running(SERVERS["rocketmq"]) as servers:
        yield servers


@pytest.fixture(scope="module")
def rocketmq_cluster(rocketmq_servers: list[Server]) -> Iterator[Cluster]:
    """The first RocketMQ server with a second broker, which can be slowed and killed."""
    with cluster_with(rocketmq_servers[0]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka(kafka_servers: list[Server]) -> Server:
    """The Kafka server for tests that need only one."""
    return kafka_servers[0]
