"""What no later test needs ends before the next one, and is not blamed on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.inner_runs import run_each

SERVERS = """
import pytest

@pytest.fixture(scope="session")
def {name}_set():
    print("<{name} starts>")
    yield
    print("<{name} ends>")

@pytest.fixture(scope="session")
def {name}({name}_set):
    print("<client of {name}>")
    yield
    print("<no client of {name}>")
"""
ASKING = """
import pytest

@pytest.fixture(scope="module")
def lab(rabbitmq):
    print("<lab>")
    yield
    print("<no lab>")

def test_first(lab, kafka): print("<1>")
def test_second(lab): print("<2>")
def test_third(kafka): print("<3>")
def test_last(): print("<4>")
"""
ORDER = (
    "rabbitmq starts", "client of rabbitmq", "kafka starts", "client of kafka", "lab", "1", "2",
    "no lab", "no client of rabbitmq", "rabbitmq ends", "3", "no client of kafka", "kafka ends", "4",
)  # fmt: skip

LEFT = """
import gc
import socket

def leave_open():
    left = [socket.socket()]
    left.append(left)
    return left

def test_failing():
    left = leave_open()
    assert not left

def test_next():
    gc.collect()

def test_leaving():
    leave_open()
    gc.collect()
"""


@pytest.mark.process
def test_what_no_later_test_needs_ends_and_is_not_blamed_on_the_next(tmp_path: Path) -> None:
    fixtures = "".join(SERVERS.format(name=name) for name in ("rabbitmq", "kafka"))
    tests = {"asking/test_it.py": fixtures + ASKING, "left/test_it.py": LEFT}
    printed = run_each(tmp_path, tests, {name: ["-s", "-k", name] for name in ("asking", "left")})
    assert tuple(re.findall("<(.+?)>", printed["asking"])) == ORDER, printed["asking"]
    outcomes = sorted(re.findall(r"^(\w+) \S+::test_(\w+)", printed["left"], flags=re.MULTILINE))
    assert outcomes == [("FAILED", "failing"), ("FAILED", "leaving"), ("PASSED", "next")], printed["left"]
