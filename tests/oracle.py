"""The router again, slow and obvious: every binding of every exchange is looked at, by RabbitMQ's rules as written.

It shares the definition of a pattern (`Pattern.matches`) and of equality in headers with the engine, and nothing of
how bindings are found. Random kinds are resolved by the same ``choose``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exchange import Binding, Message, Pattern, Topology
from exchange.kinds.headers import comparable
from exchange.parts import alternate_exchange
from exchange.values import type_and_value


def route(topology: Topology, message: Message, choose: Callable[[int], int]) -> tuple[str, ...]:
    """The queues that get the message, sorted."""
    queues: set[str] = set()
    seen, work = {message.exchange}, [message.exchange]
    if message.exchange == "":
        return tuple(sorted(set(message.routing_keys()) & set(topology.queues)))
    while work:
        name = work.pop()
        exchange = topology.exchanges[name]
        matched = [b for b in topology.bindings_from(name) if _matches(b, exchange.type, message, topology)]
        if exchange.type in ("x-random", "x-local-random") and len(matched) > 1:
            matched = [matched[choose(len(matched))]]
        destinations = [b.destination for b in matched]
        onwards = [d.name for d in dict.fromkeys(destinations) if d.kind == "exchange"]
        queues.update(d.name for d in destinations if d.kind == "queue" and d.name in topology.queues)
        alternate = alternate_exchange(exchange, topology.policies)
        if not destinations and alternate is not None and name != "":
            onwards = [alternate]
        for other in onwards:
            if other not in seen and other in topology.exchanges:
                seen.add(other)
                work.append(other)
    return tuple(sorted(queues))


def _matches(binding: Binding, kind: str, message: Message, topology: Topology) -> bool:
    if kind == "topic":
        return any(Pattern.of_binding_key(binding.routing_key).matches(key) for key in message.routing_keys())
    if kind == "direct":
        return binding.routing_key in message.routing_keys()
    if kind == "x-local-random":
        return binding.routing_key == ""
    if kind == "headers":
        return _headers_match(binding, message, topology)
    return True


def _headers_match(binding: Binding, message: Message, topology: Topology) -> bool:
    mode = binding.arguments.get("x-match", "all")
    skipped = "x-match" if mode.endswith("-with-x") else "x-"
    wanted = {name: value for name, value in binding.arguments.items() if not name.startswith(skipped)}
    headers = {name: value for name, value in message.headers.items() if name != "BCC"}

    def results() -> Iterator[bool]:
        for name, value in wanted.items():
            if type_and_value(value)[0] == "void":
                yield name in headers
            else:
                yield name in headers and comparable(headers[name], topology.profile, from_message=True) == comparable(
                    value, topology.profile, from_message=False
                )

    return any(results()) if mode.startswith("any") else all(results())
