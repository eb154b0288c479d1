"""The JSON of the explanation of a route."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from exchange.entities.entities import Binding
from exchange.entities.part import encode_binding
from exchange.entities.precedence import InForceAccount
from exchange.routing.explain import Explanation, matching_key
from exchange.routing.route import (
    Alternate,
    DeadLetterHop,
    Hop,
    LaterRoute,
    Obstacle,
    Outcome,
    Placement,
)
from exchange.values.documents import document, encode_as
from exchange.values.field_json import encode
from exchange.values.json_types import BindingJson, FieldJson
from exchange.values.message import Message

__all__ = ["ReasonsJson", "encode_obstacle", "to_json"]


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
            "obstacles": [encode_obstacle(obstacle) for obstacle in explanation.obstacles],
            "in_force": explanation.in_force,
        }
    return encode_as(ReasonsJson, result)


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
    header, key = matching_key(hop.exchange, binding, message) or (None, None)
    return {**encode_binding(binding), "outcome": outcome, "matched_key": key, "matched_header": header}


def _alternate_json(alternate: Alternate, hop: Hop) -> AlternateJson:
    return {
        "name": alternate.name,
        "taken": alternate.taken,
        "from_policy": alternate.from_policy,
        "outcome": hop.steps[0].outcome if alternate.taken else None,
    }


def encode_obstacle(obstacle: Obstacle) -> ObstacleJson:
    """Return an obstacle as JSON values."""
    return {
        "exchange": obstacle.exchange,
        "destination": {"kind": obstacle.destination.kind, "name": obstacle.destination.name},
        "binding": encode_binding(obstacle.binding) if obstacle.binding is not None else None,
        "reason": obstacle.reason,
    }
