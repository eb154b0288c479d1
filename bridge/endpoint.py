"""Sources and targets: what the pump asks of them, when, and what they tell it.

A **source** is opened, read until it says `EndOfStream` or `Disconnected`, told what is settled, and closed. It is read
again only when the pump has room. Deliveries of one *lane* (a queue's channel, a partition, a file) are settled in the
order in which they were read, always as a prefix: ``settle(d)`` says that ``d`` and all that came before it in its
lane are done with. What is not settled when a connection ends comes again, from the first of it on; so lanes of a
source that is opened anew are new lanes.

A **target** is opened with the `Receiver` that it reports to, and given messages with ``send``, in an order that it
keeps for each place it writes to (a queue, a partition). ``send`` never waits and never fails: a target that cannot
write yet keeps what it was given, and the pump's window bounds how much that is. For each message the target says
once, later, on the thread of the event loop, whether it is `confirmed` or `failed`; or, of all that it has not
answered yet, that the connection is `lost`. Then it is opened again and given these again, by the pump alone.

Endpoints connect, read, write and close. They do not reconnect, retry, route or count: that is the pump's.

What only a system can say (a queue or topic that is missing, a right, a number of partitions, a password) may change at
any time, so it is always `Disconnected`, at the start as later: the pump tries again, and the bridge is not ready
meanwhile. What the configuration alone decides is refused when it is read (`Misfit`, InputError).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol

from exchange.errors import HashstarError
from exchange.message import Message
from exchange.routing.route import Placement
from exchange.topology.topology import Topology

__all__ = [
    "Delivery",
    "Disconnected",
    "EndOfStream",
    "Endpoint",
    "Failure",
    "Finding",
    "Layout",
    "Misfit",
    "Outgoing",
    "Place",
    "Receiver",
    "Source",
    "Target",
    "describe",
    "disconnection",
    "known_time",
]


class Disconnected(HashstarError):
    """The connection is gone, or cannot be made now; opening it again may help."""


def disconnection(error: Exception) -> Disconnected:
    """Return the error as the end of a connection.

    One that nobody expected has its type and its line of code in the reason: it is a mistake of ours or of a library's,
    and the connection is made anew.
    """
    if isinstance(error, Disconnected):
        return error
    if isinstance(error, HashstarError):
        return Disconnected(str(error))
    return Disconnected(describe(error))


def describe(error: Exception) -> str:
    """Return an unexpected error in a line: its type, its text, the line of code that raised it."""
    frames = extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"unexpected {type(error).__name__}: {error}{where}"


class EndOfStream(Exception):
    """There will be no more deliveries."""


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that was read, and where it stands."""

    message: Message
    lane: Hashable = None
    """What it is settled with; see the head of this module."""
    position: Any = None
    """Its place in the lane, as the source counts: a delivery tag, an offset."""
    identity: str | None = None
    """The same whenever it is delivered, where its source can promise that."""
    time: int | None = None
    """When it was published, in microseconds since 1970, UTC, where the source knows: a signed 64-bit integer, see
    `known_time`."""
    redelivered: bool = False
    size: int = 0
    """What it takes in memory, about, in bytes."""
    origin: str = ""
    """Where it was read, for people and dead letters: ``queue orders``, ``orders-3 at 1207``."""


GREATEST_TIME: Final = 2**63 - 1
"""Of a `Delivery`, in microseconds since 1970."""


def known_time(microseconds: int) -> int | None:
    """The time of a delivery, or None where it does not fit in 64 bits.

    Publishers choose it, and some write seconds where others read nanoseconds. The message keeps what it says in its
    own property or header; only what the bridge itself knows of its time is gone.
    """
    return microseconds if -GREATEST_TIME <= microseconds <= GREATEST_TIME else None


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way to one target."""

    message: Message
    delivery: Delivery
    queue: str = ""
    """The topology's queue that got it."""
    placement: Placement | None = None
    """The partition, of a queue that is partitioned."""
    number: int = 0
    """Its place in the order in which the pump met it; one target is given equal keys in this order."""
    attempts: int = 0
    """How often the target has refused it."""
    context: Any = field(default=None, repr=False)
    """The pump's own."""


class Failure(NamedTuple):
    """Why a target does not take a message. The connection is well, other messages may pass."""

    reason: str
    """``nack``, ``returned: NO_ROUTE``, ``too large: ...``: short, so that it can be counted and be a header."""
    final: bool = False
    """Whether trying again is of no use, as something is wrong with the message itself."""
    busy: bool = False
    """Whether it is back-pressure: where the message goes to takes nothing now, whatever the message. It is no fault of
    the message's: all that goes to its queue waits, and it never becomes a dead letter for the number of its tries."""


