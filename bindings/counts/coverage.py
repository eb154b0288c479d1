"""Compute the coverage tables of a tally: sums over outcomes, as frozen rows; pure functions of tally and topology.

There are two shares, and neither implies the other: of bindings that were hit, and of messages that were routed. If
none of the N messages that passed its source hit a binding, then, with 95 % confidence, less than 3 / N of such
messages use it, as long as the traffic stays the same (the rule of three).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from bindings.counts.outcome import Outcome, ordered_bindings
from bindings.counts.sketch import Frequent, count_distinct, join_registers, merge_summaries
from bindings.counts.tally import Facts, Tally, fingerprint
from exchange.entities.entities import Binding, Destination
from exchange.errors import InputError
from exchange.kinds import Unknown, kind_of
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology

__all__ = [
    "AlternateUse",
    "BindingUse",
    "Coverage",
    "ExchangeUse",
    "QueueUse",
    "Totals",
    "Unroutable",
    "alternate_uses",
    "binding_uses",
    "coverage",
    "exchange_uses",
    "queue_uses",
    "stale_bindings",
    "totals",
    "unroutable_messages",
]

DAY: Final = 86_400_000_000
"""Length of a day, in microseconds."""

RULE_OF_THREE: Final = 3.0


class BindingUse(NamedTuple):
    """The messages that matched a binding."""

    binding: Binding
    number: int
    """Its index in `bindings.counts.outcome.ordered_bindings`."""
    messages: int
    """Number of messages that certainly matched it, on any hop."""
    possible: int
    """Number of messages that may match it, depending on a random choice; not among ``messages``."""
    only: int
    """Number of ``messages`` that reached its destination by this binding only, and by no alternate exchange."""
    first: int | None
    last: int | None
    distinct_keys: int
    """Approximate number of distinct keys, with the relative error `bindings.counts.sketch.ERROR`."""
    share: float | None
    """Share of its destination's messages that matched it; None if the destination got no messages."""
    exposure: int
    """Number of messages that passed its source, and so could have matched it."""
    eligible: bool
    """Whether it can be hit: its source and its destination exist, the source's type is known, and messages other than
    dead letters get there."""
    only_dead_letters: bool = False
    """Whether only dead letters can reach its source, and so no message of an archive did."""

    @property
    def dead(self) -> bool:
        """Whether it could be hit, and was not, not even possibly."""
        return self.eligible and not self.messages and not self.possible

    @property
    def bound(self) -> float | None:
        """Maximum share of its source's messages that use it (95 % confidence); None if a message hit it."""
        return None if self.messages else min(1.0, RULE_OF_THREE / self.exposure) if self.exposure else 1.0


class QueueUse(NamedTuple):
    """The messages of a queue."""

    queue: str
    messages: int
    """Number of messages that it certainly got."""
    possible: int
    """Number of messages that it may get, depending on a random choice; not among ``messages``."""
    duplicates_avoided: int
    """Number of copies that it did not get, because another binding had already put the message into it."""
    first: int | None
    last: int | None
    distinct_keys: int
    hot: Frequent
    partitions: Mapping[int | None, int]
    """Partition -> number of messages; None where the key does not decide it. Empty if the queue has no partitions."""


class ExchangeUse(NamedTuple):
    """The messages of an exchange."""

    exchange: str
    published: int
    """Number of messages published to it."""
    messages: int
    """Number of messages published to it or routed to it by other exchanges."""
    unroutable: int
    """Number of published messages that no queue got."""
    undecided: int
    """Number of published messages whose routing is undecided."""
    refused: int
    """Number of published messages that the broker refuses."""
    fan_out: Mapping[int, int]
    """Number of queues that certainly got a published message -> number of messages."""
    distinct_keys: int
    hot: Frequent


class AlternateUse(NamedTuple):
    """An alternate exchange that messages took."""

    exchange: str
    alternate: str
    messages: int
    shapes: Frequent
    """Frequent shapes of their keys."""


class Unroutable(NamedTuple):
    """Messages to one exchange that no queue got."""

    exchange: str
    refused: str
    """Error with which the broker refuses them; "" if it accepts and drops them."""
    messages: int
    shapes: Frequent
    sample: tuple[str, ...]
    """A few of their keys."""
    first: int | None
    last: int | None


class Totals(NamedTuple):
    """Numbers of bindings and of messages, and the two shares computed from them."""

    bindings: int
    eligible: int
    hit: int
    """Number of eligible bindings that messages took, certainly or possibly."""
    messages: int
    routed: int
    unroutable: int
    undecided: int
    refused: int
    copies: int
    """Number of copies that queues certainly got."""
    duplicates_avoided: int

    @property
    def binding_coverage(self) -> float | None:
        """Share of eligible bindings that were hit; None if no binding is eligible."""
        return self.hit / self.eligible if self.eligible else None

    @property
    def message_coverage(self) -> float | None:
        """Share of messages that were routed; None if there are no messages."""
        return self.routed / self.messages if self.messages else None


