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
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from bridge.dead.choices import Again, Back, Choices, Order, Outcome
from bridge.dead.held import HeldQueue
from bridge.dead.ledger import Ledger
from bridge.dead.letters import LetterSource
from bridge.dead.logs.choices import FromLog, describe_missing
from bridge.dead.logs.log import Log
from bridge.dead.logs.source import LogSource
from bridge.dead.logs.systems import LogCluster, find_missing, make_target
from bridge.dead.publishing import ALL, BrokerTarget, NotedTarget
from bridge.endpoint import EndOfStream, Outgoing, Receiver, Target
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange.entities.entities import Queue
from exchange.errors import InputError
from exchange.routing.router import Router
from exchange.text.display import count_noun
from exchange.topology.topology import Topology

WINDOW: Final = 500
"""Maximum number of messages that are published and not confirmed."""
READ: Final = 1_000
"""Maximum number of dead letters of one read of a rehearsal."""
PATIENCE: Final = 30.0
"""Seconds for which a full queue is waited for."""
SILENCE: Final = 5.0
"""Seconds without a confirm after which it is said what is waited for; again after twice as many."""


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


async def plan(order: Order, ledger: Ledger, log: Log | None = None) -> Outcome:
    """Go through the dead letters without publishing any, and return what would be. Raises InputError, Disconnected."""
    outcome, order = Outcome(), replace(order, is_rehearsal=True)
    source: HeldQueue | LogSource
    if log is None:
        source = HeldQueue(order.url, order.queue, order.limit, Again(order, ledger, outcome))
    else:
        source = LogSource(log, order.limit, FromLog(order, ledger, outcome))
    await source.open()
    try:
        with suppress(EndOfStream):
            while True:
                await source.read(READ)
    finally:
        await source.close()
    if source.fault is not None:
        raise InputError(source.fault)
    outcome.left.update(source.left.values())
    if isinstance(source, LogSource):
        outcome.unread = source.unread
    if topics := outcome.topics:
        for topic in await find_missing(LogCluster(order.target or order.url, order.login), topics):
            outcome.left[describe_missing(topic)] += outcome.goes.pop(("topic", topic))
    return outcome


async def replay(
    order: Order, ledger: Ledger, user: User, log: Log | None = None, topics: Collection[str] = ()
) -> Outcome:
    """Publish dead letters again: those of a queue, or of a topic, to those of these ``topics`` if to topics at all.

    Raises InputError.
    """
    outcome = Outcome()
    if log is None:
        again = Again(order, ledger, outcome)
        held = HeldQueue(order.url, order.queue, order.limit, again)
        is_settled = await _move(order, held, BrokerTarget(order.url), again, outcome, user)
    else:
        picker = FromLog(order, ledger, outcome, topics)
        source = LogSource(log, order.limit, picker)
        url = order.target or order.url
        if order.to == "topic":
            target = make_target(LogCluster(url, order.login), topics, source.goals)
        else:
            target = BrokerTarget(url)
        is_settled = await _move(order, source, target, picker, outcome, user)
        outcome.unread = source.unread
    if is_settled:
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
        back = Back(order, ledger, outcome, queue)
        await _move(order, HeldQueue(order.url, queue, order.limit, back), BrokerTarget(order.url), back, outcome, user)
    outcome.missing = sum([count for (_, queue), count in ledger.done.items() if queue])
    return outcome


async def _move(
    order: Order, source: LetterSource, publisher: Target, choices: Choices, outcome: Outcome, user: User
) -> bool:
    """Run the pump from letters to where they say; return whether all that was published is settled.

    Raises InputError if it cannot go on.
    """
    target = NotedTarget(publisher, source, choices)
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
        watching = asyncio.create_task(_show_waits(pump, target, outcome, user.show))
        try:
            await pump.run()  # once more if the connection was lost with the last acknowledgements
        finally:
            watching.cancel()
        outcome.is_stopped = pump.draining
    outcome.left.update(source.left.values())
    if source.is_missing and isinstance(choices, Back):
        user.show(f"{source.fault}: what was published to it is gone, too")
    elif (fault := source.fault or target.fault) is not None:
        raise InputError(fault)
    return source.is_settled


async def _show_waits(pump: Pump, target: Target, outcome: Outcome, show: Callable[[str], None]) -> None:
    """Print what is waited for, once nothing has moved for `SILENCE`, and for twice, four times as long; until
    cancelled.
    """
    loop, outlet = asyncio.get_running_loop(), pump.outlets[0]
    seen, since, wait = None, loop.time(), SILENCE
    while True:
        await asyncio.sleep(SILENCE / 5)
        now = outlet.connected, outcome.moved, outcome.left.total(), bool(pump.in_flight)
        if now != seen:
            seen, since, wait = now, loop.time(), SILENCE
        elif loop.time() - since >= wait and (pump.in_flight or not outlet.connected):
            what = f"not connected for {wait:.0f} s"
            if outlet.connected:
                reasons = [target.trouble, *[each.reason for each in outlet.waiting.values()], "no answer yet"]
                what = f"{count_noun(pump.in_flight, 'message')} not confirmed for {wait:.0f} s"
                what += f": {next(filter(None, reasons))}"
            show(f"{target.name}: {what}; it is waited for")
            wait *= 2


class _Leaving(Target):
    """In place of dead letters of dead letters: what cannot be published stays where it is."""

    name = "left"

    def __init__(self, source: LetterSource) -> None:
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

    abandoned = connected = ended = filtered = gave_up = left = read = refused = replied = requested = _ignore
    sending = settled = unroutable = _ignore