class Receiver(Protocol):
    """What a target reports to; on the event loop's thread."""

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        """These are as safe as the target makes them."""

    def failed(self, message: Outgoing, failure: Failure) -> None:
        """This one was refused."""

    def lost(self, error: Disconnected) -> None:
        """The connection is gone, and with it what was not answered."""


class Misfit(Exception):
    """An endpoint that is right in itself, and not in its bridge: the key of its table to change, and why."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key
        self.problem = problem


class Finding(NamedTuple):
    """What `Endpoint.check` found."""

    level: Literal["ok", "warning", "error"]
    """An error keeps the endpoint from working, a warning will cost something one day."""
    text: str
    """What was found, and of what is wrong the way out: ``queue 'orders': there is none; declare it``."""
    key: str = ""
    """The key of the endpoint's table that it is about, ``queue``; "" where it is about none."""


class Place(NamedTuple):
    """A queue, exchange, topic or folder that an endpoint reads or writes, as its configuration names it."""

    system: str
    """``rabbitmq``, ``kafka``, ``rocketmq``, ``archive``."""
    cluster: str
    """What the configuration has to tell clusters apart: ``HOST:PORT/VHOST`` of the first address, or a folder."""
    name: str
    """``queue orders``, ``exchange orders``, ``topic orders``."""


class Endpoint(ABC):
    """What sources and targets have in common."""

    name: str

    @property
    def trouble(self) -> str | None:
        """Why nothing moves now although it is open: the broker is silent, or has blocked publishers; None: no reason
        is known. It is looked at every second, on the event loop.
        """
        return None

    @property
    def places(self) -> frozenset[Place]:
        """What it reads or writes, as far as its configuration says: by these loops are found."""
        return frozenset()

    def meet(self, layout: Layout) -> None:  # noqa: B027  most fit everywhere
        """Look at the bridge it is to be part of, before anything is opened. Raises Misfit."""

    async def check(self) -> Sequence[Finding]:
        """Look at what its system has for it, from outside and without a trace: no message is taken or given, no group
        is joined, nothing is declared. What is wrong is an error finding, also that the system cannot be reached.
        """
        return ()


class Source(Endpoint):
    """Where messages are read; one reader at a time."""

    shared: ClassVar[bool] = True
    """Whether another process that reads the same gets other messages, and not these once more."""
    transactional: bool = False
    """Whether what is settled is told to its system by a target, with what that writes, and not by itself."""

    @property
    def most_deliveries(self) -> int:
        """The highest number of earlier deliveries among messages that its system is about to drop for it; 0: none."""
        return 0

    @property
    def lag(self) -> int | None:
        """Number of messages waiting at the system that were not read yet; None: unknown. It is looked at every second,
        on the event loop, so it must not wait: return what was last heard.
        """
        return None

    @abstractmethod
    async def open(self) -> None:
        """Connect, and have messages come. Raises Disconnected; then it is closed.

        The pump opens a source only while all its targets are open, and nothing that it gave before is under way.
        """

    @property
    def lost(self) -> Disconnected | None:
        """Why its connection is gone, of one that is gone; also while nobody reads, as when the window is full."""
        return None

    @abstractmethod
    async def read(self, limit: int) -> Sequence[Delivery]:
        """At least one delivery and at most ``limit``, waiting for the first; may be cancelled, losing nothing.

        Raises EndOfStream, or Disconnected.
        """

    @abstractmethod
    def settle(self, delivery: Delivery) -> None:
        """This delivery and all before it in its lane are done with; sources may gather some before they tell."""

    @abstractmethod
    async def close(self) -> None:
        """Tell what is settled, leave the rest to whoever reads next, disconnect. Never raises."""


class Target(Endpoint):
    """Where messages are written."""

    transactional: bool = False
    """Whether it tells sources' systems what is settled, in one transaction with what it writes."""

    def key_of(self, outgoing: Outgoing) -> Hashable:
        """What messages that are kept in order have in common.

        It is their queue, and the key of its partitioning where it is partitioned, else the routing key.
        """
        if outgoing.placement is None:
            return outgoing.queue, outgoing.message.routing_key
        key = outgoing.placement.key
        return outgoing.queue, outgoing.placement.partition, key if isinstance(key, Hashable) else repr(key)

    @abstractmethod
    async def open(self, receiver: Receiver) -> None:
        """Connect. Raises Disconnected; then it is closed."""

    @abstractmethod
    def send(self, messages: Sequence[Outgoing]) -> None:
        """Write these, in this order; see the head of this module."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect at once; what is not confirmed may or may not have been written. Never raises."""


class Layout(NamedTuple):
    """A bridge as its endpoints see it."""

    sources: Sequence[Source]
    targets: Mapping[str, Target]
    """Queue of the topology -> the target of its messages."""
    topology: Topology
    workers: int
    """Processes that each run all of it."""
