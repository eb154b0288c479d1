"""Publish dead letters again, and take back what was published again, by the pump of the bridge.

One connection holds the dead letters, another one publishes, with confirms and as mandatory. A dead letter leaves its
queue only after the broker has confirmed the message that it was, and the ledger knows that. What the broker returns or
refuses stays where it is, and others pass; what a full queue does not take waits for `PATIENCE`. Messages of one
routing key keep their order.

==========================  ===========================================================================================
a run is killed             the next one with the same ledger
==========================  ===========================================================================================
before a confirm            publishes the message once more: it may be there already, at most `WINDOW` of them
between that and its        only takes the dead letter out of its queue
acknowledgement
with an acknowledgement     publishes what is still in the queue: it is another, equal dead letter, or the same one
under way
==========================  ===========================================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bridge.dead.choices import Again, Back, Choices, Order, Outcome
from bridge.dead.held import HeldQueue
from bridge.dead.ledger import Ledger
from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.routes import PublishAddress, PublishRoute
from bridge.endpoints.rabbitmq.target import RabbitmqTarget
from bridge.interop.marks import USER_ID
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange.amqp import get_content
from exchange.entities.entities import Queue
from exchange.errors import InputError
from exchange.routing.router import Router
from exchange.topology.topology import Topology

WINDOW: Final = 500
"""Maximum number of messages that are published and not confirmed."""
PATIENCE: Final = 30.0
"""Seconds for which a full queue is waited for."""
ALL: Final = "replay"
"""Name of the queue that all messages pass in the pump: they are published as they say themselves."""


@dataclass(slots=True)
class User:
    """Who has given the order."""

    show: Callable[[str], None]
    """Prints a line about what is waited for."""
    stopper: Callable[[], object] = lambda: None
    """Stops the pump that runs now."""
    has_stopped: bool = False
    """Whether nothing more is to be published, also by pumps that are still to run."""

    def stop(self) -> None:
        """Have nothing more published; any thread may call it, and signal handlers."""
        self.has_stopped = True
        self.stopper()


async def replay(order: Order, ledger: Ledger, user: User) -> Outcome:
    """Publish dead letters again. Raises InputError."""
    outcome = Outcome()
    if await _move(order, order.queue, Again(order, ledger, outcome), outcome, user):
        ledger.note_settled()
    return outcome


def list_queues(ledger: Ledger) -> list[str]:
    """Return the queues where messages may be that can be taken back, or were."""
    return sorted({queue for _, queue in ledger.done} - {""})


async def undo(order: Order, ledger: Ledger, user: User) -> Outcome:
    """Make dead letters again of what was published to queues, and that nobody has consumed. Raises InputError.

    Of `Order`, ``to``, ``where`` and ``edit`` do not count.
    """
    outcome = Outcome()
    if of_exchanges := sum([count for (_, queue), count in ledger.done.items() if not queue]):
        outcome.left["published to an exchange: which queues have it is not known"] += of_exchanges
    for queue in list_queues(ledger):
        if outcome.is_stopped:
            break
        await _move(order, queue, Back(order, ledger, outcome, queue), outcome, user)
    outcome.missing = sum([count for (_, queue), count in ledger.done.items() if queue])
    return outcome


async def _move(order: Order, queue: str, choices: Choices, outcome: Outcome, user: User) -> bool:
    """Run the pump from a queue to where its messages say; return whether the broker has taken all.

    Raises InputError if it cannot go on.
    """
    source = HeldQueue(order.url, queue, order.limit, choices)
    target = _Publisher(order.url, source, choices)
    policy = Policy(window=WINDOW, give_up_after=PATIENCE, max_dead_letters=1.0, rate=order.rate)
    router, loop = Router(Topology(queues=[Queue(ALL)])), asyncio.get_running_loop()
    while not source.is_settled and source.fault is None and target.fault is None and not outcome.is_stopped:
        inlet = Inlet(source, exchange="", routing_key=ALL)
        events = _Events(outcome, user.show)
        pump = Pump([inlet], router, {ALL: target}, events, policy, _Leaving(source))
        target.stop = pump.stop
        user.stopper = partial(loop.call_soon_threadsafe, pump.stop)
        if user.has_stopped:  # before, or while no pump ran
            pump.stop()
        await pump.run()  # once more if the connection was lost with the last acknowledgements
        outcome.is_stopped = pump.draining
    outcome.left.update(source.left.values())
    if source.is_missing and isinstance(choices, Back):
        user.show(f"{source.fault}: what was published to it is gone, too")
    elif (fault := source.fault or target.fault) is not None:
        raise InputError(fault)
    return source.is_settled


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
    """Exchanges and queues of a broker. What is about to be published is written to the ledger, and what is confirmed;
    an error there ends the run.
    """

    def __init__(self, url: str, source: HeldQueue, choices: Choices) -> None:
        super().__init__("the broker", [parse_broker(url, "hashstar dead")], {})
        self.fault: str | None = None
        """Why nothing more is published; None if nothing is wrong."""
        self.stop: Callable[[], None] = lambda: None
        self._routes = {ALL: _AsPublished()}
        self._source: Final = source
        self._choices: Final = choices

    def key_of(self, outgoing: Outgoing) -> Hashable:
        message = outgoing.delivery.message
        return message.exchange, message.routing_key

    async def open(self, receiver: Receiver) -> None:
        await super().open(_Noting(receiver, self))

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._note(self._choices.note_sent, messages):
            super().send(messages)

    def note_confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Take note of messages that the broker has."""
        self._note(self._choices.note_moved, messages)
        late = [each for each in messages if not self._source.is_current(each.delivery)]
        if late:  # they have come once more since, and are published once more
            self._note(self._choices.let_go, late)

    def _note(self, write: Callable[[Sequence[str]], None], messages: Sequence[Outgoing]) -> bool:
        """Write to the ledger; return False, and stop, if that fails, or has failed."""
        if self.fault is None:
            try:
                write([outgoing.delivery.identity or "" for outgoing in messages])
            except InputError as error:
                self.fault = str(error)
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
    """Counts what is confirmed, and prints what is waited for."""

    def __init__(self, outcome: Outcome, show: Callable[[str], None]) -> None:
        self._outcome: Final = outcome
        self._show: Final = show

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        """Count messages that a broker has."""
        if target != _Leaving.name:
            self._outcome.moved += len(messages)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        """Print why nothing moves now."""
        self._show(f"{name}: {error}; the next try is in {wait:.1f} s")

    def _ignore(self, *_: Any, **__: Any) -> None:
        pass

    connected = ended = filtered = gave_up = left = read = refused = replied = requested = unroutable = _ignore
