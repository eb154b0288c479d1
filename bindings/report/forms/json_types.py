"""The types of a report's JSON. ``docs/audit-json.md`` explains the fields to readers; fields may be added.

Times are ISO 8601 in UTC, shares and coverages parts of 1, and what is not known is null.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from bindings.check.report import FindingJson
from bindings.counts.outcome import Fate
from bindings.report.model import FlowKind
from exchange.topology.unread import UnreadPartJson
from exchange.values.json_types import BindingJson, MessageJson

__all__ = [
    "AlternateUseJson", "ArchiveJson", "AuditJson", "AuditedJson", "BadJson", "BiasName", "BindingRowJson",
    "ComparisonJson", "DifferenceJson", "EvidenceJson", "ExchangeRowJson", "FindingRowJson", "FlowJson", "GateJson",
    "HotJson", "IgnoredJson", "LineRowJson", "LineStateJson", "NearestJson",
    "QueueRowJson", "RecordsJson", "RepartitionedJson", "ReroutedJson",
    "ShapeJson", "SkewJson", "StateJson", "TimelineJson", "TotalsJson", "UnroutableRowJson", "VerificationJson",
    "WitnessJson",
]  # fmt: skip

BiasName = Literal["everything", "survivors", "sample", "unknown"]
StateJson = Literal["dead", "stale", "hit", "possible", "ignored", "dead_letters_only", "not_eligible"]
LineStateJson = Literal["hit", "partial", "never", "unreached", "ignored", "dead_letters_only", "not_eligible"]
EvidenceJson = Literal["proved", "belied", "no_traffic"]


class TopologyJson(TypedDict):
    """The topology that was audited."""

    source: str
    """The file or address."""
    vhost: str
    profile: str
    """The release of RabbitMQ whose rules were applied."""
    fingerprint: str
    """Equal for topologies that route alike."""
    exchanges: int
    """Number of exchanges, predeclared ones included."""
    queues: int
    bindings: int


class BiasJson(TypedDict):
    """Which of the published messages an archive holds."""

    name: BiasName
    says: str
    """Its meaning."""


class OthersJson(TypedDict):
    """Files that are not archives."""

    files: int
    """Number of files that were not read."""
    some: list[str]
    """The first of them."""


class ArchiveJson(TypedDict):
    """An archive that was read."""

    path: str
    formats: list[str]
    files: int
    bias: list[BiasJson]
    notes: list[str]
    """Sentences that a reader must know before the numbers."""
    not_archives: OthersJson


class SelectionJson(TypedDict):
    """The window of time that was asked for."""

    since: str | None
    until: str | None


class WindowJson(TypedDict):
    """The times of the messages that were counted."""

    first: str | None
    last: str | None
    messages_without_time: int


class SkippedJson(TypedDict):
    """Records that are no messages, or cannot be audited."""

    reason: str
    records: int


class SampleJson(TypedDict):
    """A record that could not be read."""

    source: str
    """The file."""
    offset: int
    """A byte, line or offset, as the format counts."""
    sample: str
    """How the record begins."""


class BadJson(TypedDict):
    """Records that could not be read."""

    reason: str
    records: int
    samples: list[SampleJson]


class RecordsJson(TypedDict):
    """The records of the archives: `read` is the sum of counted, skipped and bad ones."""

    read: int
    counted: int
    skipped: list[SkippedJson]
    bad: list[BadJson]


class AuditedJson(TypedDict):
    """What was audited."""

    topology: TopologyJson
    archives: list[ArchiveJson]
    tallies: list[str]
    """The files that were merged, where there is no archive."""
    selection: SelectionJson
    window: WindowJson
    records: RecordsJson
    missing: list[UnreadPartJson]
    """Parts of the topology that were not read: then dead bindings and unroutable messages are not proved."""


class OptionsJson(TypedDict):
    """Options that the numbers depend on."""

    stale_days: int
    precision: int
    """Number of digits of percentages."""


class ApproximateJson(TypedDict):
    """Errors of approximate numbers."""

    distinct_keys: float
    """Relative standard error of each field of this name."""


class BindingTotalsJson(TypedDict):
    """Coverage of bindings."""

    all: int
    eligible: int
    """Bindings that can be hit, by messages other than dead letters, and are not ignored."""
    hit: int
    """Eligible bindings that are hit."""
    coverage: float | None
    """Hit of eligible."""
    states: dict[StateJson, int]
    """Number of bindings in each state."""


class MessageTotalsJson(TypedDict):
    """Coverage of messages."""

    all: int
    routed: int
    """Messages that one queue or more gets."""
    unroutable: int
    """Messages that the broker drops or returns."""
    undecided: int
    """Messages that depend on a random choice or an exchange of unknown type."""
    refused: int
    """Messages for which the broker closes the channel."""
    coverage: float | None
    """Routed of all."""


class TotalsJson(TypedDict):
    """The two totals, of bindings and of messages; neither stands for the other."""

    bindings: BindingTotalsJson
    messages: MessageTotalsJson
    copies: int
    """Copies that queues got."""
    duplicates_avoided: int
    """Copies that a queue did not get because it had the message already by another binding."""
    queues_without_messages: int


class IgnoredStateJson(TypedDict):
    """Why a binding is ignored, and until when."""

    reason: str
    until: str
    """A day, as 2027-01-31."""


class BindingRowJson(BindingJson):
    """A binding and its use."""

    number: int
    """Its position in the list, the same for equal topologies."""
    state: StateJson
    ignored: IgnoredStateJson | None
    messages: int
    """Messages that matched it, on any hop."""
    possible: int
    """Further messages that may match it, depending on a random choice."""
    only: int
    """Messages that reached its destination by no other binding."""
    share: float | None
    """Share of the messages of its destination that matched it."""
    distinct_keys: int
    first: str | None
    last: str | None
    exposure: int
    """Messages that went through its source, and so could have matched it."""
    bound: float | None
    """Of a binding without messages: at most this share of its source's messages matches, with 95 % confidence."""
    eligible: bool
    """Whether it can be hit, by messages other than dead letters; ignored or not."""
    line: int | None
    """Line of the .bindings file that declares it, from 1; null for other topologies."""


