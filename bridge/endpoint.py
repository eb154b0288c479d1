"""The contract of sources and targets: what the pump asks of them, when, and what they report to it.

A **source** is opened, read until it raises `EndOfStream` or `Disconnected`, notified of what is settled, and closed.
It is read again only when the pump has room. Deliveries of one *lane* (a queue's channel, a partition, a file) are
settled in the order in which they were read, always as a prefix: ``settle(d)`` means that ``d`` and all deliveries
before it in its lane are finished. When a connection ends, all deliveries from the first unsettled one on come again;
so each time a source is opened, its lanes are new lanes.

A **target** is opened with the `Receiver` that it reports to, and given messages with ``send``. It keeps their order
within each queue or partition that it writes to. ``send`` never waits and never fails: a target that cannot write yet
keeps the messages, and the pump's window bounds how many these are. For each message the target reports once, later, on
the thread of the event loop, that it is `confirmed` or has `failed`; or it reports, for all messages that it has not
answered yet, that the connection is `lost`. The pump alone then opens it again and sends these messages again.

Endpoints connect, read, write and close. They do not reconnect, retry, route or count: the pump does.

What only a system knows (a queue or topic that is missing, a permission, the number of partitions, a password) may
change at any time. So it is always `Disconnected`, at the start as well as later: the pump tries again, and the bridge
is not ready meanwhile. What the configuration alone decides is refused when it is read (`Misfit`, InputError).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol

from bridge.client_errors import describe_unexpected, explain
from exchange.errors import HashstarError
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.text.display import read_first_line
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.message import Message


class Disconnected(HashstarError):
    """The connection is gone, or cannot be made now; opening it again may help.

    Its text is the reason, and what that means if it is a client's: see `bridge.client_errors`. It has no caret, as it
    stands in a line of the log and of ``/status``.
    """

    def __init__(self, reason: str, key: str = "") -> None:
        super().__init__(explain(read_first_line(reason)))
        self.key: Final = key
        """The key of the endpoint's table that it is about, which the text begins with; "" if it is about none."""


def to_disconnected(error: Exception) -> Disconnected:
    """Return an error as the reason why a connection ended; an unexpected one has its line of code."""
    if isinstance(error, Disconnected):
        return error
    if isinstance(error, HashstarError):
        return Disconnected(str(error))
    return Disconnected(describe_unexpected(error))


class EndOfStream(Exception):
    """The source has no more deliveries, now or later."""


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that was read, and its position in its source."""

    message: Message
    lane: Hashable = None
    """The lane that it is settled in; see the head of this module."""
    position: Any = None
    """Its position in the lane, as the source counts: a delivery tag, an offset."""
    identity: str | None = None
    """A text that is equal each time the message is delivered; None if its source cannot promise one. Targets write it
    in place of one that the message brings along: see `bridge.interop.identity`."""
    time: int | None = None
    """When it was published, in microseconds since 1970, UTC, a signed 64-bit integer (see `validate_time`); None if
    the source does not know."""
    redelivered: bool = False
    size: int = 0
    """Approximate size in memory, in bytes."""
    origin: str = ""
    """Where it was read, for logs and dead letters: ``queue orders``, ``orders-3 at 1207``."""
    refusal: str | None = None
    """Reason why the message must not be routed: it is incomplete, as AMQP cannot hold all of it. None if it may be."""


GREATEST_TIME: Final = 2**63 - 1
"""Maximum time of a `Delivery`, in microseconds since 1970."""


def validate_time(microseconds: int) -> int | None:
    """Return the time of a delivery, or None if it does not fit in 64 bits.

    Publishers choose it, and some write nanoseconds where others read seconds. The property or header of the message
    stays as it is; only `Delivery.time` is unknown.
    """
    return microseconds if -GREATEST_TIME <= microseconds <= GREATEST_TIME else None


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way to one target."""

    message: Message
    delivery: Delivery
    queue: str = ""
    """The queue of the topology that it was routed to."""
    placement: Placement | None = None
    """The partition that it gets, if the queue is partitioned."""
    number: int = 0
    """Its number in the order in which the pump routed the messages; those of one key are sent in this order."""
    attempts: int = 0
    """Number of times that the target has refused it."""
    context: Any = field(default=None, repr=False)
    """Reserved for the pump: the `Pending` delivery."""
    request: Any = None
    """Of a request: the `bridge.interop.requests.ReplyRequest` by which it asks for its reply. Of a reply: the
    `bridge.pump.replies.AddressedReply` that it goes to. None for all other messages."""
    waiting: tuple[Failure, float] | None = None
    """Reserved for the pump: the failure after which it waits (`Failure.waits`), and the time of the first such one."""
    turn: int | None = None
    """Reserved for the target: the partition that it chose for a message that neither topology nor key place, so that
    another try goes there, too."""
    waits: int = 0
    """Reserved for the pump: number of the attempts after which it waited (`Failure.waits`)."""


