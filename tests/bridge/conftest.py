"""The brokers of this folder's tests: started once, as they take some ten seconds of a processor to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.endpoint import Finding, Level
from tests.support.bridge.certificates import authority_in
from tests.support.kafka.broker import Broker, brokers
from tests.support.rocketmq.secured import folder_of, secured_brokers
from tests.support.servers import SERVERS, Server, ServerSet, server_set


@pytest.fixture(scope="session", autouse=True)
def findings_of_one_line() -> Iterator[None]:
    """Refuse findings of several lines in all tests of this folder: a report has a line for each, and no caret."""
    make = Finding.__new__

    def make_line(cls: type[Finding], level: Level, text: str, key: str = "") -> Finding:
        assert "\n" not in text, text
        return make(cls, level, text, key)

    Finding.__new__ = make_line  # type: ignore[assignment,method-assign]
    yield
    Finding.__new__ = make  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def rocketmq_set() -> Iterator[ServerSet]:
    """Yield the RocketMQ name servers of this run, which start when a test needs them."""
    with server_set(SERVERS["rocketmq"]) as servers:
        yield servers


@pytest.fixture(scope="session")
def rocketmq_servers(rocketmq_set: ServerSet) -> Iterator[list[Server]]:
    """Yield all RocketMQ name servers of this run, at least one; each has one broker, with topics of other tests."""
    yield rocketmq_set.all()
    rocketmq_set.stop_others()


@pytest.fixture(scope="session")
def rocketmq(rocketmq_set: ServerSet) -> Server:
    """Return the RocketMQ name server for tests that need only one; the others are not started for them."""
    return rocketmq_set.first()


@pytest.fixture(scope="session")
def secured_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make certificates: ``ca.pem`` of the authority of `secured_brokers`, and ``other.pem`` of another one."""
    return folder_of(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="session")
def secured_addresses(secured_folder: Path) -> Iterator[list[str]]:
    """Yield the name servers of brokers that require a login, one of each image."""
    with secured_brokers(secured_folder) as addresses:
        yield addresses


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the certificates of `authority_in`."""
    return authority_in(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def kafka_broker(certificates: Path) -> Iterator[Broker]:
    """Yield a Kafka with all its listeners, for these tests alone. A test that stops it starts it again, too."""
    with brokers(certificates) as broker:
        yield broker
