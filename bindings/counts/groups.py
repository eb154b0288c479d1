"""Groups of messages that a report counts: those that took a binding, that a queue got, that no queue got, and so on.

Each outcome of messages is in some groups, and a report shows the facts of groups only. There are as many groups as a
topology has parts, but there may be millions of outcomes. So a tally of too many outcomes keeps the facts of groups
instead: all that a report shows but the errors of heavy hitters is then what it is without that limit.

A queue of a thousand bindings may get messages of a hundred thousand outcomes. So the facts are added up in columns, of
pairs of an outcome and what its messages took, and nothing here loops over pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.ranges import compute_offsets, expand_ranges
from bindings.counts.columnar.fact_columns import FactColumns, FactTable, add_facts, list_table
from bindings.counts.outcome import Facts, Outcome, sort_bindings
from bindings.counts.sketch import hash_of
from exchange.entities.entities import Binding, Destination
from exchange.topology.topology import Topology

Indices = npt.NDArray[np.int64]
K = TypeVar("K", bound=Hashable)

MAX_NAMES: Final = 1_000
"""Maximum number of exchanges that the topology does not name, with groups of their own."""

PIECE: Final = 1 << 14
"""Number of outcomes whose pairs are made at a time; those of one take some kilobytes."""

GroupKind = Literal[
    "binding", "possible binding", "sole binding",
    "queue", "possible queue", "bound queue",
    "exchange", "passed exchange", "fate", "fan-out",
    "alternate", "possible alternate", "lost",
    "way to queue", "way to exchange", "possible way to queue", "possible way to exchange", "default way", "end",
]  # fmt: skip


class MessageGroup(NamedTuple):
    """Messages that have something in common; a message is in many groups.

    ::

        binding         took the binding `number`, certainly
        sole binding    reached its destination by this binding only
        queue           were got by the queue `name`, certainly
        bound queue     were got by it through a binding, one or several
        exchange        were published to `name`
        passed exchange passed it, certainly
        fate            were published to it, with the `Fate` `other`
        fan-out         were published to it, and `number` queues certainly got them
        alternate       went from it to its alternate exchange `other`
        lost            were published to it, and no queue got them; the broker's error is `other`
        way to queue    took a binding from it to the queue `other`; likewise to an exchange
        default way     were published to the default exchange, for the queue `other`
        end             were got by no queue, and this exchange handed them to no other

    Possible are those that do so depending on a random choice.
    """

    group: GroupKind
    name: str = ""
    other: str = ""
    number: int = 0


OF_BINDINGS: Final = frozenset[GroupKind](["binding", "possible binding", "sole binding"])
"""Groups whose number is that of a binding."""
WITH_KEYS: Final = frozenset[GroupKind](["binding", "queue", "exchange"])
"""Groups whose distinct keys are counted."""
WITH_HOT_KEYS: Final = frozenset[GroupKind](["queue", "exchange"])
WITH_SHAPES: Final = frozenset[GroupKind](["alternate", "lost"])
WITH_SAMPLES: Final = frozenset[GroupKind](["lost"])
PUBLISHED: Final = frozenset[GroupKind](["exchange", "fate", "fan-out", "lost", "end"])
"""Groups of messages that were published to one exchange, which need not exist."""


class Pairs(NamedTuple):
    """Outcomes and what they have, by numbers, as two parallel columns."""

    rows: Indices
    """Numbers of outcomes; they ascend."""
    values: Indices

    def select(self, values: Indices) -> Pairs:
        """Return the outcomes with other values, each pair once; those below 0 are left out."""
        known = np.flatnonzero(values >= 0)
        width = int(values.max(initial=0)) + 1
        keys = np.sort(self.rows[known] * width + values[known])  # nearly sorted before; np.unique would hash them
        keys = keys[np.diff(keys, prepend=-1) != 0]
        return Pairs(keys // width, keys % width)


def pair(lists: Iterable[Sequence[Any]], numbers: Mapping[Any, int] | None = None) -> Pairs:
    """Return a pair for each number in the list of each outcome; of what ``numbers`` has a number for, if given."""
    listed = list(lists)
    sizes = np.fromiter(map(len, listed), np.int64, len(listed))
    flat = chain.from_iterable(listed)
    values = flat if numbers is None else map(numbers.__getitem__, flat)
    return Pairs(np.repeat(np.arange(len(listed)), sizes), np.fromiter(values, np.int64, int(sizes.sum())))


def find_sole_bindings(outcomes: Iterable[Outcome], bindings: tuple[Binding, ...], taken: Pairs | None = None) -> Pairs:
    """Return the bindings of each outcome that were the only way of its messages to their destination.

    Ways without a binding count, too: to the exchange of publication, to an alternate exchange, and from the default
    exchange to a queue. ``taken`` are the bindings of the outcomes, if they are known.
    """
    listed = list(outcomes)
    codes: dict[Destination, int] = {}
    of = np.array([codes.setdefault(binding.destination, len(codes)) for binding in bindings], np.int64)

    def destinations(kind: Literal["queue", "exchange"], names: Iterable[Sequence[str]]) -> Pairs:
        lists = list(names)
        met = dict.fromkeys(chain.from_iterable(lists))
        return pair(lists, {name: codes.setdefault(Destination(kind, name), len(codes)) for name in met})

    certain = pair(outcome.bindings for outcome in listed) if taken is None else taken
    possible = pair(outcome.possible_bindings for outcome in listed)
    queues = destinations("queue", (outcome.queues for outcome in listed))
    exchanges = destinations("exchange", (outcome.exchanges for outcome in listed))
    unbound = destinations(
        "exchange",
        (
            [each.exchange, *[link[1] for link in (*each.alternates, *each.possible_alternates)]]
            if each.alternates or each.possible_alternates
            else (each.exchange,)
            for each in listed
        ),
    )
    # The default exchange reaches queues without explicit bindings.
    implicit = destinations("queue", (() if outcome.exchange else outcome.queues for outcome in listed))

    def keys(rows: Indices, values: Indices) -> Indices:
        return rows * len(codes) + values

    ends = keys(certain.rows, of[certain.values])
    ways = [ends, keys(possible.rows, of[possible.values]), keys(*unbound), keys(*implicit)]
    distinct, counts = np.unique(np.concatenate(ways), return_counts=True)
    alone = np.flatnonzero(counts[np.searchsorted(distinct, ends)] == 1)
    reached = np.append(np.sort(np.concatenate([keys(*queues), keys(*exchanges)])), -1)  # np.isin would hash them
    sole = alone[reached[np.searchsorted(reached[:-1], ends[alone])] == ends[alone]]
    return Pairs(certain.rows[sole], certain.values[sole])


class _GroupFinder:
    """The groups of outcomes, as they are found."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.groups: list[MessageGroup] = []
        self._pairs: list[tuple[GroupKind, Pairs]] = []
        """Outcomes and numbers of groups: those of a kind, or of one way, beside the kind of the first of them."""
        # Few of many outcomes differ in more than bindings and queues: everything else is looked at once for all alike.
        frames: dict[tuple[Any, ...], int] = {}
        of = [frames.setdefault((each[0], len(each[1]), each[3:]), len(frames)) for each in outcomes]
        self._frame_of: Final = np.array(of, np.int64)
        first = np.zeros(len(frames), np.int64)
        first[self._frame_of[::-1]] = np.arange(len(of))[::-1]
        self._frames: Final = [outcomes[number] for number in first.tolist()]

    def add(self, pairs: Pairs, make: Callable[[int], MessageGroup]) -> None:
        """Add the group that ``make`` returns for each value to the outcomes that have it."""
        counts = np.bincount(pairs.values)
        met = np.flatnonzero(counts)
        numbers = np.cumsum(counts > 0) - 1
        narrow = np.uint16 if len(counts) <= 1 << 16 else np.int64  # numpy sorts short integers by their digits
        order = np.argsort(pairs.values.astype(narrow), kind="stable")
        found = [make(number) for number in met.tolist()]
        if found:
            pairs = Pairs(pairs.rows[order], numbers[pairs.values[order]] + len(self.groups))
            self._pairs.append((found[0].group, pairs))
            self.groups += found

    def add_lists(self, rows: Sequence[int], lists: Iterable[Sequence[K]], make: Callable[[K], MessageGroup]) -> None:
        """Add the group that ``make`` returns for each item of the lists of these outcomes."""
        items, pairs = _number_items(lists)
        self.add(Pairs(np.array(rows, np.int64)[pairs.rows], pairs.values), lambda number: make(items[number]))

    def add_frames(self, list_items: Callable[[Outcome], Sequence[K]], make: Callable[[K], MessageGroup]) -> None:
        """Add the group that ``make`` returns for each item that ``list_items`` returns.

        It looks at the number of queues and at everything else of an outcome but its bindings.
        """
        items, pairs = _number_items(map(list_items, self._frames))
        offsets = compute_offsets(pairs.rows, len(self._frames))
        parts = [*expand_ranges(offsets, self._frame_of)]
        if parts:
            rows, at = (np.concatenate(each) for each in zip(*parts, strict=True))
            self.add(Pairs(rows, pairs.values[at]), lambda number: make(items[number]))

    def merge(self, columns: FactColumns) -> FactTable[MessageGroup]:
        """Return the facts of the groups, given those of the outcomes."""

        def of(kinds: Container[GroupKind]) -> tuple[Indices, Indices]:
            kept = [pairs for kind, pairs in self._pairs if kind in kinds]
            none = np.zeros(0, np.int64)
            return np.concatenate([none, *[each.rows for each in kept]]), np.concatenate(
                [none, *[each.values for each in kept]]
            )

        count = len(self.groups)
        merged = FactColumns(
            columns.spans.merge(*of(get_args(GroupKind)), count),
            columns.registers.merge(*of(WITH_KEYS)),
            columns.samples.merge(*of(WITH_SAMPLES), columns.number),
            columns.hot.merge(*of(WITH_HOT_KEYS), count),
            columns.shapes.merge(*of(WITH_SHAPES), count),
        )
        return FactTable(self.groups, merged)


