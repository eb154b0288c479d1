"""Outages that what waits for a source survives, by the settings with which its system removes messages unread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from bridge.endpoint import Finding, Removal
from exchange.errors import HashstarError
from exchange.text.display import write_milliseconds

LOG: Final = logging.getLogger(__name__)

OUTAGE: Final = 3_600.0
"""Seconds of an outage that a source should survive: a check warns of one that does not."""
RISK_AFTER: Final = 60.0
"""Seconds for which nothing is read before a source is at risk whose messages are removed by their amount."""
LOOK_EVERY: Final = 30.0
"""Seconds between looks at the settings: an operator may change them at any time, and brokers apply policies late."""


class KnownRemovals:
    """The settings of a source as they were seen last."""

    def __init__(self) -> None:
        self.all: Sequence[Removal] = ()

    async def keep_looking(self, look: Callable[[], Awaitable[Sequence[Removal] | None]]) -> None:
        """Look again from time to time, until cancelled; ``look`` is a source's `find_removals`."""
        while True:
            try:
                found = await look()
            except HashstarError:  # other looks, which have conditions, name the reason
                found = None
            except Exception:
                LOG.exception("what removes messages is not known")
                found = None
            if found is not None:
                self.all = found
            await asyncio.sleep(LOOK_EVERY)


def find_survived(removals: Iterable[Removal]) -> float | None:
    """Return how many seconds of an outage all messages survive; None if no time bounds them, as far as is known."""
    return min([each.seconds for each in removals if each.seconds is not None], default=None)


def find_risk(removals: Iterable[Removal], idle: float, lag: int | None, *, is_open: bool) -> Removal | None:
    """Return a removal that messages may soon be lost by, if nothing was read for ``idle`` seconds: at half of a limit.

    ``lag`` is the number of messages that wait, if it is known; with ``is_open`` a reader is connected.
    """
    for each in removals:
        if each.without_reader and is_open:
            continue
        if each.seconds is not None:
            is_due = idle >= each.seconds / 2
        else:
            is_due = lag >= each.messages / 2 if each.messages and lag is not None else idle >= RISK_AFTER
        if is_due:
            return each
    return None


def judge_removals(removals: Iterable[Removal], key: str, *, is_written: bool = False) -> Iterator[Finding]:
    """Yield a warning for each removal that an outage of an hour may bring, else a finding with the least of them.

    What depends on an amount alone may be removed in any outage. What a target has written waits for its own readers.
    """
    surviving = []
    for each in removals:
        if each.seconds is not None and each.seconds >= OUTAGE:
            surviving.append(each)
            continue
        outage = "how long an outage it survives depends on what is published"
        if each.seconds is not None:
            outage = f"it survives an outage of {show_seconds(each.seconds)}" if each.seconds else "it survives none"
            if is_written:
                outage += " of its readers"
            else:
                outage += " of the bridge itself" if each.without_reader else " of the bridge or of a target"
        yield Finding("warning", f"{each.what}; {outage}; take that setting away, or raise it", key)
    if surviving:
        least = min(surviving, key=_seconds_of)
        yield Finding("ok", f"{least.what}; it survives an outage of {show_seconds(_seconds_of(least))}", key)


def show_seconds(seconds: float) -> str:
    """Return a time in its largest whole unit: ``7 d``, ``90 min``, ``1,500 ms``."""
    return write_milliseconds(round(1_000 * seconds))


def _seconds_of(removal: Any) -> float:
    return float(removal.seconds)