class Failure(NamedTuple):
    """Why a target does not take a message. The connection still works, and other messages may pass."""

    reason: str
    """``nack``, ``returned: NO_ROUTE``, ``too large: ...``: short, as it becomes a label of metrics and a header."""
    final: bool = False
    """Whether trying again is useless, because something is wrong with the message itself."""
    busy: bool = False
    """Whether it is back-pressure: the queue takes no message now, whichever it is. All messages of the queue wait, and
    none of them becomes a dead letter because of the number of its tries."""
    waits: bool = False
    """Whether what it needs may still come, such as a binding for its key. The messages of its key wait, others pass,
    and none becomes a dead letter because of the number of its tries."""
    moot: bool = False
    """Whether another reader of its source has the message now: that one writes it, and nothing is to be done here."""


class Receiver(Protocol):
    """Receives the reports of a target, on the event loop's thread."""

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Take note that these messages are stored as safely as the target can."""

    def failed(self, message: Outgoing, failure: Failure) -> None:
        """Take note that this message was refused."""

    def lost(self, error: Disconnected) -> None:
        """Take note that the connection is gone; messages without an answer may or may not have been written."""


class Misfit(Exception):
    """An endpoint that is valid by itself but not in its bridge: the key of its table to change, and why."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key
        self.problem = problem


Level = Literal["ok", "not checked", "warning", "error"]
"""What `Finding.level` can be. What the system does not show is ``not checked``, never ``ok``."""


class Finding(NamedTuple):
    """One result of `Endpoint.check`."""

    level: Level
    """`ok`: looked at, and right; `not checked`: not looked at; `warning`: will become a problem; `error`: keeps the
    endpoint from working."""
    text: str
    """The result and, if something is wrong, the way out: ``queue 'orders': there is none; declare it``."""
    key: str = ""
    """The key of the endpoint's table that it is about, ``queue``; "" if it is about none."""

    @classmethod
    def from_error(cls, error: HashstarError, key: str) -> Finding:
        """Return the finding of an error, in one line: about the key that it names, else about ``key``."""
        named = getattr(error, "key", "")
        return cls("error", read_first_line(str(error)).removeprefix(f"{named}: "), named or key)


class Removal(NamedTuple):
    """A setting by which a system removes messages that wait for a source, whether they were read or not."""

    what: str
    """What it removes and when, with its name: ``it drops messages that are not read within 60 s (message-ttl)``."""
    seconds: float | None = None
    """Longest outage that all messages survive, in seconds; None if their amount decides."""
    messages: int | None = None
    """Number of messages that may wait; None if something else decides."""
    without_reader: bool = False
    """Whether this is only so while no reader is connected."""