def _number_items(lists: Iterable[Sequence[K]]) -> tuple[list[K], Pairs]:
    """Return the distinct items of lists, and a pair for each list and number of an item of it."""
    listed = list(lists)
    items = [*dict.fromkeys(chain.from_iterable(listed))]
    return items, pair(listed, {item: number for number, item in enumerate(items)})


def group_facts(facts: Mapping[Outcome, Facts], topology: Topology) -> FactTable[MessageGroup]:
    """Return the facts of the groups of messages with these outcomes, which are of this topology."""
    return _group(list_table(facts), topology, sort_bindings(topology))


def add_to_groups(
    groups: Mapping[MessageGroup, Facts], facts: Mapping[Outcome, Facts], topology: Topology
) -> FactTable[MessageGroup]:
    """Return the sum of groups and of those of these outcomes, which are looked at some at a time, to save memory.

    Their order is that of their names, on which errors of heavy hitters depend: a counter numbers them as it met them.
    """
    table, total = list_table(facts), list_table(groups)
    if not table.names:
        return total
    bindings, names = sort_bindings(topology), table.names
    order = sorted(range(len(names)), key=lambda row: (names[row][:5], names[row].fate, names[row][6:]))
    for begin in range(0, len(names), PIECE):
        rows = np.array(order[begin : begin + PIECE], np.int64)
        columns = table.columns.merge(rows, np.arange(len(rows)), len(rows))
        piece = FactTable([names[row] for row in rows.tolist()], columns)
        total = add_facts(total, _group(piece, topology, bindings))
    return total


