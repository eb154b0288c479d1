"""What a tally says of a topology: sums over outcomes, as frozen rows. Pure functions, all of them of these two alone.

There are two totals, and neither stands for the other: how many of the bindings were hit, and how many of the messages
were routed. A binding that nothing hit in N messages to its exchange is used by less than 3 / N of them, with 95 %
confidence, if traffic goes on as it was (the rule of three).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from bindings.counts.outcome import Outcome, numbered
from bindings.counts.sketch import Frequent, distinct, joined, merged
from bindings.counts.tally import Facts, Tally, fingerprint
from exchange.entities.entities import Binding, Destination
from exchange.errors import InputError
from exchange.kinds import Unknown, kind_of
from exchange.topology.topology import Topology

__all__ = [
    "AlternateUse",
    "BindingUse",
    "Coverage",
    "ExchangeUse",
    "QueueUse",
    "Totals",
    "Unroutable",
    "alternates_taken",
    "bindings_used",
    "coverage",
    "exchanges_used",
    "queues_used",
    "stale",
    "totals",
    "unroutable",
]

DAY: Final = 86_400_000_000
"""Microseconds."""

RULE_OF_THREE: Final = 3.0


class BindingUse(NamedTuple):
    """What a binding did."""

    binding: Binding
    number: int
    """Its place in `bindings.counts.outcome.numbered`."""
    messages: int
    """That matched it, on whatever hop."""
    possible: int
    """That match it if chance will have it so; not among ``messages``."""
    only: int
    """Of ``messages``: those whose way to its destination it was, and no other binding or alternate exchange."""
    first: int | None
    last: int | None
    distinct_keys: int
    """Approximately, with the error `bindings.counts.sketch.ERROR`."""
    share: float | None
    """Of all messages that its destination got, those that matched it; None when it got none."""
    exposure: int
    """The messages that went through its source, and so had the chance to match."""
    eligible: bool
    """Whether it can be hit: its source and its destination exist, and the source's type is known."""

    @property
    def dead(self) -> bool:
        """Whether nothing matched it that could have."""
        return self.eligible and not self.messages and not self.possible

    @property
    def bound(self) -> float | None:
        """Of a binding that nothing matched: the share of its source's messages that may match, at most; else None."""
        return None if self.messages else min(1.0, RULE_OF_THREE / self.exposure) if self.exposure else 1.0


class QueueUse(NamedTuple):
    """What a queue got."""

    queue: str
    messages: int
    possible: int
    """That it gets if chance will have it so; not among ``messages``."""
    duplicates_avoided: int
    """Copies that it did not get because the message was there already, by another binding."""
    first: int | None
    last: int | None
    distinct_keys: int
    hot: Frequent
    partitions: Mapping[int | None, int]
    """Of a partitioned queue; None where the key does not decide the partition."""


class ExchangeUse(NamedTuple):
    """What went through an exchange."""

    exchange: str
    published: int
    messages: int
    """Those published to it, and those that came from others."""
    unroutable: int
    """Of those published: those that no queue got."""
    undecided: int
    """Of those published: those of which that cannot be told."""
    refused: int
    """Of those published: those that the broker refuses."""
    fan_out: Mapping[int, int]
    """Of those published: how many queues got a message, for certain -> how many messages."""
    distinct_keys: int
    hot: Frequent


class AlternateUse(NamedTuple):
    """An alternate exchange that was taken."""

    exchange: str
    alternate: str
    messages: int
    shapes: Frequent
    """What their keys looked like."""


class Unroutable(NamedTuple):
    """Messages to one exchange that no queue got."""

    exchange: str
    refused: str
    """What the broker answers; "" where it takes and drops them."""
    messages: int
    shapes: Frequent
    sample: tuple[str, ...]
    """A few of the keys."""
    first: int | None
    last: int | None


class Totals(NamedTuple):
    """The two totals, and what they are of."""

    bindings: int
    eligible: int
    hit: int
    messages: int
    routed: int
    unroutable: int
    undecided: int
    refused: int
    copies: int
    """That queues got."""
    duplicates_avoided: int

    @property
    def binding_coverage(self) -> float | None:
        """Bindings hit, of those eligible; None when there are none."""
        return self.hit / self.eligible if self.eligible else None

    @property
    def message_coverage(self) -> float | None:
        """Messages routed, of all; None when there are none."""
        return self.routed / self.messages if self.messages else None


