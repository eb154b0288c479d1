"""Publish dead letters again, and take back what was published again, by the pump of the bridge.

One connection holds the dead letters, another one publishes, with confirms and as mandatory. A dead letter leaves its
queue only after the broker has confirmed the message that it was, and the ledger knows that. What the broker returns or
refuses stays where it is, and others pass; what a full queue does not take waits for `PATIENCE`. Messages of one
routing key keep their order.

=====================  ================================================================================================
a run is killed        the next one with the same ledger
=====================  ================================================================================================
before a confirm       publishes the message once more: it may be there already, at most `WINDOW` of them
after it               takes the dead letter out of its queue, if its publisher gave it a ``message_id``; else it
                       publishes the message once more, as without one two dead letters may be equal
=====================  ================================================================================================
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bridge.dead.held import Choice, HeldQueue, Unchosen
from bridge.dead.ledger import Ledger, Sent
from bridge.dead.restoring import REPLAY, To, digest, restore, stamp
from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.routes import PublishAddress, PublishRoute
from bridge.endpoints.rabbitmq.target import RabbitmqTarget
from bridge.interop.marks import USER_ID
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.entities.entities import Queue
from exchange.errors import InputError
from exchange.routing.router import Router
from exchange.selector import Selector, properties_of
from exchange.topology.topology import Topology
from exchange.values.message import Message

__all__ = ["PATIENCE", "WINDOW", "Edit", "Order", "Outcome", "User", "list_queues", "replay", "undo"]

WINDOW: Final = 500
"""Maximum number of messages that are published and not confirmed."""
PATIENCE: Final = 30.0
"""Seconds for which a full queue is waited for."""
ALL: Final = "replay"
"""Name of the queue that all messages pass in the pump: they are published as they say themselves."""

Edit = Callable[[Message], Message | None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be published again, of which queue, and where to."""

    url: str
    queue: str
    limit: int
    """Maximum number of dead letters that are looked at."""
    to: To = "queue"
    where: Selector | None = None
    edit: Edit | None = None
    """Returns the message to publish in place of one; None: it stays a dead letter."""
    rate: float | None = None
    """Maximum number of messages a second."""


@dataclass(slots=True)
class User:
    """Who has given the order."""

    tell: Callable[[str], None]
    """Called with lines about what is waited for."""
    stopper: Callable[[], object] = lambda: None
    """Stops the pump that runs now."""

    def stop(self) -> None:
        """Have nothing more published; any thread may call it, and signal handlers."""
        self.stopper()


@dataclass(slots=True)
class Outcome:
    """What has become of dead letters, or of messages that are taken back."""

    moved: int = 0
    """Number of messages that the broker has confirmed."""
    done_before: int = 0
    """Number of those that an earlier run had moved, and that only left their queue now."""
    again: int = 0
    """Number of those moved that may have been moved before, by a run that was killed."""
    left: Counter[str] = field(default_factory=Counter)
    """Reason -> number of selected messages that stay where they are."""
    missing: int = 0
    """Number of messages that are to be taken back and were not found."""
    is_stopped: bool = False
    """Whether a signal ended it before all were looked at."""


async def replay(order: Order, ledger: Ledger, user: User) -> Outcome:
    """Publish dead letters again. Raises InputError."""
    outcome, sent = Outcome(), dict[str, Sent]()

    def choose(message: Message) -> Choice | Unchosen:
        if order.where is not None and not order.where(properties_of(message, order.where.names)):
            return Unchosen.STAYS
        identifier = digest(message)
        if identifier in ledger.done and message.properties.get("message_id"):
            outcome.done_before += 1
            return Unchosen.GOES
        restored = restore(message, order.to)
        if order.edit is not None:
            restored = _edit(order.edit, restored)
        queue = "" if restored.exchange else restored.routing_key
        body = None if restored.body == message.body else message.body
        sent[identifier] = Sent(identifier, queue, get_content(message).raw, body)
        return stamp(restored, identifier), identifier

    def note_sent(digests: Iterable[str]) -> None:
        ledger.note_sent([sent[each] for each in digests])

    def note_moved(digests: Iterable[str]) -> None:
        moved = [sent[each] for each in digests]
        outcome.again += sum([each.digest in ledger.unsure or each.digest in ledger.done for each in moved])
        ledger.note_done(moved)

    source = HeldQueue(order.url, order.queue, order.limit, choose)
    await _move(source, _Publisher(order.url, note_sent, note_moved), outcome, user, order.rate)
    return outcome


def list_queues(ledger: Ledger) -> list[str]:
    """Return the queues where messages may be that can be taken back, or were."""
    return sorted({*[each.queue for each in ledger.done.values()], *ledger.undone.values()} - {""})


async def undo(order: Order, ledger: Ledger, user: User) -> Outcome:
    """Make dead letters again of what was published to queues, and that nobody has consumed. Raises InputError.

    Of `Order`, ``to``, ``where`` and ``edit`` do not count.
    """
    outcome = Outcome()

    def choose(message: Message) -> Choice | Unchosen:
        identifier = message.headers.get(REPLAY)
        if identifier in ledger.undone:
            outcome.done_before += 1
            return Unchosen.GOES
        before = ledger.done.get(identifier) if isinstance(identifier, str) else None
        if before is None:
            return Unchosen.STAYS
        body = message.body if before.body is None else before.body
        return build_lazy_message("", order.queue, ContentHeader(before.header), body), before.digest

    if of_exchanges := sum([not each.queue for each in ledger.done.values()]):
        outcome.left["published to an exchange: which queues have it is not known"] += of_exchanges
    for queue in list_queues(ledger):
        if outcome.is_stopped:
            break
        publisher = _Publisher(order.url, lambda _: None, ledger.note_undone)
        await _move(HeldQueue(order.url, queue, order.limit, choose), publisher, outcome, user, order.rate)
    outcome.missing = sum([bool(each.queue) for each in ledger.done.values()])
    return outcome


