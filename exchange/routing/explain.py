"""Write an explanation as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exchange.display import count_noun, escape_line
from exchange.entities.entities import Binding, Exchange
from exchange.field_json import encode
from exchange.kinds import Decider, Unknown, kind_of
from exchange.message import Message
from exchange.notation import write_arguments, write_value
from exchange.routing.route import Alternate, Explanation, Hop, Obstacle, Placement

__all__ = ["describe", "to_json"]


def describe(explanation: Explanation) -> str:
    """Return the route and its reasons as lines of text, without a final newline."""
    return "\n".join(map(escape_line, _lines(explanation)))


def to_json(explanation: Explanation) -> dict[str, Any]:
    """Return the route and its reasons as JSON values; field values are encoded by `exchange.field_json`."""
    route = explanation.route
    result: dict[str, Any] = {
        "exchange": explanation.message.exchange,
        "routing_key": explanation.message.routing_key,
        "copied_to": [{"header": header, "key": key} for header, key in explanation.message.further_keys()],
        "queues": list(route.queues),
        "unroutable": route.unroutable,
        "undecided": list(route.undecided),
        "placements": [_placement_json(placement) for placement in route.placements],
        "hops": [_hop_json(hop, explanation.message) for hop in explanation.hops],
    }
    if explanation.asked is not None:
        result["asked"] = {
            "queue": explanation.asked,
            "gets_it": explanation.asked in route.queues,
            "exists": explanation.asked_exists,
            "obstacles": [_obstacle_json(obstacle) for obstacle in explanation.obstacles],
        }
    return result


def _lines(explanation: Explanation) -> Iterator[str]:
    message, route = explanation.message, explanation.route
    further = "".join([f", {header} '{key}'" for header, key in message.further_keys()])
    yield f"{_name(message.exchange)} <- '{message.routing_key}'{further}"
    for hop in explanation.hops:
        yield from _hop_lines(hop, message)
    if route.queues:
        yield f"routed to {count_noun(len(route.queues), 'queue')}: {', '.join(route.queues)}"
        for placement in route.placements:
            yield from _placement_lines(placement)
    elif route.unroutable:
        yield "unroutable: dropped, or returned to a publisher that set mandatory (312 NO_ROUTE)"
    if route.undecided:
        names = ", ".join(map(_name, route.undecided))
        yield f"undecided: what {names} does is not known here, more queues may get it"
    if explanation.asked is not None:
        yield from _queue_lines(explanation, explanation.asked)


def _hop_lines(hop: Hop, message: Message) -> Iterator[str]:
    came_from = "" if hop.came_from is None else f", from {_name(hop.came_from)}"
    yield f"  {_name(hop.exchange.name)} ({hop.exchange.type or 'direct'}{came_from})"
    if kind_of(hop.exchange) is Unknown:
        yield "    ? this type of exchange is unknown here"
        return
    outcomes = dict(hop.steps)
    for binding in hop.matched:
        header, key = _matching_key(hop.exchange, binding, message) or (None, "")
        by = f" by {header} '{key}'" if header is not None else ""
        yield f"    {_binding(binding)}: {_OUTCOMES[outcomes[binding.destination]]}{by}"
    if not hop.matched and hop.unsure is None:
        yield "    no binding matches"
    if hop.chosen_by is not None:
        yield f"    {hop.chosen_by}"
    if hop.unsure is not None:
        yield f"    ? more bindings may match: {hop.unsure}"
    elif hop.undecided:
        yield "    ? its alternate exchange depends on which policy applies, and that is not known here"
    if hop.alternate is not None:
        yield f"    {_alternate(hop.alternate, hop)}"


def _matching_key(exchange: Exchange, binding: Binding, message: Message) -> tuple[str | None, str] | None:
    """Return the first key of the message that the binding matches, after the header that has it (None: routing key).

    Returns None where keys do not decide.
    """
    kind = kind_of(exchange)
    if kind.decider is not Decider.KEY:
        return None
    literal = kind.literal_key(binding)
    pattern = kind.pattern(binding) if literal is None else None
    for header, key in [(None, message.routing_key), *message.further_keys()]:
        if key == literal or (pattern is not None and pattern.matches(key)):
            return header, key
    return None


_OUTCOMES = {
    "queued": "queued",
    "queued already": "has it already, one copy is enough",
    "followed": "followed",
    "seen already": "not followed again, it has been or will be visited",
    "missing": "does not exist",
}


def _alternate(alternate: Alternate, hop: Hop) -> str:
    origin = f" (policy '{alternate.from_policy}')" if alternate.from_policy is not None else ""
    if not alternate.taken:
        return f"alternate exchange '{alternate.name}'{origin}: not taken, its own bindings match"
    return f"alternate exchange '{alternate.name}'{origin}: taken, {_OUTCOMES[hop.steps[0].outcome]}"


def _placement_lines(placement: Placement) -> Iterator[str]:
    where = f"partition {placement.name}" if placement.name is not None else "some partition"
    yield f"  {placement.queue} -> {where} ({placement.partitioning})"
    hashed = "" if placement.hash is None else f", hash {placement.hash}"
    yield f"    key {_key_text(placement.key)}{hashed}: {placement.rule}"


def _key_text(key: Any) -> str:
    # An integer in a JSON body may have more than 64 bits, which `write_value` refuses.
    return str(key) if type(key) is int else write_value(key)


def _queue_lines(explanation: Explanation, queue: str) -> Iterator[str]:
    if queue in explanation.route.queues:
        yield f"queue '{queue}' gets it"
        return
    yield f"queue '{queue}' does not get it:"
    if not explanation.asked_exists:
        yield "  there is no such queue"
    elif not explanation.obstacles:
        yield "  no binding leads there from where this message is"
    for obstacle in explanation.obstacles:
        where = f"{_name(obstacle.exchange)} -> {obstacle.destination}"
        if obstacle.binding is not None:
            where = f"the nearest binding is {_name(obstacle.exchange)} {_binding(obstacle.binding)}"
        yield f"  {where}"
        yield f"    {obstacle.reason}"


def _binding(binding: Binding) -> str:
    arguments = f" {write_arguments(binding.arguments)}" if binding.arguments else ""
    return f"'{binding.routing_key}'{arguments} -> {binding.destination}"


def _name(exchange: str) -> str:
    return f"exchange '{exchange}'" if exchange else "the default exchange"


def _placement_json(placement: Placement) -> dict[str, Any]:
    return {
        "queue": placement.queue,
        "partition": placement.partition,
        "name": placement.name,
        "key": placement.key if type(placement.key) is int else encode(placement.key),
        "hash": placement.hash,
        "rule": placement.rule,
        "partitioning": str(placement.partitioning),
    }


def _hop_json(hop: Hop, message: Message) -> dict[str, Any]:
    outcomes = dict(hop.steps)
    alternate = None
    if hop.alternate is not None:
        outcome = hop.steps[0].outcome if hop.alternate.taken else None
        alternate = {**hop.alternate._asdict(), "outcome": outcome}
    result: dict[str, Any] = {
        "exchange": hop.exchange.name,
        "type": hop.exchange.type,
        "came_from": hop.came_from,
        "undecided": hop.undecided,
        "chosen_by": hop.chosen_by,
        "matched": [
            {
                **_binding_json(binding),
                "outcome": outcomes[binding.destination],
                **_key_json(_matching_key(hop.exchange, binding, message)),
            }
            for binding in hop.matched
        ],
        "alternate": alternate,
    }
    return result if hop.unsure is None else {**result, "unsure": hop.unsure}


def _key_json(matching: tuple[str | None, str] | None) -> dict[str, Any]:
    header, key = matching or (None, None)
    return {"matched_key": key, "matched_header": header}


def _obstacle_json(obstacle: Obstacle) -> dict[str, Any]:
    return {
        "exchange": obstacle.exchange,
        "destination": obstacle.destination._asdict(),
        "binding": _binding_json(obstacle.binding) if obstacle.binding is not None else None,
        "reason": obstacle.reason,
    }


def _binding_json(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination.name,
        "destination_type": binding.destination.kind,
        "routing_key": binding.routing_key,
        "arguments": {name: encode(value) for name, value in binding.arguments.items()},
    }
