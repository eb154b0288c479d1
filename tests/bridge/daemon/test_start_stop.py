"""Bridges that are stopped at any moment end in time, whatever endpoints do. `tests.soak_start_stop` does more."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.pump import Inlet
from tests import soak_start_stop
from tests.soak_start_stop import base_config, in_memory, round_of, soak


def test_bridges_with_endpoints_that_work_break_refuse_and_hang_end_in_time(tmp_path: Path) -> None:
    base = base_config(tmp_path)
    outcome = soak([lambda chance: in_memory(base, chance)], 60, random.Random(14))
    assert outcome.failures == []
    assert outcome.rounds == 60


def test_a_bridge_that_does_not_end_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    class Stubborn(MemoryTarget):
        async def close(self) -> None:
            while not released.is_set():
                with suppress(asyncio.CancelledError):
                    await released.wait()

    monkeypatch.setattr(soak_start_stop, "BOUND", 0.5)
    monkeypatch.setattr(soak_start_stop, "stretch", float)  # else a busy machine waits until the bridge gives up
    config = replace(
        base_config(tmp_path), inlets=(Inlet(MemorySource()),), targets={"out": Stubborn()}, dead_letters=None
    )

    async def tried() -> str | None:
        try:
            _, answer, failure = await round_of(config, 0.0)
        finally:
            released.set()  # else the loop waits for ever for what does not end
        await asyncio.sleep(0)
        assert answer == "hangs"
        return failure

    failure = asyncio.run(tried())
    assert failure is not None
    assert "does not end in 0.5 s" in failure
    assert "Stubborn.close at" in failure
