"""The explanation of a route: a value, and its text for a terminal; `exchange.routing.explain_json` has its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from exchange.entities.entities import Binding, Exchange
from exchange.entities.in_force import Overflow
from exchange.entities.precedence import InForceAccount, format_account
from exchange.kinds import Decider, UnknownExchange, find_kind
from exchange.routing.route import HOPS, Alternate, DeadLetterHop, DelayedRoute, Hop, Obstacle, Placement, Route
from exchange.text.display import count_noun, describe_exchange, escape_line, list_some, write_milliseconds
from exchange.values.message import Message
from exchange.values.notation import write_arguments, write_value

MAX_LISTED_QUEUES: Final = 10
"""Maximum number of queues that a line lists."""
REFUSALS: Final[Mapping[Overflow | None, str]] = {
    "reject-publish": "more are refused, not dead-lettered",
    "reject-publish-dlx": "more are refused and dead-lettered",
}
"""What a full queue does that does not drop its oldest message -> the same in words."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A route with its reasons: the hops in the order in which they were made."""

    message: Message
    route: Route
    hops: tuple[Hop, ...]
    asked: str | None = None
    """Queue that the user asked about."""
    asked_exists: bool = False
    meant: str | None = None
    """Name of a queue that may be meant, if there is none of the name that was asked about."""
    obstacles: tuple[Obstacle, ...] = ()
    """Obstacles on the nearest path to that queue; empty if it gets the message, or if no path leads to it."""
    in_force: InForceAccount | None = None
    """What is in force in that queue; None if there is no such queue."""
    dead_letters: tuple[DeadLetterHop, ...] = ()
    """What becomes of it if a queue does not keep it; empty if no queue has a dead letter exchange.

    `exchange.routing.dead_letters.follow_dead_letters` adds this.
    """

    def __str__(self) -> str:
        return "\n".join(map(escape_line, _lines(self)))


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
    yield from _dead_letter_lines(explanation.dead_letters)
    if explanation.asked is not None:
        yield from _queue_lines(explanation, explanation.asked)
    if explanation.in_force is not None:
        yield from format_account(explanation.in_force)


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
    elif find_kind(hop.exchange) is UnknownExchange:
        yield "    ? this type of exchange is unknown here"
        return
    outcomes, refused = dict(hop.steps), dict(hop.refused)
    for binding in hop.matched:
        header, key = find_matching_key(hop.exchange, binding, message) or (None, "")
        by = f" by {header} '{key}'" if header is not None else ""
        yield f"    {_binding(binding)}: {_OUTCOMES[outcomes[binding.destination]]}{by}"
        if binding in refused:
            yield f"      ! RabbitMQ refuses to make this binding: {refused[binding]}"
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


def find_matching_key(exchange: Exchange, binding: Binding, message: Message) -> tuple[str | None, str] | None:
    """Return the first key of the message that the binding matches, after the header that has it (None: routing key).

    Returns None where keys do not decide.
    """
    kind = find_kind(exchange)
    if kind.decider is not Decider.KEY:
        return None
    literal = kind.literal_key(binding)
    pattern = kind.pattern(binding) if literal is None else None
    for header, key in [(None, message.routing_key), *message.further_keys()]:
        if key == literal or (pattern is not None and pattern.matches(key)):
            return header, key
    return None


_OUTCOMES = {
    "queued": "queued", "queued already": "has it already, one copy is enough", "followed": "followed",
    "seen already": "not followed again, it has been or will be visited", "missing": "does not exist",
}  # fmt: skip


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
        near = f"; did you mean '{explanation.meant}'?" if explanation.meant else ""
        yield f"  there is no such queue{near}"
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


def _dead_letter_lines(hops: Iterable[DeadLetterHop]) -> Iterator[str]:
    """Yield what becomes of dead letters as lines of text, which are not escaped; none if there are no hops."""
    hops = list(hops)
    if not hops:
        return
    yield "if rejected, expired or over the limit:"
    for hop in hops:
        if hop.outcome != "dropped":
            yield f"  queue '{hop.queue}'{_limit_text(hop)}: {_dead_letter_end(hop)}"
    dropped = list(dict.fromkeys(f"'{hop.queue}'" for hop in hops if hop.outcome == "dropped"))
    if dropped:
        yield f"  {'queue' if len(dropped) == 1 else 'queues'} {list_some(dropped, MAX_LISTED_QUEUES)}: dropped"
    if len(hops) == HOPS:
        yield f"  only {HOPS} queues are followed"


def _limit_text(hop: DeadLetterHop) -> str:
    limits = []
    if hop.expires_after is not None:
        limits.append(f"expired after {write_milliseconds(hop.expires_after)}")
    sizes = [(hop.max_length, "message"), (hop.max_bytes, "byte")]
    at_most = [f"at most {count_noun(most, noun)}" for most, noun in sizes if most is not None]
    if at_most:
        limits += [*at_most, *([REFUSALS[hop.overflow]] if hop.overflow in REFUSALS else [])]
    return f" ({', '.join(limits)})" if limits else ""


def _dead_letter_end(hop: DeadLetterHop) -> str:
    if hop.outcome == "unknown":
        return "it is not known which policy is in force"
    exchange = describe_exchange(hop.letters.exchange or "")
    end = "kept, and sent again later" if hop.letters.at_least_once else "lost"
    if hop.outcome == "missing":
        return f"{end}, as {exchange} ({hop.source}) does not exist"
    way = f"to {exchange} ({hop.source}) with the key '{hop.with_key}'"
    if hop.outcome == "unroutable":
        return f"{way}: {end}, as no queue gets it"
    queues = list_some([f"'{queue}'" for queue in hop.queues], MAX_LISTED_QUEUES)
    if hop.outcome == "undecided":
        return f"{way}: where that goes is not known here{f', but to {queues}' if queues else ''}"
    return f"{way}: queued in {queues}"
