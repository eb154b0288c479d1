"""Tests of archives share processes that make parts: each takes a second to start."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from bridge.endpoints.archive import rotation

QUESTION: Final = json.dumps(["/nowhere/spool", False]).encode() + b"\n"


class Pool:
    """Processes that wait for the next rotator."""

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._asked: set[subprocess.Popen[bytes]] = set()
        self._start, self._ask, self._end = rotation._start, rotation._ask, rotation._end

    def start(self) -> subprocess.Popen[bytes]:
        """Take a process, or start one."""
        return self._idle.pop() if self._idle else self._start()

    def ask(self, process: subprocess.Popen[bytes], request: bytes) -> bytes:
        """Ask a process; until it has answered, it is no process to keep."""
        self._asked.add(process)
        answer = self._ask(process, request)
        self._asked.discard(process)
        return answer

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Keep a process, unless it has died, or owes an answer to a caller who has given up."""
        if process not in self._asked and self._ask(process, QUESTION):
            self._idle.append(process)
        else:
            self._end(process)

    def close(self) -> None:
        """End all that wait."""
        while self._idle:
            self._end(self._idle.pop())


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def rotate_in_kept_processes(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "_start", pool.start)
    monkeypatch.setattr(rotation, "_ask", pool.ask)
    monkeypatch.setattr(rotation, "_end", pool.end)