class HotKeyJson(TypedDict):
    """A frequent key."""

    key: str
    messages: int
    partition: int | None
    """Id of its partition, if the routing key alone decides that."""


class HotJson(TypedDict):
    """The most frequent keys."""

    keys: list[HotKeyJson]
    error: int
    """A true count is `messages` to `messages` plus this."""


class PartitionJson(TypedDict):
    """A partition of a queue."""

    partition: int | None
    """Its id; null for messages whose key does not decide."""
    name: str | None
    messages: int


class SkewJson(TypedDict):
    """Unevenness of partitions."""

    partitions: int
    max_to_mean: float
    """Fullest partition divided by the mean; 1 if all are equal."""
    top_share: float
    """Share of the fullest partition."""
    gini: float
    variation: float
    """Standard deviation divided by the mean."""


class QueueRowJson(TypedDict):
    """A queue and its messages."""

    queue: str
    type: str
    messages: int
    possible: int
    share: float | None
    """Share of all messages."""
    duplicates_avoided: int
    distinct_keys: int
    hot: HotJson
    first: str | None
    last: str | None
    partitioning: str | None
    """Null for a queue without partitions."""
    partitions: list[PartitionJson]
    skew: SkewJson | None
    line: int | None
    """Line of the .bindings file that declares it, from 1; null for other topologies."""


class LineRowJson(TypedDict):
    """A line of a .bindings file that makes bindings."""

    line: int
    """From 1."""
    bindings: list[int]
    """Numbers of the bindings that it makes."""
    messages: int
    """Messages that matched, summed over the bindings."""
    possible: int
    hit: int
    """Number of the bindings that are hit, possible or stale."""
    state: LineStateJson


class FanOutJson(TypedDict):
    """Messages that reached a number of queues."""

    queues: int
    messages: int


class ExchangeRowJson(TypedDict):
    """An exchange and its messages."""

    exchange: str
    type: str | None
    """Null if there is no exchange of that name."""
    exists: bool
    internal: bool
    published: int
    """Messages published to it."""
    through: int
    """All messages that passed it, also from other exchanges."""
    routed: int
    unroutable: int
    undecided: int
    refused: int
    message_coverage: float | None
    bindings: BindingTotalsJson
    """Bindings from it."""
    fan_out: list[FanOutJson]
    distinct_keys: int
    hot: HotJson
    line: int | None
    """Line of the .bindings file that declares it, from 1; null for other topologies."""