class Coverage(NamedTuple):
    """All tables of a tally."""

    totals: Totals
    bindings: tuple[BindingUse, ...]
    queues: tuple[QueueUse, ...]
    exchanges: tuple[ExchangeUse, ...]
    alternates: tuple[AlternateUse, ...]
    unroutable: tuple[Unroutable, ...]


def coverage(tally: Tally, topology: Topology) -> Coverage:
    """Return all tables of a tally. Raises InputError if the tally is for another topology."""
    _check_topology(tally, topology)
    return Coverage(
        totals(tally, topology),
        binding_uses(tally, topology),
        queue_uses(tally, topology),
        exchange_uses(tally, topology),
        alternate_uses(tally),
        unroutable_messages(tally),
    )


def binding_uses(tally: Tally, topology: Topology) -> tuple[BindingUse, ...]:
    """Return one row for each binding, in the order of `ordered_bindings`."""
    _check_topology(tally, topology)
    bindings = ordered_bindings(topology)
    facts = [Facts()] * len(bindings)
    possible, only, exposure, reached = Counter[int](), Counter[int](), Counter[str](), Counter[Destination]()
    for outcome, counted in tally.facts.items():
        plain = Facts(counted.span, counted.keys)
        for number in outcome.bindings:
            facts[number] += plain
        for number in outcome.possible_bindings:
            possible[number] += counted.messages
        for number in _sole_bindings(outcome, bindings):
            only[number] += counted.messages
        for name in outcome.exchanges:
            exposure[name] += counted.messages
            reached[Destination("exchange", name)] += counted.messages
        for name in outcome.queues:
            reached[Destination("queue", name)] += counted.messages
    rows = []
    behind_dead_letters = TopologyGraph(topology).only_dead_letters - exposure.keys()
    for number, binding in enumerate(bindings):
        only_dead_letters = _exists(binding, topology) and binding.source in behind_dead_letters
        total = reached[binding.destination]
        known = facts[number]
        rows.append(
            BindingUse(
                binding, number, known.messages, possible[number], only[number], known.span.first, known.span.last,
                count_distinct(known.keys), known.messages / total if total else None, exposure[binding.source],
                _exists(binding, topology) and not only_dead_letters, only_dead_letters,
            )
        )  # fmt: skip
    return tuple(rows)


def stale_bindings(bindings: Collection[BindingUse], now: int, days: int) -> tuple[BindingUse, ...]:
    """Return the bindings that were hit, but not in the ``days`` days before ``now`` (microseconds since 1970)."""
    since = now - days * DAY
    return tuple([use for use in bindings if use.last is not None and use.last < since])


def queue_uses(tally: Tally, topology: Topology) -> tuple[QueueUse, ...]:
    """Return one row for each queue, by name."""
    _check_topology(tally, topology)
    bindings = ordered_bindings(topology)
    facts: dict[str, Facts] = {name: Facts() for name in topology.queues}
    possible, avoided = Counter[str](), Counter[str]()
    for outcome, counted in tally.facts.items():
        plain = counted._replace(sample=(), shapes=Frequent())
        for name in outcome.queues:
            facts[name] += plain
        for name in outcome.possible_queues:
            possible[name] += counted.messages
        for name, copies in _bindings_to_queues(outcome, bindings).items():
            if name in facts:
                avoided[name] += (copies - 1) * counted.messages
    partitions: dict[str, dict[int | None, int]] = {}
    for (queue, partition), count in tally.partitions.items():
        partitions.setdefault(queue, {})[partition] = count
    return tuple([
        QueueUse(
            name, each.messages, possible[name], avoided[name], each.span.first, each.span.last,
            count_distinct(each.keys), each.hot, partitions.get(name, {}),
        )
        for name, each in sorted(facts.items())
    ])  # fmt: skip


def exchange_uses(tally: Tally, topology: Topology) -> tuple[ExchangeUse, ...]:
    """Return one row for each exchange, and for each unknown name that messages were published to."""
    _check_topology(tally, topology)
    published: dict[str, list[tuple[Outcome, Facts]]] = {name: [] for name in topology.exchanges}
    through = Counter[str]()
    for outcome, counted in tally.facts.items():
        published.setdefault(outcome.exchange, []).append((outcome, counted))
        for name in outcome.exchanges:
            through[name] += counted.messages
    rows = []
    for name, listed in sorted(published.items()):
        fates, fan_out, keys = Counter[str](), Counter[int](), b""
        for outcome, counted in listed:
            fates[outcome.fate] += counted.messages
            fan_out[len(outcome.queues)] += counted.messages
            keys = join_registers(keys, counted.keys)
        rows.append(
            ExchangeUse(
                name, sum(fates.values()), through[name], fates["unroutable"], fates["undecided"], fates["refused"],
                dict(sorted(fan_out.items())), count_distinct(keys), merge_summaries(*[each.hot for _, each in listed]),
            )
        )  # fmt: skip
    return tuple(rows)


