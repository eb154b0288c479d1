"""The router: RabbitMQ's walk from exchange to exchange (`rabbit_exchange.erl route/3`), compiled for one topology.

A bounded cache keeps the routes that depend only on the exchange and the routing key; it is read without a lock. All
else, routing what is not in the cache and changing the topology, happens under one lock. So no route sees half a
change, and no route from before a change enters the cache after it. On a free-threaded Python each thread has a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from exchange import threads
from exchange.entities.alternates import policy_in_force, possible_alternates
from exchange.entities.entities import (
    Binding,
    Destination,
    Exchange,
    Policy,
    Queue,
)
from exchange.entities.in_force import Policies
from exchange.entities.indexes import Change
from exchange.errors import AccessRefused, BrokerError, InputError, NotFound, PatternError
from exchange.forks import ROUTERS, lock_at_forks
from exchange.kinds import Choose, Kind, Unknown, Unsure, kind_of
from exchange.message import Message
from exchange.routing.route import Alternate, Explanation, Hop, Obstacle, Outcome, Placement, Route, Step
from exchange.topology import rules
from exchange.topology.topology import Topology

if TYPE_CHECKING:
    from exchange.partition.partitioning.specification import Partitioning
    from exchange.routing.columns.column_router import ColumnRouter
    from exchange.routing.columns.route_columns import RouteColumns

__all__ = ["Router"]

MOST_ANSWERS: Final = 16_384
"""Maximum number of sets of matching bindings whose routes are kept."""

NOWHERE: Final = Route(())


class Router:
    """A router of messages through a topology, exactly as the RabbitMQ of its profile routes them.

    >>> from exchange import Binding, Exchange, Message, Queue, Router, Topology
    >>> topology = Topology().declare_exchange(Exchange("orders", "topic")).declare_queue(Queue("billing"))
    >>> router = Router(topology.bind(Binding.to_queue("orders", "billing", "order.*.created")))
    >>> router.route(Message("orders", "order.eu.created")).queues
    ('billing',)

    ``choose(n)`` returns an integer from 0 to n - 1, by which random exchange types choose a binding; by default it is
    random. ``cache`` is the maximum number of routes in the cache, of each thread on a free-threaded Python; 0 disables
    it. The editing methods change the router's own copy of the topology in place, by the same rules as the methods of
    `Topology`; their time does not grow with the topology, and a method that raises has changed nothing. Safe to use
    from several threads, which may fork. Copying and unpickling build the new router from the topology.

    Raises InputError, naming the binding, when a key of a topic exchange is longer than AMQP allows.
    """

    def __init__(self, topology: Topology, *, choose: Choose | None = None, cache: int = 65_536) -> None:
        if not isinstance(topology, Topology):
            raise TypeError(f"Router: topology must be a Topology, not {type(topology).__name__}: {topology!r:.60}")
        self._lock: Final = lock_at_forks(ROUTERS)
        self._host: Final = rules.VirtualHost(topology.vhost, topology.profile)
        self._tables: Final = topology.tables()
        self._chosen: Final = choose
        self._choose: Final = choose if choose is not None else _random_choice()
        self._cache_size: Final = cache
        self._compiled: Final[dict[str, _Compiled]] = {}
        self._remembered: Final = threads.Caches(_Routes)
        # An attribute that hides no method: CPython reads it faster. The method counts no reference that threads share.
        own = self._read_own if threads.FREE_THREADED else self._remembered.local.own.by_exchange.get
        self._routes_from: Final[Callable[[str], dict[str, Route] | None]] = own
        self._routes_of_bindings: Final[dict[int, tuple[Collection[Binding], Route]]] = {}
        self._beyond_key_cache: frozenset[str] | None = None
        self._columns: ColumnRouter | None = None
        self._partitioned: Final[dict[str, Partitioning]] = {}
        for queue in self._tables.queues.values():
            self._compile_queue(queue)
        for exchange in self._tables.exchanges.values():
            self._compile(exchange)
        threads.defer_counting(self)

    @property
    def topology(self) -> Topology:
        """The present topology."""
        with self._lock:
            return Topology.of_tables(self._tables.copy(), self._host.vhost, self._host.profile)

    def __reduce__(self) -> tuple[Callable[[Topology], Router], tuple[Topology]]:
        return partial(type(self), choose=self._chosen, cache=self._cache_size), (self.topology,)

    def __repr__(self) -> str:
        return f"<Router of {self.topology!r}>"

    def route(self, message: Message) -> Route:
        """Return where the message goes.

        Raises the error that the broker would answer to basic.publish: NotFound if the exchange does not exist,
        AccessRefused if it is internal, PreconditionFailed if CC or BCC is no array. Raises BrokerError where the
        broker's channel would crash, as with x-consistent-hash and an empty array in its hash header, 3.13 to 4.3.4.
        """
        if type(message) is Message:  # nearly always; the property would be a call
            headers = message.headers
            key_only = not headers or ("CC" not in headers and "BCC" not in headers)
        elif isinstance(message, Message):
            key_only = message.has_one_key
        else:
            raise TypeError(f"Router: message must be a Message, not {type(message).__name__}")
        if key_only:
            routes = self._routes_from(message.exchange)
            if routes is not None:
                route = routes.get(message.routing_key)
                if route is not None:
                    return route
        with self._lock:
            if not key_only or not self._cache_size:
                return self._walk(message, None)
            route = self._find_route(message)
            if message.exchange not in self._beyond_key():
                remembered: _Routes = self._remembered.local.own
                return remembered.add(message.exchange, message.routing_key, route, self._cache_size)
            return route

    def knows(self, exchange: str, routing_key: str) -> bool:
        """Return whether `route` only looks up the route of such a message, if it has no CC and BCC."""
        routes = self._routes_from(exchange)
        return routes is not None and routing_key in routes

    def learn(self, exchange: str, routing_keys: Sequence[str]) -> None:
        """Route keys as one column, and keep their routes for `route`: for many keys at once that it does not know.

        This takes a fraction of the time of as many calls of `route`, whose answers stay as they are. Keys are left to
        `route` where more than the key decides, where a partitioned queue gets the message, and where the broker
        refuses it; and all if one is not UTF-8, or if the cache cannot hold them. Raises InputError if numpy or pyarrow
        is not installed.
        """
        with self._lock:
            if not self._cache_size or exchange in self._beyond_key():
                return
            known = self._routes_from(exchange) or {}
            new = [key for key in routing_keys if key not in known]
            if len(new) > self._cache_size:
                return
            try:
                "".join(new).encode()
                found = self._build_columns().route(exchange, new)
            except (BrokerError, UnicodeEncodeError):
                return
            remembered: _Routes = self._remembered.local.own
            partitioned = self._partitioned.keys()
            routes = [
                route if number not in found.errors and partitioned.isdisjoint(route.queues) else None
                for number, route in enumerate(found.routes)
            ]
            pairs = zip(new, map(routes.__getitem__, found.index.tolist()), strict=True)
            remembered.add_many(exchange, {key: route for key, route in pairs if route is not None}, self._cache_size)

    def route_dead_letter(self, message: Message) -> Route:
        """Return where a message goes that the broker publishes by itself, as a dead letter.

        An internal exchange takes it, too; apart from that it is routed, and refused, as by `route`.
        """
        start = self._compiled.get(message.exchange)
        if start is None or not start.exchange.internal:
            return self.route(message)
        with self._lock:
            return self._walk(message, None, of_broker=True)

    def route_columns(self, exchange: Any, keys: Any, headers: Any = None) -> RouteColumns:
        """Return the routes of a whole column of messages, as `route` returns them one by one.

        ``exchange`` is a name, or a column of names; ``keys`` is a column of texts or bytes, plain, as views or
        dictionary-encoded; ``headers`` is a column of structs, maps or JSON texts (see `exchange.routing.columns`). A
        column is what exports Arrow's PyCapsule interface, as columns of pyarrow, Polars, pandas and DuckDB do, or a
        sequence of Python values. All rows are routed through one state of the topology. What is learned of keys is
        kept until the topology changes.

        Needs numpy and pyarrow. Raises InputError for columns of other types or different lengths, and for nulls among
        exchanges and keys; the BrokerError of `route` if the one exchange takes no messages. Where single rows are
        refused, the result has their errors.
        """
        columns = self._columns
        if columns is None:
            with self._lock:
                columns = self._build_columns()
        return columns.route(exchange, keys, headers)

    def explain(self, message: Message, queue: str | None = None) -> Explanation:
        """Return the route with its reasons, and why ``queue`` does not get the message. Raises as `route` does."""
        if not isinstance(message, Message):
            raise TypeError(f"Router: message must be a Message, not {type(message).__name__}")
        hops: list[Hop] = []
        with self._lock:
            route = self._walk(message, hops)
            if queue is None:
                return Explanation(message, route, tuple(hops))
            obstacles: tuple[Obstacle, ...] = ()
            if queue in self._tables.queues and queue not in route.queues:
                from exchange.routing.nearest import Walk, find_obstacles  # not at the top: only this needs it

                reached = frozenset(hop.exchange.name for hop in hops)
                alternates = {name: c.alternate for name, c in self._compiled.items() if c.alternate is not None}
                obstacles = find_obstacles(Walk(message, reached, self._tables, alternates, self._host.profile), queue)
            asked = self._tables.queues.get(queue)
            if asked is None:
                return Explanation(message, route, tuple(hops), queue)
            from exchange.entities.precedence import account_for  # not at the top: only this needs it

            policies = Policies(self._tables.policies, self._tables.operator_policies, self._host.profile)
            in_force = account_for(asked, policies)
            return Explanation(message, route, tuple(hops), queue, True, obstacles, in_force)

    def declare_exchange(self, exchange: Exchange) -> None:
        """Add an exchange, as `Topology.declare_exchange`."""
        self._edit(lambda: rules.declare_exchange(self._tables, self._host, exchange))

    def declare_queue(self, queue: Queue) -> None:
        """Add a queue, as `Topology.declare_queue`."""
        self._edit(lambda: rules.declare_queue(self._tables, self._host, queue))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Remove an exchange, as `Topology.delete_exchange`."""
        self._edit(lambda: rules.delete_exchange(self._tables, self._host, name, if_unused))

    def delete_queue(self, name: str) -> None:
        """Remove a queue, as `Topology.delete_queue`."""
        self._edit(lambda: rules.delete_queue(self._tables, name))

    def bind(self, binding: Binding) -> None:
        """Add a binding, as `Topology.bind`."""
        self._edit(lambda: rules.bind(self._tables, self._host, binding))

    def unbind(self, binding: Binding) -> None:
        """Remove a binding, as `Topology.unbind`."""
        self._edit(lambda: rules.unbind(self._tables, binding))

    def set_policy(self, policy: Policy) -> None:
        """Add or replace a policy, as `Topology.set_policy`."""
        self._edit(lambda: rules.set_policy(self._tables, self._host, policy))

    def clear_policy(self, name: str) -> None:
        """Remove a policy, as `Topology.clear_policy`."""
        self._edit(lambda: rules.clear_policy(self._tables, self._host, name))

    def _find_route(self, message: Message) -> Route:
        """Return the route of a message without CC and BCC, by a shorter way than `_walk` where there is one.

        Keys that match the same bindings get the same tuple of them from the matcher. If these lead to queues only, the
        tuple decides the route. It is kept beside the route: so nothing else can get its id.
        """
        start = self._compiled.get(message.exchange)
        if start is None or start.exchange.internal or self._partitioned:
            return self._walk(message, None)
        match_once = None if start.kind is None else start.kind.match_once
        if match_once is None:
            return self._walk(message, None)
        matched = match_once(message.routing_key)
        if not matched:
            return NOWHERE if start.alternate is None and not start.is_unsure else self._walk(message, None)
        known = self._routes_of_bindings.get(id(matched))
        if known is not None:
            return known[1]
        existing, queues = self._tables.queues, set()
        for _, (destination_kind, name), _, _ in matched:
            if destination_kind != "queue":
                return self._walk(message, None)
            if name in existing:
                queues.add(name)
        route = Route(tuple(sorted(queues)))
        if len(self._routes_of_bindings) >= MOST_ANSWERS:
            self._routes_of_bindings.clear()
        self._routes_of_bindings[id(matched)] = matched, route
        return route

    def _walk(self, message: Message, hops: list[Hop] | None, *, of_broker: bool = False) -> Route:
        """Route a message from exchange to exchange, and append to ``hops``, if given, what each exchange did.

        Invariants: ``seen`` has every exchange that is or was in ``work``, so none enters it twice, and cycles end. An
        alternate exchange is followed only from an exchange of which no binding matches. A queue gets one copy,
        however many bindings lead to it.
        """
        start = self._compiled.get(message.exchange)
        if start is None:
            raise NotFound(f"no {self._host.describe('exchange', message.exchange)}")
        if start.exchange.internal and not of_broker:
            raise AccessRefused(f"cannot publish to internal {self._host.describe('exchange', message.exchange)}")
        keys = message.routing_keys()
        existing = self._tables.queues
        queues: dict[str, None] = {}
        undecided: list[str] = []
        seen = {message.exchange}
        work: list[tuple[_Compiled, str | None]] = [(start, None)]  # exchanges to visit, and what led to each
        is_unsure: bool | Unsure
        while work:
            (exchange, kind, alternate, is_unsure), came_from = work.pop()
            if kind is None:
                undecided.append(exchange.name)
                if hops is not None:
                    hops.append(Hop(exchange, came_from, (), (), None, undecided=True))
                continue
            # The default exchange has no stored bindings. A message that is published to it always matches one that its
            # key implies, so no alternate is taken, even if there is no such queue. A message that reaches it as an
            # alternate exchange matches nothing, and goes on to its own alternate, which a policy can set.
            try:
                matched = kind.match(message, keys) if exchange.name or came_from is None else ()
            except Unsure as error:  # other bindings may match, too, so it is unknown whether the alternate is taken
                matched, alternate, is_unsure = error.matched, None, error
                if matched:
                    undecided.append(exchange.name)
            if hops is not None:
                chosen_by = kind.describe_choice(message, keys)
                hop_alternate = alternate if exchange.name or came_from is not None else None
                hop = self._hop(exchange, hop_alternate, came_from, matched, queues, seen, chosen_by)
                unknown = is_unsure.reason if isinstance(is_unsure, Unsure) else None
                hops.append(hop if unknown is None else replace(hop, undecided=True, unsure=unknown))
            onwards: list[str] = []
            for _, (destination_kind, name), _, _ in matched:
                if destination_kind == "exchange":
                    onwards.append(name)
                elif name in existing:
                    queues[name] = None
            if not matched:
                if alternate is not None:
                    onwards.append(alternate)
                if is_unsure:
                    undecided.append(exchange.name)
            for name in onwards:
                if name not in seen and name in self._compiled:
                    seen.add(name)
                    work.append((self._compiled[name], exchange.name))
        placements = self._placements(message, queues) if self._partitioned else ()
        return Route(tuple(sorted(queues)), tuple(undecided), placements)

    def _placements(self, message: Message, queues: Collection[str]) -> tuple[Placement, ...]:
        placements = []
        for queue in sorted(self._partitioned.keys() & queues):
            partitioning = self._partitioned[queue]
            key = partitioning.key.of(message)
            partition, hashed, rule = partitioning.choose_for(key, message, queue)
            name = None if partition is None else partitioning.partitions[partition].name
            placements.append(Placement(queue, partition, name, key, hashed, rule, partitioning))
        return tuple(placements)

    def _hop(
        self,
        exchange: Exchange,
        alternate_name: str | None,
        came_from: str | None,
        matched: Collection[Binding],
        queues: Collection[str],
        seen: Collection[str],
        chosen_by: str | None,
    ) -> Hop:
        """Build the record of an exchange's decision; ``queues`` and ``seen`` are those of `_walk` before it."""
        alternate = self._alternate(exchange, alternate_name, taken=not matched)
        destinations = dict.fromkeys([binding.destination for binding in matched])
        if alternate is not None and alternate.taken:
            destinations = {Destination("exchange", alternate.name): None}
        steps = tuple([Step(destination, self._outcome(destination, queues, seen)) for destination in destinations])
        in_order = tuple(sorted(matched, key=lambda binding: (binding.routing_key, binding.destination)))
        unsure = not matched and self._compiled[exchange.name].is_unsure
        return Hop(exchange, came_from, in_order, steps, alternate, undecided=unsure, chosen_by=chosen_by)

    def _outcome(self, destination: Destination, queues: Collection[str], seen: Collection[str]) -> Outcome:
        if not self._tables.exists(destination):
            return "missing"
        if destination.kind == "queue":
            return "queued already" if destination.name in queues else "queued"
        return "seen already" if destination.name in seen else "followed"

    def _alternate(self, exchange: Exchange, name: str | None, *, taken: bool) -> Alternate | None:
        if name is None:
            return None
        by_argument = "alternate-exchange" in exchange.arguments
        policy = None if by_argument else policy_in_force(exchange, self._tables.policies)
        return Alternate(name, taken, policy.name if policy is not None else None)

    def _read_own(self, exchange: str) -> dict[str, Route] | None:
        """Return the cached routes from an exchange, in the cache of this thread: routing key -> route."""
        try:
            own: _Routes = self._remembered.local.own
        except AttributeError:
            own = self._remembered.make_own()
        return own.by_exchange.get(exchange)

    def _build_columns(self) -> ColumnRouter:
        """Return the router of columns for the topology as it is, built if there is none; the caller has the lock."""
        if self._columns is None:
            from exchange.routing.columns import build_column_router  # not at the top: it needs numpy

            topology = Topology.of_tables(self._tables.copy(), self._host.vhost, self._host.profile)
            self._columns = build_column_router(topology, self._choose)
        return self._columns

    def _forget(self) -> None:
        # A concurrent call of `route` may still read a dict that is dropped here. That call began before the change, so
        # it may return the route from before the change. It adds nothing to the cache, since that needs the lock.
        for remembered in self._remembered.all():
            remembered.clear()
        self._routes_of_bindings.clear()

    def _beyond_key(self) -> frozenset[str]:
        """Return the exchanges whose routes may depend on more than the routing key, there or at later exchanges.

        Such a route depends on headers, on chance, or on the part of the message that is the key of a partitioned
        queue. The search goes backwards: from the exchanges that do not route by the routing key alone to all exchanges
        that lead to them.
        """
        if self._beyond_key_cache is None:
            back: dict[str, list[str]] = {}
            for compiled in self._compiled.values():
                if compiled.alternate is not None:
                    back.setdefault(compiled.alternate, []).append(compiled.exchange.name)
            beyond: set[str] = set()
            pending = [name for name, compiled in self._compiled.items() if compiled.kind and not compiled.kind.by_key]
            for queue, partitioning in self._partitioned.items():
                if not partitioning.by_routing_key:
                    pending += ["", *(b.source for b in self._tables.bindings_to(Destination("queue", queue)))]
            while pending:
                name = pending.pop()
                if name not in beyond:
                    beyond.add(name)
                    pending += back.get(name, ())
                    pending += [b.source for b in self._tables.bindings_to(Destination("exchange", name))]
            self._beyond_key_cache = frozenset(beyond)
        return self._beyond_key_cache

    def _edit(self, rule: Callable[[], list[Change]]) -> None:
        with self._lock:
            changes = rule()
            # The compiled state changes first. If that fails, it is built again from the tables, which are unchanged.
            try:
                for change in changes:
                    self._recompile(change)
            except BaseException:
                self._recompile_all(changes)
                raise
            # Only an interruption (KeyboardInterrupt) can make this fail, and applying a change twice is harmless.
            try:
                self._apply(changes)
            except BaseException:
                self._apply(changes)
                raise
            finally:
                self._columns = None

    def _apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._tables.apply(change)

    def _recompile_all(self, changes: Iterable[Change]) -> None:
        """Compile again, from the tables, each queue, exchange and policy that the changes concern."""
        for _, part in changes:
            if isinstance(part, Queue):
                self._partitioned.pop(part.name, None)
                before = self._tables.queues.get(part.name)
                if before is not None:
                    self._compile_queue(before)
            elif isinstance(part, Policy):
                self._compile_alternates(self._tables.policies)
            else:
                name = part.name if isinstance(part, Exchange) else part.source
                exchange = self._tables.exchanges.get(name)
                if exchange is not None:
                    self._compile(exchange)
                else:
                    self._compiled.pop(name, None)
        self._beyond_key_cache = None
        self._forget()

    def _recompile(self, change: Change) -> None:
        """Adapt the compiled state to a change that is not in the tables yet."""
        part = change.part
        if isinstance(part, Binding):
            self._recompile_binding(part, change.added)
            return
        if isinstance(part, Queue):
            before = self._partitioned.pop(part.name, None)
            if change.added:
                self._compile_queue(part)
            # Only the default exchange routes to a queue that has no bindings, by its name: one route to drop.
            if (
                before is None
                and part.partitioning is None
                and not self._tables.bindings_to(Destination("queue", part.name))
            ):
                for remembered in self._remembered.all():
                    remembered.by_exchange.get("", {}).pop(part.name, None)
                return
        elif isinstance(part, Policy):
            if part.operator:
                return  # it cannot set an alternate exchange
            policies = {**self._tables.policies, part.name: part}
            if not change.added:
                del policies[part.name]
            self._compile_alternates(policies)
        elif change.added:
            self._compile(part)
        else:
            self._compiled.pop(part.name, None)
        self._beyond_key_cache = None
        self._forget()

    def _recompile_binding(self, binding: Binding, added: bool) -> None:
        compiled = self._compiled.get(binding.source)
        if compiled is None or compiled.kind is None:
            return
        if added:
            compiled.kind.bind(binding)
        else:
            compiled.kind.unbind(binding)
        if binding.destination.kind == "exchange" or binding.destination.name in self._partitioned:
            self._beyond_key_cache = None
        key = compiled.kind.literal_key(binding)
        if key is None:
            self._forget()
        else:
            # A route keeps its key from exchange to exchange: only routes of this key can take the binding.
            for remembered in self._remembered.all():
                for routes in remembered.by_exchange.values():
                    routes.pop(key, None)

    def _compile_queue(self, queue: Queue) -> None:
        if queue.partitioning is not None:
            self._partitioned[queue.name] = queue.partitioning

    def _compile_alternates(self, policies: Mapping[str, Policy]) -> None:
        compiled = [self._with_alternate(each.exchange, each.kind, policies) for each in self._compiled.values()]
        self._compiled.update((each.exchange.name, each) for each in compiled)

    def _compile(self, exchange: Exchange) -> None:
        kind_class = kind_of(exchange)
        kind = None
        if kind_class is not Unknown:
            kind = kind_class(exchange, self._host.profile, self._choose)
            for binding in self._tables.bindings_from(exchange.name):
                try:
                    kind.bind(binding)
                except PatternError as error:
                    raise InputError(kind.fault(binding) or error.message) from None
        self._compiled[exchange.name] = self._with_alternate(exchange, kind, self._tables.policies)

    def _with_alternate(self, exchange: Exchange, kind: Kind | None, policies: Mapping[str, Policy]) -> _Compiled:
        possible = possible_alternates(exchange, policies)
        return _Compiled(exchange, kind, possible[0] if len(possible) == 1 else None, len(possible) > 1)


