"""The brokers of this folder's tests: started once, and stopped after the last test that needs them.

To start they take some ten seconds of a processor, and those of RocketMQ a tenth of one as long as they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.bridge.certificates import authority_in
from tests.support.kafka.broker import Broker, brokers
from tests.support.rocketmq.secured import folder_of, secured_brokers
from tests.support.servers import SERVERS, Server, ServerSet, server_set

STARTED = pytest.StashKey[dict[str, ExitStack]]()
"""Fixture -> what stops its brokers."""


@pytest.fixture(scope="session")
def rocketmq_set(request: pytest.FixtureRequest) -> Iterator[ServerSet]:
    """Yield the RocketMQ name servers of this run, which start when a test needs them."""
    with ExitStack() as started:
        request.session.stash.setdefault(STARTED, {})["rocketmq_set"] = started
        yield started.enter_context(server_set(SERVERS["rocketmq"]))


@pytest.fixture(scope="session")
def rocketmq_servers(rocketmq_set: ServerSet) -> list[Server]:
    """Return all RocketMQ name servers of this run, at least one; each has one broker, with topics of other tests."""
    return rocketmq_set.all()


@pytest.fixture(scope="session")
def rocketmq(rocketmq_set: ServerSet) -> Server:
    """Return the RocketMQ name server for tests that need only one; the others are not started for them."""
    return rocketmq_set.first()


@pytest.fixture(scope="session")
def secured_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make certificates: ``ca.pem`` of the authority of `secured_brokers`, and ``other.pem`` of another one."""
    return folder_of(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="session")
def secured_addresses(secured_folder: Path, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Yield the name servers of brokers that require a login, one of each image."""
    with ExitStack() as started:
        request.session.stash.setdefault(STARTED, {})["secured_addresses"] = started
        yield started.enter_context(secured_brokers(secured_folder))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the certificates of `authority_in`."""
    return authority_in(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def kafka_broker(certificates: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield a Kafka with all its listeners, for these tests alone. A test that stops it starts it again, too."""
    with ExitStack() as started:
        request.session.stash.setdefault(STARTED, {})["kafka_broker"] = started
        yield started.enter_context(brokers(certificates))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Stop the servers that no later test needs; fixtures of narrower scope have ended by now."""
    started = item.session.stash.get(STARTED, {})
    if started:
        items = item.session.items
        later = items[items.index(item) + 1 :]
        for name in list(started):
            if not any(name in getattr(each, "fixturenames", ()) for each in later):
                started.pop(name).close()