@document("PlaceJson")
class Place(NamedTuple):
    """A queue, exchange, topic or folder that an endpoint reads or writes, as its configuration names it."""

    system: str
    """``rabbitmq``, ``kafka``, ``rocketmq``, ``archive``."""
    cluster: str
    """What distinguishes clusters in the configuration: ``HOST:PORT/VHOST`` of the first address, or a folder. A host
    is written as `bindings.sources.address.name_cluster` does."""
    name: str
    """``queue orders``, ``exchange orders``, ``topic orders``."""


class Endpoint(ABC):
    """Base of sources and targets."""

    name: str
    tokens: Any = None
    """The `bridge.tokens.Tokens` that it logs in with; None if it has a password, or no login."""

    @property
    def trouble(self) -> str | None:
        """Reason why nothing moves although it is open: the broker is silent, or has blocked publishers. None if no
        reason is known. It is read every second, on the event loop.
        """
        return None

    @property
    def places(self) -> frozenset[Place]:
        """Places that it reads or writes, as far as its configuration names them; loops are found by them."""
        return frozenset()

    def meet(self, layout: BridgeLayout) -> None:  # noqa: B027  most endpoints fit everywhere
        """Check that it fits into its bridge, before anything is opened. Raises Misfit."""

    async def check(self) -> Sequence[Finding]:
        """Check what it needs of its system, without a trace: no message is read or written, no group is joined,
        nothing is declared. Whatever is wrong is an error finding, even a system that cannot be reached, and what
        cannot be looked at is ``not checked``.
        """
        return ()


class Source(Endpoint):
    """A source of messages, which one reader at a time reads.

    >>> class Numbers(MemorySource):  # to read from another system, inherit Source and write its four methods
    ...     def __init__(self, count):
    ...         super().__init__([Message("", "numbers", body=b"%d" % number) for number in range(count)])
    ...         self.end()
    >>> Numbers(3).lag
    3
    """

    shared: ClassVar[bool] = True
    """Whether several processes that read it share its messages, rather than each get all of them."""
    transactional: bool = False
    """Whether a target reports to its system what is settled, in one transaction with what it writes."""
    condition: Callable[[Message], bool] | None = None
    """Whether a message that its system sends was asked for, as a filter may let others pass; None: all were."""
    takes_back: bool = False
    """Whether its system, once the source is closed, takes a moment to requeue what it had sent and is not settled."""

    @property
    def settled_in(self) -> str | None:
        """What identifies, beside the place that it reads, where its progress is kept: another source for which both
        are equal goes on where this one was settled. None: its progress is kept in memory alone, as that of a stream
        without a file of offsets.
        """
        return ""

    @property
    def most_deliveries(self) -> int:
        """Highest number of earlier deliveries of a message that is near its delivery limit; 0 if none is."""
        return 0

    @property
    def lag(self) -> int | None:
        """Number of messages that wait at the system and were not read yet; None if unknown.

        It counts all that a reader will get, or would get if it had room and nothing were withheld: not what the system
        has removed (`vanished`), nor what is not due yet, as a delayed message. What was read counts no more, settled
        or not. It is read every second, on the event loop, so it must not wait: return the last known value.
        """
        return None

    @property
    def withheld(self) -> int:
        """Number of messages in `lag` that the system gives to nobody, or to another reader: those behind an open
        transaction, those of a queue whose single active consumer is another program.
        """
        return 0

    @property
    def vanished(self) -> int:
        """Number of messages that the system removed unread since the process was started; a source logs an error."""
        return 0

    async def find_removals(self) -> Sequence[Removal] | None:
        """Return what removes messages that it does not read in time; None if its system does not show it now.

        It asks the system each time, open or not. Raises HashstarError where it cannot ask.
        """
        return ()

    @abstractmethod
    async def open(self) -> None:
        """Connect, and start to receive messages. Raises Disconnected; then it is closed.

        The pump opens a source only while all its targets are open and no earlier delivery of it is under way.
        """

    @property
    def lost(self) -> Disconnected | None:
        """Reason why its connection is gone, known even while nothing reads it; None if it is not gone."""
        return None

    @abstractmethod
    async def read(self, limit: int) -> Sequence[Delivery]:
        """Wait for the first delivery, and return it with others that are there, at most ``limit`` in all.

        It can be cancelled without loss. Raises EndOfStream or Disconnected.
        """

    async def stop_taking(self) -> bool:
        """Have the system send no more messages. Return whether `read` then gives the rest, and raises EndOfStream.

        The rest, what was sent and is not read yet, would go back to the system when the source is closed
        (`takes_back`): the system may count that as a delivery, and give the next reader later messages first. Raises
        BrokerError, Disconnected.
        """
        return False

    @abstractmethod
    def settle(self, delivery: Delivery) -> None:
        """Settle this delivery and all before it in its lane; a source may gather some before it acknowledges them."""

    @abstractmethod
    async def close(self) -> None:
        """Acknowledge what is settled, leave the rest to the next reader, disconnect. Never raises."""