def _group(table: FactTable[Outcome], topology: Topology, bindings: tuple[Binding, ...]) -> FactTable[MessageGroup]:
    outcomes = table.names
    found = _GroupFinder(outcomes)
    taken, possible = pair(each.bindings for each in outcomes), pair(each.possible_bindings for each in outcomes)
    found.add(taken, lambda number: MessageGroup("binding", number=number))
    found.add(possible, lambda number: MessageGroup("possible binding", number=number))
    sole = find_sole_bindings(outcomes, bindings, taken)
    found.add(sole, lambda number: MessageGroup("sole binding", number=number))
    ways: dict[tuple[str, Destination], int] = {}
    ends: dict[str, int] = {}
    way_of = np.array([ways.setdefault((each.source, each.destination), len(ways)) for each in bindings], np.int64)
    end_of = np.array([_number_queue(each.destination, ends, topology) for each in bindings], np.int64)
    queues, listed = [*ends], [*ways]
    found.add(taken.select(end_of[taken.values]), lambda number: MessageGroup("bound queue", queues[number]))
    found.add(taken.select(way_of[taken.values]), lambda number: _way_to(*listed[number]))
    found.add(possible.select(way_of[possible.values]), lambda number: _way_to(*listed[number], possible=True))
    names = [*topology.queues]
    got = pair((each.queues for each in outcomes), {name: number for number, name in enumerate(names)})
    found.add(got, lambda number: MessageGroup("queue", names[number]))
    default = [row for row, each in enumerate(outcomes) if not each.exchange]
    found.add_lists(
        default, (outcomes[row].queues for row in default), lambda name: MessageGroup("default way", "", name)
    )
    lost = [row for row, each in enumerate(outcomes) if each.routed is False]
    found.add_lists(
        lost, (_list_ends(outcomes[row], bindings, topology) for row in lost), lambda name: MessageGroup("end", name)
    )
    found.add_frames(lambda each: each.possible_queues, lambda name: MessageGroup("possible queue", name))
    found.add_frames(lambda each: [each.exchange], lambda name: MessageGroup("exchange", name))
    found.add_frames(lambda each: each.exchanges, lambda name: MessageGroup("passed exchange", name))
    found.add_frames(lambda each: [(each.exchange, each.fate)], lambda of: MessageGroup("fate", *of))
    found.add_frames(
        lambda each: [(each.exchange, len(each.queues))], lambda of: MessageGroup("fan-out", of[0], number=of[1])
    )
    found.add_frames(lambda each: each.alternates, lambda link: MessageGroup("alternate", *link))
    found.add_frames(lambda each: each.possible_alternates, lambda link: MessageGroup("possible alternate", *link))
    found.add_frames(
        lambda each: [(each.exchange, each.refused)] if each.routed is False else [],
        lambda of: MessageGroup("lost", *of),
    )
    return found.merge(table.columns)


