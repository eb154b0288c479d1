"""The JSON of routes: a line for each of many messages, and the explanation of one."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from exchange.entities.entities import Binding
from exchange.entities.part import encode_binding
from exchange.entities.precedence import InForceAccount
from exchange.entities.unread import UnreadPart
from exchange.routing.explain import Explanation, find_matching_key
from exchange.routing.route import Hop, LaterRoute, Obstacle, Outcome, Placement, Route
from exchange.values.documents import document, encode_as
from exchange.values.field_json import encode, encode_fields
from exchange.values.json_types import BindingJson, FieldJson
from exchange.values.message import Message

MAX_LINE_PARTS: Final = 3
"""Maximum number of unread parts that the line of a message has, so that lines stay short; an explanation has all."""


class RouteLine(TypedDict):
    """The route of a message."""

    exchange: str
    routing_key: str
    queues: list[str]
    """Queues that get it, sorted."""
    unroutable: bool | None
    """Whether no queue gets it; null if that depends on an undecided exchange."""
    undecided: NotRequired[list[str]]
    """Exchanges behind which there may be more queues; absent if there are none."""
    partitions: NotRequired[dict[str, str | None]]
    """Partitioned queue -> name of the partition, null where the key does not decide; absent if there is none."""
    at_once: NotRequired[list[str]]
    """The queues that get it at once; only if an exchange delays it. If there are none, a mandatory message is
    returned."""
    later: NotRequired[tuple[LaterRoute, ...]]
    """The exchanges that delay it, and the queues that get it then; absent if none does."""
    caveat: NotRequired[str]
    """Why the rules are not those of the release that was named: it is newer than all that are known here."""
    unread: NotRequired[tuple[UnreadPart, ...]]
    """Parts of the topology that were not read, the first three: nothing is proved; absent if there are none."""


class ErrorLine(TypedDict):
    """The answer to a line that cannot be routed, with --skip-bad."""

    error: str


def format_line(message: Message, route: Route, caveat: str, unread: tuple[UnreadPart, ...]) -> bytes:
    """Return the line of output about a message; ``caveat`` is that of the profile, ``unread`` of the topology."""
    fields: RouteLine = {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "queues": list(route.queues),
        "unroutable": route.unroutable,
    }
    if route.undecided:
        fields["undecided"] = list(route.undecided)
    if route.placements:
        fields["partitions"] = {placement.queue: placement.name for placement in route.placements}
    if route.delayed is not None:
        fields["at_once"] = list(route.at_once.queues)
        fields["later"] = route.later
    if caveat:
        fields["caveat"] = caveat
    if unread:
        fields["unread"] = unread[:MAX_LINE_PARTS]
    return encode_fields(encode_as(RouteLine, fields))


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
    refused: str | None
    """What RabbitMQ answers to the binding, which a file has, if it refuses to make it; else null."""


class AlternateJson(TypedDict):
    """The alternate exchange of a hop."""

    name: str
    taken: bool
    from_policy: str | None
    """Name of the policy that sets it; null if the exchange's argument does."""
    outcome: Outcome | None
    """What happens there; null if it is not taken."""


class AskedJson(TypedDict):
    """The answer about the queue of `--queue`."""

    queue: str
    gets_it: bool
    exists: bool
    obstacles: tuple[Obstacle, ...]
    """Obstacles on the nearest path to the queue; empty if it gets the message, or if no path leads to it."""
    in_force: InForceAccount | None
    """The settings in force in the queue; null if it does not exist."""


def _copied_to(explanation: Explanation) -> list[CopyJson]:
    """Further routing keys, of the headers CC and BCC."""
    return [{"header": header, "key": key} for header, key in explanation.message.further_keys()]


def _hops(explanation: Explanation) -> list[ExplainedHop]:
    """The exchanges that it passes, in order."""  # noqa: D401  it describes a field
    return [ExplainedHop(hop, explanation.message) for hop in explanation.hops]


def _at_once(explanation: Explanation) -> tuple[str, ...] | None:
    """Queues that get it at once, if an exchange delays it; if there are none, a mandatory message is returned."""
    return None if explanation.route.delayed is None else explanation.route.at_once.queues


def _asked(explanation: Explanation) -> AskedJson | None:
    """Only with `--queue`."""
    if explanation.asked is None:
        return None
    return {
        "queue": explanation.asked,
        "gets_it": explanation.asked in explanation.route.queues,
        "exists": explanation.asked_exists,
        "obstacles": explanation.obstacles,
        "in_force": explanation.in_force,
    }


document(
    "ReasonsJson",
    "message.exchange, message.routing_key, copied_to, route.queues, route.unroutable, route.undecided, "
    "route.placements, hops, dead_letters, at_once if any, "
    "route.delayed?.later if any, asked if any",
    copied_to=_copied_to,
    at_once=_at_once,
    hops=_hops,
    asked=_asked,
)(Explanation)


def to_json(explanation: Explanation) -> Any:
    """Return the route and its reasons as JSON values; field values are encoded by `exchange.values.field_json`."""
    return encode_as(Explanation, explanation)


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


class ExplainedHop(NamedTuple):
    """An exchange that the message passes, with its decision."""

    hop: Hop
    message: Message


def _matched(explained: ExplainedHop) -> list[MatchJson]:
    hop, outcomes = explained.hop, dict(explained.hop.steps)
    return [_match_json(binding, hop, explained.message, outcomes[binding.destination]) for binding in hop.matched]


def _alternate(explained: ExplainedHop) -> AlternateJson | None:
    alternate = explained.hop.alternate
    return None if alternate is None else {
        "name": alternate.name,
        "taken": alternate.taken,
        "from_policy": alternate.from_policy,
        "outcome": explained.hop.steps[0].outcome if alternate.taken else None,
    }  # fmt: skip


document(
    "HopJson",
    "exchange = hop.exchange.name, hop.exchange.type, hop.came_from, hop.undecided, hop.chosen_by, matched, alternate, "
    "hop.unsure if any, hop.delay if any, hop.after if any",
    matched=_matched,
    alternate=_alternate,
)(ExplainedHop)


def _match_json(binding: Binding, hop: Hop, message: Message, outcome: Outcome) -> MatchJson:
    header, key = find_matching_key(hop.exchange, binding, message) or (None, None)
    return {
        **encode_binding(binding), "outcome": outcome, "matched_key": key, "matched_header": header,
        "refused": dict(hop.refused).get(binding),
    }  # fmt: skip


document("ObstacleJson", "exchange, destination = EndJson(destination.kind, destination.name), binding, reason")(
    Obstacle
)
