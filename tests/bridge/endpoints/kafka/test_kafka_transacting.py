"""Calls of a transactional producer that wait for brokers: they end, whatever librdkafka does."""

from __future__ import annotations

from threading import Event

import pytest

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.transacting import answered
from tests.support.bridge.behaviour import on_a_loop


@on_a_loop
async def test_a_producer_that_does_not_come_back_from_a_call_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.transacting.CLOSING", 0.1)
    calls, hangs = Calls(), Event()

    def hang() -> None:
        hangs.wait()

    with pytest.raises(Disconnected, match="has not come back"):
        await answered(calls, hang, 0.1)
    hangs.set()
    await answered(calls, lambda: None, 30.0)
    calls.end()