def alternate_uses(tally: Tally) -> tuple[AlternateUse, ...]:
    """Return one row for each alternate exchange that messages certainly took."""
    by_link: dict[tuple[str, str], list[Facts]] = {}
    for outcome, counted in tally.facts.items():
        for link in outcome.alternates:
            by_link.setdefault(link, []).append(counted)
    return tuple([
        AlternateUse(
            exchange, alternate, sum(each.messages for each in listed),
            merge_summaries(*[each.shapes for each in listed]),
        )
        for (exchange, alternate), listed in sorted(by_link.items())
    ])  # fmt: skip


def unroutable_messages(tally: Tally) -> tuple[Unroutable, ...]:
    """Return the messages that no queue got, per exchange and error of the broker; the largest number first."""
    by_answer: dict[tuple[str, str], Facts] = {}
    for outcome, counted in tally.facts.items():
        if outcome.routed is False:
            key = (outcome.exchange, outcome.refused)
            by_answer[key] = by_answer.get(key, Facts()) + counted
    rows = [
        Unroutable(
            name,
            refused,
            facts.messages,
            facts.shapes,
            tuple([each.key for each in facts.sample]),
            facts.span.first,
            facts.span.last,
        )
        for (name, refused), facts in by_answer.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.messages, row.exchange, row.refused)))


def totals(tally: Tally, topology: Topology) -> Totals:
    """Return the sums over all bindings and messages."""
    _check_topology(tally, topology)
    bindings = ordered_bindings(topology)
    hit: set[int] = set()
    passed: set[str] = set()
    fates = Counter[str]()
    copies = avoided = 0
    for outcome, counted in tally.facts.items():
        hit.update(outcome.bindings, outcome.possible_bindings)
        passed.update(outcome.exchanges)
        fates[outcome.fate] += counted.messages
        copies += len(outcome.queues) * counted.messages
        ways = {queue: n for queue, n in _bindings_to_queues(outcome, bindings).items() if queue in topology.queues}
        avoided += (sum(ways.values()) - len(ways)) * counted.messages
    behind_dead_letters = TopologyGraph(topology).only_dead_letters - passed
    eligible = {
        number
        for number, binding in enumerate(bindings)
        if _exists(binding, topology) and binding.source not in behind_dead_letters
    }
    return Totals(
        len(bindings), len(eligible), len(hit & eligible), sum(fates.values()), fates["routed"], fates["unroutable"],
        fates["undecided"], fates["refused"], copies, avoided,
    )  # fmt: skip


def _check_topology(tally: Tally, topology: Topology) -> None:
    if tally.topology != fingerprint(topology):
        raise InputError("this tally is for another topology: audit the archive again with this one")


def _bindings_to_queues(outcome: Outcome, bindings: tuple[Binding, ...]) -> Counter[str]:
    """Return for each queue the number of bindings to it that are certainly taken."""
    destinations = [bindings[number].destination for number in outcome.bindings]
    return Counter([destination.name for destination in destinations if destination.kind == "queue"])


def _sole_bindings(outcome: Outcome, bindings: tuple[Binding, ...]) -> list[int]:
    """Return the bindings that were the only way of the message to their destination.

    Ways without a binding count, too: to the exchange of publication, to an alternate exchange, and from the default
    exchange to a queue.
    """
    ways = Counter([bindings[number].destination for number in (*outcome.bindings, *outcome.possible_bindings)])
    ways[Destination("exchange", outcome.exchange)] += 1
    for _, alternate in (*outcome.alternates, *outcome.possible_alternates):
        ways[Destination("exchange", alternate)] += 1
    if not outcome.exchange:  # the default exchange reaches queues without explicit bindings
        for queue in outcome.queues:
            ways[Destination("queue", queue)] += 1
    reached = {*(Destination("queue", name) for name in outcome.queues)}
    reached |= {Destination("exchange", name) for name in outcome.exchanges}
    listed = [(number, bindings[number].destination) for number in outcome.bindings]
    return [number for number, destination in listed if ways[destination] == 1 and destination in reached]


def _exists(binding: Binding, topology: Topology) -> bool:
    """Return whether both ends of a binding exist, and the type of its source is known."""
    source = topology.exchanges.get(binding.source)
    if source is None or kind_of(source) is Unknown:
        return False
    names: Mapping[str, object] = topology.queues if binding.destination.kind == "queue" else topology.exchanges
    return binding.destination.name in names
