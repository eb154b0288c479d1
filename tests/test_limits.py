"""Waits end at a limit that grows with the load, not at a number of seconds that a busy machine needs for nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeGuard

from tests.support.syntax import walk
from tests.test_sleeps import is_sleep

ROOT: Final = Path(__file__).parent
WAITS: Final = {
    "communicate": None, "create_connection": None, "drain_events": None, "flush": 0, "HTTPConnection": None, "join": 0,
    "list_topics": None, "poll": 0, "Requester": None, "result": 0, "run": None, "timeout": 0, "urlopen": None,
    "wait": 0, "wait_for": 1,
}  # fmt: skip
"""Name of a function that waits -> place of its limit among the arguments; None: it is given by name only."""
HINT: Final = re.compile(rf"\b({'|'.join(WAITS)})\(|\bmonotonic\b|\bsleep\b")
"""What a module has in its text that waits: without it, there is no need to parse."""
NAMES: Final = {"timeout", "request_timeout", "inactivity_timeout"}
MOST: Final = 480
"""Limits of so many seconds and more are those of a whole test, or of a virtual clock."""
LEAST: Final = 5
"""Less than so many seconds is a time that is meant, by a virtual clock or a short look."""
PROBES: Final = "asked again and again by what has a limit of its own"
MEANT: Final = "the time that a test is about"
ALLOWED: Final = {
    "bindings/archive/rocketmq/test_rocketmq_store_live.py": (1, "how long sending may go on after the kill"),
    "bridge/daemon/test_pipelines.py": (1, "has a virtual clock"),
    "bridge/consumers/requests/test_requester.py": (1, "has a virtual clock"),
    "bridge/endpoints/kafka/test_kafka_transactions.py": (1, "has a virtual clock"),
    "bridge/endpoints/rocketmq/test_rocketmq_hung_live.py": (1, MEANT),
    "bridge/rocketmq/test_rocketmq_share.py": (1, MEANT),
    "chaos/daemon.py": (1, PROBES),
    "chaos/places.py": (1, "how long nothing comes at most until what is there is taken for all"),
    "dist/compose.py": (1, PROBES),
    "fuzz/watch.py": (1, "the time a process gets to write its stacks before it is killed"),
    "simulation/test_wakeups.py": (1, "has a virtual clock"),
    "support/servers.py": (4, PROBES),
    "support/unsteady.py": (1, PROBES),
}
"""A file -> how many limits it has that are numbers, and why."""


def find_limits(source: str) -> Iterator[int]:
    """Yield the line of each limit of a wait that is a number: of seconds, or of looks between which it sleeps."""
    if not HINT.search(source):
        return
    tree = ast.parse(source)
    numbers = {name: value for each in tree.body for name, value in _name_number(each)}
    for call in walk(tree):
        if not isinstance(call, ast.Call):
            if _adds_number_to_clock(call) or _counts_looks(call):
                yield call.lineno
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        # tests/conftest.py stretches that of a mark.
        if name not in WAITS or (name == "timeout" and ast.unparse(call.func) == "pytest.mark.timeout"):
            continue
        place = WAITS[name]
        given = [call.args[place]] if place is not None and len(call.args) > place else []
        for each in given + [keyword.value for keyword in call.keywords if keyword.arg in NAMES]:
            value = _read_number(each, numbers)
            if value is not None and LEAST <= value < MOST:
                yield each.lineno


def _name_number(node: ast.stmt) -> Iterator[tuple[str, float]]:
    """Yield the name and the value of a constant of a module that is a number."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        [target, *_] = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = _read_number(node.value, {})
        if isinstance(target, ast.Name) and value is not None:
            yield target.id, value


def _read_number(node: ast.AST | None, numbers: Mapping[str, float]) -> float | None:
    """Return the number that an expression is: a literal, a constant of the module, or some times or part of these."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) else None
    if isinstance(node, ast.Name):
        return numbers.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        left, right = _read_number(node.left, numbers), _read_number(node.right, numbers)
        if left is not None and right:
            return left * right if isinstance(node.op, ast.Mult) else left / right
    return None


def _adds_number_to_clock(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Return whether a node is a time in so many seconds from now, a number or a constant."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Call)):
        return False
    function, added = node.left.func, node.right
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "monotonic" and (
        (isinstance(added, ast.Constant) and isinstance(added.value, int | float) and added.value >= LEAST)
        or (isinstance(added, ast.Name) and added.id.isupper())
    )


def _walk_turn(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what one turn of a loop does, without loops in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.For | ast.While | ast.AsyncFor):
            yield from _walk_turn(child)


def _counts_looks(node: ast.AST) -> TypeGuard[ast.For]:
    """Return whether a node is a loop of so many turns that sleeps in each, unless it ends before."""
    if not (isinstance(node, ast.For) and isinstance(node.iter, ast.Call)):
        return False
    inner = [*_walk_turn(node)]
    return (
        getattr(node.iter.func, "id", "") == "range"
        and any(map(is_sleep, inner))
        and any(isinstance(each, ast.Break | ast.Return) for each in inner)
    )


def test_a_limit_that_is_a_number_is_found() -> None:
    source = "future.result(30)\nwait_for(work(), 60)\nprocess.wait(timeout=10.0)\n"
    assert sorted(find_limits(source)) == [1, 2, 3]
    assert [*find_limits("SECONDS: Final = 30.0\nprocess.wait(SECONDS / 2)\nprocess.wait(elsewhere.SECONDS)\n")] == [2]
    assert [*find_limits("end = time.monotonic() + 30\n")] == [*find_limits("end = monotonic() + SECONDS\n")] == [1]
    assert [*find_limits("for _ in range(100):\n    if found():\n        break\n    time.sleep(0.1)\n")] == [1]
    assert not [*find_limits("for n in range(3):\n    time.sleep(n)\n")]
    assert not [*find_limits("future.result(find_limit())\nlost.wait(0.1)\nrun(command, timeout=600)\n")]


def test_waits_end_at_the_limit_for_all_tests() -> None:
    faults = []
    for path in sorted(ROOT.rglob("*.py")):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text()
        lines = [] if name.startswith("recorders/") else sorted(find_limits(source))
        allowed, _ = ALLOWED.get(name, (0, ""))
        if len(lines) > allowed:
            faults.append(f"{name} waits for numbers of seconds in lines {lines}, {allowed} may: wait for find_limit()")
        elif len(lines) < allowed:
            faults.append(f"{name} has only {len(lines)} limits: lower its number in this table")
    assert not faults, "\n".join(faults)
