"""Bridges in the event loop of a program: they leave its signals, collector and exit alone."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.daemon.config import Config
from bridge.daemon.journal import Journal
from bridge.daemon.run import run
from bridge.daemon.workers import WRONG
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.pump import Inlet
from exchange import Message
from exchange.errors import InputError
from tests.bridge.endpoints.archive.test_archive import write_part
from tests.soak_start_stop import base_config
from tests.support.waiting import find_limit

MESSAGES = [Message("all", "k", body=b"%d" % number) for number in range(20)]


def in_memory(folder: Path, source: MemorySource, target: MemoryTarget) -> Config:
    """Return a configuration that moves messages in memory."""
    return replace(base_config(folder), inlets=(Inlet(source, "all"),), targets={"out": target}, dead_letters=None)


def test_a_program_runs_a_bridge_to_the_end_of_its_sources(tmp_path: Path) -> None:
    target = MemoryTarget()
    source = MemorySource(MESSAGES)
    source.end()
    assert asyncio.run(run(in_memory(tmp_path, source, target), Journal(out=io.StringIO())))
    assert [outgoing.message.body for outgoing in target.messages] == [message.body for message in MESSAGES]


def test_a_program_runs_a_bridge_by_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base_config(tmp_path)
    (tmp_path / "in").mkdir()
    write_part(tmp_path / "in" / "a", MESSAGES)
    assert asyncio.run(asyncio.wait_for(run(str(tmp_path / "bridge.toml")), find_limit()))
    assert f"stopped not_settled=0 read={len(MESSAGES)} written={len(MESSAGES)}" in capsys.readouterr().err


def test_a_cancelled_bridge_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    """Signals, collector and log handlers are not changed while it runs, either; nor does it need the main thread."""

    def process_state() -> object:
        handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
        return handlers, gc.get_threshold(), gc.get_freeze_count(), list(logging.getLogger().handlers)

    before = process_state()
    during: list[object] = []

    async def cancelled() -> None:
        running = asyncio.create_task(
            run(in_memory(tmp_path, MemorySource(MESSAGES), MemoryTarget()), Journal(out=io.StringIO()))
        )
        await asyncio.sleep(0.05)
        during.append(process_state())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    thread = threading.Thread(target=lambda: asyncio.run(cancelled()))
    thread.start()
    thread.join(find_limit())
    assert not thread.is_alive()
    assert during == [before]
    assert process_state() == before


def test_a_configuration_that_is_wrong_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml"):
        asyncio.run(run(tmp_path / "none.toml"))


def test_a_worker_that_cannot_start_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> int:
        return WRONG

    monkeypatch.setattr("bridge.daemon.run.run_workers", refuse)
    config = replace(base_config(tmp_path), workers=2)
    with pytest.raises(InputError, match="a worker cannot start"):
        asyncio.run(run(config, Journal(out=io.StringIO())))
