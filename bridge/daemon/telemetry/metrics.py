"""Counters of a bridge, for Prometheus and for the status page, and the rates of the last minutes.

Counters are plain integers. Only the event loop's thread adds to them; other threads read them, at worst one message
late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from time import time
from typing import Final, Literal, NamedTuple, TypedDict

from bindings.http.exposition import format_family, format_labels, format_number
from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.replies import ReplyOutcome, RequestOutcome

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of latencies, in seconds."""


STEP: Final = 5.0
"""Seconds between the samples of `History`."""
MAX_HISTORY_STEPS: Final = 60
"""Maximum number of steps in a `History`."""

FATES: Final = ("dead-letter", "hold", "drop")

FILTERED: Final = ("no match", "fails")

RELOADS: Final = ("reloaded", "refused")

Family = tuple[Literal["gauge", "counter"], str, Mapping[tuple[tuple[str, str], ...], float]]
"""Kind, meaning, and values by their labels."""
Gauges = Mapping[str, Family]
"""Name -> values."""


@dataclass(slots=True)
class Reloads:
    """The reloads of a bridge: their number, and what became of the last one."""

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(RELOADS, 0)))
    """Outcome -> times that the configuration was read again."""
    refusal: str = ""
    """Why the last reload was refused; "" if it was not."""
    last: float | None = None
    """When the configuration was last read again, refused or not, in seconds since 1970; None if never."""

    def note(self, refusal: str) -> None:
        """Count a reload, and keep why it was refused; "" if it was not."""
        self.counts[RELOADS[bool(refusal)]] += 1
        self.refusal = refusal
        self.last = time()


