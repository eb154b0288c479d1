"""A broker of one virtual host that exists only in this process, for tests of routing.

It routes exactly as the RabbitMQ of its topology's profile, by the same `Router`, and does nothing else that a broker
does: nothing expires, overflows, is dead-lettered or consumed. A queue is a list of the messages that it got.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from exchange.entities.entities import Binding, Exchange, Queue
from exchange.entities.profile import Profile
from exchange.errors import NotFound
from exchange.kinds import Choose
from exchange.message import Message
from exchange.routing.route import Explanation, Route
from exchange.routing.router import Router
from exchange.topology.topology import Topology

__all__ = ["VirtualBroker"]


class VirtualBroker:
    """A broker in memory: publish to it, then look at its queues.

    >>> broker = VirtualBroker(Topology(queues=[Queue("billing")]))
    >>> broker.bind(Binding.to_queue("amq.topic", "billing", "order.*.created"))
    >>> broker.publish("amq.topic", "order.eu.created", b"{}").queues
    ('billing',)
    >>> [message.body for message in broker.queues["billing"]]
    [b'{}']

    ``choose(n)`` returns an integer below n, for exchange types that choose at random; a fixed function makes a test
    repeatable. Where a broker would answer with an error, the `BrokerError` of that code is raised, and nothing is
    published.
    """

    queues: Mapping[str, list[Message]]
    """Queue -> its messages, oldest first, which tests may remove; `NotFound` for a queue that does not exist."""
    returned: list[Message]
    """Mandatory messages that no queue got: a publisher would get them back with 312 NO_ROUTE."""
    unroutable: list[Message]
    """All messages that no queue got. A message that an exchange of unknown type may have routed is in neither list."""

    def __init__(self, topology: Topology | None = None, *, choose: Choose = random.randrange) -> None:
        topology = Topology() if topology is None else topology
        self._router: Final = Router(topology, choose=choose)
        self._queues: Final = _Queues(topology.vhost)
        self._queues.update((name, []) for name in topology.queues)
        self.queues = self._queues
        self.returned = []
        self.unroutable = []

    @classmethod
    def from_definitions(
        cls,
        path: str | Path,
        vhost: str | None = None,
        profile: Profile | str | None = None,
        *,
        choose: Choose = random.randrange,
    ) -> VirtualBroker:
        """Return a broker with the topology of a definitions or .bindings file; see `bindings.sources.open.load`."""
        from bindings.sources.open import load  # a broker made of a Topology reads no files

        return cls(load(str(path), vhost, profile), choose=choose)

    @property
    def topology(self) -> Topology:
        """The current topology."""
        return self._router.topology

    def publish(
        self,
        exchange: str,
        routing_key: str = "",
        body: bytes = b"",
        headers: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        *,
        mandatory: bool = False,
    ) -> Route:
        """Put a message into the queues to which it is routed, as basic.publish, and return its route.

        As in RabbitMQ, a BCC header routes and is then removed. Raises `NotFound`, `AccessRefused` or
        `PreconditionFailed` where the broker would close the channel.
        """
        message = _message(exchange, routing_key, body, headers, properties)
        route = self._router.route(message)
        if "BCC" in message.headers:
            rest = {name: value for name, value in message.headers.items() if name != "BCC"}
            message = replace(message, headers=rest)
        for queue in route.queues:
            self.queues[queue].append(message)
        if route.unroutable:
            self.unroutable.append(message)
            if mandatory:
                self.returned.append(message)
        return route

    def explain(
        self,
        exchange: str,
        routing_key: str = "",
        headers: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> Explanation:
        """Return where a message would go and why, and why not to ``queue``; nothing is published."""
        return self._router.explain(_message(exchange, routing_key, b"", headers, None), queue)

    def expect(
        self,
        exchange: str,
        routing_key: str = "",
        headers: Mapping[str, Any] | None = None,
        *,
        queues: Collection[str],
    ) -> None:
        """Assert that a message would go to exactly these queues, in any order; nothing is published.

        Raises AssertionError, which names the missing and the surplus queues and explains the route.
        """
        __tracebackhide__ = True  # pytest shows the caller's line
        if isinstance(queues, str):
            raise TypeError(f"queues is a collection of names: [{queues!r}]")
        explanation = self.explain(exchange, routing_key, headers)
        route = explanation.route
        missing, surplus = sorted(set(queues) - set(route.queues)), sorted(set(route.queues) - set(queues))
        problems = [f"not routed to {', '.join(missing)}"] if missing else []
        problems += [f"routed to {', '.join(surplus)}"] if surplus else []
        problems += [f"undecided at {', '.join(route.undecided)}"] if route.undecided else []
        if problems:
            if missing and not surplus and not route.undecided:
                explanation = self.explain(exchange, routing_key, headers, missing[0])
            raise AssertionError(f"{'; '.join(problems)}\n\n{explanation}")

    def declare_exchange(self, exchange: Exchange) -> None:
        """Declare an exchange, as exchange.declare."""
        self._router.declare_exchange(exchange)

    def declare_queue(self, queue: Queue) -> None:
        """Declare a queue, as queue.declare."""
        self._router.declare_queue(queue)
        self._follow_queues()

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, as exchange.delete."""
        self._router.delete_exchange(name, if_unused=if_unused)

    def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages, as queue.delete."""
        self._router.delete_queue(name)
        self._follow_queues()

    def bind(self, binding: Binding) -> None:
        """Add a binding, as queue.bind or exchange.bind."""
        self._router.bind(binding)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding, as queue.unbind or exchange.unbind."""
        self._router.unbind(binding)

    def _follow_queues(self) -> None:
        names = self._router.topology.queues
        for name in [name for name in self._queues if name not in names]:
            del self._queues[name]
        for name in names:
            self._queues.setdefault(name, [])

    def __repr__(self) -> str:
        count = sum(map(len, self._queues.values()))
        return f"<VirtualBroker of {self.topology!r}: {count} messages>"


class _Queues(dict[str, list[Message]]):
    """Queue -> its messages; a name that does not exist raises the broker's 404."""

    def __init__(self, vhost: str) -> None:
        super().__init__()
        self._vhost: Final = vhost

    def __missing__(self, name: str) -> list[Message]:
        raise NotFound(f"no queue '{name}' in vhost '{self._vhost}'")


def _message(
    exchange: str,
    routing_key: str,
    body: bytes,
    headers: Mapping[str, Any] | None,
    properties: Mapping[str, Any] | None,
) -> Message:
    # Copies: a test that changes its dicts later must not change the messages in the queues.
    return Message(exchange, routing_key, dict(headers or {}), dict(properties or {}), body)