def _number_queue(end: Destination, numbers: dict[str, int], topology: Topology) -> int:
    """Return the number of a queue, which may be new; -1 for another destination."""
    return numbers.setdefault(end.name, len(numbers)) if end.kind == "queue" and end.name in topology.queues else -1


def _way_to(source: str, end: Destination, *, possible: bool = False) -> MessageGroup:
    if end.kind == "queue":
        return MessageGroup("possible way to queue" if possible else "way to queue", source, end.name)
    return MessageGroup("possible way to exchange" if possible else "way to exchange", source, end.name)


def _list_ends(outcome: Outcome, bindings: Sequence[Binding], topology: Topology) -> list[str]:
    """Return the exchanges at which messages that no queue got came to their end: they handed them to no other."""
    names: Mapping[str, Any] = {"queue": topology.queues, "exchange": topology.exchanges}
    taken = [bindings[number] for number in outcome.bindings]
    going_on = {each.source for each in taken if each.destination.name in names[each.destination.kind]}
    going_on |= {link.exchange for link in outcome.alternates if link.alternate in topology.exchanges}
    return [name for name in outcome.exchanges if name not in going_on] or [outcome.exchange]


def limit_names(groups: FactTable[MessageGroup], topology: Topology) -> FactTable[MessageGroup]:
    """Return groups of which at most `MAX_NAMES` are of exchanges that the topology does not name.

    Those with the smallest hashes are kept, and their counts are exact: a name that is kept of all messages is kept of
    each part of them that has it. `name_others` stands for all others.
    """
    others = find_others(groups.names, topology)
    if not others:
        return groups
    unnamed = _list_unnamed(groups.names, topology)
    smallest = sorted(unnamed - {others}, key=lambda name: (_hash(name), name))[:MAX_NAMES]
    kept = {*_list_named(topology), *smallest}
    names = [
        each if each.group not in PUBLISHED or each.name in kept else _rename(each, others) for each in groups.names
    ]
    return add_facts(FactTable((), FactColumns.from_values(())), FactTable(names, groups.columns))