class Metrics:
    """Counts the events of `bridge.pump.events.PumpEvents`. The counters are by name of source or target."""

    def __init__(self) -> None:
        self.read_messages = Counter[str]()
        """Source -> messages."""
        self.read_bytes = Counter[str]()
        self.redelivered = Counter[str]()
        self.written = Counter[tuple[str, str]]()
        """Target and queue -> messages confirmed."""
        self.refusals = Counter[tuple[str, str]]()
        """Target and reason -> number of refusals."""
        self.fates = Counter[tuple[str, str]]()
        """Source or target, and dead-letter, hold or drop -> messages that were given up."""
        self.filtered_messages = Counter[tuple[str, str]]()
        """Source, and ``no match`` or ``fails`` -> messages that its filter rejected."""
        self.requests = Counter[tuple[str, str]]()
        """Source and `bridge.pump.replies.RequestOutcome` -> requests for servers of another system."""
        self.replies = Counter[tuple[str, str]]()
        """Source and `bridge.pump.replies.ReplyOutcome` -> replies of such servers."""
        self.connections = Counter[str]()
        self.disconnections = Counter[str]()
        self.up: dict[str, bool] = {}
        self.last_error: dict[str, str] = {}
        self.ended_sources: set[str] = set()
        self.latencies: dict[str, list[int]] = {}
        """Target -> confirmations per bucket of the time since reading; the last bucket has all longer times."""
        self.latency_sums: dict[str, float] = {}
        """Target -> sum of these times, in seconds."""
        self.unreadable: dict[str, Counter[str]] = {}
        """Source -> reason -> number of unreadable records; sources that read archives count these themselves."""
        self.on_change: Callable[[], object] = lambda: None
        """Called when a connection is made or lost, and when a source ends."""

    def prepare(self, sources: Mapping[str, bool], targets: Mapping[str, Iterable[str]]) -> None:
        """Create the series of all endpoints, with the value 0.

        Otherwise Prometheus's increase() would miss the first event of each series. ``sources`` maps a source to
        whether it has a filter, ``targets`` a target to its queues.
        """
        for name in sources:
            for counts in (self.read_messages, self.read_bytes, self.redelivered):
                counts[name] += 0
        for name, queues in targets.items():
            for queue in queues:
                self.written[name, queue] += 0
            self.latencies.setdefault(name, [0] * (len(BUCKETS) + 1))
            self.latency_sums.setdefault(name, 0.0)
        for name in (*sources, *targets):
            self.connections[name] += 0
            self.disconnections[name] += 0
            for fate in FATES:
                self.fates[name, fate] += 0
        for name, has_filter in sources.items():
            for reason in FILTERED if has_filter else ():
                self.filtered_messages[name, reason] += 0

    def forget_connections(self) -> None:
        """Forget which endpoints are connected or have ended, before a pump begins; counters go on."""
        for names in (self.up, self.last_error, self.ended_sources):
            names.clear()

    def connected(self, name: str) -> None:
        self.up[name] = True
        self.connections[name] += 1
        self.last_error.pop(name, None)
        self.on_change()

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        self.up[name] = False
        self.disconnections[name] += 1
        self.last_error[name] = str(error)
        self.on_change()

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        self.read_messages[source] += len(deliveries)
        self.read_bytes[source] += sum([len(delivery.message.body) for delivery in deliveries])
        again = sum([delivery.redelivered for delivery in deliveries])
        if again:
            self.redelivered[source] += again

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        counts = self.latencies.get(target)
        if counts is None:
            counts = self.latencies[target] = [0] * (len(BUCKETS) + 1)
        written, total = self.written, 0.0
        for outgoing in messages:
            written[target, outgoing.queue] += 1
            took = now - outgoing.context.since
            total += took
            counts[bisect_left(BUCKETS, took)] += 1
        self.latency_sums[target] = self.latency_sums.get(target, 0.0) + total

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        reason = failure.reason.partition(":")[0]  # the rest may name a message: a series for each would be too many
        self.refusals[target, reason] += 1

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        self.fates[target, fate] += 1

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        self.fates[source, fate] += 1

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        self.filtered_messages[source, reason.partition(":")[0]] += 1

    def requested(self, source: str, outcome: RequestOutcome) -> None:
        self.requests[source, outcome] += 1

    def replied(self, source: str, outcome: ReplyOutcome) -> None:
        self.replies[source, outcome] += 1

    def left(self, source: str) -> None:
        self.up[source] = False
        self.on_change()

    def ended(self, source: str) -> None:
        self.ended_sources.add(source)
        self.on_change()

    def families(self) -> Gauges:
        """Return all counters, but those of latencies."""
        unreadable = {
            (source, reason): count for source, counts in self.unreadable.items() for reason, count in [*counts.items()]
        }
        families: dict[str, Family] = {}
        for name, meaning, labels, counts in (
            ("hashstar_read_messages_total", "Messages read.", ("source",), self.read_messages),
            ("hashstar_read_bytes_total", "Bytes of bodies read.", ("source",), self.read_bytes),
            ("hashstar_redelivered_messages_total", "Messages read again.", ("source",), self.redelivered),
            ("hashstar_written_messages_total", "Messages confirmed.", ("target", "queue"), self.written),
            ("hashstar_refusals_total", "Messages a target refused.", ("target", "reason"), self.refusals),
            ("hashstar_fates_total", "Messages given up.", ("endpoint", "fate"), self.fates),
            (
                "hashstar_filtered_messages_total",
                "Messages that a filter rejected.",
                ("source", "reason"),
                self.filtered_messages,
            ),
            (
                "hashstar_requests_total",
                "Requests passed on to servers of another system, or expired.",
                ("source", "outcome"),
                self.requests,
            ),
            ("hashstar_replies_total", "Replies of such servers.", ("source", "outcome"), self.replies),
            ("hashstar_unreadable_records_total", "Records of archives left out.", ("source", "reason"), unreadable),
            ("hashstar_connections_total", "Connections made.", ("endpoint",), self.connections),
            ("hashstar_disconnections_total", "Connections lost.", ("endpoint",), self.disconnections),
        ):
            keys = [(key if isinstance(key, tuple) else (key,), count) for key, count in dict(counts).items()]
            families[name] = "counter", meaning, {tuple(zip(labels, key, strict=True)): count for key, count in keys}
        return families

    def lines(self, gauges: Gauges) -> Iterator[str]:
        """Yield the lines of Prometheus's text format; ``gauges`` are the present values."""
        yield from format_metrics({"": (self, gauges)}, {})


