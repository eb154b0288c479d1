"""The walk of a message from exchange to exchange (`rabbit_exchange.erl route/3`), and what each of them did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from exchange.entities.entities import Binding, Exchange
from exchange.errors import AccessRefused, NotFound
from exchange.kinds import Unsure, compute_routing_headers, read_delay
from exchange.routing.compiled import Compiled, CompiledExchange
from exchange.routing.route import DelayedRoute, LaterRoute, Placement, Route
from exchange.values.message import Message, assemble_message


class Visit(NamedTuple):
    """What an exchange did with a message that passed it: what was decided, of which `describe_hops` makes a `Hop`."""

    exchange: Exchange
    came_from: str | None
    """Exchange whose binding or alternate led here; None where a walk begins."""
    matched: tuple[Binding, ...]
    """Bindings that the message takes, in any order."""
    alternate: str | None
    """The alternate exchange in force, which is taken if no binding is; None also if it is not known."""
    unsure: str | None
    """Why it is unknown whether some bindings match; None if it is known."""
    delay: int | None
    """For how many milliseconds the exchange keeps the message; None if it does not."""
    after: int | None
    """The milliseconds after which the message passes here; None if it does at once."""
    message: Message
    """The message, with the headers that it has here."""
    keys: Sequence[str]
    """Its routing keys, those of CC and BCC included."""

    @property
    def taken_alternate(self) -> str | None:
        """The alternate exchange that the message takes; None if it takes none."""
        return None if self.matched else self.alternate


def walk(compiled: Compiled, message: Message, visits: list[Visit] | None, *, of_broker: bool = False) -> Route:
    """Route a message, and append to ``visits``, if given, what each exchange did.

    If exchanges keep it for a delay, it is routed again from each of them, with the headers that it has then.
    """
    start = compiled.exchanges.get(message.exchange)
    if start is None:
        raise NotFound(f"no {compiled.host.describe('exchange', message.exchange)}")
    if start.exchange.internal and not of_broker:
        raise AccessRefused(f"cannot publish to internal {compiled.host.describe('exchange', message.exchange)}")
    keys = message.routing_keys()
    kept: dict[str, int] = {}
    at_once = _walk_from(compiled, start, message, keys, visits, kept, None)
    if not kept:
        return at_once
    later = tuple(
        [LaterRoute(name, delay, walk_later(compiled, message, name, delay, visits)) for name, delay in kept.items()]
    )
    parts = [at_once, *[each.route for each in later]]
    placements = {each.queue: each for part in parts for each in part.placements}
    return Route(
        tuple(sorted({queue for part in parts for queue in part.queues})),
        tuple(dict.fromkeys([name for part in parts for name in part.undecided])),
        tuple([placements[queue] for queue in sorted(placements)]),
        DelayedRoute(at_once, later),
    )


def walk_later(compiled: Compiled, message: Message, exchange: str, delay: int, visits: list[Visit] | None) -> Route:
    """Route a message again, after an exchange has kept it for its delay; nowhere if there is no such exchange.

    ``message`` is as it was published. It is not kept again: the delay is negated.
    """
    start = compiled.exchanges.get(exchange)
    if start is None:
        return Route(())
    headers = compute_routing_headers(message.headers, delay)
    then = assemble_message(message.exchange, message.routing_key, headers, message.properties, message.body)
    return _walk_from(compiled, start, then, message.routing_keys(), visits, {}, delay)


def _walk_from(
    compiled: Compiled,
    start: CompiledExchange,
    message: Message,
    keys: Sequence[str],
    visits: list[Visit] | None,
    kept: dict[str, int],
    after: int | None,
) -> Route:
    """Route a message from exchange to exchange; add to ``kept`` those that keep it for a delay, in milliseconds.

    Invariants: ``seen`` has every exchange that is or was in ``work``, so none enters it twice, and cycles end. An
    alternate exchange is followed only from an exchange of which no binding matches. A queue gets one copy,
    however many bindings lead to it.
    """
    existing = compiled.tables.queues
    queues: dict[str, None] = {}
    undecided: list[str] = []
    seen = {start.exchange.name}
    work: list[tuple[CompiledExchange, str | None]] = [(start, None)]  # exchanges to visit, and what led to each
    while work:
        (exchange, kind, alternate, is_unsure, can_delay), came_from = work.pop()
        delay = read_delay(message.headers, compiled.host.profile) if can_delay else None
        if kind is None and delay is None:
            undecided.append(exchange.name)
            if visits is not None:
                visits.append(Visit(exchange, came_from, (), None, None, None, after, message, keys))
            continue
        # The default exchange has no stored bindings. A message that is published to it always matches one that its
        # key implies, so no alternate is taken, even if there is no such queue. A message that reaches it as an
        # alternate exchange matches nothing, and goes on to its own alternate, which a policy can set.
        matched: Collection[Binding] = ()
        unsure: str | None = None
        if delay is not None:
            kept[exchange.name] = delay
        elif kind is not None and (exchange.name or came_from is None):
            try:
                matched = kind.match(message, keys)
            except Unsure as error:  # other bindings may match, too, so it is unknown whether the alternate is taken
                matched, alternate, is_unsure, unsure = error.matched, None, True, error.reason
                if matched:
                    undecided.append(exchange.name)
        if visits is not None:
            # As the start of a message, the default exchange never takes its alternate.
            in_force = alternate if exchange.name or came_from is not None else None
            visits.append(Visit(exchange, came_from, tuple(matched), in_force, unsure, delay, after, message, keys))
        onwards: list[str] = []
        for binding in matched:
            destination_kind, name = binding.destination
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
            if name not in seen and name in compiled.exchanges:
                seen.add(name)
                work.append((compiled.exchanges[name], exchange.name))
    placements = _choose_partitions(compiled, message, queues) if compiled.partitioned else ()
    return Route(tuple(sorted(queues)), tuple(undecided), placements)


def _choose_partitions(compiled: Compiled, message: Message, queues: Collection[str]) -> tuple[Placement, ...]:
    placements = []
    for queue in sorted(compiled.partitioned.keys() & queues):
        partitioning = compiled.partitioned[queue]
        key = partitioning.key.read(message)
        partition, hashed, rule = partitioning.choose_for(key, message, queue)
        name = None if partition is None else partitioning.partitions[partition].name
        placements.append(Placement(queue, partition, name, key, hashed, rule, partitioning))
    return tuple(placements)