def name_others(topology: Topology) -> str:
    """Return what stands for all exchanges without groups of their own: asterisks, as no name of the topology is.

    A message may be published to this name, too: it is then one of the others, or, if there are none, itself.
    """
    named = _list_named(topology)
    return next(name for number in range(1, len(named) + 2) if (name := "*" * number) not in named)


def find_others(groups: Iterable[MessageGroup], topology: Topology) -> str:
    """Return what stands for all exchanges without groups of their own among these groups; "" if there are none.

    There are others if and only if messages were published to more than `MAX_NAMES` names, that of others included.
    """
    return name_others(topology) if len(_list_unnamed(groups, topology)) > MAX_NAMES else ""


def _list_unnamed(groups: Iterable[MessageGroup], topology: Topology) -> set[str]:
    """Return the exchanges that messages were published to and that the topology does not name."""
    return {each.name for each in groups if each.group == "exchange"} - _list_named(topology)


def _list_named(topology: Topology) -> set[str]:
    """Return the exchanges of a topology, and those that it does not have, but that have bindings."""
    return {*topology.exchanges, *[binding.source for binding in topology.bindings]}


def _rename(group: MessageGroup, name: str) -> MessageGroup:
    """Return the group of these messages among those to others; an error names its exchange after a dash."""
    return group._replace(name=name, other=group.other.partition(" - ")[0])


def _hash(name: str) -> int:
    return hash_of(name.encode("utf-8", "surrogatepass"))


def find_fault(groups: Mapping[MessageGroup, Facts], topology: Topology) -> str:
    """Return why no messages have these groups in this topology; "" if some may have them."""
    counts = {group: facts.messages for group, facts in groups.items()}
    bindings = sort_bindings(topology)
    published: dict[str, int] = {}
    parts: dict[tuple[str, GroupKind], int] = {}
    for group, messages in counts.items():
        if group.group not in get_args(GroupKind):
            return f"a group of kind {group.group!r}"
        if group.group in OF_BINDINGS and group.number >= len(bindings):
            return "a group with a binding that the topology does not have"
        if group.group in ("queue", "possible queue") and group.name not in topology.queues:
            return "a group with a queue that the topology does not have"
        if group.group == "passed exchange" and group.name not in topology.exchanges:
            return "a group with an exchange that the topology does not have"
        of = _find_whole(group, bindings)
        if of is not None and messages > counts.get(of, 0):
            return f"more messages in a group of kind {group.group!r} than in that of kind {of.group!r}"
        if group.group == "exchange":
            published[group.name] = messages
        elif group.group in ("fate", "fan-out"):
            parts[group.name, group.group] = parts.get((group.name, group.group), 0) + messages
    wholes: tuple[GroupKind, ...] = ("fate", "fan-out")
    if any(parts.get((name, kind)) != messages for name, messages in published.items() for kind in wholes):
        return (
            "an exchange with other numbers of messages by their fates, or by their queues, than were published to it"
        )
    return ""


def _find_whole(group: MessageGroup, bindings: Sequence[Binding]) -> MessageGroup | None:
    """Return a group that has all messages of this one; None if none must."""
    match group.group:
        case "binding":
            return MessageGroup("passed exchange", bindings[group.number].source)
        case "sole binding":
            return MessageGroup("binding", number=group.number)
        case "bound queue":
            return MessageGroup("queue", group.name)
        case "default way":
            return MessageGroup("queue", group.other)
        case "fate" | "fan-out" | "lost":
            return MessageGroup("exchange", group.name)
        case "way to queue" | "way to exchange" | "alternate":
            return MessageGroup("passed exchange", group.name)
        case _:
            return None
