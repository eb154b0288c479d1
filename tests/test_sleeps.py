"""Tests wait for what happens, not for a time: what still sleeps is listed with its reason, and becomes no more."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.syntax import walk

ROOT: Final = Path(__file__).parent
LEFT_OUT: Final = ("support/waiting.py", "support/virtual_loop.py", "recorders/")
"""The one place that polls, the clock that nobody waits for, and programs that are no tests."""

LOOK: Final = "looks again, within a limit of its own, at what tells nobody of a change"
NOTHING: Final = "gives what must not happen the time to happen"
MOMENT: Final = "chooses the moment of a fault, of a signal or of a cancellation; any moment is right"
WORK: Final = "plays the time that an application, a network or a fault takes"
CLOCK: Final = "lets the clock of a broker go on, which no test can turn"

MOST: Final = 165
"""Maximum number of sleeps in all files: one that is new takes the room of another."""

ALLOWED: Final = {
    "bindings/archive/rocketmq/test_rocketmq_store_live.py": {CLOCK: 1},
    "bindings/archive/test_tracing_live.py": {CLOCK: 1, LOOK: 2},
    "bindings/drift/test_drift.py": {LOOK: 1},
    "bindings/serve/test_serve_command.py": {LOOK: 1},
    "bindings/upgrading/test_requests_live.py": {LOOK: 1},
    "bridge/daemon/test_daemon.py": {MOMENT: 1},
    "bridge/daemon/test_replies_live.py": {LOOK: 1},
    "bridge/daemon/test_run.py": {MOMENT: 1},
    "bridge/daemon/test_web.py": {WORK: 1},
    "bridge/daemon/test_workers.py": {MOMENT: 1},
    "bridge/endpoints/archive/test_archive.py": {CLOCK: 1, NOTHING: 1},
    "bridge/endpoints/kafka/test_kafka_batches_live.py": {WORK: 1},
    "bridge/endpoints/kafka/test_kafka_group_protocol_live.py": {LOOK: 2},
    "bridge/endpoints/kafka/test_kafka_kill_live.py": {MOMENT: 1},
    "bridge/endpoints/kafka/test_kafka_source_live.py": {CLOCK: 1, LOOK: 2, MOMENT: 1, NOTHING: 5},
    "bridge/endpoints/kafka/test_kafka_target_live.py": {CLOCK: 1},
    "bridge/endpoints/kafka/test_kafka_transactions_live.py": {CLOCK: 1, NOTHING: 1, WORK: 1},
    "bridge/endpoints/rabbitmq/test_rabbitmq_live.py": {MOMENT: 2, NOTHING: 4},
    "bridge/endpoints/rabbitmq/test_rabbitmq_pushback_live.py": {NOTHING: 1},
    "bridge/endpoints/rabbitmq/test_rabbitmq_reading_live.py": {MOMENT: 1, NOTHING: 2},
    "bridge/endpoints/rocketmq/test_rocketmq_endpoints_live.py": {MOMENT: 2},
    "bridge/endpoints/rocketmq/test_rocketmq_target_kill_live.py": {MOMENT: 1, NOTHING: 1},
    "bridge/endpoints/rocketmq/test_rocketmq_trouble_live.py": {LOOK: 1, NOTHING: 1},
    "bridge/consumers/groups/test_groups_live.py": {LOOK: 3, NOTHING: 1, WORK: 2},
    "bridge/consumers/requests/test_requester_live.py": {MOMENT: 1},
    "bridge/rocketmq/test_rocketmq_client_live.py": {MOMENT: 1},
    "bridge/rocketmq/test_rocketmq_consumer_live.py": {CLOCK: 1, LOOK: 2, MOMENT: 2},
    "bridge/rocketmq/test_rocketmq_faults_live.py": {MOMENT: 1},
    "bridge/rocketmq/test_rocketmq_java_live.py": {NOTHING: 1},
    "bridge/rocketmq/test_rocketmq_lite_pull_live.py": {CLOCK: 2, LOOK: 1, NOTHING: 1},
    "bridge/rocketmq/test_rocketmq_pop_live.py": {CLOCK: 1, LOOK: 2, NOTHING: 4},
    "bridge/rocketmq/test_rocketmq_producer.py": {NOTHING: 1},
    "bridge/rocketmq/test_rocketmq_producer_live.py": {LOOK: 4},
    "bridge/rocketmq/test_rocketmq_proxy_live.py": {LOOK: 1},
    "bridge/rocketmq/test_rocketmq_pulse.py": {LOOK: 1, NOTHING: 1},
    "bridge/rocketmq/test_rocketmq_restart_live.py": {LOOK: 1, MOMENT: 1, WORK: 1},
    "bridge/rocketmq/test_rocketmq_running.py": {WORK: 1},
    "bridge/rocketmq/test_rocketmq_selector_live.py": {LOOK: 1},
    "bridge/rocketmq/test_rocketmq_transactions_live.py": {NOTHING: 1, WORK: 1},
    "bridge/scaling/test_scale_live.py": {NOTHING: 3, WORK: 3},
    "bridge/test_blocking.py": {WORK: 1},
    "chaos/places.py": {LOOK: 2},
    "chaos/run.py": {LOOK: 2, MOMENT: 1},
    "chaos/scenarios/exactly_once.py": {WORK: 1},
    "chaos/scenarios/rejections.py": {WORK: 1},
    "chaos/scenarios/takeovers.py": {WORK: 1},
    "chaos/trial.py": {LOOK: 4, WORK: 1},
    "dist/container.py": {LOOK: 1},
    "exchange/dispatch/test_channel_callbacks.py": {LOOK: 1, MOMENT: 1},
    "exchange/dispatch/test_consume_guide_live.py": {LOOK: 1, MOMENT: 1, NOTHING: 1},
    "exchange/dispatch/test_consume_live.py": {LOOK: 2, NOTHING: 1, WORK: 5},
    "exchange/dispatch/test_consumer_endings.py": {MOMENT: 1, NOTHING: 1, WORK: 1},
    "exchange/dispatch/test_dispatch_live.py": {LOOK: 1, WORK: 1},
    "exchange/dispatch/test_fastapi_example_live.py": {LOOK: 1},
    "exchange/entities/test_in_force_live.py": {CLOCK: 1, LOOK: 2},
    "exchange/test_threads.py": {WORK: 1},
    "fuzz/__main__.py": {LOOK: 1},
    "fuzz/test_watch.py": {MOMENT: 1},
    "fuzz/watch.py": {LOOK: 1, MOMENT: 1},
    "soak_start_stop.py": {LOOK: 1, MOMENT: 5},
    "support/bridge/behaviour.py": {MOMENT: 4, NOTHING: 1},
    "support/bridge/groups/publish.py": {WORK: 1},
    "support/bridge/groups/scenario.py": {WORK: 1},
    "support/bridge/relay.py": {WORK: 1},
    "support/browser.py": {LOOK: 1},
    "support/kafka/topics.py": {LOOK: 1},
    "support/lives/runs.py": {CLOCK: 1, LOOK: 1},
    "support/memory_link.py": {WORK: 2},
    "support/rocketmq/secured.py": {LOOK: 1},
    "support/rocketmq/topics.py": {LOOK: 2},
    "support/servers.py": {LOOK: 1},
    "support/starting.py": {LOOK: 1},
    "support/trials/applications.py": {LOOK: 1},
    "support/trials/lab.py": {LOOK: 1},
    "support/trials/queues.py": {CLOCK: 1, NOTHING: 1},
}
"""A file of the tests -> why it sleeps, and how many times for that reason."""


def is_sleep(node: ast.AST) -> bool:
    """Return whether a node is a call of some `sleep` that may take time; `sleep(0)` lets an event loop turn."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name != "sleep" or not (node.args or node.keywords):
        return False
    given = node.args[0] if node.args else node.keywords[0].value
    return not (isinstance(given, ast.Constant) and given.value == 0)