def format_metrics(pipelines: Mapping[str, tuple[Metrics, Gauges]], of_all: Gauges) -> Iterator[str]:
    """Yield the lines of Prometheus's text format: each family once, with a label for each pipeline that has a name."""
    families: dict[str, Family] = {}
    for pipeline, (metrics, gauges) in pipelines.items():
        for name, (kind, meaning, values) in {**metrics.families(), **gauges}.items():
            together = families.setdefault(name, (kind, meaning, {}))[2]
            assert isinstance(together, dict)  # noqa: S101  made here
            together.update({(*_label(pipeline), *labels): value for labels, value in values.items()})
    for name, (kind, meaning, values) in {**families, **of_all}.items():
        yield from format_family(name, kind, meaning, values)
    yield "# HELP hashstar_latency_seconds From reading a message to its confirmation."
    yield "# TYPE hashstar_latency_seconds histogram"
    for pipeline, (metrics, _) in pipelines.items():
        for target, counts_of in list(metrics.latencies.items()):
            below, labels = 0, (*_label(pipeline), ("target", target))
            for bound, count in zip((*BUCKETS, inf), list(counts_of), strict=True):
                below += count
                le = "+Inf" if bound == inf else f"{bound:g}"
                yield f"hashstar_latency_seconds_bucket{format_labels((*labels, ('le', le)))} {below}"
            shown = format_labels(labels)
            yield f"hashstar_latency_seconds_sum{shown} {format_number(metrics.latency_sums.get(target, 0.0))}"
            yield f"hashstar_latency_seconds_count{shown} {below}"


def _label(pipeline: str) -> tuple[tuple[str, str], ...]:
    return (("pipeline", pipeline),) if pipeline else ()


class Sample(NamedTuple):
    """Counts at one moment."""

    time: float
    """In seconds, by the loop's clock."""
    read: Counter[str]
    """Source -> messages."""
    written: Counter[str]
    """Target -> copies."""


class HistoryJson(TypedDict):
    """Messages per second of the last minutes."""

    step: float
    """Seconds between two rates."""
    sources: dict[str, list[float]]
    """Source -> messages per second by step, oldest first; of several pipelines, as `PIPELINE/SOURCE`."""
    targets: dict[str, list[float]]


class History:
    """Samples of the counts, one at the end of each of the last steps; added on the event loop, read by any thread."""

    def __init__(self) -> None:
        self._samples: tuple[Sample, ...] = ()
        """Always replaced as a whole, so that other threads read it without a lock."""

    def add(self, now: float, metrics: Metrics) -> None:
        """Add a sample if the last one is a step old; ``now`` is the loop's time."""
        if self._samples and now - self._samples[-1].time < STEP - 0.1:  # calls do not come at exact times
            return
        written = Counter[str]()
        for (target, _), count in metrics.written.items():
            written[target] += count
        sample = Sample(now, Counter(metrics.read_messages), written)
        self._samples = (*self._samples, sample)[-(MAX_HISTORY_STEPS + 1) :]

    def as_json(self) -> HistoryJson:
        """Return the messages per second of each source and target by step, oldest first."""
        samples = self._samples
        spans = [later.time - earlier.time for earlier, later in pairwise(samples)]

        def rates(counts: Sequence[Counter[str]]) -> dict[str, list[float]]:
            return {
                name: [
                    round((b[name] - a[name]) / span, 1) for (a, b), span in zip(pairwise(counts), spans, strict=True)
                ]
                for name in dict.fromkeys([name for each in counts for name in each])
            }

        return {
            "step": STEP,
            "sources": rates([sample.read for sample in samples]),
            "targets": rates([sample.written for sample in samples]),
        }
