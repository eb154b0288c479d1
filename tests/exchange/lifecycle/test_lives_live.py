"""Random lives: queues of a live RabbitMQ hold, deliver, drop and dead-letter messages as the model says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.servers import Server

LIVES = int(os.environ.get("HASHSTAR_LIVES", "300"))
"""Number of messages on each server."""
SEED = int(os.environ.get("HASHSTAR_LIVE_SEED", "2026"))


@pytest.mark.timeout(0)  # a full run takes an hour
def test_a_live_broker_agrees_on_every_life(rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]) -> None:
    """Every confirm, delivery, count and content, with the headers of all deaths, is the model's."""
    pytest.importorskip("aiormq")
    from tests.support.lives.runs import compare

    for server in rabbitmq_servers:
        outcome = compare(server, LIVES, SEED)
        with capsys.disabled():
            print(
                f"\nRabbitMQ {server.version}: {outcome.messages} messages, {outcome.deaths} deaths, "
                f"{outcome.steps} steps, {len(outcome.differences)} differences, {len(outcome.repeated)} plans repeated, "
                f"{outcome.begun_again} begun again"
            )
        assert not outcome.differences, "\n\n".join(outcome.differences)
        assert outcome.messages >= LIVES
