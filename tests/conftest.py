"""The tiers of the tests, and fixtures for those that talk to real servers, started only when a test asks for them."""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import passed, tiers, unsteady, waiting
from tests.support.alarm import end_process_after
from tests.support.browser import Browser, open_browser
from tests.support.endings import Endings
from tests.support.rocketmq_cluster import Cluster, cluster_with
from tests.support.servers import SERVERS, Server, ServerSet, server_set

TESTS: Final = Path(__file__).parent

# What a script starts in the background ignores interrupts, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# jsonschema would compile forty grammars, in 1.7 s of each process, to check a format that none of our schemas has.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# Their asserts are those of tests, in modules that are none.
pytest.register_assert_rewrite("tests.support.bridge.behaviour", "tests.support.kafka.folder")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.TIERS, default="all", help="Which tests run, and with how many examples.")
    parser.addoption("--limit-cpu", action="store_true", help="Fail tests that are too costly for the tier quick.")
    parser.addoption("--parts", default="all", help="Parts whose tests run whole: all, none, or names.")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    tiers.choose(config.getoption("tier"))
    config.pluginmanager.register(Endings())
    if hasattr(config, "workerinput"):
        from tests.support.sharing import send_less  # xdist may be switched off

        send_less(config)
    unsteady.register(config)
    passed.register(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: nearly all that is made then stays, and looking at it took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each process that shares the tests begin with another folder: what it compiles, the others find compiled.

    `tiers.order` gives all of them one order again.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.path == TESTS:
        first = int(worker["workerid"].removeprefix("gw")) % max(1, len(report.result))
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.mark(items)
    items[:], left = tiers.select(items, config.getoption("tier"), tiers.parse_parts(config.getoption("parts")))
    tiers.order(items, is_shared=hasattr(config, "workerinput"))
    if left:
        config.hook.pytest_deselected(items=left)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Give each test the time that this machine needs, before pytest-timeout asks how much that is.

    Take back how it has set up logging: a worker of Celery logs nothing below errors in all of its process.
    """
    marked = item.get_closest_marker("timeout")
    # Of a law, ten times as many examples take ten times as long.
    usual = waiting.TEST_LIMIT * (10 if item.config.getoption("tier") == "night" else 1)
    limit = waiting.begin_test(marked.args[0] if marked else usual)
    item.add_marker(pytest.mark.timeout(limit), append=False)
    stderr = item.config.stash.get(fault_handler_stderr_fd_key, None)
    if stderr is not None:
        end_process_after(limit, stderr)
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
    done = yield
    if (root.level, root.handlers) != (level, handlers):
        root.setLevel(level)
        root.handlers[:] = handlers
    if stderr is not None and nextitem is None:
        end_process_after(0, stderr)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note which tests that need nothing but a processor take more of it than they may in the quick tier."""
    if item.config.getoption("tier") != "quick":
        return (yield)
    with tiers.note_cpu(item, fails=item.config.getoption("limit_cpu")):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for key in ("passed", "failed") for each in terminalreporter.getreports(key)]
    costs = sorted(((cost, each.nodeid) for each in reports if (cost := tiers.read_cost(each))), reverse=True)
    if costs:
        terminalreporter.section("more processor time than a test of this tier should take")
        for cost, name in costs:
            terminalreporter.write_line(f"{cost:5.1f} s  {name}")


@settings(max_examples=1, database=None)
@given(st.none())
def _try_nothing(_: None) -> None:
    """Let Hypothesis register its random numbers: it fails to find who refers to them once that object is frozen."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Name the groups of tests before xdist sends the names, and freeze what there is.

    Exclude from garbage collections what was imported and collected, and collect more rarely than programs do.

    All that lives as long as this process, but for so little that to look for it takes longer than it is worth. By the
    thresholds of Python, collections took an eighth of its time.
    """
    if getattr(session.config.option, "loadgroup", False):
        tiers.name_groups(session.items)
    _try_nothing()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three processes for two processors in the quick tier, else four: tests wait for a process or a server."""
    return math.ceil((1.5 if config.getoption("tier") == "quick" else 2) * (os.cpu_count() or 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each test module to one process, and all tests that share Spark, or servers, to the same one."""
    from tests.support.sharing import ByShared  # xdist may be switched off

    config.option.loadscopereorder = False  # it would go by the number of tests alone
    return ByShared(config, log)


@pytest.fixture(scope="session")
def rabbitmq_set() -> Iterator[ServerSet]:
    """Yield the RabbitMQ servers of this run, which start when a test needs them."""
    with server_set(SERVERS["rabbitmq"]) as servers:
        yield servers


@pytest.fixture(scope="session")
def rabbitmq_servers(rabbitmq_set: ServerSet) -> Iterator[list[Server]]:
    """Yield all RabbitMQ servers of this run, at least one."""
    yield rabbitmq_set.all()
    rabbitmq_set.stop_others()


@pytest.fixture(scope="session")
def rabbitmq(rabbitmq_set: ServerSet) -> Server:
    """Return the RabbitMQ server for tests that need only one; the others are not started for them."""
    return rabbitmq_set.first()


@pytest.fixture(scope="session")
def kafka_set() -> Iterator[ServerSet]:
    """Yield the Kafka servers of this run, which start when a test needs them."""
    with server_set(SERVERS["kafka"]) as servers:
        yield servers


@pytest.fixture(scope="session")
def kafka_servers(kafka_set: ServerSet) -> Iterator[list[Server]]:
    """Yield all Kafka servers of this run, at least one; each is a cluster of one broker, at its url."""
    yield kafka_set.all()
    kafka_set.stop_others()


@pytest.fixture(scope="session")
def kafka(kafka_set: ServerSet) -> Server:
    """Return the Kafka server for tests that need only one; the others are not started for them."""
    return kafka_set.first()


@pytest.fixture(scope="module")
def rocketmq_set() -> Iterator[ServerSet]:
    """Yield the RocketMQ name servers of this run, which start when a test needs them.

    For one module: few have use for them, and they are large.
    """
    with server_set(SERVERS["rocketmq"]) as servers:
        yield servers


@pytest.fixture(scope="module")
def rocketmq_servers(rocketmq_set: ServerSet) -> list[Server]:
    """Return all RocketMQ name servers of this run, at least one; each has one broker."""
    return rocketmq_set.all()


@pytest.fixture(scope="module")
def rocketmq(rocketmq_set: ServerSet) -> Server:
    """Return the RocketMQ name server for tests that need only one; the others are not started for them."""
    return rocketmq_set.first()


@pytest.fixture(scope="module")
def rocketmq_cluster(rocketmq: Server) -> Iterator[Cluster]:
    """Yield the first RocketMQ server with a second broker, which can be slowed and killed."""
    with cluster_with(rocketmq) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield a browser that the tests of pages share: starting one takes longer than drawing a page."""
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
