"""The answers of the router: a route, the hops that lead to it, and what becomes of dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.values.documents import document

if TYPE_CHECKING:
    from exchange.entities.in_force import DeadLetters, Overflow
    from exchange.partition.partitioning.specification import Partitioning


class Placement(NamedTuple):
    """The partition of a partitioned queue that a message goes to."""

    queue: str
    partition: int | None
    """Id of the partition; None if the key does not decide it: ``rule`` describes what does."""
    name: str | None
    """Name of the partition in its system."""
    key: Any
    hash: int | None
    rule: str
    """How the partition follows from the hash: see `exchange.partition.Choice`."""
    partitioning: Partitioning


class LaterRoute(NamedTuple):
    """Where a message goes after an exchange has kept it for a delay: see `exchange.kinds.delayed`."""

    exchange: str
    """The exchange that keeps it, and routes it then."""
    milliseconds: int
    route: Route
    """The route then, if the topology is the same."""


class DelayedRoute(NamedTuple):
    """The parts of the route of a message that at least one exchange keeps back."""

    at_once: Route
    later: tuple[LaterRoute, ...]
    """One for each exchange that keeps it, in the order in which it gets there."""


class Route(NamedTuple):
    """The queues that get a message: one copy each, however many bindings lead there.

    If an exchange delays the message, these are the queues that get it at once or later, and one that does both gets
    two copies: ``delayed`` has the parts.
    """

    queues: tuple[str, ...]
    """Names of the queues, sorted."""
    undecided: tuple[str, ...] = ()
    """Exchanges behind which there may be more queues. Either their type is unknown; or they take the alternate
    exchange of a policy, and it is unknown whether that policy is in force, since its pattern is not understood, or
    other policies have the same priority."""
    placements: tuple[Placement, ...] = ()
    """One for each partitioned queue, in the order of the queues."""
    delayed: DelayedRoute | None = None
    """Which queues get it at once and which later; None if no exchange delays it."""

    @property
    def at_once(self) -> Route:
        """The part of the route that is taken at once. If that is unroutable, a mandatory message is returned."""
        return self if self.delayed is None else self.delayed.at_once

    @property
    def later(self) -> tuple[LaterRoute, ...]:
        """The parts of the route that are taken after a delay; none for most messages."""
        return () if self.delayed is None else self.delayed.later

    @property
    def unroutable(self) -> bool | None:
        """True if no queue gets the message: RabbitMQ drops it, or returns it with 312 NO_ROUTE if it is mandatory.

        A delayed message is returned with `at_once.unroutable`, whatever queues get it later. None if it depends on an
        undecided exchange.
        """
        if self.queues:
            return False
        return None if self.undecided else True


Outcome = Literal["queued", "queued already", "followed", "seen already", "missing"]


class HopTarget(NamedTuple):
    """A destination of a hop, and what happens there.

    ``queued``: the queue gets the message; ``queued already``: it has the message from another hop; ``followed``: the
    exchange routes next; ``seen already``: the exchange has routed already or will, so a cycle or second path ends
    here; ``missing``: the destination does not exist.
    """

    destination: Destination
    outcome: Outcome


class Alternate(NamedTuple):
    """The alternate exchange of a hop, which is taken if none of the exchange's bindings matches."""

    name: str
    taken: bool
    from_policy: str | None
    """Name of the policy that sets it; None if the exchange's argument does."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One exchange that a message passes, with its decision."""

    exchange: Exchange
    came_from: str | None
    """Exchange whose binding or alternate led here; None for the exchange that the message was published to."""
    matched: tuple[Binding, ...]
    """Bindings that the message takes."""
    steps: tuple[HopTarget, ...]
    alternate: Alternate | None
    undecided: bool = False
    chosen_by: str | None = None
    """Description of the hash that chose among the bindings; None where no hash decides."""
    unsure: str | None = None
    """Why it is unknown whether some bindings match; None if it is known."""
    delay: int | None = None
    """For how many milliseconds the exchange keeps the message, and asks none of its bindings until then."""
    after: int | None = None
    """The milliseconds after which the message passes here; None if it does at once. The hops after a delay follow
    those at once, and begin at the exchange that kept it."""
    refused: tuple[tuple[Binding, str], ...] = ()
    """Those of the matched bindings that RabbitMQ refuses to make, each with its answer: a file has them."""


class Obstacle(NamedTuple):
    """The reason why a message does not go on to ``destination``: a binding that does not match, or a rule."""

    exchange: str
    destination: Destination
    binding: Binding | None
    """The binding that does not match; None for an alternate exchange and for the default exchange."""
    reason: str


HOPS: Final = 100
"""Maximum number of queues that the dead letters of one message are followed through."""
DeadLetterOutcome = Literal["routed", "unroutable", "undecided", "missing", "dropped", "unknown"]
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
    outcome: DeadLetterOutcome
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
