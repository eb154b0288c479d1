"""A topology compiled for routing: each exchange with its kind, which has compiled its bindings, and its alternate.

It is adapted to a change before the tables are: if that fails, `Compiled.compile_again` builds the parts concerned from
the tables. What a change makes wrong in a cache of routes is returned as `Stale`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue, Ranked
from exchange.entities.in_force import find_possible_alternates
from exchange.entities.indexes import Change, Tables
from exchange.entities.unread import has_shards_made
from exchange.errors import InputError, PatternError
from exchange.kinds import Choose, Kind, UnknownExchange, can_delay, find_kind
from exchange.topology.rules import VirtualHost

if TYPE_CHECKING:
    from exchange.partition.partitioning.specification import Partitioning


class Stale(NamedTuple):
    """The routes that a change may have made wrong."""

    exchange: str | None
    """The exchange of the messages; None for all exchanges."""
    routing_key: str | None
    """Their routing key; None for all routes of all exchanges."""


ALL_STALE: Final = Stale(None, None)


class CompiledExchange(NamedTuple):
    """An exchange ready to route: its kind, None if unknown, and its alternate exchange in force."""

    exchange: Exchange
    kind: Kind | None
    alternate: str | None
    is_unsure: bool
    """Whether it is unknown where messages go that no binding matches: to which alternate exchange, as it is unknown
    which policy applies, or to queues that a plugin makes."""
    can_delay: bool
    """Whether it keeps messages that have a delay, before its kind is asked."""


class Compiled:
    """The exchanges and partitioned queues of ``tables``; ``choose`` is for exchange types that choose at random.

    The tables are read, never changed. Raises InputError, naming the binding, for a key of a topic exchange that is
    longer than AMQP allows.
    """

    def __init__(self, tables: Tables, host: VirtualHost, choose: Choose) -> None:
        self.tables: Final = tables
        self.host: Final = host
        self.exchanges: Final[dict[str, CompiledExchange]] = {}
        self.partitioned: Final[dict[str, Partitioning]] = {}
        """Queue -> its partitioning."""
        self._choose: Final = choose
        self._beyond_key: frozenset[str] | None = None
        for queue in tables.queues.values():
            self._compile_queue(queue)
        policies = Ranked(tables.policies.values())
        for exchange in tables.exchanges.values():
            self._compile(exchange, policies)

    def beyond_key(self) -> frozenset[str]:
        """Return the exchanges whose routes may depend on more than the routing key, there or at later exchanges.

        Such a route depends on headers, on chance, or on the part of the message that is the key of a partitioned
        queue. The search goes backwards: from the exchanges that do not route by the routing key alone to all exchanges
        that lead to them.
        """
        if self._beyond_key is None:
            back: dict[str, list[str]] = {}
            for compiled in self.exchanges.values():
                if compiled.alternate is not None:
                    back.setdefault(compiled.alternate, []).append(compiled.exchange.name)
            beyond: set[str] = set()
            pending = [
                name
                for name, compiled in self.exchanges.items()
                if compiled.can_delay or (compiled.kind and not compiled.kind.by_key)
            ]
            for queue, partitioning in self.partitioned.items():
                if not partitioning.by_routing_key:
                    pending += ["", *(b.source for b in self.tables.bindings_to(Destination("queue", queue)))]
            while pending:
                name = pending.pop()
                if name not in beyond:
                    beyond.add(name)
                    pending += back.get(name, ())
                    pending += [b.source for b in self.tables.bindings_to(Destination("exchange", name))]
            self._beyond_key = frozenset(beyond)
        return self._beyond_key

    def adapt(self, change: Change) -> Stale | None:
        """Adapt to a change that is not in the tables yet, and return which routes it may make wrong; None for none."""
        part = change.part
        if isinstance(part, Binding):
            return self._adapt_to_binding(part, change.added)
        if isinstance(part, Queue):
            before = self.partitioned.pop(part.name, None)
            if change.added:
                self._compile_queue(part)
            # Only the default exchange routes to a queue that has no bindings, by its name: one route to drop.
            if (
                before is None
                and part.partitioning is None
                and not self.tables.bindings_to(Destination("queue", part.name))
            ):
                return Stale("", part.name)
        elif isinstance(part, Policy):
            if part.operator:
                return None  # it cannot set an alternate exchange
            policies = {**self.tables.policies, part.name: part}
            if not change.added:
                del policies[part.name]
            self._compile_alternates(policies)
        elif change.added:
            self._compile(part, self.tables.policies)
        else:
            self.exchanges.pop(part.name, None)
        self._beyond_key = None
        return ALL_STALE

    def _adapt_to_binding(self, binding: Binding, added: bool) -> Stale | None:
        compiled = self.exchanges.get(binding.source)
        if compiled is None or compiled.kind is None:
            return None
        if added:
            compiled.kind.bind(binding)
        else:
            compiled.kind.unbind(binding)
        if binding.destination.kind == "exchange" or binding.destination.name in self.partitioned:
            self._beyond_key = None
        key = compiled.kind.literal_key(binding)
        # A route keeps its key from exchange to exchange: only routes of this key can take the binding.
        return ALL_STALE if key is None else Stale(None, key)

    def compile_again(self, changes: Iterable[Change]) -> None:
        """Compile again, from the tables, each queue, exchange and policy that the changes concern."""
        for _, part in changes:
            if isinstance(part, Queue):
                self.partitioned.pop(part.name, None)
                before = self.tables.queues.get(part.name)
                if before is not None:
                    self._compile_queue(before)
            elif isinstance(part, Policy):
                self._compile_alternates(self.tables.policies)
            else:
                name = part.name if isinstance(part, Exchange) else part.source
                exchange = self.tables.exchanges.get(name)
                if exchange is not None:
                    self._compile(exchange, self.tables.policies)
                else:
                    self.exchanges.pop(name, None)
        self._beyond_key = None

    def _compile_queue(self, queue: Queue) -> None:
        if queue.partitioning is not None:
            self.partitioned[queue.name] = queue.partitioning

    def _compile_alternates(self, policies: Mapping[str, Policy]) -> None:
        ranked = Ranked(policies.values())
        compiled = [self._with_alternate(each.exchange, each.kind, ranked) for each in self.exchanges.values()]
        self.exchanges.update((each.exchange.name, each) for each in compiled)

    def _compile(self, exchange: Exchange, policies: Mapping[str, Policy] | Ranked) -> None:
        kind_class = find_kind(exchange)
        kind = None
        if kind_class is not UnknownExchange:
            kind = kind_class(exchange, self.host.profile, self._choose)
            for binding in self.tables.bindings_from(exchange.name):
                try:
                    kind.bind(binding)
                except PatternError as error:
                    raise InputError(kind.fault(binding) or error.message) from None
        self.exchanges[exchange.name] = self._with_alternate(exchange, kind, policies)

    def _with_alternate(
        self, exchange: Exchange, kind: Kind | None, policies: Mapping[str, Policy] | Ranked
    ) -> CompiledExchange:
        possible = find_possible_alternates(exchange, policies)
        is_unsure = len(possible) > 1 or has_shards_made(exchange, policies)
        alternate = possible[0] if len(possible) == 1 else None
        return CompiledExchange(exchange, kind, alternate, is_unsure, can_delay(exchange))
