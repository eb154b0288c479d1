"""The endpoints in memory behave as every endpoint must."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.endpoint import Disconnected, Failure, Outgoing
from bridge.endpoints.memory import MemorySource, MemoryTarget
from exchange import Message
from tests.support.bridge.behaviour import Place, SourceBehaviour, TargetBehaviour

REFUSED = Message("", "key.0", {"refused": True})


@pytest.fixture
def place() -> Place:
    cuts: list[None] = []

    def fault(outgoing: Outgoing) -> Failure | Disconnected | None:
        if cuts:
            cuts.clear()
            return Disconnected("cut")
        return Failure("refused", final=True) if outgoing.message is REFUSED else None

    def put(messages: Sequence[Message]) -> None:
        for message in messages:
            source.put(message)

    def cut() -> None:
        cuts.append(None)
        source.break_connection()

    source, target = MemorySource(), MemoryTarget(fault=fault)
    return Place(
        make_source=lambda: source,
        make_target=lambda: target,
        put=put,
        read_all=lambda _: [outgoing.message for outgoing in target.messages],
        end=source.end,
        cut=cut,
        refused=("queue", REFUSED),
    )


class TestMemorySource(SourceBehaviour):
    """The behaviour of endpoints in memory."""


class TestMemoryTarget(TargetBehaviour):
    """The behaviour of endpoints in memory."""
