"""Write an explanation as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict

from exchange.entities.entities import Binding, Exchange
from exchange.entities.part import encode_binding
from exchange.entities.precedence import InForceAccount, account_lines
from exchange.kinds import Decider, UnknownExchange, kind_of
from exchange.routing.dead_letters import DeadLetterHop, dead_letter_lines
from exchange.routing.route import (
    Alternate,
    DelayedRoute,
    Explanation,
    Hop,
    LaterRoute,
    Obstacle,
    Outcome,
    Placement,
    Route,
)
from exchange.text.display import count_noun, describe_exchange, escape_line, write_milliseconds
from exchange.values.documents import document, encode_as
from exchange.values.field_json import encode
from exchange.values.json_types import BindingJson, FieldJson
from exchange.values.message import Message
from exchange.values.notation import write_arguments, write_value

__all__ = ["ReasonsJson", "describe", "obstacle_json", "to_json"]


def describe(explanation: Explanation) -> str:
    """Return the route and its reasons as lines of text, without a final newline."""
    return "\n".join(map(escape_line, _lines(explanation)))


class CopyJson(TypedDict):
    """A further routing key, of a header CC or BCC."""

    header: str
    key: str


class MatchJson(BindingJson):
    """A binding that the message takes."""

    outcome: Outcome
    """What happens at its destination."""
    matched_key: str | None
    """The key of the message that it matches; null where keys do not decide."""
    matched_header: str | None
    """The header that has this key; null for the routing key."""


class AlternateJson(TypedDict):
    """The alternate exchange of a hop."""

    name: str
    taken: bool
    from_policy: str | None
    """Name of the policy that sets it; null if the exchange's argument does."""
    outcome: Outcome | None
    """What happens there; null if it is not taken."""


class HopJson(TypedDict):
    """An exchange that the message passes, with its decision."""

    exchange: str
    type: str
    came_from: str | None
    """The exchange whose binding or alternate led here; null for the one that the message is published to."""
    undecided: bool
    chosen_by: str | None
    """The hash that chose among the bindings; null where no hash decides."""
    matched: list[MatchJson]
    alternate: AlternateJson | None
    unsure: NotRequired[str]
    """Why it is unknown whether more bindings match; absent if it is known."""
    delay: NotRequired[int]
    """For how many milliseconds the exchange keeps the message before it looks at its bindings; absent if not."""
    after: NotRequired[int]
    """The milliseconds after which the message passes here, as an exchange delayed it; absent if it does at once."""


class EndJson(TypedDict):
    """A queue or exchange."""

    kind: str
    """`queue` or `exchange`."""
    name: str


class ObstacleJson(TypedDict):
    """Why the message does not go on to a destination."""

    exchange: str
    destination: EndJson
    binding: BindingJson | None
    """The binding that does not match; null for an alternate exchange and for the default exchange."""
    reason: str


class AskedJson(TypedDict):
    """The answer about the queue of `--queue`."""

    queue: str
    gets_it: bool
    exists: bool
    obstacles: list[ObstacleJson]
    """Obstacles on the nearest path to the queue; empty if it gets the message, or if no path leads to it."""
    in_force: InForceAccount | None
    """The settings in force in the queue; null if it does not exist."""


class ReasonsJson(TypedDict):
    """The route of a message and its reasons."""

    exchange: str
    routing_key: str
    copied_to: list[CopyJson]
    """Further routing keys, of the headers CC and BCC."""
    queues: list[str]
    """Queues that get the message, sorted."""
    unroutable: bool | None
    """Whether no queue gets it; null if that depends on an undecided exchange."""
    undecided: list[str]
    """Exchanges behind which there may be more queues."""
    placements: tuple[Placement, ...]
    """One for each partitioned queue."""
    hops: list[HopJson]
    """The exchanges that it passes, in order."""
    dead_letters: tuple[DeadLetterHop, ...]
    """What becomes of the message if the queues that get it reject it, let it expire or have no room for it, and of its
    dead letters; empty if no queue has a dead letter exchange."""
    asked: NotRequired[AskedJson]
    """Only with `--queue`."""
    at_once: NotRequired[list[str]]
    """The queues that get it at once; only if an exchange delays it. If there are none, a mandatory message is
    returned."""
    later: NotRequired[tuple[LaterRoute, ...]]
    """The exchanges that delay it, and the queues that get it then; absent if none does."""


def to_json(explanation: Explanation) -> Any:
    """Return the route and its reasons as JSON values; field values are encoded by `exchange.values.field_json`."""
    route = explanation.route
    result: ReasonsJson = {
        "exchange": explanation.message.exchange,
        "routing_key": explanation.message.routing_key,
        "copied_to": [{"header": header, "key": key} for header, key in explanation.message.further_keys()],
        "queues": list(route.queues),
        "unroutable": route.unroutable,
        "undecided": list(route.undecided),
        "placements": route.placements,
        "hops": [_hop_json(hop, explanation.message) for hop in explanation.hops],
        "dead_letters": explanation.dead_letters,
    }
    if route.delayed is not None:
        result["at_once"] = list(route.at_once.queues)
        result["later"] = route.later
    if explanation.asked is not None:
        result["asked"] = {
            "queue": explanation.asked,
            "gets_it": explanation.asked in route.queues,
            "exists": explanation.asked_exists,
            "obstacles": [obstacle_json(obstacle) for obstacle in explanation.obstacles],
            "in_force": explanation.in_force,
        }
    return encode_as(ReasonsJson, result)


