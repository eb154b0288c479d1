"""Compute the coverage of a tally: the rows of `bindings.counts.uses`, sums over its outcomes; pure functions.

A queue of a thousand bindings may get messages of a hundred thousand outcomes. So the sums are made in columns, of
pairs of an outcome and what its messages took, and nothing here loops over pairs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.fact_columns import list_columns
from bindings.counts.outcome import Outcome, sort_bindings
from bindings.counts.sketch import count_distinct
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.uses import AlternateUse, BindingUse, Coverage, ExchangeUse, QueueUse, Totals, UnroutableMessages
from exchange.entities.entities import Binding, Destination
from exchange.errors import InputError
from exchange.kinds import UnknownExchange, find_kind
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology

Indices = npt.NDArray[np.int64]


class Pairs(NamedTuple):
    """Outcomes and what they have, by numbers, as two parallel columns."""

    rows: Indices
    """Numbers of outcomes; they ascend."""
    values: Indices

    def with_values(self, values: Indices) -> Pairs:
        """Return the pairs of the same outcomes with other values."""
        return Pairs(self.rows, values)


def pair(lists: Iterable[Sequence[Any]], numbers: Mapping[Any, int] | None = None) -> Pairs:
    """Return a pair for each number in the list of each outcome; of what ``numbers`` has a number for, if given."""
    listed = list(lists)
    sizes = np.fromiter(map(len, listed), np.int64, len(listed))
    flat = chain.from_iterable(listed)
    values = flat if numbers is None else map(numbers.__getitem__, flat)
    return Pairs(np.repeat(np.arange(len(listed)), sizes), np.fromiter(values, np.int64, int(sizes.sum())))


def sum_once(pairs: Pairs, messages: Indices, number: int) -> Indices:
    """Return value -> the messages of the outcomes that have it, each outcome once; values are below ``number``."""
    keys = np.sort(pairs.rows * number + pairs.values)  # nearly sorted before; np.unique would hash them
    distinct = keys[np.diff(keys, prepend=-1) != 0]
    return _sum(distinct % max(number, 1), messages[distinct // max(number, 1)], number)


def sum_over_groups(tally: Tally, groups: Sequence[Hashable | None], taken: Iterable[bool]) -> dict[Any, int]:
    """Return group of bindings -> messages of the ``taken`` outcomes with a certain binding of it, each outcome once.

    ``groups`` has the group of each binding, None for those that do not count.
    """
    facts = list_columns(tally.facts)
    numbers: dict[Hashable, int] = {}
    of = np.array([-1 if each is None else numbers.setdefault(each, len(numbers)) for each in groups], np.int64)
    pairs = pair(each.bindings if take else () for each, take in zip(facts.outcomes, taken, strict=True))
    values = of[pairs.values]
    known = np.flatnonzero(values >= 0)
    sums = sum_once(Pairs(pairs.rows[known], values[known]), facts.columns.spans.messages, len(numbers))
    return {group: count for group, count in zip(numbers, sums.tolist(), strict=True) if count}


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
    published = destinations("exchange", ((outcome.exchange,) for outcome in listed))
    alternates = destinations(
        "exchange", ([link[1] for link in (*each.alternates, *each.possible_alternates)] for each in listed)
    )
    # The default exchange reaches queues without explicit bindings.
    implicit = destinations("queue", (() if outcome.exchange else outcome.queues for outcome in listed))

    def keys(pairs: Pairs) -> Indices:
        return pairs.rows * len(codes) + pairs.values

    ends = keys(certain.with_values(of[certain.values]))
    ways = [ends, keys(possible.with_values(of[possible.values])), *map(keys, (published, alternates, implicit))]
    distinct, counts = np.unique(np.concatenate(ways), return_counts=True)
    alone = np.flatnonzero(counts[np.searchsorted(distinct, ends)] == 1)
    reached = np.append(np.sort(np.concatenate([keys(queues), keys(exchanges)])), -1)  # np.isin would hash them
    sole = alone[reached[np.searchsorted(reached[:-1], ends[alone])] == ends[alone]]
    return Pairs(certain.rows[sole], certain.values[sole])


def coverage(tally: Tally, topology: Topology) -> Coverage:
    """Return all tables of a tally. Raises InputError if the tally is for another topology."""
    if tally.topology != compute_fingerprint(topology):
        raise InputError("this tally is for another topology: audit the archive again with this one")
    uses = Uses(tally, topology)
    exchanges = uses.exchanges()
    return Coverage(
        uses.totals(exchanges), uses.bindings(), uses.queues(), exchanges, uses.alternates(), uses.unroutable()
    )


class Uses:
    """The uses of the parts of a topology by the messages of a tally, which must be for this topology."""

    def __init__(self, tally: Tally, topology: Topology) -> None:
        facts = list_columns(tally.facts)
        self._topology: Final = topology
        self._partitions: Final = tally.partitions
        self._outcomes: Final = facts.outcomes
        self._columns: Final = facts.columns
        self._messages: Final = facts.columns.spans.messages
        self._bindings: Final = sort_bindings(topology)

    def bindings(self) -> tuple[BindingUse, ...]:
        """Return one row for each binding, in the order of `sort_bindings`."""
        count, topology = len(self._bindings), self._topology
        taken, possible = self._taken, self._possible
        sole = find_sole_bindings(self._outcomes, self._bindings, self._taken)
        taken = self._by_value(taken)
        spans = self._columns.spans.merge(taken.rows, taken.values, count)
        registers = self._columns.registers.merge(taken.rows, taken.values)
        may = _sum(possible.values, self._messages[possible.rows], count).tolist()
        only = _sum(sole.values, self._messages[sole.rows], count).tolist()
        reached = {"exchange": self._through, "queue": self._got}
        behind_dead_letters = TopologyGraph(topology).only_dead_letters - self._through.keys()
        rows = []
        for number, binding in enumerate(self._bindings):
            exists = _exists(binding, topology)
            only_dead_letters = exists and binding.source in behind_dead_letters
            total = reached[binding.destination.kind].get(binding.destination.name, 0)
            span = spans.get_group(number)
            rows.append(
                BindingUse(
                    binding, number, span.messages, may[number], only[number], span.first, span.last,
                    count_distinct(registers.get_group(number)), span.messages / total if total else None,
                    self._through.get(binding.source, 0), exists and not only_dead_letters, only_dead_letters,
                )
            )  # fmt: skip
        return tuple(rows)

    def queues(self) -> tuple[QueueUse, ...]:
        """Return one row for each queue, by name."""
        numbers = self._queue_numbers
        names = [*numbers]
        got = self._by_value(self._queues)
        may = pair((each.possible_queues for each in self._outcomes), numbers)
        count = len(names)
        spans = self._columns.spans.merge(got.rows, got.values, count)
        registers = self._columns.registers.merge(got.rows, got.values)
        hot = self._columns.hot.merge(got.rows, got.values, count)
        possible = _sum(may.values, self._messages[may.rows], count).tolist()
        avoided = self._avoided(numbers).tolist()
        partitions: dict[str, dict[int | None, int]] = {}
        for (queue, partition), messages in self._partitions.items():
            partitions.setdefault(queue, {})[partition] = messages
        return tuple([
            QueueUse(
                name, *spans.get_group(number)[:1], possible[number], avoided[number], *spans.get_group(number)[1:],
                count_distinct(registers.get_group(number)), hot.get_group(number), partitions.get(name, {}),
            )
            for number, name in enumerate(names)
        ])  # fmt: skip

    def exchanges(self) -> tuple[ExchangeUse, ...]:
        """Return one row for each exchange, and for each unknown name that messages were published to."""
        names = sorted({*self._topology.exchanges, *[each.exchange for each in self._outcomes]})
        numbers = {name: number for number, name in enumerate(names)}
        to = self._by_value(pair((numbers[each.exchange],) for each in self._outcomes))
        registers = self._columns.registers.merge(to.rows, to.values)
        hot = self._columns.hot.merge(to.rows, to.values, len(names))
        fates: list[dict[str, int]] = [{} for _ in names]
        fans: list[dict[int, int]] = [{} for _ in names]
        for outcome, messages in zip(self._outcomes, self._messages.tolist(), strict=True):
            number, fan = numbers[outcome.exchange], len(outcome.queues)
            fates[number][outcome.fate] = fates[number].get(outcome.fate, 0) + messages
            fans[number][fan] = fans[number].get(fan, 0) + messages
        return tuple([
            ExchangeUse(
                name, sum(fates[number].values()), self._through.get(name, 0),
                fates[number].get("unroutable", 0), fates[number].get("undecided", 0), fates[number].get("refused", 0),
                dict(sorted(fans[number].items())), count_distinct(registers.get_group(number)), hot.get_group(number),
            )
            for number, name in enumerate(names)
        ])  # fmt: skip

    def alternates(self) -> tuple[AlternateUse, ...]:
        """Return one row for each alternate exchange that messages certainly took."""
        links = sorted({link for outcome in self._outcomes for link in outcome.alternates})
        numbers = {link: number for number, link in enumerate(links)}
        took = self._by_value(pair((each.alternates for each in self._outcomes), numbers))
        messages = _sum(took.values, self._messages[took.rows], len(links)).tolist()
        shapes = self._columns.shapes.merge(took.rows, took.values, len(links))
        return tuple(
            [AlternateUse(*link, messages[number], shapes.get_group(number)) for link, number in numbers.items()]
        )

    def unroutable(self) -> tuple[UnroutableMessages, ...]:
        """Return the messages that no queue got, per exchange and error of the broker; the largest number first."""
        answers: dict[tuple[str, str], int] = {}
        lost = [number for number, outcome in enumerate(self._outcomes) if outcome.routed is False]
        of = [self._outcomes[number] for number in lost]
        groups = [answers.setdefault((each.exchange, each.refused), len(answers)) for each in of]
        merged = self._columns.merge(np.array(lost, np.int64), np.array(groups, np.int64), len(answers))
        rows = []
        for (name, refused), group in answers.items():
            facts = merged.get_group(group)
            sample = tuple([each.key for each in facts.sample])
            rows.append(UnroutableMessages(name, refused, facts.messages, facts.shapes, sample, *facts.span[1:]))
        return tuple(sorted(rows, key=lambda row: (-row.messages, row.exchange, row.refused)))

    def totals(self, exchanges: Sequence[ExchangeUse]) -> Totals:
        """Return the sums over all bindings and messages, which these exchanges got from publishers."""
        topology = self._topology
        behind_dead_letters = TopologyGraph(topology).only_dead_letters - self._through.keys()
        eligible = {
            number
            for number, binding in enumerate(self._bindings)
            if _exists(binding, topology) and binding.source not in behind_dead_letters
        }
        hit = {*np.flatnonzero(np.bincount(np.append(self._taken.values, self._possible.values))).tolist()}
        published, unroutable, undecided, refused = (
            sum([getattr(each, name) for each in exchanges])
            for name in ("published", "unroutable", "undecided", "refused")
        )
        copies = sum([fan * messages for each in exchanges for fan, messages in each.fan_out.items()])
        return Totals(
            len(self._bindings), len(eligible), len(hit & eligible), published,
            published - unroutable - undecided - refused, unroutable, undecided, refused,
            copies, int(self._avoided(self._queue_numbers).sum()),
        )  # fmt: skip

    @cached_property
    def _taken(self) -> Pairs:
        return pair(outcome.bindings for outcome in self._outcomes)

    @cached_property
    def _possible(self) -> Pairs:
        return pair(outcome.possible_bindings for outcome in self._outcomes)

    @cached_property
    def _through(self) -> Mapping[str, int]:
        """Exchange -> number of messages that certainly passed it; those that none passed are left out."""
        return dict(self._messages_by_name(each.exchanges for each in self._outcomes))

    @cached_property
    def _got(self) -> Mapping[str, int]:
        """Queue -> number of messages that it certainly got."""
        messages = _sum(self._queues.values, self._messages[self._queues.rows], len(self._queue_numbers))
        return dict(zip(self._queue_numbers, messages.tolist(), strict=True))

    @cached_property
    def _queue_numbers(self) -> Mapping[str, int]:
        """Queue -> its number; they are in order."""
        return {name: number for number, name in enumerate(sorted(self._topology.queues))}

    @cached_property
    def _queues(self) -> Pairs:
        """The queues that certainly got the messages of outcomes."""
        return pair((each.queues for each in self._outcomes), self._queue_numbers)

    def _messages_by_name(self, names: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, int]]:
        lists = list(names)
        numbers = {name: number for number, name in enumerate(dict.fromkeys(chain.from_iterable(lists)))}
        pairs = pair(lists, numbers)
        return zip(numbers, _sum(pairs.values, self._messages[pairs.rows], len(numbers)).tolist(), strict=True)

    def _avoided(self, numbers: Mapping[str, int]) -> Indices:
        """Return for each queue the number of copies that it did not get, as another binding led there, too."""
        ends = [binding.destination for binding in self._bindings]
        of = np.array([_number(end, numbers) for end in ends], np.int64)
        to = self._taken.with_values(of[self._taken.values])
        known = to.values >= 0
        to = Pairs(to.rows[known], to.values[known])
        copies = _sum(to.values, self._messages[to.rows], len(numbers))
        return copies - sum_once(to, self._messages, len(numbers))

    def _by_value(self, pairs: Pairs) -> Pairs:
        """Return pairs in the order of their values, and of outcomes for each value."""
        order = np.argsort(pairs.values, kind="stable")
        return Pairs(pairs.rows[order], pairs.values[order])


def _number(end: Destination, numbers: Mapping[str, int]) -> int:
    return numbers.get(end.name, -1) if end.kind == "queue" else -1


def _sum(groups: Indices, messages: Indices, number: int) -> npt.NDArray[Any]:
    """Return the sum of the messages of each group, exactly."""
    sums = np.zeros(number, np.int64)
    np.add.at(sums, groups, messages)
    return sums


def _exists(binding: Binding, topology: Topology) -> bool:
    """Return whether both ends of a binding exist, and the type of its source is known."""
    source = topology.exchanges.get(binding.source)
    if source is None or find_kind(source) is UnknownExchange:
        return False
    names: Mapping[str, object] = topology.queues if binding.destination.kind == "queue" else topology.exchanges
    return binding.destination.name in names
