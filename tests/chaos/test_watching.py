"""Seconds until a fault could be seen are those of the first sign after it began, in each of the three places."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.daemon import Daemon
from tests.chaos.watching import QUIET, Quiet, Sample, Visibility, Watch, has_stalled, read_metrics, seconds_to_log

METRICS = """\
# HELP hashstar_up Whether it is connected.
# TYPE hashstar_up gauge
hashstar_up{endpoint="from"} 1
hashstar_up{endpoint="to, {odd}"} %d
# TYPE hashstar_stalled gauge
hashstar_stalled %g
hashstar_written_messages_total{target="to",queue="out"} 1200
"""


def event(at: float, level: str) -> dict[str, Any]:
    return {"time": datetime.fromtimestamp(at, UTC).isoformat(), "level": level, "event": "something"}


def test_a_series_is_found_by_its_name_and_labels() -> None:
    found = read_metrics(METRICS % (1, 0))
    assert found["hashstar_written_messages_total", '{target="to",queue="out"}'] == 1200
    assert found["hashstar_up", '{endpoint="to, {odd}"}'] == 1
    assert found["hashstar_stalled", ""] == 0


@pytest.mark.parametrize(("up", "stalled", "expected"), [(1, 0, False), (0, 0, True), (1, 1, True), (1, 12.5, True)])
def test_a_metric_shows_an_endpoint_that_is_not_up_or_a_bridge_that_has_stalled(
    up: int, stalled: float, expected: bool
) -> None:
    assert has_stalled(read_metrics(METRICS % (up, stalled))) is expected


def test_only_a_warning_or_an_error_that_was_logged_after_the_fault_shows_it() -> None:
    events = [event(10, "error"), event(101, "info"), event(103, "warning"), event(104, "error")]
    assert seconds_to_log(events, 100.0) == 3.0
    assert seconds_to_log(events[:2], 100.0) is None


def test_what_was_shown_before_a_fault_does_not_count(tmp_path: Path) -> None:
    watch = Watch(Daemon(tmp_path, "", "", 1))
    watch.samples += [
        Sample(1.0, False, True, "from: gone"), Sample(2.0, True, False, "ok"), Sample(5.0, True, True, "ok"),
        Sample(6.0, False, True, "to: silent"), Sample(7.0, False, True, "to: silent"),
    ]  # fmt: skip
    assert watch.visibility(3.0) == Visibility(None, 2.0, 3.0)
    assert watch.reasons(3.0) == ["to: silent"]
    assert not watch.is_clear


def test_a_fault_that_was_never_seen_took_for_ever() -> None:
    assert Visibility(1.0, 2.0, 3.0).all_within == 3.0
    assert Visibility(1.0, None, 3.0).all_within == float("inf")


@pytest.mark.parametrize("pause", [QUIET / 8, 10 * QUIET])
def test_time_after_a_look_that_found_work_is_not_quiet(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now, quiet = 0.0, Quiet()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert not quiet.look(idle=True)
    now += pause
    assert not quiet.look(idle=False)
    now += pause
    assert not quiet.look(idle=True)  # the machine was too busy to look at all that time
    now += QUIET - 0.01
    assert not quiet.look(idle=True)
    now += 0.01
    assert quiet.look(idle=True)
