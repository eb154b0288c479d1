"""Partitions that are chosen, and what moves: lines of JSON, a table and a plot for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, NotRequired, TypedDict

from exchange.partition.moves import MessageDistribution, Moves
from exchange.partition.partitioner import Choice
from exchange.partition.partitions import Partitions
from exchange.text.display import count_noun
from exchange.values.documents import document
from exchange.values.forms import Form, Forms

FORMS: Final[Forms] = {
    "text": Form("exchange.partition.picture:to_lines", (".txt",)),
    "json": Form("exchange.partition.picture:DescribedMoves", (".json",)),
}
"""The forms of --change."""

WIDTH: Final = 32
"""Width of the longest bar, in characters."""

EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

ROWS: Final = 48
"""Maximum number of rows of the plot; more partitions are shown in groups of neighbours."""

FLOWS: Final = 10
"""Maximum number of moves from one partition to another that are listed."""


class PartitionLine(TypedDict):
    """The partition that a client would choose. The other fields of the line that was read are kept."""

    partition: int | str | None
    """Number of the partition, or its name where that is no number; null where the key does not decide."""
    rule: NotRequired[str]
    """What decides instead of the key; only where `partition` is null."""


def describe_choice(choice: Choice, partitions: Partitions) -> PartitionLine:
    """Return what a line of output has about the choice of a client."""
    if choice.partition is None:
        return {"partition": None, "rule": choice.rule}
    partition = partitions[choice.partition]
    return {"partition": partition.id if partition.name == str(partition.id) else partition.name}


FlowJson = TypedDict("FlowJson", {"from": str, "to": str, "messages": int})


class DescribedMoves(NamedTuple):
    """What moves when partitions, strategy or brokers change: `hashstar partition --change ... --json`."""

    moves: Moves
    before: str
    """Strategy and partitions before."""
    after: str
    """Strategy and partitions after."""


def _flows(described: DescribedMoves) -> list[FlowJson]:
    """Messages by the names of their partitions before and after, for those that move; most messages first."""
    return [{"from": old, "to": new, "messages": count} for (old, new), count in _largest(described.moves)]


document(
    "MovesJson",
    "before, after, moves.keys, moves.messages, moves.keys_moved, moves.messages_moved, moves.keys_at_risk, "
    "moves.keys_scattered, moves.messages_undecided, moves.refused or null, flows, "
    "skew = SkewsJson(moves.before, moves.after)",
    flows=_flows,
)(DescribedMoves)


def to_lines(moves: Moves, before: str, after: str) -> Iterator[str]:
    """Yield the report as lines of text; ``before`` and ``after`` describe the two distributions."""
    yield f"{before}  ->  {after}"
    yield ""
    yield f"{'':24}{'all':>12}{'move':>12}"
    yield _row("keys", moves.keys, moves.keys_moved)
    yield _row("messages", moves.messages, moves.messages_moved)
    if moves.messages_undecided:
        yield f"{'not decided by the key':24}{moves.messages_undecided:>12,}"
    if moves.refused:
        yield f"  of those, what the client refuses: {moves.refused}"
    yield ""
    yield from _order(moves)
    yield ""
    yield f"{'':24}{'before':>12}{'after':>12}"
    yield f"{'partitions':24}{len(moves.before.messages):>12,}{len(moves.after.messages):>12,}"
    yield f"{'empty partitions':24}{moves.before.empty:>12,}{moves.after.empty:>12,}"
    yield f"{'fullest / mean':24}{_ratio(moves.before):>12}{_ratio(moves.after):>12}"
    if moves.before.hottest_messages > 1:
        share = moves.before.hottest_messages / (moves.messages or 1)
        yield f"{'hottest key':24}{share:>12.1%}  {moves.before.hottest_key!r}"
    yield ""
    yield from _plot(moves)
    largest = _largest(moves)[:FLOWS]
    if largest:
        yield ""
        yield f"largest moves ({count_noun(len(moves.flows), 'pair')} of partitions in all)"
        for (old, new), count in largest:
            yield f"  {old} -> {new}: {count_noun(count, 'message')}"


def _order(moves: Moves) -> Iterator[str]:
    """Yield what is known of the order of each key; nothing is claimed of messages whose partition no key decides."""
    if moves.keys_scattered:
        scattered = count_noun(moves.keys_scattered, "key")
        yield f"order: lost for {scattered} with several messages here, whose partition the key no longer decides"
    if moves.keys_moved:
        yield f"order: at risk for the keys that move, of which {moves.keys_at_risk:,} have several messages here:"
        yield "  what is still unread in the old partition can be read after what is written to the new one."
        yield "  Safe: stop the producers, let the consumers drain the old partitions, change, go on."
    elif not moves.messages:
        yield "order: nothing is known, as no message was read"
    elif not moves.messages_undecided:
        yield "order: no key moves, so none can be overtaken"
    elif moves.messages_undecided < moves.messages:
        undecided = count_noun(moves.messages_undecided, "message")
        yield f"order: no other key moves, so none can be overtaken; {undecided} not decided by the key left out"
    elif not moves.keys_scattered:
        yield "order: nothing is known, as no key decides its partition before and after"


def _row(name: str, count: int, moved: int) -> str:
    share = moved / count if count else 0
    return f"{name:24}{count:>12,}{moved:>12,}{share:>8.1%}"


def _plot(moves: Moves) -> Iterator[str]:
    """Yield a row for each partition, the bar before above the bar after, all on one scale."""
    names = list(dict.fromkeys([*moves.before.messages, *moves.after.messages]))
    step = -(-len(names) // ROWS)  # rounded up: partitions per row
    groups = [names[at : at + step] for at in range(0, len(names), step)]
    rows = [
        (
            group[0] if len(group) == 1 else f"{group[0]}..{group[-1]}",
            _sum(moves.before, group),
            _sum(moves.after, group),
        )
        for group in groups
    ]
    most = max([count for _, *pair in rows for count in pair if count is not None], default=0)
    width = max(len(name) for name, _, _ in rows)
    yield "messages by partition, before above after"
    for name, old, new in rows:
        yield f"  {name:>{width}} {_bar(old, most)}"
        yield f"  {'':>{width}} {_bar(new, most)}"


def _sum(skew: MessageDistribution, names: list[str]) -> int | None:
    counts = [skew.messages[name] for name in names if name in skew.messages]
    return sum(counts) if counts else None


def _bar(count: int | None, most: int) -> str:
    if count is None:
        return "-"
    eighths = round(count * WIDTH * 8 / most) if most else 0
    return f"{'█' * (eighths // 8)}{EIGHTHS[eighths % 8].strip()} {count:,}"


def _largest(moves: Moves) -> list[tuple[tuple[str, str], int]]:
    return sorted(moves.flows.items(), key=lambda flow: (-flow[1], flow[0]))


def _ratio(skew: MessageDistribution) -> str:
    return "-" if skew.ratio is None else f"{skew.ratio:.2f}"


def _fullest_to_mean(skew: MessageDistribution) -> float | None:
    """The fullest partition divided by the mean; null without messages."""  # noqa: D401  it describes a field
    return None if skew.ratio is None else round(skew.ratio, 4)


document("SkewJson", "messages, fullest_to_mean, empty", fullest_to_mean=_fullest_to_mean)(MessageDistribution)
