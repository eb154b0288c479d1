"""The alarm that ends a process in which a test cannot be interrupted."""

from __future__ import annotations

import faulthandler
import time
from typing import Final

LEAST: Final = 1.05
MOST: Final = 1.2
"""Bounds of the time until the alarm when a test begins, as parts of the limit of the test."""
_SET: Final = 1.125

_alarm = 0.0
"""When this process is ended, by `time.monotonic`; 0 for never."""


def end_process_after(limit: float, stderr: int) -> None:
    """Show what each thread does and end this process, somewhat later than in `limit` seconds; 0 is never.

    To set an alarm starts a thread, and ends the one before: on a busy machine, that takes longer than most tests. So
    one alarm serves all tests that begin as long as it is late enough for them.
    """
    global _alarm  # noqa: PLW0603  a process has one
    if limit and LEAST * limit <= _alarm - time.monotonic() <= MOST * limit:
        return
    faulthandler.cancel_dump_traceback_later()
    _alarm = 0.0
    if limit:
        faulthandler.dump_traceback_later(_SET * limit, file=stderr, exit=True)
        _alarm = time.monotonic() + _SET * limit
