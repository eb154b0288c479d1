"""What was found in a source of dead letters: the value that all forms show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from bindings.archive.figures import format_time
from bridge.dead.conventions import Death
from bridge.dead.groups import Group, Grouping
from bridge.dead.reading import Read
from bridge.dead.verdicts import Judge, Verdict
from exchange.entities.unread import UnreadPart
from exchange.values.documents import document


@document("EndingJson", "count = messages, *verdict")
class Ending(NamedTuple):
    """What would become of some messages of a group, published again."""

    messages: int
    """Number of messages."""
    verdict: Verdict


def since(group: DeadGroup) -> str | None:
    """Time of the first death in ISO 8601, UTC, or of the first message where no death has one; null: none is known."""
    return None if group.times[0] is None else format_time(group.times[0])


def until(group: DeadGroup) -> str | None:
    """Time of the last one."""
    return None if group.times[1] is None else format_time(group.times[1])


@document(
    "DeadGroupJson",
    "count, by = death.by or null, reason = death.reason or null, queue = death.queue or null, "
    "first = death.first or null, exchange = death.exchange, key = death.key, "
    "exception = death.exception or null, error = death.error or null, why or null, since, until, tries, "
    "example = ExampleJson(source, offset, routing_key = example_key), endings",
    since=since, until=until,
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead letters that died alike."""

    death: Death
    count: int
    """Number of messages."""
    why: str
    """Why they died, by the topology; null without one, and where it does not say."""
    times: tuple[int | None, int | None]
    tries: int
    """Maximum number of tries, or of deaths in that queue for that reason, of one message; 0 where none is known."""
    source: str
    """File, queue, or topic with its partition, of a message of the group."""
    offset: int | None
    """Where it is there, as the format counts: a byte, a line, an offset; of a queue, its number from the head; null if
    unknown."""
    example_key: str
    """Its routing key."""
    endings: tuple[Ending, ...]
    """What would become of them, published again: the most frequent first; empty without a topology."""


@document("LeftOverJson", "reason, count = messages")
class LeftOver(NamedTuple):
    """Dead letters that were to be moved and stay where they are."""

    reason: str
    messages: int


@document("GoingJson", "kind, name, count = messages")
class Going(NamedTuple):
    """What messages would be published to."""

    kind: Literal["exchange", "queue", "topic"]
    name: str
    messages: int


@document("ReplayJson")
class Replay(NamedTuple):
    """What was done with dead letters."""

    action: Literal["replay", "undo", "dry-run"]
    moved: int
    """Number of messages that were published and confirmed: again, or as dead letters by undo."""
    done_before: int
    """Number of those that an earlier run had published, and that only left their queue now; those of a topic stay."""
    again: int
    """Number of those moved that an earlier run may have published, too, as it was killed."""
    left: tuple[LeftOver, ...]
    """What stays, the most frequent reason first."""
    missing: int
    """Number of messages that undo did not find: they were consumed, went with their queue, or stand behind --limit."""
    is_stopped: bool
    """Whether a signal ended it before all were looked at."""
    goes: tuple[Going, ...] = ()
    """Of --dry-run: what would be published, and to what, the most first."""
    not_looked_at: int = 0
    """Number of offsets of a topic that were not read, because of --limit or a transaction that is open."""


@document("DeadReportJson")
@dataclass(frozen=True, slots=True)
class DeadReport:
    """What was found in a source."""

    source: str
    """Path, or address without a password."""
    looked_at: int
    """Number of messages that were read."""
    selected: int
    """Number of those that --where selects; all without it."""
    not_looked_at: int | None
    """Number of messages in the source that were not read, because of --limit or --wait; null: unknown."""
    bad: int
    """Number of records that could not be read."""
    skipped: int
    """Number of records that are no messages."""
    ungrouped: int
    """Number of selected messages in no group, as there were too many groups."""
    notes: tuple[str, ...]
    """What else is to be known about the reading."""
    groups: tuple[DeadGroup, ...]
    """The groups, the largest first."""
    unread: tuple[UnreadPart, ...] = ()
    """Parts of the topology that were not read, so that nothing is proved about where messages would go."""
    replay: Replay | None = None
    """What was done with them; null: they were looked at only."""


def build_report(source: str, grouping: Grouping, judge: Judge | None, read: Read) -> DeadReport:
    """Return the report of a source, of which ``read`` says what was not grouped."""
    groups = tuple([_describe(death, group, judge) for death, group in grouping.finish()])
    selected = grouping.ungrouped + sum([each.count for each in groups])
    return DeadReport(
        source, grouping.looked_at, selected, read.left, read.bad, read.skipped, grouping.ungrouped, tuple(read.notes),
        groups, () if judge is None else judge.unread,
    )  # fmt: skip


def _describe(death: Death, group: Group, judge: Judge | None) -> DeadGroup:
    endings = tuple([Ending(count, verdict) for verdict, count in group.verdicts.most_common()])
    return DeadGroup(
        death, group.count, "" if judge is None else judge.explain(death), (group.since, group.until), group.tries,
        group.source, group.offset, group.key, endings,
    )  # fmt: skip