class Coverage(NamedTuple):
    """Everything that is reported."""

    totals: Totals
    bindings: tuple[BindingUse, ...]
    queues: tuple[QueueUse, ...]
    exchanges: tuple[ExchangeUse, ...]
    alternates: tuple[AlternateUse, ...]
    unroutable: tuple[Unroutable, ...]


def coverage(tally: Tally, topology: Topology) -> Coverage:
    """All tables. Raises InputError when the tally is for another topology."""
    _check(tally, topology)
    return Coverage(
        totals(tally, topology),
        bindings_used(tally, topology),
        queues_used(tally, topology),
        exchanges_used(tally, topology),
        alternates_taken(tally),
        unroutable(tally),
    )


def bindings_used(tally: Tally, topology: Topology) -> tuple[BindingUse, ...]:
    """One row for each binding, in their order."""
    _check(tally, topology)
    bindings = numbered(topology)
    facts = [Facts()] * len(bindings)
    possible, only, exposure, reached = Counter[int](), Counter[int](), Counter[str](), Counter[Destination]()
    for outcome, of_it in tally.facts.items():
        plain = of_it._replace(sample=(), hot=Frequent(), shapes=Frequent())
        for number in outcome.bindings:
            facts[number] += plain
        for number in outcome.possible_bindings:
            possible[number] += of_it.messages
        for number in _only(outcome, bindings):
            only[number] += of_it.messages
        for name in outcome.exchanges:
            exposure[name] += of_it.messages
            reached[Destination("exchange", name)] += of_it.messages
        for name in outcome.queues:
            reached[Destination("queue", name)] += of_it.messages
    rows = []
    for number, binding in enumerate(bindings):
        total = reached[binding.destination]
        known = facts[number]
        rows.append(
            BindingUse(
                binding, number, known.messages, possible[number], only[number], known.first, known.last,
                distinct(known.keys), known.messages / total if total else None, exposure[binding.source],
                _eligible(binding, topology),
            )
        )  # fmt: skip
    return tuple(rows)


def stale(bindings: Collection[BindingUse], now: int, days: int) -> tuple[BindingUse, ...]:
    """Those that were hit, but not for so many days before ``now``, in microseconds since 1970."""
    since = now - days * DAY
    return tuple([use for use in bindings if use.last is not None and use.last < since])


def queues_used(tally: Tally, topology: Topology) -> tuple[QueueUse, ...]:
    """One row for each queue, by name."""
    _check(tally, topology)
    bindings = numbered(topology)
    facts: dict[str, Facts] = {name: Facts() for name in topology.queues}
    possible, avoided = Counter[str](), Counter[str]()
    for outcome, of_it in tally.facts.items():
        plain = of_it._replace(sample=(), shapes=Frequent())
        for name in outcome.queues:
            facts[name] += plain
        for name in outcome.possible_queues:
            possible[name] += of_it.messages
        for name, copies in _ways_to_queues(outcome, bindings).items():
            if name in facts:
                avoided[name] += (copies - 1) * of_it.messages
    partitions: dict[str, dict[int | None, int]] = {}
    for (queue, partition), count in tally.partitions.items():
        partitions.setdefault(queue, {})[partition] = count
    return tuple([
        QueueUse(
            name, of_it.messages, possible[name], avoided[name], of_it.first, of_it.last, distinct(of_it.keys),
            of_it.hot, partitions.get(name, {}),
        )
        for name, of_it in sorted(facts.items())
    ])  # fmt: skip


def exchanges_used(tally: Tally, topology: Topology) -> tuple[ExchangeUse, ...]:
    """One row for each exchange, and for each name that messages were published to without there being one."""
    _check(tally, topology)
    published: dict[str, list[tuple[Outcome, Facts]]] = {name: [] for name in topology.exchanges}
    through = Counter[str]()
    for outcome, of_it in tally.facts.items():
        published.setdefault(outcome.exchange, []).append((outcome, of_it))
        for name in outcome.exchanges:
            through[name] += of_it.messages
    rows = []
    for name, some in sorted(published.items()):
        fates, fan_out, keys = Counter[str](), Counter[int](), b""
        for outcome, of_it in some:
            fates[_fate(outcome)] += of_it.messages
            fan_out[len(outcome.queues)] += of_it.messages
            keys = joined(keys, of_it.keys)
        rows.append(
            ExchangeUse(
                name, sum(fates.values()), through[name], fates["unroutable"], fates["undecided"], fates["refused"],
                dict(sorted(fan_out.items())), distinct(keys), merged(*[of_it.hot for _, of_it in some]),
            )
        )  # fmt: skip
    return tuple(rows)


