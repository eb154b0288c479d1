"""The router: RabbitMQ's walk from exchange to exchange, with its caches and the lock of all changes.

A bounded cache keeps the routes that depend only on the exchange and the routing key; it is read without a lock. All
else, routing what is not in the cache and changing the topology, happens under one lock. So no route sees half a
change, and no route from before a change enters the cache after it. On a free-threaded Python each thread has a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from exchange.concurrency import threads
from exchange.concurrency.forks import ROUTERS, lock_at_forks
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.indexes import Change
from exchange.entities.queue_arguments import NO_FLAGS, DeclareFlags
from exchange.errors import BrokerError
from exchange.kinds import Choose
from exchange.routing.cache import RouteCache
from exchange.routing.compiled import ALL_STALE, Compiled, Stale
from exchange.routing.hops import describe_hops
from exchange.routing.route import Obstacle, Route
from exchange.routing.walk import Visit, walk, walk_later
from exchange.text.display import LIKE_NAMES, find_alike
from exchange.topology import rules
from exchange.topology.topology import Topology
from exchange.values.message import Message

if TYPE_CHECKING:
    from exchange.routing.columns.column_router import ColumnRouter
    from exchange.routing.columns.route_columns import RouteColumns
    from exchange.routing.explain import Explanation

MAX_KEPT_ROUTES: Final = 16_384
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
            raise TypeError(
                f"Router: topology must be a Topology, not {type(topology).__name__}: {topology!r:.60}; "
                "bindings.load reads one from a file"
            )
        self._lock: Final = lock_at_forks(ROUTERS)
        self._host: Final = rules.VirtualHost(topology.vhost, topology.profile)
        self._tables: Final = topology.tables()
        self._chosen: Final = choose
        self._choose: Final = choose if choose is not None else _random_choice()
        self._cache_size: Final = cache
        self._compiled: Final = Compiled(self._tables, self._host, self._choose)
        self._remembered: Final = threads.Caches(RouteCache)
        # An attribute that hides no method: CPython reads it faster. The method counts no reference that threads share.
        own = self._read_own if threads.FREE_THREADED else self._remembered.local.own.by_exchange.get
        self._routes_from: Final[Callable[[str], dict[str, Route] | None]] = own
        self._routes_of_bindings: Final[dict[int, tuple[Collection[Binding], Route]]] = {}
        self._columns: ColumnRouter | None = None
        threads.defer_counting(self)

    @property
    def topology(self) -> Topology:
        """The present topology."""
        with self._lock:
            return Topology.from_tables(self._tables.copy(), self._host.vhost, self._host.profile)

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
            key_only = (
                not headers
                or (type(headers) is not dict and getattr(headers, "has_one_key", False))  # as of `LazyHeaders`
                or ("CC" not in headers and "BCC" not in headers)
            )
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
                return walk(self._compiled, message, None)
            route = self._find_route(message)
            if message.exchange not in self._compiled.beyond_key():
                remembered: RouteCache = self._remembered.local.own
                return remembered.add(message.exchange, message.routing_key, route, self._cache_size)
            return route

    def knows(self, exchange: str, routing_key: str) -> bool:
        """Return whether `route` only looks up the route of such a message, if it has no CC and BCC."""
        return self.recall(exchange, routing_key) is not None

    def recall(self, exchange: str, routing_key: str) -> Route | None:
        """Return the route of messages with this key, without CC and BCC, if `route` only looks it up; else None."""
        routes = self._routes_from(exchange)
        return None if routes is None else routes.get(routing_key)

    def learn(self, exchange: str, routing_keys: Sequence[str]) -> None:
        """Route keys as one column, and keep their routes for `route`: for many keys at once that it does not know.

        This takes a fraction of the time of as many calls of `route`, whose answers stay as they are. Keys are left to
        `route` where more than the key decides, where a partitioned queue gets the message, and where the broker
        refuses it; and all if one is not UTF-8, or if the cache cannot hold them. Raises InputError if numpy or pyarrow
        is not installed.
        """
        with self._lock:
            if not self._cache_size or exchange in self._compiled.beyond_key():
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
            remembered: RouteCache = self._remembered.local.own
            partitioned = self._compiled.partitioned.keys()
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
        start = self._compiled.exchanges.get(message.exchange)
        if start is None or not start.exchange.internal:
            return self.route(message)
        with self._lock:
            return walk(self._compiled, message, None, of_broker=True)

    def route_later(self, message: Message, exchange: str, delay: int) -> Route:
        """Return where a message goes that an exchange has kept for its delay in milliseconds, as it was published."""
        with self._lock:
            return walk_later(self._compiled, message, exchange, delay, None)

    def route_columns(self, exchange: Any, keys: Any, headers: Any = None, properties: Any = None) -> RouteColumns:
        """Return the routes of a whole column of messages, as `route` returns them one by one.

        ``exchange`` is a name, or a column of names; ``keys`` is a column of texts or bytes, plain, as views or
        dictionary-encoded; ``headers`` and ``properties`` are columns of structs, maps or JSON texts (see
        `exchange.routing.columns`); only exchanges that hash a property read properties. A column is what exports
        Arrow's PyCapsule interface, as columns of pyarrow, Polars, pandas and DuckDB do, or a sequence of Python
        values. All rows are routed through one state of the topology. What is learned of keys is
        kept until the topology changes.

        Needs numpy and pyarrow. Raises InputError for columns of other types or different lengths, and for nulls among
        exchanges and keys; the BrokerError of `route` if the one exchange takes no messages. Where single rows are
        refused, the result has their errors.
        """
        columns = self._columns
        if columns is None:
            with self._lock:
                columns = self._build_columns()
        return columns.route(exchange, keys, headers, properties)

    def trace(self, message: Message) -> tuple[Route, list[Visit]]:
        """Return the route with what each exchange decided, not described: several times as fast as `explain`.

        Raises as `route` does.
        """
        visits: list[Visit] = []
        with self._lock:
            return walk(self._compiled, message, visits), visits

    def explain(self, message: Message, queue: str | None = None) -> Explanation:
        """Return the route with its reasons, and why ``queue`` does not get the message. Raises as `route` does."""
        if not isinstance(message, Message):
            raise TypeError(f"Router: message must be a Message, not {type(message).__name__}")
        explanation = _load_explanation()
        visits: list[Visit] = []
        with self._lock:
            route = walk(self._compiled, message, visits)
            hops = describe_hops(self._compiled, visits)
            if queue is None:
                return explanation(message, route, hops)
            obstacles: tuple[Obstacle, ...] = ()
            if queue in self._tables.queues and queue not in route.queues:
                from exchange.routing.nearest import Walk, find_obstacles  # not at the top: only this needs it

                reached = frozenset(hop.exchange.name for hop in hops)
                alternates = {
                    name: c.alternate for name, c in self._compiled.exchanges.items() if c.alternate is not None
                }
                obstacles = find_obstacles(Walk(message, reached, self._tables, alternates, self._host.profile), queue)
            asked = self._tables.queues.get(queue)
            if asked is None:
                meant = find_alike(queue, self._tables.queues, LIKE_NAMES)
                return explanation(message, route, hops, queue, meant=meant)
            from exchange.entities.precedence import build_account  # not at the top: only this needs it

            policies = Policies(self._tables.policies, self._tables.operator_policies, self._host.profile)
            in_force = build_account(asked, policies)
            return explanation(message, route, hops, queue, True, None, obstacles, in_force)

    def declare_exchange(self, exchange: Exchange) -> None:
        """Add an exchange, as `Topology.declare_exchange`."""
        self._edit(lambda: rules.declare_exchange(self._tables, self._host, exchange))

    def declare_queue(self, queue: Queue, flags: DeclareFlags = NO_FLAGS) -> None:
        """Add a queue, as `Topology.declare_queue`; ``flags`` are what a client asks beside its properties."""
        self._edit(lambda: rules.declare_queue(self._tables, self._host, queue, flags))

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
        """Return the route of a message without CC and BCC, by a shorter way than `walk` where there is one.

        Keys that match the same bindings get the same tuple of them from the matcher. If these lead to queues only, the
        tuple decides the route. It is kept beside the route: so nothing else can get its id.
        """
        start = self._compiled.exchanges.get(message.exchange)
        if start is None or start.exchange.internal or start.can_delay or self._compiled.partitioned:
            return walk(self._compiled, message, None)
        match_once = None if start.kind is None else start.kind.match_once
        if match_once is None:
            return walk(self._compiled, message, None)
        matched = match_once(message.routing_key)
        if not matched:
            return NOWHERE if start.alternate is None and not start.is_unsure else walk(self._compiled, message, None)
        known = self._routes_of_bindings.get(id(matched))
        if known is not None:
            return known[1]
        existing, queues = self._tables.queues, set()
        for binding in matched:
            destination_kind, name = binding.destination
            if destination_kind != "queue":
                return walk(self._compiled, message, None)
            if name in existing:
                queues.add(name)
        route = Route(tuple(sorted(queues)))
        if len(self._routes_of_bindings) >= MAX_KEPT_ROUTES:
            self._routes_of_bindings.clear()
        self._routes_of_bindings[id(matched)] = matched, route
        return route

    def _read_own(self, exchange: str) -> dict[str, Route] | None:
        """Return the cached routes from an exchange, in the cache of this thread: routing key -> route."""
        try:
            own: RouteCache = self._remembered.local.own
        except AttributeError:
            own = self._remembered.make_own()
        return own.by_exchange.get(exchange)

    def _build_columns(self) -> ColumnRouter:
        """Return the router of columns for the topology as it is, built if there is none; the caller has the lock."""
        if self._columns is None:
            from exchange.routing.columns import build_column_router  # not at the top: it needs numpy

            topology = Topology.from_tables(self._tables.copy(), self._host.vhost, self._host.profile)
            self._columns = build_column_router(topology, self._choose, Router)
        return self._columns

    def _forget(self, stale: Stale | None) -> None:
        # A concurrent call of `route` may still read a dict that is dropped here. That call began before the change, so
        # it may return the route from before the change. It adds nothing to the cache, since that needs the lock.
        if stale is None:
            return
        for remembered in self._remembered.all():
            remembered.drop(stale)
        if stale == ALL_STALE:
            self._routes_of_bindings.clear()

    def _edit(self, rule: Callable[[], list[Change]]) -> None:
        with self._lock:
            changes = rule()
            # The compiled state changes first. If that fails, it is built again from the tables, which are unchanged.
            try:
                for change in changes:
                    self._forget(self._compiled.adapt(change))
            except BaseException:
                self._compiled.compile_again(changes)
                self._forget(ALL_STALE)
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


@lru_cache(1)  # an import statement takes several times as long, also where the module is loaded
def _load_explanation() -> type[Explanation]:
    from exchange.routing.explain import Explanation  # not at the top: only `explain` needs it, and it writes texts

    return Explanation


def _random_choice() -> Choose:
    from random import randrange  # not at the top: it imports much, and few topologies have a random kind

    return randrange
