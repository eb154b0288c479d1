"""What each tier of the tests runs, and what a test without a mark may take."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import tiers, waiting
from tests.support.inner_runs import run_each
from tests.support.sharing import sending_less
from tests.support.tiers import order, strip_group

TESTS = """
import pytest
from hypothesis import given, strategies as st
from tests.support.tiers import examples, some

@pytest.fixture
def spark(): ...

@pytest.fixture
def page(spark): ...

def test_plain(): ...

@pytest.mark.live
def test_server(): ...

@pytest.mark.process
@pytest.mark.smoke
def test_smoke(): ...

def test_of_a_fixture(page): ...

@pytest.mark.scaled
def test_scaled(): print("cases:", *some(range(25)))

@examples(60)
@given(st.integers())
def test_law(number): print("an example")

def test_slow(monkeypatch):
    monkeypatch.setattr("tests.support.tiers._cpu_seconds", lambda: 1e9)
"""


RUN: dict[str, tuple[set[str], set[str], int]] = {
    "quick": ({"plain", "smoke", "scaled", "law", "slow"}, set(), 6),
    "quick --limit-cpu": ({"plain", "smoke", "scaled", "law"}, {"slow"}, 6),
    "rest": ({"server", "of_a_fixture", "scaled", "law"}, set(), 60),
    "night": ({"plain", "server", "smoke", "of_a_fixture", "scaled", "law", "slow"}, set(), 600),
}
"""Tier and options -> what of `TESTS` passes and fails in it, and how many examples the law has."""


def test_a_tier_runs_what_it_states(tmp_path: Path) -> None:
    printed = run_each(tmp_path, {"test_it.py": TESTS}, {tier: f"--tier={tier}".split() for tier in RUN})
    for tier, (passed, failed, examples) in RUN.items():
        outcomes = {
            outcome: set(re.findall(rf"^{outcome} .*::test_(\w+)", printed[tier], flags=re.MULTILINE))
            for outcome in ("PASSED", "FAILED")
        }
        assert outcomes == {"PASSED": passed, "FAILED": failed}, printed[tier]
        assert printed[tier].count("an example") == examples
        cases = range(0, 25, 10) if "quick" in tier else range(25)
        assert f"cases: {' '.join(map(str, cases))}\n" in printed[tier]
        assert ("s  test_it.py::test_slow" in printed[tier]) == ("quick" in tier)


GROUPED = """
import os, pytest
command_server = None  # as in modules that import it

@pytest.mark.parametrize("number", range(8))
def test_it(number): print(f"{os.getpid()} runs it.")
"""
SET_UP = """
import pytest

@pytest.fixture
def talks(): print("It is being set up.")

@pytest.fixture
def breaks(): raise ValueError("broken")