def _lines(explanation: Explanation) -> Iterator[str]:
    message, route = explanation.message, explanation.route
    further = "".join([f", {header} '{key}'" for header, key in message.further_keys()])
    yield f"{describe_exchange(message.exchange)} <- '{message.routing_key}'{further}"
    for hop in explanation.hops:
        if hop.after is not None and hop.came_from is None:
            yield f"after {write_milliseconds(hop.after)}, from {describe_exchange(hop.exchange.name)} again:"
        yield from _hop_lines(hop, message)
    if route.delayed is not None:
        yield from _delayed_lines(route, route.delayed)
    elif route.queues:
        yield f"routed to {count_noun(len(route.queues), 'queue')}: {', '.join(route.queues)}"
        for placement in route.placements:
            yield from _placement_lines(placement)
    elif route.unroutable:
        yield "unroutable: dropped, or returned to a publisher that set mandatory (312 NO_ROUTE)"
    if route.undecided:
        names = ", ".join(map(describe_exchange, route.undecided))
        yield f"undecided: what {names} does is not known here, more queues may get it"
    yield from dead_letter_lines(explanation.dead_letters)
    if explanation.asked is not None:
        yield from _queue_lines(explanation, explanation.asked)
    if explanation.in_force is not None:
        yield from account_lines(explanation.in_force)


def _delayed_lines(route: Route, delayed: DelayedRoute) -> Iterator[str]:
    now = delayed.at_once
    if now.queues:
        yield f"routed at once to {count_noun(len(now.queues), 'queue')}: {', '.join(now.queues)}"
    elif now.unroutable:
        yield "routed at once to no queue: returned to a publisher that set mandatory (312 NO_ROUTE)"
    for exchange, delay, then in delayed.later:
        to = f"{count_noun(len(then.queues), 'queue')}: {', '.join(then.queues)}" if then.queues else "no queue"
        lost = ": it is dropped" if then.unroutable else ""
        yield f"routed after {write_milliseconds(delay)} from {describe_exchange(exchange)} to {to}{lost}"
    for placement in route.placements:
        yield from _placement_lines(placement)


def _hop_lines(hop: Hop, message: Message) -> Iterator[str]:
    came_from = "" if hop.came_from is None else f", from {describe_exchange(hop.came_from)}"
    yield f"  {describe_exchange(hop.exchange.name)} ({hop.exchange.type or 'direct'}{came_from})"
    if hop.delay is not None:
        yield f"    kept for {write_milliseconds(hop.delay)} by x-delay: no binding is looked at until then"
    elif kind_of(hop.exchange) is UnknownExchange:
        yield "    ? this type of exchange is unknown here"
        return
    outcomes = dict(hop.steps)
    for binding in hop.matched:
        header, key = _matching_key(hop.exchange, binding, message) or (None, "")
        by = f" by {header} '{key}'" if header is not None else ""
        yield f"    {_binding(binding)}: {_OUTCOMES[outcomes[binding.destination]]}{by}"
    if not hop.matched and hop.unsure is None and hop.delay is None:
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
        where = f"{describe_exchange(obstacle.exchange)} -> {obstacle.destination}"
        if obstacle.binding is not None:
            where = f"the nearest binding is {describe_exchange(obstacle.exchange)} {_binding(obstacle.binding)}"
        yield f"  {where}"
        yield f"    {obstacle.reason}"


def _binding(binding: Binding) -> str:
    arguments = f" {write_arguments(binding.arguments)}" if binding.arguments else ""
    return f"'{binding.routing_key}'{arguments} -> {binding.destination}"


def _placement_key(placement: Placement) -> FieldJson:
    """The key that the client would use."""  # noqa: D401  it describes a field
    return placement.key if type(placement.key) is int else encode(placement.key)


def _partitioning(placement: Placement) -> str:
    return str(placement.partitioning)


document(
    "PlacementJson",
    "queue, partition, name, key, hash, rule, partitioning",
    key=_placement_key,
    partitioning=_partitioning,
)(Placement)
document("LaterJson", "exchange, milliseconds, route.queues")(LaterRoute)


def _hop_json(hop: Hop, message: Message) -> HopJson:
    outcomes = dict(hop.steps)
    result: HopJson = {
        "exchange": hop.exchange.name,
        "type": hop.exchange.type,
        "came_from": hop.came_from,
        "undecided": hop.undecided,
        "chosen_by": hop.chosen_by,
        "matched": [_match_json(binding, hop, message, outcomes[binding.destination]) for binding in hop.matched],
        "alternate": None if hop.alternate is None else _alternate_json(hop.alternate, hop),
    }
    if hop.unsure is not None:
        result["unsure"] = hop.unsure
    if hop.delay is not None:
        result["delay"] = hop.delay
    if hop.after is not None:
        result["after"] = hop.after
    return result


def _match_json(binding: Binding, hop: Hop, message: Message, outcome: Outcome) -> MatchJson:
    header, key = _matching_key(hop.exchange, binding, message) or (None, None)
    return {**encode_binding(binding), "outcome": outcome, "matched_key": key, "matched_header": header}


def _alternate_json(alternate: Alternate, hop: Hop) -> AlternateJson:
    return {
        "name": alternate.name,
        "taken": alternate.taken,
        "from_policy": alternate.from_policy,
        "outcome": hop.steps[0].outcome if alternate.taken else None,
    }


def obstacle_json(obstacle: Obstacle) -> ObstacleJson:
    """Return an obstacle as JSON values."""
    return {
        "exchange": obstacle.exchange,
        "destination": {"kind": obstacle.destination.kind, "name": obstacle.destination.name},
        "binding": encode_binding(obstacle.binding) if obstacle.binding is not None else None,
        "reason": obstacle.reason,
    }
