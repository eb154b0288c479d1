"""The event loop with a virtual clock: what happens on other threads while nothing is to be done."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bridge.aside import ASIDE, call_aside
from tests.support.virtual_loop import pass_time, run_virtually


def test_a_call_aside_is_waited_for_however_late_its_thread_is() -> None:
    began = threading.Event()

    def answer() -> int:
        began.wait(0.05)  # while the loop has nothing else to do
        return 7

    assert run_virtually(call_aside(answer)) == 7


def test_no_time_passes_while_a_call_aside_works_and_all_of_it_while_one_hangs() -> None:
    over = threading.Event()

    async def play() -> None:
        loop = asyncio.get_running_loop()
        work = asyncio.create_task(call_aside(lambda: over.wait(0.05)))
        await pass_time(60)
        assert work.done()
        hanging = asyncio.create_task(call_aside(over.wait))
        await pass_time(60)
        assert not hanging.done()
        assert loop.time() == 120
        over.set()
        await hanging

    run_virtually(play())


def test_a_loop_that_waits_for_nothing_says_so() -> None:
    """Also where a call of an earlier loop has not ended."""
    ended = threading.Event()
    left_behind = threading.Thread(target=ended.wait, name=ASIDE)
    left_behind.start()
    try:
        with pytest.raises(AssertionError, match="nothing is waited for"):
            run_virtually(asyncio.Event().wait())
    finally:
        ended.set()
        left_behind.join()
