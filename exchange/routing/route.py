"""The answers of the router: a route, and the explanation of how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.values.message import Message

if TYPE_CHECKING:
    from exchange.entities.precedence import InForceAccount
    from exchange.partition.partitioning.specification import Partitioning
    from exchange.routing.dead_letters import DeadLetterHop

__all__ = [
    "Alternate", "DelayedRoute", "Explanation", "Hop", "LaterRoute", "Obstacle", "Outcome", "Placement", "Route",
    "HopTarget",
]  # fmt: skip


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


class Obstacle(NamedTuple):
    """The reason why a message does not go on to ``destination``: a binding that does not match, or a rule."""

    exchange: str
    destination: Destination
    binding: Binding | None
    """The binding that does not match; None for an alternate exchange and for the default exchange."""
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A route with its reasons: the hops in the order in which they were made."""

    message: Message
    route: Route
    hops: tuple[Hop, ...]
    asked: str | None = None
    """Queue that the user asked about."""
    asked_exists: bool = False
    obstacles: tuple[Obstacle, ...] = ()
    """Obstacles on the nearest path to that queue; empty if it gets the message, or if no path leads to it."""
    in_force: InForceAccount | None = None
    """What is in force in that queue; None if there is no such queue."""
    dead_letters: tuple[DeadLetterHop, ...] = ()
    """What becomes of it if a queue does not keep it; `exchange.routing.dead_letters.follow_dead_letters` adds this."""

    def __str__(self) -> str:
        from exchange.routing.explain import describe

        return describe(self)