def _edit(edit: Edit, message: Message) -> Message:
    try:
        edited = edit(message)
    except Exception as error:
        raise InputError(f"--edit raised {type(error).__name__}: {error}") from error
    if not isinstance(edited, Message):
        raise InputError(f"--edit returned {'None' if edited is None else type(edited).__name__}")
    return edited


async def _move(source: HeldQueue, target: _Publisher, outcome: Outcome, user: User, rate: float | None) -> None:
    """Run the pump from a queue to where its messages say; raise InputError if it cannot go on."""
    policy = Policy(window=WINDOW, give_up_after=PATIENCE, max_dead_letters=1.0, rate=rate)
    router, loop = Router(Topology(queues=[Queue(ALL)])), asyncio.get_running_loop()
    while not source.is_settled and source.fault is None and target.fault is None and not outcome.is_stopped:
        inlet = Inlet(source, exchange="", routing_key=ALL)
        events = _Events(outcome, user.tell)
        pump = Pump([inlet], router, {ALL: target}, events, policy, _Leaving(source))
        target.stop = pump.stop
        user.stopper = partial(loop.call_soon_threadsafe, pump.stop)
        await pump.run()  # once more if the connection was lost with the last acknowledgements
        outcome.is_stopped = pump.draining
    outcome.left.update(source.left.values())
    if (fault := source.fault or target.fault) is not None:
        raise InputError(fault)


class _AsPublished(PublishRoute):
    """Publishes each message to the exchange, and with the key, that its delivery names; nothing is added."""

    def __init__(self) -> None:
        super().__init__(ALL, PublishAddress())

    def address(self, outgoing: Outgoing) -> tuple[bytes, bytes, bytes]:
        message = outgoing.delivery.message
        exchange, key = (text.encode("utf-8", "surrogateescape") for text in (message.exchange, message.routing_key))
        return exchange, key, b""

    def header(self, outgoing: Outgoing, marks: bytes, user: str) -> bytes:
        content = get_content(outgoing.message)
        other = content.property("user_id")
        if other is not None and other != user:  # the broker would refuse it
            content = content.with_property("user_id", None).with_header(USER_ID, other)
        return content.raw


class _Publisher(RabbitmqTarget):
    """Exchanges and queues of a broker. ``before`` is called with digests that are about to be published, ``after``
    with those that are confirmed; what they raise ends the run.
    """

    def __init__(
        self, url: str, before: Callable[[Iterable[str]], None], after: Callable[[Iterable[str]], None]
    ) -> None:
        super().__init__("the broker", [parse_broker(url, "hashstar dead")], {})
        self.fault: str | None = None
        """Why nothing more is published; None if nothing is wrong."""
        self.stop: Callable[[], None] = lambda: None
        self._routes = {ALL: _AsPublished()}
        self._before: Final = before
        self._after: Final = after

    def key_of(self, outgoing: Outgoing) -> Hashable:
        message = outgoing.delivery.message
        return message.exchange, message.routing_key

    async def open(self, receiver: Receiver) -> None:
        await super().open(_Noting(receiver, self))

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self.note(self._before, messages):
            super().send(messages)

    def note_confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Take note of messages that the broker has."""
        self.note(self._after, messages)

    def note(self, write: Callable[[Iterable[str]], None], messages: Sequence[Outgoing]) -> bool:
        """Write to the ledger; return False, and stop, if that fails, or has failed."""
        if self.fault is None:
            try:
                write([outgoing.delivery.identity or "" for outgoing in messages])
            except OSError as error:
                self.fault = f"the ledger cannot be written: {error.strerror}"
                self.stop()
        return self.fault is None


class _Noting(Receiver):
    """Takes note of what is confirmed before the pump does, and lets what is returned stay where it is."""

    def __init__(self, receiver: Receiver, publisher: _Publisher) -> None:
        self._receiver: Final = receiver
        self._publisher: Final = publisher

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        self._publisher.note_confirmed(messages)
        self._receiver.confirmed(messages)

    def failed(self, message: Outgoing, failure: Failure) -> None:
        waits = failure.reason.startswith("returned:") and (failure.waits or failure.busy)
        self._receiver.failed(message, Failure(failure.reason, final=True) if waits else failure)

    def lost(self, error: Disconnected) -> None:
        self._receiver.lost(error)


class _Leaving(Target):
    """In place of dead letters of dead letters: what cannot be published stays where it is."""

    name = "left"

    def __init__(self, source: HeldQueue) -> None:
        self._source: Final = source
        self._receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, messages: Sequence[Outgoing]) -> None:
        for outgoing in messages:
            self._source.leave(outgoing.delivery, str(outgoing.message.headers["hashstar-reason"]))
        if self._receiver is not None:
            asyncio.get_running_loop().call_soon(self._receiver.confirmed, messages)

    async def close(self) -> None:
        self._receiver = None


class _Events:
    """Counts what is confirmed, and tells what is waited for."""

    def __init__(self, outcome: Outcome, tell: Callable[[str], None]) -> None:
        self._outcome: Final = outcome
        self._tell: Final = tell

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        """Count messages that a broker has."""
        if target != _Leaving.name:
            self._outcome.moved += len(messages)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        """Tell why nothing moves now."""
        self._tell(f"{name}: {error}; the next try is in {wait:.1f} s")

    def _ignore(self, *_: Any, **__: Any) -> None:
        pass

    connected = ended = filtered = gave_up = read = refused = replied = requested = unroutable = _ignore