class Target(Endpoint):
    """A target that messages are written to.

    >>> class Printer(Target):
    ...     name = "printer"
    ...     async def open(self, receiver):
    ...         self.receiver = receiver
    ...     def send(self, messages):
    ...         print([outgoing.message.body for outgoing in messages])
    ...         asyncio.get_running_loop().call_soon(self.receiver.confirmed, messages)
    ...     async def close(self):
    ...         pass
    >>> source = MemorySource([Message("", "billing", body=b"{}")])
    >>> source.end()
    >>> topology = Topology(queues=[Queue("billing")])
    >>> config = Config("example", topology, (Inlet(source),), {"billing": Printer()}, log_level="warning")
    >>> asyncio.run(run(config))
    [b'{}']
    True
    """

    transactional: bool = False
    """Whether it reports to the systems of sources what is settled, in one transaction with what it writes."""
    sole_writer: str | None = None
    """Name under which its system takes one writer, the latest; None: it takes any number."""
    body_keys: Collection[str] = ()
    """Queues of the topology for whose messages its own table takes a key out of the body; "" stands for no queue."""

    def key_of(self, outgoing: Outgoing) -> Hashable:
        """Return the key of a message: messages with equal keys are kept in order.

        It is the queue with the key of its partitioning if it is partitioned, else with the routing key.
        """
        if outgoing.placement is None:
            return outgoing.queue, outgoing.message.routing_key
        key = outgoing.placement.key
        return outgoing.queue, outgoing.placement.partition, key if isinstance(key, Hashable) else repr(key)

    def name_destination(self, outgoing: Outgoing) -> tuple[str, ...]:
        """Return where a message goes, for its span: a topic; of RabbitMQ the exchange and the routing key."""
        return (outgoing.queue or self.name,)

    def expect_replies(self) -> None:
        """Prepare, before it is opened, to write requests whose servers reply to it."""

    def view_for(self, message: Message, placement: Placement) -> tuple[str, Any, Partitions]:
        """Return what a partitioner is given beside the message: topic, key, and partitions.

        The partitions are those that the system has now, or, as long as these are unknown, those of the topology. A
        target that does not override this has no topics: the topic is the queue of the topology.
        """
        return placement.queue, placement.key, placement.partitioning.partitions

    @abstractmethod
    async def open(self, receiver: Receiver) -> None:
        """Connect. Raises Disconnected; then it is closed."""

    @abstractmethod
    def send(self, messages: Sequence[Outgoing]) -> None:
        """Write these messages, in this order; see the head of this module."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect at once; messages without an answer may or may not have been written. Never raises."""


class BridgeLayout(NamedTuple):
    """The bridge that an endpoint is part of."""

    sources: Sequence[Source]
    targets: Mapping[str, Target]
    """Queue of the topology -> the target of its messages."""
    topology: Topology
    workers: int
    """Number of processes that each run the whole bridge."""
