"""The log of a bridge has one line per event, the same words for people and machines, and is never flooded."""

from __future__ import annotations

import io
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from bridge.daemon.journal import KINDS, Journal
from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from exchange import Message


class Clock:
    """A clock that the test sets."""

    now = 1_700_000_000.5

    def __call__(self) -> float:
        return self.now


def make_journal(form: str, level: str = "info") -> tuple[Journal, io.StringIO, Clock]:
    out, clock = io.StringIO(), Clock()
    return Journal(form, level, out, clock), out, clock


MESSAGE = Message("orders", "key \udcff", body=b"secret body")
OUTGOING = Outgoing(MESSAGE, Delivery(MESSAGE, origin="queue q"), "q", attempts=2)


def test_an_event_is_a_line_of_text() -> None:
    journal, out, _ = make_journal("text")
    journal.disconnected("kafka", Disconnected('no "broker"\n'), 0.25)
    assert out.getvalue() == (
        '2023-11-14T22:13:20.500Z warning disconnected endpoint=kafka reason="no \\"broker\\"\\n" retry_in=0.25\n'
    )


def test_an_event_is_a_json_object() -> None:
    journal, out, _ = make_journal("json")
    journal.refused("kafka", OUTGOING, Failure("nack"), 0.5)
    assert json.loads(out.getvalue()) == {
        "time": "2023-11-14T22:13:20.500Z", "level": "warning", "event": "refused", "target": "kafka",
        "reason": "nack", "attempt": 2, "retry_in": 0.5, "origin": "queue q", "exchange": "orders",
        "routing_key": "key \udcff",
    }  # fmt: skip


def test_names_that_are_not_utf_8_can_be_logged() -> None:
    for form in ("text", "json"):
        journal, out, _ = make_journal(form)
        journal.unroutable("s", OUTGOING.delivery, "drop", "no queue")
        out.getvalue().encode()


def test_no_body_is_logged() -> None:
    journal, out, _ = make_journal("text", "debug")
    journal.refused("t", OUTGOING, Failure("nack"), None)
    journal.gave_up("t", OUTGOING, Failure("nack"), "dead-letter")
    journal.unroutable("s", OUTGOING.delivery, "drop", "no queue")
    assert len(out.getvalue().splitlines()) == 3
    assert "secret" not in out.getvalue()


def lines_of(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_many_events_of_a_kind_make_one_line_and_the_next_has_the_number_left_out() -> None:
    journal, out, clock = make_journal("json")
    for _ in range(1_000):
        journal.refused("t", OUTGOING, Failure("nack"), 0.5)
    clock.now += 1.5
    journal.refused("t", OUTGOING, Failure("nack"), 0.5)
    first, second = lines_of(out)
    assert "also" not in first
    assert second["also"] == 999


def test_an_event_each_second_for_an_hour_makes_seventy_lines_with_all_counted() -> None:
    journal, out, clock = make_journal("json")
    for _ in range(3_600):
        journal.refused("t", OUTGOING, Failure("nack"), 0.5)
        journal.catch_up()
        clock.now += 1.0
    clock.now += 60.0
    journal.catch_up()
    lines = lines_of(out)
    assert 60 < len(lines) < 70
    assert sum(1 + line.get("also", 0) for line in lines) == 3_600
    clock.now += 1_000.0
    journal.catch_up()
    assert len(lines_of(out)) == len(lines)


def test_a_kind_that_was_quiet_for_long_is_written_at_once_again() -> None:
    journal, out, clock = make_journal("json")
    for _ in range(600):
        journal.disconnected("kafka", Disconnected("gone"), 0.5)
        clock.now += 1.0
    clock.now += 300.0
    journal.catch_up()
    before = len(lines_of(out))
    for _ in range(4):
        journal.disconnected("kafka", Disconnected("gone"), 0.5)
        clock.now += 1.0
    assert len(lines_of(out)) == before + 3  # after 0, 1 and 3 seconds


def test_the_last_line_of_a_kind_that_stopped_is_written_with_its_time() -> None:
    journal, out, clock = make_journal("json")
    for n in range(10):
        journal.refused("t", OUTGOING, Failure("nack"), float(n))
        clock.now += 0.01
    journal.catch_up()
    assert len(lines_of(out)) == 1
    clock.now += 1.0
    journal.catch_up()
    last = lines_of(out)[-1]
    assert (last["retry_in"], last["also"], last["at"]) == (9.0, 8, "2023-11-14T22:13:20.590Z")


def test_reasons_that_differ_in_numbers_are_one_kind_and_other_endpoints_are_another() -> None:
    journal, out, _ = make_journal("json")
    for n in range(100):
        journal.disconnected("kafka", Disconnected(f"no answer after {n} ms from port {9_000 + n}"), 0.5)
    journal.disconnected("rabbit", Disconnected("no answer after 1 ms from port 5672"), 0.5)
    assert [line["endpoint"] for line in lines_of(out)] == ["kafka", "rabbit"]


def test_unlimited_kinds_are_neither_kept_nor_all_written() -> None:
    journal, out, clock = make_journal("json")
    for n in range(30 * KINDS):
        journal.refused("t", OUTGOING, Failure(f"key {'x' * n}"), 0.5)
    assert sum(len(kinds) for kinds in journal._kinds.values()) <= KINDS + 1
    assert len(lines_of(out)) == KINDS + 1
    clock.now += 1_000.0
    journal.catch_up()
    clock.now += 1_000.0
    journal.catch_up()
    assert sum(len(kinds) for kinds in journal._kinds.values()) == 0


def test_a_log_that_cannot_be_written_does_not_stop_the_bridge() -> None:
    with Path("/dev/full").open("w") as full:
        Journal("text", "info", full).connected("s")
        with suppress(OSError):
            full.close()


def test_events_below_the_level_are_not_written() -> None:
    journal, out, _ = make_journal("text", "warning")
    journal.connected("s")
    journal.ended("s")
    assert not out.getvalue()


def test_records_of_libraries_are_written_in_the_same_form() -> None:
    journal, out, _ = make_journal("json")
    root, ours = logging.getLogger(), logging.getLogger("bridge")
    before, level = list(root.handlers), ours.level
    with journal.listen():
        logging.getLogger("bridge.somewhere").info("goes on behind %s", 3)
        logging.getLogger("elsewhere").warning("odd")
        logging.getLogger("elsewhere").info("chatter")
    assert (list(root.handlers), ours.level) == (before, level)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["level"], line["by"], line["text"]) for line in lines] == [
        ("info", "bridge.somewhere", "goes on behind 3"), ("warning", "elsewhere", "odd"),
    ]  # fmt: skip