class _Routes:
    """A cache of routes. Only the holder of the router's lock changes it."""

    __slots__ = ("__weakref__", "_copies", "_count", "by_exchange")

    def __init__(self) -> None:
        # Exchange -> routing key -> route. Plain dicts, as CPython finds methods of subclasses more slowly.
        self.by_exchange: Final[dict[str, dict[str, Route]]] = {}
        self._count = 0  # maximum number of routes; less are left after some were dropped one by one
        # Identity of a route, which keys share -> the route, which keeps its identity, and the copy of this thread.
        self._copies: dict[int, tuple[Route, Route]] = {}

    def add(self, exchange: str, routing_key: str, route: Route, most: int) -> Route:
        """Add the route of a key, and return it; if there are ``most`` routes already, drop all of them before."""
        if self._count >= most:
            self.clear()
        self._count += 1
        if threads.FREE_THREADED:
            _, route = self._copies.setdefault(id(route), (route, Route(*route)))
        self.by_exchange.setdefault(exchange, {})[routing_key] = route
        return route

    def add_many(self, exchange: str, routes: Mapping[str, Route], most: int) -> None:
        """Add the routes of at most ``most`` keys, as `add`."""
        if self._count + len(routes) > most:
            self.clear()
        self._count += len(routes)
        if threads.FREE_THREADED:
            routes = {key: self._copies.setdefault(id(each), (each, Route(*each)))[1] for key, each in routes.items()}
        self.by_exchange.setdefault(exchange, {}).update(routes)

    def clear(self) -> None:
        """Drop all routes."""
        self.by_exchange.clear()
        self._copies.clear()
        self._count = 0


class _Compiled(NamedTuple):
    """An exchange ready to route: its kind, None if unknown, and its alternate exchange in force."""

    exchange: Exchange
    kind: Kind | None
    alternate: str | None
    is_unsure: bool
    """Whether the alternate exchange is unknown, because it is unknown which policy applies."""


def _random_choice() -> Choose:
    from random import randrange  # not at the top: it imports much, and few topologies have a random kind

    return randrange
