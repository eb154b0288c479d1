"""Bridges at a real RabbitMQ that are stopped at any moment end in time, and lose nothing; a few of a soak."""

from __future__ import annotations

import random
from pathlib import Path

from tests.soak_start_stop import rabbit_at, soak, soak_processes
from tests.support.servers import Server


def test_bridges_at_a_broker_end_in_time_and_lose_nothing(rabbitmq: Server, tmp_path: Path) -> None:
    chance = random.Random(14)
    with rabbit_at(rabbitmq.url, tmp_path) as rabbit:
        rounds = soak(rabbit.configs(), 12, chance, rabbit.after)
        processes = soak_processes(rabbit.files, 1, chance)
        assert (rounds.failures, processes.failures) == ([], [])
        assert (rounds.rounds, processes.rounds) == (12, 1)
        assert rabbit.missing() == set()
