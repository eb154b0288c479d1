"""The routes that a router remembers: those that nothing but the exchange and the routing key decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exchange.concurrency import threads
from exchange.routing.compiled import Stale
from exchange.routing.route import Route


class RouteCache:
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

    def drop(self, stale: Stale) -> None:
        """Drop the routes that a change may have made wrong."""
        exchange, key = stale
        if key is None:
            self.clear()
            return
        for routes in self.by_exchange.values() if exchange is None else [self.by_exchange.get(exchange, {})]:
            routes.pop(key, None)

    def clear(self) -> None:
        """Drop all routes."""
        self.by_exchange.clear()
        self._copies.clear()
        self._count = 0
