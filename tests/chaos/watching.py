"""Measure how soon a bridge that cannot move messages shows it: in its log, in a metric, and on ``/ready``.

A thread asks for ``/ready`` and ``/metrics`` several times a second while a scenario runs. What counts is the first
answer after the beginning of a fault that is not ready, the first metric that shows it, and the first warning or error
in the log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from tests.chaos.daemon import Daemon

EVERY: Final = 0.2
"""Seconds between two requests."""

SLACK: Final = 0.05
"""Seconds that a line of the log may be older than the fault, as they have different clocks."""

QUIET: Final = 2.0
"""Seconds for which there must be no work left before all is through."""


class Quiet:
    """Whether there has been no work left for `QUIET` seconds, by the looks at it.

    Time after a look at which there was work does not count: on a busy machine the next look may come seconds later.
    """

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, *, idle: bool) -> bool:
        """Take what was found at this moment, and return whether it has been quiet long enough."""
        now = time.monotonic()
        if not idle:
            self._since = None
        elif self._since is None:
            self._since = now
        return self._since is not None and now - self._since >= QUIET


class Visibility(NamedTuple):
    """Seconds from a fault until it was visible; None: it was not."""

    log: float | None = None
    metric: float | None = None
    ready: float | None = None

    @property
    def all_within(self) -> float:
        """The slowest of the three."""
        return max([float("inf") if each is None else each for each in self])


class Sample(NamedTuple):
    """The answers of a bridge at one time (`time.monotonic`)."""

    at: float
    ready: bool
    stalled: bool
    reason: str


def read_metrics(text: str) -> Mapping[tuple[str, str], float]:
    """Parse Prometheus's text format: name and labels, as they are written -> value."""
    values: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, brace, labels = series.partition("{")
            values[name, brace + labels] = float(value)
    return values


def has_stalled(metrics: Mapping[tuple[str, str], float]) -> bool:
    """Return whether a metric shows that something does not move: an endpoint is not up, or the bridge has stalled."""
    return any(
        (name == "hashstar_up" and not value) or (name == "hashstar_stalled" and value)
        for (name, _), value in metrics.items()
    )


def seconds_to_log(events: Iterable[Mapping[str, Any]], began: float) -> float | None:
    """Return the seconds from a time (`time.time`) to the first warning or error in the log after it."""
    for event in events:
        at = datetime.fromisoformat(event["time"]).timestamp()
        if event["level"] in ("warning", "error") and at >= began - SLACK:
            return max(0.0, at - began)
    return None


@dataclass
class Watch:
    """Watches a bridge until the end of its context."""

    daemon: Daemon
    samples: list[Sample] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(EVERY):
            ready, metrics = self.daemon.get("/ready"), self.daemon.get("/metrics")
            if ready is not None and metrics is not None and metrics[0] == 200:
                stalled = has_stalled(read_metrics(metrics[1]))
                self.samples.append(Sample(time.monotonic(), ready[0] == 200, stalled, ready[1].strip()))

    def visibility(self, began: float) -> Visibility:
        """Return how soon a fault that began at a time (`time.monotonic`) was visible, as far as is known now."""
        since = [sample for sample in list(self.samples) if sample.at >= began]
        wall = time.time() - (time.monotonic() - began)
        return Visibility(
            seconds_to_log(self.daemon.events(), wall),
            next((sample.at - began for sample in since if sample.stalled), None),
            next((sample.at - began for sample in since if not sample.ready), None),
        )

    @property
    def is_clear(self) -> bool:
        """Whether the last answers were ready, without a metric that shows a fault."""
        return bool(self.samples) and self.samples[-1].ready and not self.samples[-1].stalled

    def reasons(self, began: float) -> list[str]:
        """Return the reasons that ``/ready`` has given since a time, each once."""
        reasons = [sample.reason for sample in list(self.samples) if sample.at >= began and not sample.ready]
        return list(dict.fromkeys(reasons))
