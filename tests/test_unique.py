"""Ports that no two processes of tests are given, and names that are never the same."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import unique
from tests.support.waiting import find_limit

TOP = Path(__file__).parents[1]
ASK = "from tests.support.unique import free_ports; print(*free_ports(100), flush=True); input()"


def ask() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ASK], cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_processes_are_given_different_ports_that_are_free() -> None:
    processes = [ask() for _ in range(4)]
    try:
        ports = [int(port) for each in processes for port in (each.stdout.readline() if each.stdout else "").split()]
        ports += unique.free_ports(100)
    finally:
        for each in processes:
            each.communicate("\n", timeout=find_limit())
    assert len(ports) == len(set(ports)) == 500
    assert all(unique.FIRST < port < unique.LAST for port in ports)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_has_a_block_of_its_own() -> None:
    first = set(unique.free_ports(100))
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.write(writing, repr(unique.free_ports(100)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        others = {int(port) for port in re.findall(r"\d+", told.read())}
    os.waitpid(pid, 0)
    assert len(others) == 100
    assert not others & first
    assert not others & set(unique.free_ports(100))


def test_a_port_that_is_taken_is_passed_over() -> None:
    block = unique.Block()
    ports = [block.take() for _ in range(unique.BLOCK - 1)]
    with socket.create_server((unique.HOST, ports[1])), socket.create_server((unique.HOST, ports[3] + 10_000)):
        assert [block.take(), block.take()] == [ports[0], ports[2]]
        assert block.take(10_000) == ports[4]
    block.forget()


def test_when_all_ports_of_a_block_are_taken_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique, "_is_free", lambda _: False)
    block = unique.Block()
    with pytest.raises(RuntimeError, match=r"none of the 128 ports from \d+ is free"):
        block.take()
    block.forget()


def test_ports_are_below_those_of_outgoing_connections() -> None:
    """A connection that a client opens would take one in between, which no lock can prevent."""
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not path.exists():
        pytest.skip("this is not Linux")
    assert int(path.read_text().split()[0]) > unique.LAST + 10_000


def test_the_script_prints_ports_without_any_package() -> None:
    script = TOP / "tests" / "support" / "unique.py"
    done = subprocess.run([sys.executable, "-I", "-S", script, "3"], check=True, capture_output=True, text=True)
    assert len({int(port) for port in done.stdout.split()}) == 3


def test_names_differ() -> None:
    names = {unique.unique_name("topic") for _ in range(1000)}
    assert len(names) == 1000
    assert all(re.fullmatch("hashstar-topic-[0-9a-f]{12}", name) for name in names)


def test_nothing_else_chooses_ports_or_names() -> None:
    """A port of the system's choice is anybody's as soon as it is given back; one that is held may be used."""
    own = re.compile(r"uuid4\(\)(?!\.bytes)|\.bind\(\(\"127\.0\.0\.1\", 0\)\)\n *(?:return|\S*port =)|def _?free_port")
    allowed = {"tests/support/unique.py", "tests/test_unique.py"}
    paths = [path for folder in ("tests", "benchmarks") for path in (TOP / folder).rglob("*.py")]
    names = [path.relative_to(TOP).as_posix() for path in paths if own.search(path.read_text("utf-8"))]
    assert [name for name in names if name not in allowed] == []