class ShapeJson(TypedDict):
    """Keys of one shape, in which `*` stands for a word that no binding names."""

    shape: str
    messages: int
    example: str
    """A key of this shape."""


class AlternateUseJson(TypedDict):
    """An alternate exchange that was taken."""

    exchange: str
    alternate: str
    messages: int
    shapes: list[ShapeJson]
    shapes_error: int


class NearestJson(TypedDict):
    """What a key almost reached."""

    number: int | None
    """Number of the binding; null where the name of a queue or an exchange is near."""
    binding: BindingJson | None
    destination_type: str
    destination: str
    reason: str
    """Why it did not reach it."""
    distance: float | None
    """About the number of words that are wrong."""


class UnroutableShapeJson(ShapeJson):
    """Keys of one shape that no queue got."""

    nearest: NearestJson | None
    """Null at exchanges that look at headers."""


class UnroutableRowJson(TypedDict):
    """Messages to an exchange that no queue got."""

    exchange: str
    refused: str | None
    """The error that the broker answers with."""
    messages: int
    first: str | None
    last: str | None
    sample: list[str]
    """Some of the keys."""
    shapes: list[UnroutableShapeJson]
    shapes_error: int


class TimelineExchangeJson(TypedDict):
    """Messages to an exchange over time."""

    exchange: str
    counts: list[list[int]]
    """Rows with a number for each of the columns."""


class TimelineJson(TypedDict):
    """Messages over time, in slots of equal width."""

    slot_seconds: int
    """Width of a slot."""
    start: str
    """Start of slot 0."""
    slots: int
    columns: list[str]
    """`slot`, `routed`, `unroutable` and `undecided`."""
    exchanges: list[TimelineExchangeJson]


class FlowJson(TypedDict):
    """Messages from an exchange to a destination."""

    source: str
    destination_type: str | None
    destination: str | None
    """Null for messages that go nowhere."""
    kind: FlowKind
    messages: int
    possible: int


class FindingRowJson(FindingJson):
    """A finding of `hashstar check`, with the evidence of the traffic."""

    bindings: list[int]
    """Numbers of the bindings that it is about."""
    messages: int | None
    """Messages of its binding, exchange or queue."""
    evidence: EvidenceJson | None
    """Whether the traffic confirms the finding or contradicts it; null if it can do neither."""
    traffic: str | None
    """The evidence in a sentence."""


class GateJson(TypedDict):
    """A threshold, and whether it was kept."""

    name: str
    """As in the settings; `ignore` for an entry that expired."""
    scope: str
    """A name, or "" for everything."""
    of: Literal["", "exchange", "queue"]
    """What the scope is a name of."""
    limit: str
    actual: str
    passed: bool
    message: str


class IgnoredJson(TypedDict):
    """An entry of the settings that ignores bindings."""

    source: str
    destination: str
    pattern: str
    reason: str
    until: str
    expired: bool
    bindings: int
    """Number of bindings that it matches."""
    hit: int
    """Number of these that were hit."""


class WitnessJson(TypedDict):
    """A message that shows a difference."""

    message: MessageJson
    source: str
    """The file."""
    offset: int
    routed_queues: list[str] | None
    """Queues that the archive has recorded; null if it has not."""


class DifferenceJson(TypedDict):
    """Messages that the broker put elsewhere than the topology does."""

    exchange: str
    missing: list[str]
    """Queues that get them by the topology, but in which the broker did not put them."""
    extra: list[str]
    """Queues in which the broker put them, although they cannot get them by the topology."""
    unknown: list[str]
    """Queues in which the broker put them, and that are not in the topology."""
    none_of: list[str]
    """Queues of which a random choice must pick at least one; the broker put them in none."""
    refused: str | None
    """Error with which the broker should have refused them."""
    only_unknown: bool
    says: str
    """The difference in a sentence."""
    messages: int
    first: str | None
    last: str | None
    witnesses: list[WitnessJson]