def find_sleeps(source: str) -> Iterator[int]:
    """Yield the line of each sleep."""
    return (node.lineno for node in walk(ast.parse(source)) if isinstance(node, ast.Call) and is_sleep(node))


def find_files() -> Iterator[tuple[str, list[int]]]:
    """Yield each file that sleeps, and the lines where it does."""
    for path in sorted(ROOT.rglob("*.py")):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text()
        # Most files have no such word, and need not be parsed.
        if not name.startswith(LEFT_OUT) and "sleep" in source and (lines := sorted(find_sleeps(source))):
            yield name, lines


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("time.sleep(1)", 1),
        ("await asyncio.sleep(0.5)", 1),
        ("await asyncio.sleep(delay=2)", 1),
        ("connection.sleep(LOOK)", 1),
        ("sleep(3)", 1),
        ("while not done():\n    time.sleep(chance.random())", 1),
        ("await asyncio.sleep(0)", 0),
        ("await pass_time(5)", 0),
        ("sleep()", 0),
    ],
)
def test_what_takes_time_is_a_sleep(source: str, count: int) -> None:
    assert len(list(find_sleeps(source))) == count


def test_nothing_sleeps_but_what_is_listed() -> None:
    faults = []
    found = dict(find_files())
    for name in sorted(found.keys() | ALLOWED.keys()):
        lines, allowed = found.get(name, []), sum(ALLOWED.get(name, {}).values())
        if len(lines) > allowed:
            faults.append(
                f"{name} sleeps in lines {lines}, {allowed} may: wait with tests/support/waiting.py for what happens, "
                "or let seconds pass with pass_time of tests/support/virtual_loop.py"
            )
        elif len(lines) < allowed:
            faults.append(f"{name} sleeps only {len(lines)} times: lower its number in this table, and MOST")
    assert not faults, "\n".join(faults)


def test_they_become_no_more() -> None:
    reasons: Counter[str] = Counter()
    for each in ALLOWED.values():
        reasons.update(each)
    assert sum(reasons.values()) == MOST, reasons
    assert min(reasons.values()) > 0
    assert set(reasons) <= {LOOK, NOTHING, MOMENT, WORK, CLOCK}