def test_talks(talks): ...
def test_breaks(breaks): ...
def test_fails(): assert 1 == 2
"""


@pytest.mark.process
def test_processes_that_share_tests_report_all_there_is_to_say(tmp_path: Path) -> None:
    """A group is run by one process; and what fails, prints or takes long in a set-up is told."""
    files = {**{f"test_{name}.py": GROUPED for name in "abcd"}, "test_e.py": SET_UP}
    printed = run_each(tmp_path, files, {"two": ["--tier=quick", "-n", "2", "--dist=loadgroup"]})["two"]
    assert "It is being set up." in printed
    assert "ValueError: broken" in printed, printed
    assert "assert 1 == 2" in printed
    assert "1 failed, 33 passed, 1 error" in printed
    assert "[100%]" in printed
    names = re.findall(r"^PASSED \S+/(test_\w\.py::.*)", printed, flags=re.MULTILINE)
    assert "test_a.py::test_it[0]" in map(strip_group, names)
    assert printed.count(" runs it.") == 32, printed
    assert len({*re.findall(r"(\d+) runs it\.", printed)}) == 1, printed
    assert "test_a.py::test_it[0]@commands" in printed


def test_a_process_that_shares_tests_sends_what_says_something() -> None:
    sent: list[tuple[str, object]] = []
    send = sending_less(lambda name, **values: sent.append((name, values.get("data"))))
    passed = {"when": "setup", "outcome": "passed", "sections": [], "duration": 0.01}
    told: list[dict[str, object]] = [
        {**passed, "when": "call"}, {**passed, "when": "teardown"}, {**passed, "outcome": "failed"},
        {**passed, "outcome": "skipped"}, {**passed, "duration": 2.0}, {**passed, "sections": [["stdout", "a"]]},
    ]  # fmt: skip
    send("logstart", nodeid="a.py::one")
    for data in (passed, *told):
        send("testreport", data=data)
    send("logfinish", nodeid="a.py::one")
    send("runtest_protocol_complete", item_index=0)
    assert sent == [*[("testreport", data) for data in told], ("runtest_protocol_complete", None)]


class Item:
    """A test as it was collected."""

    def __init__(self, nodeid: str, *fixturenames: str) -> None:
        self.nodeid, self.fixturenames = nodeid, fixturenames
        self.user_properties: list[tuple[str, object]] = []

    def iter_markers(self) -> list[pytest.Mark]:
        return []

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return pytest.mark.xdist_group("spark").mark if "spark" in self.fixturenames else None


def test_modules_are_whole_those_with_all_servers_first_and_those_with_rocketmq_last() -> None:
    items = [
        Item("a.py::one"), Item("a.py::two", "rocketmq_set"), Item("b.py::one"), Item("c.py::one", "rocketmq_set"),
        Item("d.py::one", "rabbitmq_set"), Item("d.py::two", "rabbitmq_set", "rabbitmq_servers"),
        Item("e.py::one", "rocketmq_set", "rocketmq_servers"),
    ]  # fmt: skip
    order(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == [
        "d.py::one", "d.py::two", "b.py::one", "e.py::one", "a.py::one", "a.py::two", "c.py::one",
    ]  # fmt: skip


def test_processes_begin_with_spark_and_small_modules_and_then_with_large_ones() -> None:
    large = [Item(f"{name}.py::{number}") for name, count in (("e", 10), ("f", 11)) for number in range(count)]
    items = [
        Item("a.py::one", "rocketmq_set"), Item("b.py::one"), Item("c.py::one"), Item("c.py::two", "spark"),
        Item("d.py::one"), Item("d.py::two"), Item("d.py::three"), Item("c.py::three"), *large,
    ]  # fmt: skip
    for first in "abcdef":  # each process has collected from another file on
        given = sorted(items, key=lambda item: (item.nodeid[0] < first, item.nodeid[0]))
        order(given, is_shared=True)  # type: ignore[arg-type]
        assert [item.nodeid for item in given] == [
            "c.py::two", "d.py::one", "d.py::two", "d.py::three", "c.py::one", "c.py::three", "b.py::one",
            *[item.nodeid for item in [*large[10:], *large[:10]]], "a.py::one",
        ]  # fmt: skip


def test_the_name_of_a_test_is_without_its_group() -> None:
    assert strip_group("a.py::test_it[b@spark]@commands") == "a.py::test_it[b@spark]"
    assert strip_group("a.py::test_it[b@spark]@commands]") == "a.py::test_it[b@spark]"
    assert strip_group("a.py::test_it[b@spark]") == "a.py::test_it[b@spark]"
    assert strip_group("a.py::test_it[b@c]") == "a.py::test_it[b@c]"


@pytest.mark.parametrize(
    ("took", "slowness", "outcome"),
    [(4.9, None, "fine"), (6, 1, "noted"), (11, 1, "failed"), (14, 3, "fine"), (16, 3, "noted"), (31, 3, "failed")],
)
def test_a_test_is_judged_by_how_slow_the_machine_is_by_then(took: float, slowness: float | None, outcome: str) -> None:
    """And nothing is measured for one that is cheap on any machine."""

    def compute() -> float:
        assert slowness is not None
        return slowness * waiting.USUAL

    waiting.find_slowness()  # of the time before, which counts no more
    clock = iter([0.0, took])
    item = Item("a.py::one")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(tiers, "_cpu_seconds", lambda: next(clock))
        patch.setattr(waiting, "_compute", compute)
        if outcome == "failed":
            stack.enter_context(pytest.raises(pytest.fail.Exception, match=f"took {took:.1f} s"))
        stack.enter_context(tiers.note_cpu(item, fails=True))  # type: ignore[arg-type]
    assert item.user_properties == ([] if outcome == "fine" else [(tiers.COSTLY, round(took, 1))])
