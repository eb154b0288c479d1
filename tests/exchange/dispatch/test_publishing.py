"""A publish goes on where its caller is cancelled."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from exchange.dispatch.sending import finish
from tests.support.virtual_loop import pass_time, run_virtually


@pytest.mark.parametrize("fails", [False, True])
def test_a_publish_goes_on_where_its_caller_is_cancelled_and_its_error_is_dropped(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    published: list[str] = []

    async def publish() -> None:
        await pass_time(0.01)
        published.append("message")
        if fails:
            raise ConnectionError

    async def work() -> None:
        caller = asyncio.create_task(finish(publish()))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await pass_time(0.02)
        gc.collect()

    with caplog.at_level(logging.DEBUG, "asyncio"):
        run_virtually(work())
    assert published == ["message"]
    assert "never retrieved" not in caplog.text


def test_the_caller_gets_the_result_and_the_error() -> None:
    async def publish(error: Exception | None) -> str:
        if error is not None:
            raise error
        return "confirmed"

    assert run_virtually(finish(publish(None))) == "confirmed"
    with pytest.raises(ConnectionError):
        run_virtually(finish(publish(ConnectionError())))
