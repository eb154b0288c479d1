"""Several workers as one command: its exit code, and its stop, which none outlives; each is a small program here."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.daemon.workers import NOT_SETTLED, SETTLED, WRONG, _Worker, run_workers
from tests.support.bridge.behaviour import on_a_loop
from tests.support.waiting import find_limit, until

SECONDS = 60.0
"""Seconds after which a test counts as hanging."""


class Journal:
    """A journal that keeps the names of events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def write(self, level: str, event: str, **_: Any) -> None:
        self.events.append(event)


def program(text: str) -> list[str]:
    """Return a command that runs Python code, in which ``number`` is that of the worker."""
    return [sys.executable, "-S", "-c", f"import os, signal, sys, time\nnumber = int(sys.argv[-1])\n{text}"]


async def run_to_end(codes: Sequence[int]) -> int:
    """Run workers that end by themselves, each with its exit code, and return the exit code of all."""
    config: Any = SimpleNamespace(workers=len(codes), path="bridge.toml")
    journal: Any = Journal()
    command = program(f"os._exit({list(codes)}[number - 1])")
    return await asyncio.wait_for(run_workers(config, journal, command), SECONDS)


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([SETTLED, SETTLED], SETTLED),
        ([NOT_SETTLED, SETTLED], NOT_SETTLED),
        ([SETTLED, NOT_SETTLED, SETTLED], NOT_SETTLED),
        ([SETTLED, WRONG], WRONG),
    ],
)
def test_the_exit_code_of_all_workers_is_the_highest(codes: list[int], code: int) -> None:
    @on_a_loop
    async def run() -> None:
        assert await run_to_end(codes) == code

    run()


@on_a_loop
async def test_a_worker_that_starts_while_all_stop_stops_too() -> None:
    journal: Any = Journal()
    worker = _Worker(1, program("time.sleep(600)"), journal)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    process: Any = worker._process
    assert process is None  # it is being started
    worker.signal(signal.SIGTERM)
    try:
        assert await asyncio.wait_for(asyncio.shield(running), find_limit()) == SETTLED
    finally:
        if worker._process is not None and worker._process.returncode is None:
            worker._process.kill()
        running.cancel()
    assert worker.code == SETTLED


@on_a_loop
async def test_a_worker_that_dies_while_stopping_has_not_settled_everything(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    text = f"signal.signal(signal.SIGTERM, lambda *_: os._exit(3))\nopen({str(ready)!r}, 'w').close()\ntime.sleep(600)"
    journal: Any = Journal()
    worker = _Worker(1, program(text), journal)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(SECONDS):
        await until(ready.exists)
    worker.signal(signal.SIGTERM)
    assert await asyncio.wait_for(running, SECONDS) == NOT_SETTLED
    assert worker.code == NOT_SETTLED
    assert journal.events == []  # it is not started again


@pytest.mark.parametrize(("well", "attempts"), [(60.0, [1, 2]), (0.0, [1, 1])])
@on_a_loop
async def test_a_worker_that_dies_is_started_again_the_later_the_more_often_it_died_soon(
    well: float, attempts: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits: list[int] = []

    def delay(attempt: int, _: float) -> float:
        waits.append(attempt)
        return 0.01

    monkeypatch.setattr("bridge.daemon.workers.AGAIN", SimpleNamespace(delay=delay))
    monkeypatch.setattr("bridge.daemon.workers.WELL", well)
    count = tmp_path / "count"
    text = f"f = open({str(count)!r}, 'a+'); f.write('x'); f.seek(0); os._exit(3 if len(f.read()) < 3 else 0)"
    journal: Any = Journal()
    worker = _Worker(1, program(text.replace("f.seek", "f.flush(); f.seek")), journal)
    assert await asyncio.wait_for(worker.run(), SECONDS) == SETTLED
    assert worker.code == SETTLED
    assert count.read_text() == "xxx"
    assert journal.events == ["worker died"] * 2
    assert waits == attempts


@on_a_loop
async def test_workers_end_when_their_run_is_cancelled() -> None:
    config: Any = SimpleNamespace(workers=2, path="bridge.toml")
    journal: Any = Journal()
    running = asyncio.create_task(run_workers(config, journal, program("time.sleep(600)"), handle_signals=False))
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):  # which is raised only after both have ended
        await asyncio.wait_for(running, SECONDS)
