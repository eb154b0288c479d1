"""The log of a running bridge: lines for people or for machines, on standard error.

An event has a name and fields, with the same words in both forms. Events may repeat, as when a target refuses all
messages or a client library reports each try to connect. So they are thinned out by kind: the first line of a kind is
written at once, the next ones at intervals that double from a second to a minute, each with the number of events that
were left out. After a long time without events, the first line of a kind is again written at once. So an outage of a
day costs a few thousand lines, the last event of a kind is always written, and the log does not fill the disk.

No event waits for its line, as a write to a full pipe, a terminal that is stopped or a disk that hangs may block for
ever: `LineWriter` writes to standard error from a thread. An event only appends its line to a queue of bounded length;
when that is full, lines are dropped and counted, and their number is written once there is room. So are lines that
cannot be written: the disk is full, or the reader is gone.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from time import time
from typing import Any, Final, TextIO

from bridge.endpoint import Delivery, Failure, Outgoing
from exchange.text.display import dump_json
from exchange.text.numbers import write_time

LEVELS: Final = ("debug", "info", "warning", "error")

AGAIN_AFTER: Final = 1.0
"""Seconds between the first two lines of one kind; the interval doubles with each line."""
AGAIN_AT_MOST: Final = 60.0
"""Maximum number of seconds between two lines of a kind that repeats."""
QUIET_AFTER: Final = 60.0
"""Seconds without an event, in addition to the interval, after which a kind is forgotten."""
KINDS: Final = 100
"""Maximum number of kinds per event and endpoint, as reasons may name messages; all further events are of one kind."""
DIGITS: Final = re.compile(r"[0-9]+")
LINES: Final = 10_000
"""Maximum number of lines that wait to be written; all further lines are dropped."""
IDLE: Final = 5.0
"""Seconds without a line after which the thread ends; the next line starts another one."""


@dataclass(slots=True)
class _Kind:
    """A kind of event: the time of its last line, and the events that were left out since."""

    written: float
    """Time of its last line, in seconds since 1970."""
    interval: float = AGAIN_AFTER
    """Seconds from that line until the next one may be written."""
    seen: float = 0.0
    """Time of its last event, in seconds since 1970."""
    left_out: int = 0
    """Number of events that were left out since the last line."""
    last: tuple[str, dict[str, Any]] = field(default=("", {}))
    """Level and fields of the last event that was left out."""


@dataclass(slots=True)
class _Style:
    """How events are written."""

    is_json: bool = False
    least: int = 0
    """Index of the lowest of `LEVELS` that is written."""


class Journal:
    """Writes events to ``out``, by default standard error, from a thread.

    ``form`` is text or json, ``level`` the lowest level that is written; ``worker`` is a field of each event. Each
    pipeline of several has a journal `for_pipeline`, whose name is a field of its events.
    """

    def __init__(
        self,
        form: str = "text",
        level: str = "info",
        out: TextIO | None = None,
        clock: Callable[[], float] = time,
        worker: int | None = None,
    ) -> None:
        self._always: dict[str, Any] = {} if worker is None else {"worker": worker}
        self._around: Journal | None = None
        """The journal of all pipelines, of which this is one's."""
        self._style = _Style()
        self.write_as(form, level)
        self._out = out
        self._writer = LineWriter(lambda count: self._format("warning", "dropped", {"lines": count}))
        self._clock = clock
        self._lock = threading.RLock()
        """Guards the kinds: libraries log on threads of their own."""
        self._kinds: dict[tuple[str, str], dict[tuple[str, ...], _Kind]] = {}
        """Event and endpoint -> the rest of a kind -> its state."""
        self._filtering: set[str] = set()

    def write(self, level: str, event: str, /, **fields: Any) -> None:
        """Write an event."""
        if LEVELS.index(level) < self._style.least:
            return
        line = self._format(level, event, fields)
        if self._out is None:
            self._writer.write(line)
        else:
            with suppress(OSError):  # a full disk stops the log, but not the messages
                self._out.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
                self._out.flush()

    def write_as(self, form: str, level: str) -> None:
        """Write further events in another form, from another level on; those of all pipelines."""
        self._style.is_json, self._style.least = form == "json", LEVELS.index(level)

    def for_pipeline(self, name: str) -> Journal:
        """Return a journal that writes to the same log, with the name of a pipeline in each event; this one for ""."""
        if not name:
            return self
        own = copy(self)
        own._always, own._around = {**self._always, "pipeline": name}, self
        own._kinds, own._filtering = {}, set()
        return own

    def flush(self, seconds: float = 1.0) -> None:
        """Wait until all lines are written to standard error, at most some seconds."""
        self._writer.flush(seconds)

    @property
    def dropped(self) -> int:
        """Number of lines that were dropped, because standard error took none."""
        return self._writer.dropped

    def _format(self, level: str, event: str, fields: dict[str, Any]) -> str:
        now, fields = write_time(self._clock(), "milliseconds"), {**self._always, **fields}
        if self._style.is_json:
            return json.dumps({"time": now, "level": level, "event": event, **fields}, default=str)
        text = "".join([f" {name}={_quote(value)}" for name, value in fields.items()])
        return f"{now} {level:7} {event}{text}"

    def write_rarely(self, level: str, event: str, kind: Sequence[str], /, **fields: Any) -> None:
        """Write an event, or leave it out if the interval since the last line of its kind is not over.

        ``kind`` begins with the endpoint; texts that differ only in numbers are of one kind. The next line of the kind
        has the number of events that were left out, as ``also``. For the level debug, the interval stays one second.
        """
        if LEVELS.index(level) < self._style.least:
            return
        with self._lock:
            now = self._clock()
            kinds = self._kinds.setdefault((event, kind[0] if kind else ""), {})
            key = tuple([DIGITS.sub("0", part) for part in kind[1:]])
            known = kinds.get(key)
            if known is None and len(kinds) >= KINDS:
                self._forget_quiet(now)
                if len(kinds) >= KINDS:
                    key = ("others",)
                    known = kinds.get(key)
            if known is None:
                kinds[key] = _Kind(now, seen=now)
                self.write(level, event, **fields)
                return
            if now - known.seen > known.interval + QUIET_AFTER:
                known.interval = 0.0
            elif now - known.written < known.interval:
                known.seen = now
                known.left_out += 1
                known.last = level, fields
                return
            known.seen = now
            self._write_again(known, level, event, fields, now)

    def catch_up(self) -> None:
        """Write the last event that was left out of each kind whose interval is over, and forget quiet kinds.

        Called once a second, so that a kind whose events have stopped gets its last line and number, too.
        """
        if self._around is not None:
            self._around.catch_up()
        with self._lock:
            now = self._clock()
            due = [
                (known.seen, event, known)
                for (event, _), kinds in self._kinds.items()
                for known in kinds.values()
                if known.left_out and now - known.written >= known.interval
            ]
            for seen, event, known in sorted(due, key=lambda each: each[0]):
                level, fields = known.last
                known.left_out -= 1  # this event is written now
                self._write_again(known, level, event, {**fields, "at": write_time(seen, "milliseconds")}, now)
            self._forget_quiet(now)

    def _write_again(self, known: _Kind, level: str, event: str, fields: dict[str, Any], now: float) -> None:
        left_out, known.left_out = known.left_out, 0
        known.written, known.last = now, ("", {})
        known.interval = min(AGAIN_AT_MOST, max(AGAIN_AFTER, 2 * known.interval))
        if level == "debug":
            known.interval = AGAIN_AFTER
        self.write(level, event, **fields, **({"also": left_out} if left_out else {}))

    def _forget_quiet(self, now: float) -> None:
        for kinds in self._kinds.values():
            for key, known in list(kinds.items()):
                if not known.left_out and now - known.seen > known.interval + QUIET_AFTER:
                    del kinds[key]

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Write log records of this process, too: all records of the bridge, warnings and errors of others."""
        handler, bridge = _JournalHandler(self), logging.getLogger("bridge")
        level = bridge.level
        logging.getLogger().addHandler(handler)
        bridge.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            bridge.setLevel(level)

    # The events of `bridge.pump.events.PumpEvents`.

    def connected(self, name: str) -> None:
        self.write_rarely("info", "connected", (name,), endpoint=name)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        reason = str(error)
        self.write_rarely(
            "warning", "disconnected", (name, reason), endpoint=name, reason=reason, retry_in=round(wait, 3)
        )

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        """Do nothing: metrics count these."""

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        """Do nothing: metrics count these."""

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        self.write_rarely(
            "warning", "refused", (target, failure.reason), target=target, reason=failure.reason,
            attempt=message.attempts, retry_in=retry_in and round(retry_in, 3), **_fields_of(message.delivery),
        )  # fmt: skip

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        self.write_rarely(
            "error", "gave up", (target, failure.reason, fate), target=target, reason=failure.reason, fate=fate,
            attempts=message.attempts, **_fields_of(message.delivery),
        )  # fmt: skip

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        self.write_rarely(
            "warning",
            "unroutable",
            (source, fate, reason),
            source=source,
            fate=fate,
            reason=reason,
            **_fields_of(delivery),
        )

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        """Write the first message that a source's filter rejects, and each message for which the filter fails."""
        kind, _, failure = reason.partition(":")
        if failure:
            comparison = failure.strip()
            self.write_rarely(
                "warning", "filter fails", (source, comparison), source=source, comparison=comparison,
                **_fields_of(delivery),
            )  # fmt: skip
        elif source not in self._filtering:
            self._filtering.add(source)
            self.write(
                "info", "filtered", source=source, reason=kind, only="the first is logged", **_fields_of(delivery)
            )

    def left(self, source: str) -> None:
        self.write("info", "source left", endpoint=source)

    def ended(self, source: str) -> None:
        self.write("info", "ended", source=source)


