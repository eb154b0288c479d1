"""Conditions of a bridge from their beginning to their end: causes that looks find, start times, and lines of the log.

==================  ================================================================================================
kind                meaning
==================  ================================================================================================
``disconnected``    an endpoint is not connected
``trouble``         an endpoint is connected, but its system is silent or has blocked publishers
``token``           an access token could not be renewed; the connection lasts until it expires
``backpressure``    a queue of a target takes nothing: it is missing or full, or the permission is missing
``registry``        messages of a source wait for a schema, as the registry does not answer
``dead-letters``    too many messages became dead letters; further ones wait instead
``held``            a message can be neither delivered nor dead-lettered; messages after it cannot be settled
``waiting``         a source is not open yet, because a target is not
``stalled``         the oldest unsettled message is older than ``stalled_after``
``window-full``     nothing was read for ``stalled_after``, because too many messages are unsettled
``vanished``        within the last minute, a system removed messages before they were read
``at-risk``         nothing is read, and its system will soon remove messages that wait, or does so already
``paused``          a user has paused the bridge
``draining``        the bridge is about to end, or to go on as its file says now, or a user has it drained
``drained``         a user has drained the bridge: nothing is under way, and its sources are closed
==================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import time
from typing import Any, Final

from bridge.daemon.journal import Journal
from bridge.daemon.views import Condition

OF_THE_BRIDGE: Final = ("paused", "draining", "drained")
KINDS: Final = (
    "disconnected", "trouble", "token", "backpressure", "registry", "dead-letters", "held", "waiting", "stalled",
    "window-full", "vanished", "at-risk", *OF_THE_BRIDGE,
)  # fmt: skip
"""Kinds of conditions in the order in which they are shown: causes before their effects."""

LEVELS: Final = {"paused": "info", "draining": "info", "drained": "info", "waiting": "warning", "token": "warning"}
"""Kind -> the level at which it is logged; the others are errors."""
LOGGED_AFTER: Final = {"disconnected": 5.0, "waiting": 5.0, "draining": 5.0}
"""Kind -> seconds for which a condition lasts before it is logged; others are logged at once. Most connections come
back soon, and each loss has a line in the log anyway."""
REMIND_AFTER: Final = 60.0
REMIND_AT_MOST: Final = 600.0
"""Minimum and maximum number of seconds between reminders in the log; the interval doubles with each reminder."""


@dataclass(slots=True)
class _Known:
    """A present condition, with the state of its log lines."""

    condition: Condition
    begun: float
    """Start time, by the loop's clock, in seconds."""
    logged: bool = False
    remind_at: float = 0.0
    remind_after: float = REMIND_AFTER


@dataclass(slots=True)
class Causes:
    """The causes of conditions that one look has found."""

    all: dict[tuple[str, str], tuple[str, float | None, str]] = field(default_factory=dict)
    """Endpoint and kind -> reason, start time by the loop's clock if it is known, and way out."""

    def add(self, endpoint: str, kind: str, reason: str, since: float | None = None, way_out: str = "") -> None:
        self.all[endpoint, kind] = reason, since, way_out


class ConditionLog:
    """Knows the conditions of a bridge, and logs them; ``before`` is that of the pump before, whose conditions last.

    ``clock`` returns seconds since 1970.
    """

    def __init__(self, journal: Journal, before: ConditionLog | None = None, clock: Callable[[], float] = time) -> None:
        self._journal: Final = journal
        self._clock: Final = clock
        self.known: Final[dict[tuple[str, str], _Known]] = {} if before is None else before.known
        """Endpoint and kind -> the condition."""

    def compare(self, causes: Causes, now: float) -> tuple[Condition, ...]:
        """Return the conditions of these causes, those that last with their start times, and log what has changed."""
        wall = self._clock()
        for key in [key for key in self.known if key not in causes.all]:
            self._end(self.known.pop(key), now)
        for (endpoint, kind), (reason, since, way_out) in causes.all.items():
            known = self.known.get((endpoint, kind))
            if known is None:
                begun = now if since is None else since
                known = _Known(Condition(endpoint, kind, reason, wall - (now - begun), way_out), begun)
                self.known[endpoint, kind] = known
            elif (known.condition.reason, known.condition.way_out) != (reason, way_out):
                known.condition = Condition(endpoint, kind, reason, known.condition.since, way_out)
            self._log(known, now)
        return tuple(
            sorted([known.condition for known in self.known.values()], key=lambda each: KINDS.index(each.kind))
        )

    def _log(self, known: _Known, now: float) -> None:
        condition, lasts = known.condition, now - known.begun
        if not known.logged:
            if lasts >= LOGGED_AFTER.get(condition.kind, 0.0):
                known.logged = True
                known.remind_at = now + known.remind_after
                self._write("condition began", condition)
        elif now >= known.remind_at:
            known.remind_after = min(REMIND_AT_MOST, 2 * known.remind_after)
            known.remind_at = now + known.remind_after
            self._write("condition lasts", condition, seconds=round(lasts))

    def _end(self, known: _Known, now: float) -> None:
        if known.logged:
            condition = known.condition
            self._journal.write_rarely(
                "info", "condition ended", (condition.endpoint, condition.kind), endpoint=condition.endpoint,
                kind=condition.kind, reason=condition.reason, seconds=round(now - known.begun, 1),
            )  # fmt: skip

    def _write(self, event: str, condition: Condition, **fields: Any) -> None:
        self._journal.write_rarely(
            LEVELS.get(condition.kind, "error"), event, (condition.endpoint, condition.kind),
            endpoint=condition.endpoint, kind=condition.kind, reason=condition.reason, **fields,
            way_out=condition.way_out,
        )  # fmt: skip