class StrangerJson(TypedDict):
    """A queue that the topology does not have."""

    queue: str
    messages: int


class StrangersJson(TypedDict):
    """The unknown queues with the most messages."""

    queues: list[StrangerJson]
    error: int


class VerificationJson(TypedDict):
    """What the broker did, compared with the topology."""

    compared: int
    agreed: int
    possible: int
    """Messages whose difference a random choice may explain."""
    undecided: int
    """Messages with an exchange of unknown type on the way."""
    unknown: int
    """Messages of which the archive has not recorded what the broker did."""
    different: int
    misrouted: int
    """Messages that differ in more than queues that the topology does not have."""
    sorts: int
    """Number of sorts of differences."""
    more: int
    """Messages that differ in ways that are not listed."""
    differences: list[DifferenceJson]
    strangers: StrangersJson


class ComparedTopologyJson(TypedDict):
    """The other topology."""

    source: str
    fingerprint: str


class ComparisonTotalsJson(TypedDict):
    """Numbers of messages over the whole comparison."""

    messages: int
    elsewhere: int
    """Messages that are or may be routed differently; the next three are parts of it."""
    lose: int
    gain: int
    unsure: int
    become_unroutable: int
    no_longer_unroutable: int
    repartitioned: int


class ReroutedJson(TypedDict):
    """Messages that lose and gain the same queues."""

    exchange: str
    lost: list[str]
    gained: list[str]
    unsure: list[str]
    before: Fate
    after: Fate
    refused_before: str | None
    refused_after: str | None
    becomes_unroutable: bool
    no_longer_unroutable: bool
    says: str
    """The change in a sentence."""
    messages: int
    first: str | None
    last: str | None
    distinct_keys: int
    shapes: list[ShapeJson]
    shapes_error: int
    witnesses: list[WitnessJson]


class ChangedQueueJson(TypedDict):
    """Numbers of messages that a queue gets, before and after."""

    queue: str
    before: int
    after: int
    lost: int
    gained: int
    unsure: int
    status: Literal["kept", "removed", "added"]


class ChangedBindingJson(BindingJson):
    """A binding that only one topology has."""

    number: int
    change: Literal["added", "removed"]
    messages: int
    possible: int
    elsewhere: int
    """Messages of these that are routed differently."""


class PartitionFlowJson(TypedDict):
    """Messages from one partition to another."""

    before: str | None
    after: str | None
    messages: int


class RepartitionedJson(TypedDict):
    """A queue whose partitioning differs."""

    queue: str
    before: str | None
    after: str | None
    messages: int
    moved: int
    undecided: int
    share: float | None
    """Share of the messages that moves."""
    flows: list[PartitionFlowJson]


class ComparisonJson(TypedDict):
    """Which messages go elsewhere in another topology."""

    topology: ComparedTopologyJson
    says: str
    """A summary in a sentence."""
    totals: ComparisonTotalsJson
    rerouted: list[ReroutedJson]
    queues: list[ChangedQueueJson]
    bindings: list[ChangedBindingJson]
    partitions: list[RepartitionedJson]


class AuditJson(TypedDict):
    """The report of an audit: `hashstar audit --format json`, and `/coverage` of a bridge."""

    version: Literal[1]
    made: str
    """The time of the report."""
    passed: bool
    """Whether all gates passed; true if there are none."""
    audited: AuditedJson
    caveats: list[str]
    """Sentences that a reader must know before the numbers."""
    options: OptionsJson
    approximate: ApproximateJson
    totals: TotalsJson
    bindings: list[BindingRowJson]
    queues: list[QueueRowJson]
    exchanges: list[ExchangeRowJson]
    alternates: list[AlternateUseJson]
    """Alternate exchanges that were taken."""
    unroutable: list[UnroutableRowJson]
    """Messages that no queue got."""
    timeline: TimelineJson | None
    """Null if no message has a time."""
    flow: list[FlowJson]
    findings: list[FindingRowJson]
    gates: list[GateJson]
    ignored: list[IgnoredJson]
    verification: VerificationJson | None
    """Null without --verify."""
    comparison: ComparisonJson | None
    """Null without --compare."""
    lines: list[LineRowJson] | None
    """Lines of the .bindings file that make bindings; null for other topologies."""
