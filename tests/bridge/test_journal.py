"""What a bridge tells is one line an event, the same words for people and machines, and never a flood."""

from __future__ import annotations

import io
import json
import logging
from contextlib import suppress
from pathlib import Path

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.journal import KINDS, Journal
from exchange import Message


class Clock:
    """One that is set."""

    now = 1_700_000_000.5

    def __call__(self) -> float:
        return self.now


def told(form: str, level: str = "info") -> tuple[Journal, io.StringIO, Clock]:
    out, clock = io.StringIO(), Clock()
    return Journal(form, level, out, clock), out, clock


MESSAGE = Message("orders", "key \udcff", body=b"secret body")
OUTGOING = Outgoing(MESSAGE, Delivery(MESSAGE, origin="queue q"), "q", attempts=2)


def test_an_event_is_a_line_of_text() -> None:
    journal, out, _ = told("text")
    journal.disconnected("kafka", Disconnected('no "broker"\n'), 0.25)
    assert out.getvalue() == (
        '2023-11-14T22:13:20.500Z warning disconnected endpoint=kafka reason="no \\"broker\\"\\n" retry_in=0.25\n'
    )


def test_an_event_is_an_object_of_json() -> None:
    journal, out, _ = told("json")
    journal.refused("kafka", OUTGOING, Failure("nack"), 0.5)
    assert json.loads(out.getvalue()) == {
        "time": "2023-11-14T22:13:20.500Z", "level": "warning", "event": "refused", "target": "kafka",
        "reason": "nack", "attempt": 2, "retry_in": 0.5, "origin": "queue q", "exchange": "orders",
        "routing_key": "key \udcff",
    }  # fmt: skip


def test_names_that_are_no_utf_8_can_be_written() -> None:
    for form in ("text", "json"):
        journal, out, _ = told(form)
        journal.unroutable("s", OUTGOING.delivery, "drop", "no queue")
        out.getvalue().encode()


def test_no_body_is_told() -> None:
    journal, out, _ = told("text", "debug")
    journal.refused("t", OUTGOING, Failure("nack"), None)
    journal.gave_up("t", OUTGOING, Failure("nack"), "dead-letter")
    journal.unroutable("s", OUTGOING.delivery, "drop", "no queue")
    assert len(out.getvalue().splitlines()) == 3
    assert "secret" not in out.getvalue()


def test_what_happens_to_many_is_told_once_a_second_with_how_many_there_were() -> None:
    journal, out, clock = told("json")
    for _ in range(1_000):
        journal.refused("t", OUTGOING, Failure("nack"), 0.5)
    clock.now += 1.5
    journal.refused("t", OUTGOING, Failure("nack"), 0.5)
    first, second = [json.loads(line) for line in out.getvalue().splitlines()]
    assert "also" not in first
    assert second["also"] == 999


def test_kinds_that_never_end_are_not_kept_for_ever() -> None:
    journal, _, _ = told("json", "error")
    for n in range(3 * KINDS):
        journal.refused("t", OUTGOING, Failure(f"reason {n}"), 0.5)
    assert len(journal._told) <= KINDS + 1


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    with Path("/dev/full").open("w") as full:
        Journal("text", "info", full).connected("s")
        with suppress(OSError):
            full.close()


def test_what_is_below_the_level_is_not_told() -> None:
    journal, out, _ = told("text", "warning")
    journal.connected("s")
    journal.ended("s")
    assert not out.getvalue()


def test_what_libraries_log_is_told_in_the_same_form() -> None:
    journal, out, _ = told("json")
    root, ours = logging.getLogger(), logging.getLogger("bridge")
    before, level = list(root.handlers), ours.level
    journal.listen()
    try:
        logging.getLogger("bridge.somewhere").info("goes on behind %s", 3)
        logging.getLogger("elsewhere").warning("odd")
        logging.getLogger("elsewhere").info("chatter")
    finally:
        root.handlers[:] = before
        ours.setLevel(level)
        logging.getLogger("pika").setLevel(logging.NOTSET)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["level"], line["by"], line["text"]) for line in lines] == [
        ("info", "bridge.somewhere", "goes on behind 3"), ("warning", "elsewhere", "odd"),
    ]  # fmt: skip
