"""The rows of a report: bindings, lines, queues, exchanges, unroutable messages and their flow, with their counts.

Times are microseconds since 1970, UTC; shares are parts of 1. Each approximate number has its error beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from bindings.archive.figures import EARLIEST_TIME, Share, Time
from bindings.counts.uses import BindingUse, ExchangeUse, QueueUse
from bindings.report.thresholds import IgnoreUse
from exchange.entities.entities import Binding, Destination
from exchange.values.documents import document, with_underscores

States = Literal["dead", "stale", "hit", "possible", "ignored", "dead letters only", "not eligible"]
State: TypeAlias = Annotated[States, with_underscores(States)]
"""State of a binding. ``possible``: a random choice decides; counts as hit. ``stale``: not hit lately. ``dead letters
only``: only dead letters can reach it, and none of the messages did."""

STATES: Final[tuple[State, ...]] = ("dead", "stale", "possible", "hit", "ignored", "dead letters only", "not eligible")
"""The states in the order in which they are shown."""
UNCOUNTED: Final[frozenset[State]] = frozenset({"ignored", "dead letters only", "not eligible"})
"""States of bindings that are left out of binding coverage."""

FlowKind = Literal["binding", "alternate", "default", "nowhere"]

LineStates = Literal["hit", "partial", "never", "unreached", "ignored", "dead letters only", "not eligible"]
LineState: TypeAlias = Annotated[LineStates, with_underscores(LineStates)]
"""State of a line that makes bindings. ``partial``: some were hit, others never. ``never``: none was, though messages
passed its exchange. ``unreached``: no message passed its exchange."""


class BindingRow(NamedTuple):
    """A binding, its counts and its state."""

    use: BindingUse
    state: State
    ignored: IgnoreUse | None = None
    """The entry of the ignore list that matches it."""
    line: int | None = None
    """Line of the .bindings file that makes it, from 1; None if there is no such file."""


@document("LineRowJson")
class LineRow(NamedTuple):
    """A line of a .bindings file that makes bindings, with the sums of their counts."""

    line: int
    """From 1."""
    bindings: tuple[int, ...]
    """Numbers of the bindings; more than one for several destinations, or where a ``for`` repeats the line."""
    messages: int
    """Messages that matched, summed over the bindings: one that matched two of them counts twice."""
    possible: int
    """Messages that may have matched, depending on a random choice, summed likewise."""
    hit: int
    """Number of the bindings that are hit, possible or stale."""
    state: LineState


class Listed(NamedTuple):
    """The text of the .bindings file that was audited, and its lines that make bindings."""

    text: str
    rows: tuple[LineRow, ...]
    """In the order of the lines."""


@document("HotKeyJson", "key = text, messages, partition")
class Count(NamedTuple):
    """A frequent text; its true count is between ``messages`` and ``messages`` plus the error of the list."""

    text: str
    messages: int
    partition: int | None = None
    """Partition of a key in a partitioned queue, if the routing key alone decides it."""


@document("PartitionJson")
class PartitionRow(NamedTuple):
    """A partition of a queue."""

    partition: int | None
    """None in the row of all messages whose key does not decide their partition."""
    name: str | None
    messages: int


@document("SkewJson")
class Skew(NamedTuple):
    """Unevenness of partitions, empty ones included, for the messages whose key decides their partition."""

    partitions: int
    max_to_mean: Share
    """Fullest partition divided by the mean: 1 if all are equal, ``partitions`` if one has all."""
    top_share: Share
    """Share of the fullest partition."""
    gini: Share
    """Gini coefficient: 0 if all are equal, near 1 if one has all."""
    variation: Share
    """Coefficient of variation: the standard deviation divided by the mean."""


class QueueRow(NamedTuple):
    """A queue and its counts."""

    use: QueueUse
    type: str
    share: Share | None
    """Share of all messages that reached it; None if there are no messages."""
    hot: tuple[Count, ...]
    hot_error: int
    """A true count of ``hot`` is its ``messages`` to ``messages`` plus this."""
    partitioning: str | None
    partitions: tuple[PartitionRow, ...]
    skew: Skew | None
    """None for a queue that is not partitioned, or got no message whose key decides its partition."""
    line: int | None = None
    """Line of the .bindings file that declares it."""


class ExchangeRow(NamedTuple):
    """An exchange and its counts."""

    use: ExchangeUse
    type: str | None
    """None if the topology has no such exchange."""
    internal: bool
    states: Mapping[State, int]
    """Numbers of the bindings from it, by state."""
    eligible: int
    hit: int
    hot: tuple[Count, ...]
    hot_error: int
    """A true count of ``hot`` is its ``messages`` to ``messages`` plus this."""
    line: int | None = None
    """Line of the .bindings file that declares it."""

    @property
    def routed(self) -> int:
        """Number of messages published to it that reached a queue."""
        return self.use.published - self.use.unroutable - self.use.undecided - self.use.refused

    @property
    def binding_coverage(self) -> Share | None:
        """Share of its eligible bindings that are hit; None if there are none."""
        return self.hit / self.eligible if self.eligible else None

    @property
    def message_coverage(self) -> Share | None:
        """Share of the messages published to it that are routed; None if there are none."""
        return self.routed / self.use.published if self.use.published else None


class Nearest(NamedTuple):
    """The binding, queue or exchange that unroutable messages almost reached."""

    binding: Binding | None
    """None where the name of a queue or an exchange is nearest, and no binding."""
    number: int | None
    """Number of the binding in `bindings.counts.outcome.sort_bindings`."""
    destination: Destination
    reason: str
    """What in the example did not match."""
    distance: Share
    """Distance as `exchange.routing.nearest` measures it: about the number of words that are wrong."""


@document("UnroutableShapeJson")
class Shape(NamedTuple):
    """Routing keys that differ only in words that no binding names; the shape has ``*`` for each of these."""

    shape: str
    messages: int
    example: str
    nearest: Nearest | None


@document("UnroutableRowJson", "exchange, refused or null, messages, first, last, sample, shapes, shapes_error = error")
class UnroutableRow(NamedTuple):
    """Messages published to one exchange that no queue got, by the error that the broker answers with."""

    exchange: str
    refused: str
    """Error that the broker answers with; "" if it drops the messages without an answer."""
    messages: int
    first: Time | None
    last: Time | None
    sample: tuple[str, ...]
    shapes: tuple[Shape, ...]
    error: int
    """Maximum by which the counts of the shapes may be too low."""


class Timeline(NamedTuple):
    """Numbers of messages over time, in slots of equal width."""

    slot: int
    """Width of a slot in microseconds."""
    start: Time
    """Start of slot 0. Slots begin at multiples of their width from 1970 on; one that would begin before the year 1,
    which no date can, begins there."""
    slots: int
    counts: Mapping[str, tuple[tuple[int, int, int, int], ...]]
    """Exchange published to -> (slot, messages routed, not routed, undecided); slots without messages are left out."""

    def start_of(self, number: int) -> int:
        """Return the start of a slot."""
        return max((self.start // self.slot + number) * self.slot, EARLIEST_TIME)


class Flow(NamedTuple):
    """Messages that went from an exchange to a destination, or ended there unroutable: the destination is None then."""

    source: str
    destination: Destination | None
    kind: FlowKind
    messages: int
    possible: int
    """Number of further messages that may go there, depending on a random choice. Disjoint from ``messages``."""
