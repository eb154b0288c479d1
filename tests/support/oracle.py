"""A second router, slow and obvious: it checks every binding of every exchange by RabbitMQ's rules as written.

It shares the definition of a pattern (`Pattern.matches`) and of equality in headers with the engine, and nothing of
how bindings are found; and Erlang's hashes, which have recordings of their own. Random kinds are resolved by the same
``choose``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from exchange import Binding, Message, Pattern, Topology
from exchange.entities.entities import Exchange
from exchange.entities.in_force import find_alternate
from exchange.errors import BrokerError
from exchange.kinds.headers import normalise_value
from exchange.partition.hashing.erlang import UNDEFINED, Atom, jump, phash2
from exchange.values.field_values import resolve_type


def route(topology: Topology, message: Message, choose: Callable[[int], int]) -> tuple[str, ...]:
    """Return the queues that get the message, sorted; raise BrokerError where publishing it ends the channel."""
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
        if exchange.type == "x-consistent-hash" and matched:
            matched = [_of_ring(matched, exchange, message, topology)]
        if exchange.type == "x-modulus-hash" and matched:
            matched = [_of_list(matched, message, topology)]
        destinations = [b.destination for b in matched]
        onwards = [d.name for d in dict.fromkeys(destinations) if d.kind == "exchange"]
        queues.update(d.name for d in destinations if d.kind == "queue" and d.name in topology.queues)
        alternate = find_alternate(exchange, topology.policies)
        if not destinations and alternate is not None:
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


def _of_ring(bindings: list[Binding], exchange: Exchange, message: Message, topology: Topology) -> Binding:
    ring: list[Binding] = []
    for binding in bindings:
        if binding.destination not in [other.destination for other in ring]:
            ring += [binding] * int(binding.routing_key)
    if len(ring) == 1:
        return ring[0]  # nothing is hashed, so nothing can crash
    term = _hashed(exchange, message, topology)
    return ring[jump(term if type(term) is int else phash2(term), len(ring))]


def _hashed(exchange: Exchange, message: Message, topology: Topology) -> Any:
    header, name = (exchange.arguments.get(argument) for argument in ("hash-header", "hash-property"))
    if header is None and name is None:
        return message.routing_key.encode()
    if name is not None:
        return str(message.properties[name]).encode() if name in message.properties else UNDEFINED
    if header is None or header == "BCC" or header not in message.headers:
        return UNDEFINED
    kind, value = resolve_type(message.headers[header])
    if topology.profile.hash_headers_have_types:
        return Atom(kind), _term(kind, value)
    if kind in ("array", "table"):
        if not value and not topology.profile.hashes_empty_arrays:
            raise BrokerError("the channel crashes")
        return _term(kind, value)[0] if value else phash2([])
    return value * 1000 if kind == "timestamp" else _term(kind, value)


def _term(kind: str, value: Any) -> Any:
    if kind == "array":
        return [(Atom(kind), _term(kind, value)) for kind, value in value]
    if kind == "table":
        return [(name.encode(), Atom(kind), _term(kind, value)) for name, kind, value in value]
    return UNDEFINED if kind == "void" else value


def _of_list(bindings: list[Binding], message: Message, topology: Topology) -> Binding:
    def order(binding: Binding) -> tuple[bytes, ...]:
        key, (kind, name) = binding.routing_key, binding.destination
        return (b"" if topology.profile.modulus_hash_sorts else key.encode(), kind.encode(), name.encode())

    keys = [key.encode() for key in message.routing_keys()]
    return sorted(bindings, key=order)[phash2(keys) % len(bindings)]


def _headers_match(binding: Binding, message: Message, topology: Topology) -> bool:
    mode = binding.arguments.get("x-match", "all")
    skipped = "x-match" if mode.endswith("-with-x") else "x-"
    wanted = {name: value for name, value in binding.arguments.items() if not name.startswith(skipped)}
    headers = {name: value for name, value in message.headers.items() if name != "BCC"}

    def results() -> Iterator[bool]:
        for name, value in wanted.items():
            if resolve_type(value)[0] == "void":
                yield name in headers
            else:
                yield name in headers and normalise_value(
                    headers[name], topology.profile, from_message=True
                ) == normalise_value(value, topology.profile, from_message=False)

    return any(results()) if mode.startswith("any") else all(results())