def alternates_taken(tally: Tally) -> tuple[AlternateUse, ...]:
    """One row for each exchange whose alternate exchange was taken, for certain."""
    found: dict[tuple[str, str], list[Facts]] = {}
    for outcome, of_it in tally.facts.items():
        for link in outcome.alternates:
            found.setdefault(link, []).append(of_it)
    return tuple([
        AlternateUse(exchange, alternate, sum(f.messages for f in some), merged(*[f.shapes for f in some]))
        for (exchange, alternate), some in sorted(found.items())
    ])  # fmt: skip


def unroutable(tally: Tally) -> tuple[Unroutable, ...]:
    """What no queue got, by the exchange it was published to; the most first."""
    found: dict[tuple[str, str], Facts] = {}
    for outcome, of_it in tally.facts.items():
        if outcome.routed is False:
            key = (outcome.exchange, outcome.refused)
            found[key] = found.get(key, Facts()) + of_it
    rows = [
        Unroutable(name, refused, f.messages, f.shapes, tuple([key for _, key in f.sample]), f.first, f.last)
        for (name, refused), f in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.messages, row.exchange, row.refused)))


def totals(tally: Tally, topology: Topology) -> Totals:
    """The sums of all."""
    _check(tally, topology)
    bindings = numbered(topology)
    hit: set[int] = set()
    fates = Counter[str]()
    copies = avoided = 0
    for outcome, of_it in tally.facts.items():
        hit.update(outcome.bindings, outcome.possible_bindings)
        fates[_fate(outcome)] += of_it.messages
        copies += len(outcome.queues) * of_it.messages
        ways = {queue: n for queue, n in _ways_to_queues(outcome, bindings).items() if queue in topology.queues}
        avoided += (sum(ways.values()) - len(ways)) * of_it.messages
    eligible = {number for number, binding in enumerate(bindings) if _eligible(binding, topology)}
    return Totals(
        len(bindings), len(eligible), len(hit & eligible), sum(fates.values()), fates["routed"], fates["unroutable"],
        fates["undecided"], fates["refused"], copies, avoided,
    )  # fmt: skip


def _check(tally: Tally, topology: Topology) -> None:
    if tally.topology != fingerprint(topology):
        raise InputError("this tally is for another topology: audit the archive again with this one")


def _fate(outcome: Outcome) -> str:
    if outcome.refused:
        return "refused"
    return {True: "routed", False: "unroutable", None: "undecided"}[outcome.routed]


def _ways_to_queues(outcome: Outcome, bindings: tuple[Binding, ...]) -> Counter[str]:
    """How many of the bindings that are taken for certain lead to each queue."""
    destinations = [bindings[number].destination for number in outcome.bindings]
    return Counter([destination.name for destination in destinations if destination.kind == "queue"])


def _only(outcome: Outcome, bindings: tuple[Binding, ...]) -> list[int]:
    """Of the bindings that are taken, those without which the message would not have reached their destination so.

    Where it was published it is anyhow, and where an alternate exchange led, it is by that.
    """
    ways = Counter([bindings[number].destination for number in (*outcome.bindings, *outcome.possible_bindings)])
    ways[Destination("exchange", outcome.exchange)] += 1
    for _, alternate in (*outcome.alternates, *outcome.possible_alternates):
        ways[Destination("exchange", alternate)] += 1
    if not outcome.exchange:  # the default exchange leads to queues without a binding
        for queue in outcome.queues:
            ways[Destination("queue", queue)] += 1
    reached = {*(Destination("queue", name) for name in outcome.queues)}
    reached |= {Destination("exchange", name) for name in outcome.exchanges}
    listed = [(number, bindings[number].destination) for number in outcome.bindings]
    return [number for number, destination in listed if ways[destination] == 1 and destination in reached]


def _eligible(binding: Binding, topology: Topology) -> bool:
    source = topology.exchanges.get(binding.source)
    if source is None or kind_of(source) is Unknown:
        return False
    names: Mapping[str, object] = topology.queues if binding.destination.kind == "queue" else topology.exchanges
    return binding.destination.name in names
