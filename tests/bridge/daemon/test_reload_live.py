"""Reloads of a bridge under load, between real brokers: a few of those of `tests.soak_reload`."""

from __future__ import annotations

from pathlib import Path

from tests.soak_reload import Outcome, try_reloads
from tests.support.servers import Server

RELOADS = 6


def check(outcome: Outcome) -> None:
    """Check that nothing was lost or came twice: all that was read is settled before each pump ends."""
    assert outcome.published > 0
    assert (outcome.lost, outcome.twice, outcome.out_of_order, outcome.reloads) == (0, 0, 0, RELOADS), outcome


def test_reloads_lose_and_repeat_nothing_from_rabbitmq_to_rabbitmq(rabbitmq: Server, tmp_path: Path) -> None:
    check(try_reloads(rabbitmq.url, None, RELOADS, tmp_path))


def test_reloads_lose_and_repeat_nothing_from_rabbitmq_to_kafka(
    rabbitmq: Server, kafka: Server, tmp_path: Path
) -> None:
    check(try_reloads(rabbitmq.url, kafka.url, RELOADS, tmp_path))
