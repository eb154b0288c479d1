"""The walk of a message from exchange to exchange (`rabbit_exchange.erl route/3`), and what each of them did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from exchange.entities.alternates import find_policy_in_force
from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.unread import SHARDS_MADE, has_shards_made
from exchange.errors import AccessRefused, NotFound
from exchange.kinds import Unsure, compute_routing_headers, read_delay
from exchange.routing.compiled import Compiled, CompiledExchange
from exchange.routing.route import Alternate, DelayedRoute, Hop, HopTarget, LaterRoute, Outcome, Placement, Route
from exchange.values.message import Message, assemble_message

__all__ = ["walk", "walk_later"]


def walk(compiled: Compiled, message: Message, hops: list[Hop] | None, *, of_broker: bool = False) -> Route:
    """Route a message, and append to ``hops``, if given, what each exchange did.

    If exchanges keep it for a delay, it is routed again from each of them, with the headers that it has then.
    """
    start = compiled.exchanges.get(message.exchange)
    if start is None:
        raise NotFound(f"no {compiled.host.describe('exchange', message.exchange)}")
    if start.exchange.internal and not of_broker:
        raise AccessRefused(f"cannot publish to internal {compiled.host.describe('exchange', message.exchange)}")
    keys = message.routing_keys()
    kept: dict[str, int] = {}
    at_once = _walk_from(compiled, start, message, keys, hops, kept)
    if not kept:
        return at_once
    later = tuple(
        [LaterRoute(name, delay, walk_later(compiled, message, name, delay, hops)) for name, delay in kept.items()]
    )
    parts = [at_once, *[each.route for each in later]]
    placements = {each.queue: each for part in parts for each in part.placements}
    return Route(
        tuple(sorted({queue for part in parts for queue in part.queues})),
        tuple(dict.fromkeys([name for part in parts for name in part.undecided])),
        tuple([placements[queue] for queue in sorted(placements)]),
        DelayedRoute(at_once, later),
    )


def walk_later(compiled: Compiled, message: Message, exchange: str, delay: int, hops: list[Hop] | None) -> Route:
    """Route a message again, after an exchange has kept it for its delay; nowhere if there is no such exchange.

    ``message`` is as it was published. It is not kept again: the delay is negated.
    """
    start = compiled.exchanges.get(exchange)
    if start is None:
        return Route(())
    headers = compute_routing_headers(message.headers, delay)
    then = assemble_message(message.exchange, message.routing_key, headers, message.properties, message.body)
    made: list[Hop] | None = None if hops is None else []
    route = _walk_from(compiled, start, then, message.routing_keys(), made, {})
    if hops is not None and made is not None:
        hops += [replace(hop, after=delay) for hop in made]
    return route


def _walk_from(
    compiled: Compiled,
    start: CompiledExchange,
    message: Message,
    keys: Sequence[str],
    hops: list[Hop] | None,
    kept: dict[str, int],
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
    is_unsure: bool | Unsure
    while work:
        (exchange, kind, alternate, is_unsure, can_delay), came_from = work.pop()
        delay = read_delay(message.headers, compiled.host.profile) if can_delay else None
        if kind is None and delay is None:
            undecided.append(exchange.name)
            if hops is not None:
                hops.append(Hop(exchange, came_from, (), (), None, undecided=True))
            continue
        # The default exchange has no stored bindings. A message that is published to it always matches one that its
        # key implies, so no alternate is taken, even if there is no such queue. A message that reaches it as an
        # alternate exchange matches nothing, and goes on to its own alternate, which a policy can set.
        matched: Collection[Binding] = ()
        if delay is not None:
            kept[exchange.name] = delay
        elif kind is not None and (exchange.name or came_from is None):
            try:
                matched = kind.match(message, keys)
            except Unsure as error:  # other bindings may match, too, so it is unknown whether the alternate is taken
                matched, alternate, is_unsure = error.matched, None, error
                if matched:
                    undecided.append(exchange.name)
        if hops is not None:
            chosen_by = kind.describe_choice(message, keys) if kind is not None and delay is None else None
            hop_alternate = alternate if exchange.name or came_from is not None else None
            hop = _describe_hop(compiled, exchange, hop_alternate, came_from, matched, queues, seen, chosen_by)
            unknown = is_unsure.reason if isinstance(is_unsure, Unsure) else None
            if unknown is not None:
                hop = replace(hop, undecided=True, unsure=unknown)
            hops.append(hop if delay is None else replace(hop, delay=delay))
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


def _describe_hop(
    compiled: Compiled,
    exchange: Exchange,
    alternate_name: str | None,
    came_from: str | None,
    matched: Collection[Binding],
    queues: Collection[str],
    seen: Collection[str],
    chosen_by: str | None,
) -> Hop:
    """Build the record of an exchange's decision; ``queues`` and ``seen`` are those of `walk` before it."""
    alternate = _describe_alternate(compiled, exchange, alternate_name, taken=not matched)
    destinations = dict.fromkeys([binding.destination for binding in matched])
    if alternate is not None and alternate.taken:
        destinations = {Destination("exchange", alternate.name): None}
    steps = tuple(
        [HopTarget(destination, _outcome_of(compiled, destination, queues, seen)) for destination in destinations]
    )
    in_order = tuple(sorted(matched, key=lambda binding: (binding.routing_key, binding.destination)))
    undecided = not matched and compiled.exchanges[exchange.name].is_unsure
    unsure = SHARDS_MADE if undecided and has_shards_made(exchange, compiled.tables.policies) else None
    return Hop(exchange, came_from, in_order, steps, alternate, undecided, chosen_by, unsure)


def _outcome_of(
    compiled: Compiled, destination: Destination, queues: Collection[str], seen: Collection[str]
) -> Outcome:
    if not compiled.tables.exists(destination):
        return "missing"
    if destination.kind == "queue":
        return "queued already" if destination.name in queues else "queued"
    return "seen already" if destination.name in seen else "followed"


def _describe_alternate(compiled: Compiled, exchange: Exchange, name: str | None, *, taken: bool) -> Alternate | None:
    if name is None:
        return None
    by_argument = "alternate-exchange" in exchange.arguments
    policy = None if by_argument else find_policy_in_force(exchange, compiled.tables.policies)
    return Alternate(name, taken, policy.name if policy is not None else None)
