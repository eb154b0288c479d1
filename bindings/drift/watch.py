"""Compare again and again: when to look next, what is new, and the metrics meanwhile, which are served over HTTP.

A comparison that fails, as the broker is away, is tried again after a second, then after twice the time, with jitter,
up to the interval or a minute, whichever is longer. What was found last stays, with its age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bindings.drift.drift import CHANGES, KINDS, REASONS, Drift
from bindings.http.exposition import METRICS, format_family
from bindings.http.handler import PLAIN, Handler
from bindings.http.hosts import HostCheck
from bindings.http.listener import Server, make_server
from exchange.errors import HashstarError, InputError

FIRST_RETRY: Final = 1.0
"""Seconds before the second try, or the interval if that is shorter; doubles with each failure."""
MAX_RETRY_SECONDS: Final = 60.0
"""Maximum number of seconds between tries, unless the interval is longer."""


@dataclass(frozen=True, slots=True)
class WatchState:
    """What is known; replaced as a whole, so that other threads read it without a lock."""

    drift: Drift | None = None
    """The result of the last comparison that succeeded."""
    error: str | None = None
    """Why the last comparison failed; None if it succeeded, or there was none."""
    succeeded_at: float = 0.0
    """Time of the last comparison that succeeded, in seconds since 1970; 0 if none did."""
    successes: int = 0
    failures: int = 0

    @property
    def up(self) -> bool:
        """Whether the last comparison succeeded."""
        return self.drift is not None and self.error is None


@dataclass(frozen=True, slots=True)
class WatchOutcome:
    """The outcome of one comparison."""

    drift: Drift | None
    """None if it failed."""
    error: str | None
    wait: float
    """Seconds until the next comparison."""
    time: float
    """When it began, in seconds since 1970."""
    is_news: bool
    """Whether it differs from the one before: another drift, another error, or the broker answers again."""


class DriftWatch:
    """Compares every ``every`` seconds. ``clock`` has the seconds since 1970, ``random`` a number in [0, 1)."""

    def __init__(
        self, look: Callable[[], Drift], every: float, clock: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self._look = look
        self._every = every
        self._clock = clock
        self._random = random
        self._failed_in_a_row = 0
        self.state = WatchState()

    def outcomes(self) -> Iterator[WatchOutcome]:
        """Yield the outcome of each comparison, without an end; the caller waits between them."""
        while True:
            yield self.compare()

    def compare(self) -> WatchOutcome:
        """Compare once, and return the outcome."""
        now, before = self._clock(), self.state
        try:
            drift = self._look()
        except HashstarError as error:
            text = str(error)
            self._failed_in_a_row += 1
            self.state = replace(before, error=text, failures=before.failures + 1)
            return WatchOutcome(None, text, self._wait_after_failure(), now, text != before.error)
        self._failed_in_a_row = 0
        self.state = WatchState(drift, None, now, before.successes + 1, before.failures)
        known = before.drift
        is_news = not before.up or known is None or (drift.objects, drift.unread) != (known.objects, known.unread)
        return WatchOutcome(drift, None, self._every, now, is_news)

    def _wait_after_failure(self) -> float:
        first = min(FIRST_RETRY, self._every)
        full = min(first * 2.0 ** min(self._failed_in_a_row - 1, 30), max(self._every, MAX_RETRY_SECONDS))
        return full * (1 - self._random() / 2)


def format_metrics(state: WatchState) -> Iterator[str]:
    """Yield the metrics in Prometheus's text format. There are no objects until a comparison has succeeded."""
    yield from format_family(
        "hashstar_drift_up", "gauge", "Whether the last comparison of file and broker succeeded.", {(): int(state.up)}
    )
    yield from format_family(
        "hashstar_drift_last_success_timestamp_seconds",
        "gauge",
        "When file and broker were last compared, in seconds since 1970.",
        {(): state.succeeded_at},
    )
    yield from format_family(
        "hashstar_drift_comparisons_total",
        "counter",
        "Comparisons of file and broker.",
        {(("result", "success"),): state.successes, (("result", "failure"),): state.failures},
    )
    if state.drift is None:
        return
    counts = state.drift.counts
    yield from format_family(
        "hashstar_drift_objects",
        "gauge",
        "Objects that differ between file and broker, by the last comparison that succeeded.",
        {(("kind", kind), ("change", change)): counts[kind, change] for kind in KINDS for change in CHANGES},
    )
    yield from format_family(
        "hashstar_drift_unread_parts",
        "gauge",
        "Parts of the file that were not read, so that nothing is proved.",
        {(): len(state.drift.unread)},
    )
    ignored = state.drift.ignored
    yield from format_family(
        "hashstar_drift_ignored_objects",
        "gauge",
        "Objects that differ and are ignored.",
        {(("reason", reason),): ignored.get(reason, 0) for reason in REASONS},
    )


def serve_metrics(host: str, port: int, names: Sequence[str], read: Callable[[], WatchState]) -> Server:
    """Start to serve the metrics of what ``read`` returns, on a thread; ``names`` are further host names of requests.

    Raises InputError if the address cannot be used.
    """
    check = HostCheck(host, names)

    class MetricsHandler(Handler):
        hosts = check
        hosts_option = "--allow-host NAME"

        def answer_to(self, method: str, path: str) -> None:
            if method == "GET" and path == "/metrics":
                text = "\n".join(format_metrics(read())) + "\n"
                self.answer(200, METRICS, text.encode("utf-8", "backslashreplace"))
            elif method == "GET" and path == "/live":
                self.answer(200, PLAIN, b"ok\n")
            else:
                self.answer(404, PLAIN, b"there are /metrics and /live\n")

    try:
        server = make_server(host, port, MetricsHandler)
    except OSError as error:
        raise InputError(f"--metrics: {host}:{port} cannot be served: {error.strerror or error}") from None
    server.start()
    return server
