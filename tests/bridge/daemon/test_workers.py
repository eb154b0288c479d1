"""Several workers as one command: its exit code, and its stop, which none outlives; each is a small program here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.daemon.workers import NOT_SETTLED, SETTLED, WRONG, _Worker, build_worker_command, run_workers
from tests.bridge.daemon.test_daemon import BRIDGE, OUT, write_config
from tests.support.bridge.behaviour import on_a_loop
from tests.support.unique import free_port
from tests.support.waiting import find_limit, until


class Journal:
    """A journal that keeps the names of events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def write(self, level: str, event: str, **_: Any) -> None:
        self.events.append(event)


def program(text: str) -> list[str]:
    """Return a command that runs Python code, in which ``number`` is that of the worker; SIGTERM ends it as settled."""
    ready = "signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); signal.pthread_sigmask(signal.SIG_SETMASK, ())"
    return [sys.executable, "-S", "-c", f"import os, signal, sys, time\nnumber = int(sys.argv[-1])\n{ready}\n{text}"]


async def run_to_end(codes: Sequence[int]) -> int:
    """Run workers that end by themselves, each with its exit code, and return the exit code of all."""
    config: Any = SimpleNamespace(workers=len(codes), path="bridge.toml")
    journal: Any = Journal()
    command = program(f"os._exit({list(codes)}[number - 1])")
    return await asyncio.wait_for(run_workers(config, journal, command), find_limit())


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
    async with asyncio.timeout(find_limit()):
        await until(ready.exists)
    worker.signal(signal.SIGTERM)
    assert await asyncio.wait_for(running, find_limit()) == NOT_SETTLED
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
    assert await asyncio.wait_for(worker.run(), find_limit()) == SETTLED
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
        await asyncio.wait_for(running, find_limit())


HELD = """
import os
if not os.path.exists("died"):
    open("died", "w").close()
    os._exit(3)
open("gate").read()
"""
"""What Python runs before the program: its first process dies, the second waits until the gate is closed."""


@asynccontextmanager
async def holding_start(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[_Worker, asyncio.Task[int], int]]:
    """Start a worker whose second process has begun and runs no code of ours until the descriptor is closed."""
    (config.parent / "sitecustomize.py").write_text(HELD)
    os.mkfifo(config.parent / "gate")
    monkeypatch.chdir(config.parent)
    monkeypatch.syspath_prepend(config.parent)
    monkeypatch.setattr("bridge.daemon.workers.AGAIN", SimpleNamespace(delay=lambda *_: 0.01))

    def open_gate() -> int | None:
        if worker._process is None or worker._process.returncode is not None:
            return None  # the second is not known yet
        try:
            return os.open("gate", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads
            return None

    journal: Any = Journal()
    worker = _Worker(1, build_worker_command(str(config)), journal)
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(find_limit()):
            gate: int = await until(open_gate)
            yield worker, running, gate
    finally:
        if worker._process is not None and worker._process.returncode is None:
            worker._process.kill()
        running.cancel()


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on_a_loop
async def test_a_worker_that_is_to_end_before_its_first_instruction_has_settled_everything(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with holding_start(tmp_path / "unread.toml", monkeypatch) as (worker, running, gate):
        worker.signal(number)
        os.close(gate)
        assert await running == SETTLED


@pytest.mark.process
@on_a_loop
async def test_a_worker_pauses_and_reloads_by_signals_from_before_its_first_instruction(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = free_port()
    config = write_config(tmp_path, BRIDGE.replace(":0", f":{port}") + "follow = true\n" + OUT)

    def read_status() -> Any:
        connection = HTTPConnection("127.0.0.1", port, timeout=find_limit())
        try:
            connection.request("GET", "/status")
            return json.loads(connection.getresponse().read())
        except ConnectionError:
            return {"reloads": 0}
        finally:
            connection.close()

    async with holding_start(config, monkeypatch) as (worker, running, gate):
        worker.signal(signal.SIGUSR1)
        worker.signal(signal.SIGHUP)
        os.close(gate)
        await until(lambda: read_status()["reloads"])
        assert read_status()["paused"]
        worker.signal(signal.SIGTERM)
        assert await running == SETTLED
