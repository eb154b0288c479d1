"""Write lines to standard error from a thread, so that a log which nobody reads delays no message.

A write to a full pipe, a terminal that is stopped or a disk that hangs may block for ever. An event only appends its
line to a queue of bounded length; when that is full, lines are dropped and counted, and their number is written once
there is room. So are lines that cannot be written: the disk is full, or the reader is gone.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

__all__ = ["LineWriter"]

LINES: Final = 10_000
"""Maximum number of lines that wait to be written; all further lines are dropped."""
IDLE: Final = 5.0
"""Seconds without a line after which the thread ends; the next line starts another one."""


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