class _JournalHandler(logging.Handler):
    """Writes log records to a journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for least, name in LOGGED if record.levelno >= least), "debug")
        fields = {"by": record.name, "text": record.getMessage()}
        if record.exc_info is not None:
            fields["error"] = repr(record.exc_info[1])
        # Libraries repeat themselves: librdkafka reports at each try that a broker is not there.
        self._journal.write_rarely(level, "log", (record.name, level, fields["text"]), **fields)


LOGGED: Final = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


def _fields_of(delivery: Delivery) -> dict[str, Any]:
    message = delivery.message
    return {"origin": delivery.origin, "exchange": message.exchange, "routing_key": message.routing_key}


def _quote(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if text.isprintable() and text and not set(text) & set(' "=') else dump_json(text)


class LineWriter:
    """Writes lines to standard error, in their order, from a thread that runs while there are some.

    ``describe`` returns the line that is written in place of a number of dropped lines.
    """

    def __init__(self, describe: Callable[[int], str]) -> None:
        self.dropped = 0
        """Number of lines dropped since the start."""
        self._describe = describe
        self._lines: deque[str] = deque()
        self._unreported = 0
        """Number of lines dropped since that was last written."""
        self._changed = threading.Condition()
        self._runs = False
        self._writing = False

    def write(self, line: str) -> None:
        """Let a line be written, or drop it if too many wait. Never blocks."""
        with self._changed:
            if len(self._lines) >= LINES:
                self.dropped += 1
                self._unreported += 1
                return
            self._lines.append(line)
            self._changed.notify_all()
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="hashstar-log", daemon=True).start()

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written, at most some seconds; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                if not self._lines and not self._changed.wait_for(lambda: self._lines, IDLE):
                    self._runs = False
                    return
                self._writing = True
                lines = [*self._lines]
                self._lines.clear()
                dropped, self._unreported = self._unreported, 0
            lost = sum([not _write(line) for line in lines])
            if dropped and _write(self._describe(dropped)):
                dropped = 0
            with self._changed:
                self.dropped += lost
                self._unreported += lost + dropped


def _write(line: str) -> bool:
    """Write a line, and return whether standard error has taken it."""
    # Standard error is looked up each time: a progress bar replaces it, to write lines above the bar.
    # Names of brokers may hold bytes that are not UTF-8, so these are escaped.
    data = line.encode("utf-8", "backslashreplace") + b"\n"
    with suppress(OSError, ValueError):  # a full disk or a reader that is gone stops the log, but not the messages
        stream, is_replaced = sys.stderr, sys.stderr is not sys.__stderr__
        if stream is None:
            return False
        if is_replaced:
            stream.write(data.decode())
            stream.flush()
            return True
        # Not by the stream: it is locked while it writes, and Python flushes it when it ends.
        descriptor = stream.fileno()
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                select.select([], [descriptor], [])
        return True
    return False
