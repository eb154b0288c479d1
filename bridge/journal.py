"""What the bridge tells while it runs: lines for people or for machines, on standard error.

An event has a name and fields, which are the same words whatever the form. What happens to many messages at once, as
when a target refuses all of them, is told once a second with how often it was: a log must not be what a disk is
filled with when things go wrong.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from time import time
from typing import Any, Final, TextIO

from bridge.endpoint import Delivery, Failure, Outgoing

__all__ = ["LEVELS", "Journal"]

LEVELS: Final = ("debug", "info", "warning", "error")

AGAIN_AFTER: Final = 1.0
"""Seconds between two lines of one kind about messages."""
KINDS: Final = 1_000


class Journal:
    """Writes events. ``form`` is text or json, ``level`` the least that is told, ``worker`` is told with each."""

    def __init__(
        self,
        form: str = "text",
        level: str = "info",
        out: TextIO | None = None,
        clock: Callable[[], float] = time,
        worker: int | None = None,
    ) -> None:
        self._always = {} if worker is None else {"worker": worker}
        self._json = form == "json"
        self._least = LEVELS.index(level)
        self._out = out
        self._clock = clock
        self._told: dict[tuple[str, ...], tuple[float, int]] = {}
        self._filtering: set[str] = set()

    def tell(self, level: str, event: str, **fields: Any) -> None:
        """Write an event."""
        if LEVELS.index(level) < self._least:
            return
        fields = {**self._always, **fields}
        now = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._json:
            line = json.dumps({"time": now, "level": level, "event": event, **fields}, default=str)
        else:
            told = "".join([f" {name}={_shown(value)}" for name, value in fields.items()])
            line = f"{now} {level:7} {event}{told}"
        # Names of brokers are bytes, and may be no UTF-8.
        # What standard error is, is looked up each time: while there is a progress bar, lines go above it.
        out = self._out or sys.stderr
        with suppress(OSError):  # a disk that is full, or a reader that is gone, stops the log and no message
            out.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
            out.flush()

    def tell_rarely(self, level: str, event: str, kind: Sequence[str], **fields: Any) -> None:
        """Write an event if none of its kind was written in the last second; the next one says how many were not."""
        key = (event, *kind)
        last, missed = self._told.get(key, (float("-inf"), 0))
        now = self._clock()
        if now - last < AGAIN_AFTER:
            self._told[key] = last, missed + 1
            return
        if len(self._told) > KINDS:  # reasons may name messages, of which there are very many
            self._told.clear()
        self._told[key] = now, 0
        self.tell(level, event, **fields, **({"also": missed} if missed else {}))

    def listen(self) -> None:
        """Tell what libraries log too, from warnings on, and from our own endpoints all that is told."""
        handler = _Logged(self)
        logging.getLogger().addHandler(handler)
        logging.getLogger("bridge").setLevel(logging.DEBUG)
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # it logs as errors what the pump is told, and tells

    def hung_up(self) -> None:
        """Write that a SIGHUP came, which changes nothing."""
        self.tell("warning", "hangup", text="nothing is reloaded; restart it to read the configuration again")

    # As `bridge.pump.PumpEvents` has them.

    def connected(self, name: str) -> None:
        self.tell("info", "connected", endpoint=name)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        self.tell("warning", "disconnected", endpoint=name, reason=str(error), retry_in=round(wait, 3))

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        """Nothing: metrics count."""

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        """Nothing: metrics count."""

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        self.tell_rarely(
            "warning", "refused", (target, failure.reason), target=target, reason=failure.reason,
            attempt=message.attempts, retry_in=retry_in and round(retry_in, 3), **_of(message.delivery),
        )  # fmt: skip

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        self.tell_rarely(
            "error", "gave up", (target, failure.reason, fate), target=target, reason=failure.reason, fate=fate,
            attempts=message.attempts, **_of(message.delivery),
        )  # fmt: skip

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        self.tell_rarely(
            "warning", "unroutable", (source, fate, reason), source=source, fate=fate, reason=reason, **_of(delivery)
        )

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        """Once for each source that its filter is at work; and the messages that it fails for."""
        kind, _, failure = reason.partition(":")
        if failure:
            where = {"source": source, "comparison": failure.strip()}
            self.tell_rarely("warning", "filter fails", (*where.values(),), **where, **_of(delivery))
        elif source not in self._filtering:
            self._filtering.add(source)
            self.tell("info", "filtered", source=source, reason=kind, only="the first is told", **_of(delivery))

    def ended(self, source: str) -> None:
        self.tell("info", "ended", source=source)


class _Logged(logging.Handler):
    """Brings what is logged into the journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for least, name in LOGGED if record.levelno >= least), "debug")
        fields = {"by": record.name, "text": record.getMessage()}
        if record.exc_info is not None:
            fields["error"] = repr(record.exc_info[1])
        # Libraries say one thing again and again: librdkafka that a broker is not there, at every try.
        kind = fields["text"].partition(" ")[0]
        self._journal.tell_rarely(level, "log", (record.name, level, kind), **fields)


LOGGED: Final = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


def _of(delivery: Delivery) -> dict[str, Any]:
    message = delivery.message
    return {"origin": delivery.origin, "exchange": message.exchange, "routing_key": message.routing_key}


def _shown(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(text) & set(' "=') else json.dumps(text)
