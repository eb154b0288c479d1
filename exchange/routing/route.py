"""What the router answers: a route, and the trail that led to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.message import Message

if TYPE_CHECKING:
    from exchange.partition.partitioning.specification import Partitioning

__all__ = ["Alternate", "Explanation", "Hop", "Obstacle", "Outcome", "Placement", "Route", "Step"]


class Placement(NamedTuple):
    """Where in a partitioned queue a message goes."""

    queue: str
    partition: int | None
    """The partition's id; None when the key does not decide it: ``rule`` tells what does."""
    name: str | None
    """What its system calls the partition."""
    key: Any
    hash: int | None
    rule: str
    """As in `exchange.partition.Choice`."""
    partitioning: Partitioning


class Route(NamedTuple):
    """Where a message goes: each queue gets one copy, however many bindings lead there."""

    queues: tuple[str, ...]
    """Sorted by name."""
    undecided: tuple[str, ...] = ()
    """Exchanges on the way whose type is unknown, or whose alternate exchange would be taken and is that of a policy
    which may not be in force: its pattern is not understood, or others have its priority. From them on there may be
    more queues."""
    placements: tuple[Placement, ...] = ()
    """One for each of the queues that is partitioned, in their order."""

    @property
    def unroutable(self) -> bool | None:
        """True when no queue gets it: RabbitMQ drops it, or returns it with 312 NO_ROUTE if it is mandatory.

        None when that depends on an undecided exchange.
        """
        if self.queues:
            return False
        return None if self.undecided else True


Outcome = Literal["queued", "queued already", "followed", "seen already", "missing"]


class Step(NamedTuple):
    """A destination of a hop and what came of it.

    ``queued``: it gets the message; ``queued already``: it had it from another hop; ``followed``: an exchange routed
    next; ``seen already``: an exchange that has routed or will, so a cycle or a second path ends here; ``missing``: it
    does not exist.
    """

    destination: Destination
    outcome: Outcome


class Alternate(NamedTuple):
    """The alternate exchange of a hop: taken exactly when the exchange's own bindings match nothing."""

    name: str
    taken: bool
    from_policy: str | None
    """The policy that names it, None when the exchange's argument does."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One exchange on the way."""

    exchange: Exchange
    came_from: str | None
    """The exchange whose binding or alternate led here; None where the message was published."""
    matched: tuple[Binding, ...]
    """The bindings the message takes."""
    steps: tuple[Step, ...]
    alternate: Alternate | None
    undecided: bool = False
    chosen_by: str | None = None
    """The hash and the number that chose among the bindings, in words; None where no hash decides."""
    unsure: str | None = None
    """Why it is not known whether some bindings match, in words; None where that is known."""


class Obstacle(NamedTuple):
    """What keeps a message from going on to ``destination``: a binding it does not match, or a rule."""

    exchange: str
    destination: Destination
    binding: Binding | None
    """None for an alternate exchange, and for the default exchange, which has none."""
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A route with its reasons, hop by hop in the order they were made."""

    message: Message
    route: Route
    hops: tuple[Hop, ...]
    asked: str | None = None
    """The queue the user asked about."""
    asked_exists: bool = False
    obstacles: tuple[Obstacle, ...] = ()
    """Why it does not get the message: the nearest way there and what is in it; empty when it does, or none leads."""

    def __str__(self) -> str:
        from exchange.routing.explain import describe

        return describe(self)
