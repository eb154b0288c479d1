"""Follow the dead letters of queues: where a message goes that is rejected, expires or exceeds a limit.

The exact life of a message, with its counts and times, is not modelled here: what is followed is where each queue sends
such a message, and where that is routed to, with the routing keys that dead letters have. Their headers, such as
x-death, are not added: where a headers exchange asks for them, where they go is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from exchange.entities.entities import Binding, Queue
from exchange.entities.in_force import DeadLetters, Overflow, Policies, SettingsInForce
from exchange.errors import BrokerError, InputError, NotFound
from exchange.kinds import headers_after, kind_of
from exchange.kinds.headers import conditions_of
from exchange.kinds.kind import Decider
from exchange.routing.route import Explanation
from exchange.routing.router import Router
from exchange.text.display import count_noun, describe_exchange, list_some, write_milliseconds
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.message import Message

__all__ = [
    "DeadLetterHop", "dead_letter_lines", "find_hop", "follow_dead_letters", "make_dead_letter",
]  # fmt: skip

HOPS: Final = 100
"""Maximum number of queues that the dead letters of one message are followed through."""
DEATHS: Final = ("x-death", "x-first-death-", "x-last-death-")
"""Headers of dead letters, or how their names begin."""
LISTED: Final = 10
"""Maximum number of queues that a line lists."""
REFUSALS: Final[Mapping[Overflow | None, str]] = {
    "reject-publish": "more are refused, not dead-lettered",
    "reject-publish-dlx": "more are refused and dead-lettered",
}
"""What a full queue does that does not drop its oldest message -> the same in words."""

Outcome = Literal["routed", "unroutable", "undecided", "missing", "dropped", "unknown"]
"""``routed`` to queues; ``unroutable``: the exchange has no queue for it; ``undecided``: an exchange of unknown type,
chance, or a header of dead letters decides, or the broker would fail; ``missing``: there is no such exchange;
``dropped``: the queue has no dead letter exchange; ``unknown``: it is not known which policy is in force."""


@document("DeadLetterHopJson", "queue, routing_key, exchange, with_key, outcome, queues, source = known_source if any")
class DeadLetterHop(NamedTuple):
    """What becomes of a message that a queue rejects, lets expire or has no room for."""

    queue: str
    routing_key: str
    """The routing key that the message has in the queue."""
    letters: DeadLetters
    outcome: Outcome
    queues: tuple[str, ...] = ()
    """The queues that get the dead letter, sorted."""
    source: str = ""
    """What sets the dead letter exchange: ``argument``, ``policy 'NAME'``."""
    expires_after: int | None = None
    """Milliseconds after which a message expires in this queue at the latest; None if the queue sets no time."""
    max_length: int | None = None
    """Maximum number of messages in the queue; None if there is none."""
    max_bytes: int | None = None
    """Maximum number of bytes in the queue; None if there is none."""
    overflow: Overflow | None = None
    """What the queue does at its maximum; None if that is not known."""

    @property
    def exchange(self) -> str | None:
        """The dead letter exchange in force; None if the queue has none, or if it is not known."""
        return None if self.outcome == "unknown" else self.letters.exchange

    @property
    def with_key(self) -> str | None:
        """The routing key of the dead letter; None where there is none."""
        if self.exchange is None:
            return None
        return self.routing_key if self.letters.routing_key is None else self.letters.routing_key

    @property
    def known_source(self) -> str | None:
        """What sets the dead letter exchange: ``argument``, ``policy 'NAME'``; absent without one."""
        return None if self.exchange is None else self.source


def follow_dead_letters(topology: Topology, router: Router, explanation: Explanation) -> Explanation:
    """Return the explanation with the dead letters of the queues that get the message, and of queues that get these.

    ``router`` is one of this topology. There are none if no queue that gets the message has a dead letter exchange.
    """
    policies = topology.policies_in_force()
    by_deaths = _find_readers_of_deaths(topology)
    hops: list[DeadLetterHop] = []
    message, route = explanation.message, explanation.route
    stays = [(queue, message) for queue in route.at_once.queues]
    for later in route.later:
        rewritten = "BCC" in message.headers
        headers = headers_after(message.headers, later.milliseconds, topology.profile, rewritten=rewritten)
        stays += [(queue, replace(message, headers=headers)) for queue in later.route.queues]
    seen: set[tuple[str, str | None]] = set()  # a queue, and the key, unless all messages of the queue go the same way
    for queue, message in stays:
        if topology.queues[queue].type == "stream":
            continue  # a stream takes no message away
        hop = find_hop(topology.queues[queue], message, policies, router)
        if hop.letters.exchange in by_deaths and hop.outcome in ("routed", "unroutable"):
            hop = hop._replace(outcome="undecided")
        stay = (
            queue,
            None if hop.letters.exchange is None or hop.letters.routing_key is not None else message.routing_key,
        )
        if stay in seen:
            continue
        if len(hops) == HOPS:
            break
        seen.add(stay)
        hops.append(hop)
        if hop.queues:
            following = make_dead_letter(message, hop.letters)
            stays += [(target, following) for target in hop.queues]
    if all(hop.outcome == "dropped" for hop in hops):
        return explanation
    return replace(explanation, dead_letters=tuple(hops))


def _find_readers_of_deaths(topology: Topology) -> set[str]:
    """Return the exchanges from which messages may get to a binding that asks for a header of dead letters."""
    readers = [
        name
        for name, exchange in topology.exchanges.items()
        if kind_of(exchange).decider is Decider.HEADERS
        and any(_asks_for_deaths(binding, topology) for binding in topology.bindings_from(name))
    ]
    return TopologyGraph(topology).graph.upstream(readers) if readers else set()


def _asks_for_deaths(binding: Binding, topology: Topology) -> bool:
    return any(name.startswith(DEATHS) for name, _ in conditions_of(binding, topology.profile))


def make_dead_letter(message: Message, letters: DeadLetters) -> Message:
    """Return the message as its dead letter is routed: with the key that the queue sets, or with all of its own keys.

    ``letters.exchange`` must not be None.
    """
    assert letters.exchange is not None  # noqa: S101
    if letters.routing_key is None:
        return replace(message, exchange=letters.exchange)
    headers = {name: value for name, value in message.headers.items() if name not in ("CC", "BCC")}
    return replace(message, exchange=letters.exchange, routing_key=letters.routing_key, headers=headers)


def find_hop(queue: Queue, message: Message, policies: Policies, router: Router) -> DeadLetterHop:
    """Return what becomes of a message that a queue rejects, lets expire or has no room for."""
    possible = policies.possible_settings(queue)
    ways = [settings.dead_letters for settings in possible]
    letters = ways[0]
    outcome: Outcome = "unknown"
    queues: tuple[str, ...] = ()
    if all(way == letters for way in ways):
        outcome, queues = _route(message, letters, router)
    source = str(possible[0].values["dead-letter-exchange"]) if letters.exchange is not None else ""
    ttl, length, size = (_integer(possible, name) for name in ("message-ttl", "max-length", "max-length-bytes"))
    overflows = {settings.overflow for settings in possible}
    overflow = overflows.pop() if len(overflows) == 1 else None
    key = message.routing_key
    return DeadLetterHop(queue.name, key, letters, outcome, queues, source, ttl, length, size, overflow)


def _integer(possible: Iterable[SettingsInForce], name: str) -> int | None:
    values = {settings.integer(name) for settings in possible}
    return values.pop() if len(values) == 1 else None


def _route(message: Message, letters: DeadLetters, router: Router) -> tuple[Outcome, tuple[str, ...]]:
    if letters.exchange is None:
        return "dropped", ()
    try:
        route = router.route_dead_letter(make_dead_letter(message, letters))
    except NotFound:
        return "missing", ()
    except (BrokerError, InputError):
        return "undecided", ()
    if route.undecided:
        return "undecided", route.queues
    return ("routed" if route.queues else "unroutable"), route.queues


def dead_letter_lines(hops: Iterable[DeadLetterHop]) -> Iterator[str]:
    """Yield what becomes of dead letters as lines of text, which are not escaped; none if there are no hops."""
    hops = list(hops)
    if not hops:
        return
    yield "if rejected, expired or over the limit:"
    for hop in hops:
        if hop.outcome != "dropped":
            yield f"  queue '{hop.queue}'{_limits(hop)}: {_describe(hop)}"
    dropped = list(dict.fromkeys(f"'{hop.queue}'" for hop in hops if hop.outcome == "dropped"))
    if dropped:
        yield f"  {'queue' if len(dropped) == 1 else 'queues'} {list_some(dropped, LISTED)}: dropped"
    if len(hops) == HOPS:
        yield f"  only {HOPS} queues are followed"


def _limits(hop: DeadLetterHop) -> str:
    limits = []
    if hop.expires_after is not None:
        limits.append(f"expired after {write_milliseconds(hop.expires_after)}")
    sizes = [(hop.max_length, "message"), (hop.max_bytes, "byte")]
    at_most = [f"at most {count_noun(most, noun)}" for most, noun in sizes if most is not None]
    if at_most:
        limits += [*at_most, *([REFUSALS[hop.overflow]] if hop.overflow in REFUSALS else [])]
    return f" ({', '.join(limits)})" if limits else ""


def _describe(hop: DeadLetterHop) -> str:
    if hop.outcome == "unknown":
        return "it is not known which policy is in force"
    exchange = describe_exchange(hop.letters.exchange or "")
    end = "kept, and sent again later" if hop.letters.at_least_once else "lost"
    if hop.outcome == "missing":
        return f"{end}, as {exchange} ({hop.source}) does not exist"
    way = f"to {exchange} ({hop.source}) with the key '{hop.with_key}'"
    if hop.outcome == "unroutable":
        return f"{way}: {end}, as no queue gets it"
    queues = list_some([f"'{queue}'" for queue in hop.queues], LISTED)
    if hop.outcome == "undecided":
        return f"{way}: where that goes is not known here{f', but to {queues}' if queues else ''}"
    return f"{way}: queued in {queues}"
