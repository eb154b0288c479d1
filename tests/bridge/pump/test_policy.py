"""The time to wait before each try."""

from __future__ import annotations

import pytest

from bridge.pump.policy import Attempts, Backoff


@pytest.mark.parametrize(
    ("attempt", "random", "seconds"),
    [
        (1, 0.0, 0.5), (2, 0.0, 1.0), (3, 0.0, 2.0), (5, 0.0, 8.0), (6, 0.0, 10.0), (10_000, 0.0, 10.0),
        (1, 0.5, 0.375), (3, 0.5, 1.5), (6, 0.999, 5.005), (1, 0.999, 0.25025),
    ],
)  # fmt: skip
def test_a_wait_doubles_up_to_its_maximum_and_jitter_takes_away_up_to_half(
    attempt: int, random: float, seconds: float
) -> None:
    assert Backoff(0.5, 10.0).delay(attempt, random) == pytest.approx(seconds)


def test_tries_start_again_after_a_connection_that_lasted_or_made_progress() -> None:
    attempts = Attempts(Backoff(1.0, 8.0), lambda: 0.0)
    assert [attempts.next_wait() for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    attempts.note_connection(8.0, progressed=False)
    assert [attempts.next_wait() for _ in range(2)] == [1.0, 2.0]
    attempts.note_connection(7.9, progressed=False)
    assert attempts.next_wait() == 4.0
    attempts.note_connection(0.0, progressed=True)
    assert attempts.next_wait() == 1.0
