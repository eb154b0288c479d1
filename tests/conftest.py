"""Fixtures for the tests that talk to real servers; started only when a test asks for them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.rocketmq_cluster import Cluster, cluster_with
from tests.support.servers import SERVERS, Server, running

# Their asserts are those of tests, in modules that are none.
pytest.register_assert_rewrite("tests.support.bridge.behaviour", "tests.support.kafka.folder")

# How long an example takes says how busy the machine is, not whether the law holds.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make mutants` asks the same of each mutant, so that what one is killed by is no luck; how simply does not matter.
settings.register_profile(
    "mutants", settings.get_profile("untimed"), derandomize=True, database=None, max_examples=200,
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Exclude from garbage collections what was imported and collected, and collect more rarely than programs do.

    All that lives as long as this process. By the thresholds of Python, collections took an eighth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two processes for each processor: many tests wait for a process, a browser or a time."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each test module to one process, and all modules that share Spark, or servers, to the same one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByShared(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            if module.startswith("tests/bindings/audit/"):
                return "spark"
            return "servers" if module.endswith("_live.py") else module

    return ByShared(config, log)


@pytest.fixture(scope="session")
def rabbitmq_servers() -> Iterator[list[Server]]:
    """Yield all RabbitMQ servers of this run, at least one."""
    with running(SERVERS["rabbitmq"]) as servers:
        yield servers


@pytest.fixture(scope="session")
def rabbitmq(rabbitmq_servers: list[Server]) -> Server:
    """Return the RabbitMQ server for tests that need only one."""
    return rabbitmq_servers[0]


@pytest.fixture(scope="session")
def kafka_servers() -> Iterator[list[Server]]:
    """Yield all Kafka servers of this run, at least one; each is a cluster of one broker, at the address in its url."""
    with running(SERVERS["kafka"]) as servers:
        yield servers


@pytest.fixture(scope="module")
def rocketmq_servers() -> Iterator[list[Server]]:
    """Yield all RocketMQ name servers of this run, at least one; each has one broker.

    For one module: few have use for them, and they are large.
    """
    with running(SERVERS["rocketmq"]) as servers:
        yield servers


@pytest.fixture(scope="module")
def rocketmq_cluster(rocketmq_servers: list[Server]) -> Iterator[Cluster]:
    """Yield the first RocketMQ server with a second broker, which can be slowed and killed."""
    with cluster_with(rocketmq_servers[0]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka(kafka_servers: list[Server]) -> Server:
    """Return the Kafka server for tests that need only one."""
    return kafka_servers[0]
