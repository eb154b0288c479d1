"""Compute the coverage of a tally: the rows of `bindings.counts.uses`, from its groups of messages; pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from bindings.archive.sums import Span
from bindings.counts.columnar.fact_columns import FactTable
from bindings.counts.groups import GroupKind, MessageGroup
from bindings.counts.outcome import sort_bindings
from bindings.counts.sketch import Frequent, count_distinct
from bindings.counts.tally import Tally
from bindings.counts.uses import AlternateUse, BindingUse, Coverage, ExchangeUse, QueueUse, Totals, UnroutableMessages
from exchange.entities.entities import Binding
from exchange.kinds import UnknownExchange, find_kind
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology


def coverage(tally: Tally, topology: Topology) -> Coverage:
    """Return all tables of a tally. Raises InputError if the tally is for another topology."""
    return compute_coverage(tally, tally.group(topology), topology)


def compute_coverage(tally: Tally, groups: FactTable[MessageGroup], topology: Topology) -> Coverage:
    """Return all tables of a tally, given its groups of messages."""
    uses = Uses(groups, tally.partitions, topology)
    exchanges = uses.exchanges()
    return Coverage(
        uses.totals(exchanges), uses.bindings(), uses.queues(), exchanges, uses.alternates(), uses.unroutable()
    )


class Uses:
    """The uses of the parts of a topology by groups of messages, which must be for this topology."""

    def __init__(
        self, groups: FactTable[MessageGroup], partitions: Mapping[tuple[str, int | None], int], topology: Topology
    ) -> None:
        self._topology: Final = topology
        self._partitions: Final = partitions
        self._groups: Final = groups
        self._columns: Final = groups.columns
        self._bindings: Final = sort_bindings(topology)

    def bindings(self) -> tuple[BindingUse, ...]:
        """Return one row for each binding, in the order of `sort_bindings`."""
        topology = self._topology
        behind_dead_letters = self._only_dead_letters
        rows = []
        for number, binding in enumerate(self._bindings):
            exists = _exists(binding, topology)
            only_dead_letters = exists and binding.source in behind_dead_letters
            end = binding.destination
            total = self._count(MessageGroup("queue" if end.kind == "queue" else "passed exchange", end.name))
            span, keys = self._span_and_keys(MessageGroup("binding", number=number))
            rows.append(
                BindingUse(
                    binding, number, span.messages, self._count(MessageGroup("possible binding", number=number)),
                    self._count(MessageGroup("sole binding", number=number)), span.first, span.last,
                    keys, span.messages / total if total else None,
                    self._through(binding.source), exists and not only_dead_letters, only_dead_letters,
                )
            )  # fmt: skip
        return tuple(rows)

    def queues(self) -> tuple[QueueUse, ...]:
        """Return one row for each queue, by name."""
        partitions: dict[str, dict[int | None, int]] = {}
        for (queue, partition), messages in self._partitions.items():
            partitions.setdefault(queue, {})[partition] = messages
        rows = []
        for name in sorted(self._topology.queues):
            group = MessageGroup("queue", name)
            span, keys = self._span_and_keys(group)
            rows.append(
                QueueUse(
                    name, span.messages, self._count(MessageGroup("possible queue", name)), self._avoided(name),
                    *span[1:], keys, self._hot(group), partitions.get(name, {}),
                )
            )  # fmt: skip
        return tuple(rows)

    def exchanges(self) -> tuple[ExchangeUse, ...]:
        """Return one row for each exchange, and for each unknown name that messages were published to."""
        fans: dict[str, dict[int, int]] = {}
        for group, messages in self._counts("fan-out"):
            fans.setdefault(group.name, {})[group.number] = messages
        rows = []
        for name in sorted({*self._topology.exchanges, *[group.name for group, _ in self._counts("exchange")]}):
            group = MessageGroup("exchange", name)
            span, keys = self._span_and_keys(group)
            unroutable, undecided, refused = (
                self._count(MessageGroup("fate", name, fate)) for fate in ("unroutable", "undecided", "refused")
            )
            rows.append(
                ExchangeUse(
                    name, span.messages, self._through(name), unroutable, undecided, refused,
                    dict(sorted(fans.get(name, {}).items())), keys, self._hot(group),
                )
            )  # fmt: skip
        return tuple(rows)

    def alternates(self) -> tuple[AlternateUse, ...]:
        """Return one row for each alternate exchange that messages certainly took."""
        shapes = self._columns.shapes
        return tuple([
            AlternateUse(group.name, group.other, messages, shapes.get_group(self._groups.numbers[group]))
            for group, messages in sorted(self._counts("alternate"))
        ])  # fmt: skip

    def unroutable(self) -> tuple[UnroutableMessages, ...]:
        """Return the messages that no queue got, per exchange and error of the broker; the largest number first."""
        rows = []
        for group, messages in self._counts("lost"):
            facts = self._groups[group]
            sample = tuple([each.key for each in facts.sample])
            rows.append(UnroutableMessages(group.name, group.other, messages, facts.shapes, sample, *facts.span[1:]))
        return tuple(sorted(rows, key=lambda row: (-row.messages, row.exchange, row.refused)))

    def totals(self, exchanges: Sequence[ExchangeUse]) -> Totals:
        """Return the sums over all bindings and messages, which these exchanges got from publishers."""
        topology, behind_dead_letters = self._topology, self._only_dead_letters
        eligible = {
            number
            for number, binding in enumerate(self._bindings)
            if _exists(binding, topology) and binding.source not in behind_dead_letters
        }
        hit = {group.number for kind in HITS for group, _ in self._counts(kind)}
        published, unroutable, undecided, refused = (
            sum([getattr(each, name) for each in exchanges])
            for name in ("published", "unroutable", "undecided", "refused")
        )
        copies = sum([fan * messages for each in exchanges for fan, messages in each.fan_out.items()])
        return Totals(
            len(self._bindings), len(eligible), len(hit & eligible), published,
            published - unroutable - undecided - refused, unroutable, undecided, refused,
            copies, sum(map(self._avoided, topology.queues)),
        )  # fmt: skip

    @cached_property
    def _only_dead_letters(self) -> set[str]:
        """Exchanges that dead letters alone can reach, and that no message passed."""
        passed = {group.name for group, _ in self._counts("passed exchange")}
        return set(TopologyGraph(self._topology).only_dead_letters) - passed

    @cached_property
    def _copies(self) -> Mapping[str, int]:
        """Queue -> number of copies that bindings led to it, certainly."""
        copies: dict[str, int] = {}
        for group, messages in self._counts("binding"):
            end = self._bindings[group.number].destination
            if end.kind == "queue":
                copies[end.name] = copies.get(end.name, 0) + messages
        return copies

    def _avoided(self, queue: str) -> int:
        """Return the number of copies that a queue did not get, as another binding led there, too."""
        return self._copies.get(queue, 0) - self._count(MessageGroup("bound queue", queue))

    def _through(self, exchange: str) -> int:
        """Return the number of messages that certainly passed an exchange."""
        return self._count(MessageGroup("passed exchange", exchange))

    def _count(self, group: MessageGroup) -> int:
        number = self._groups.numbers.get(group)
        return 0 if number is None else self._messages[number]

    def _counts(self, kind: GroupKind) -> Iterator[tuple[MessageGroup, int]]:
        """Yield the groups of a kind with their numbers of messages."""
        pairs = zip(self._groups.names, self._messages, strict=True)
        return ((group, messages) for group, messages in pairs if group.group == kind)

    @cached_property
    def _messages(self) -> list[int]:
        messages: list[int] = self._columns.spans.messages.tolist()
        return messages

    def _span_and_keys(self, group: MessageGroup) -> tuple[Span, int]:
        """Return the span of a group, and the approximate number of its distinct keys."""
        number = self._groups.numbers.get(group)
        if number is None:
            return Span(), 0
        return self._columns.spans.get_group(number), count_distinct(self._columns.registers.get_group(number))

    def _hot(self, group: MessageGroup) -> Frequent:
        number = self._groups.numbers.get(group)
        return Frequent() if number is None else self._columns.hot.get_group(number)


HITS: Final[tuple[GroupKind, ...]] = ("binding", "possible binding")


def _exists(binding: Binding, topology: Topology) -> bool:
    """Return whether both ends of a binding exist, and the type of its source is known."""
    source = topology.exchanges.get(binding.source)
    if source is None or find_kind(source) is UnknownExchange:
        return False
    names: Mapping[str, object] = topology.queues if binding.destination.kind == "queue" else topology.exchanges
    return binding.destination.name in names
