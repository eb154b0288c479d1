"""The pump: reads from sources, routes, writes to targets, and settles at the source what all targets have confirmed.

The pump alone decides when a delivery is settled. Delivery is at least once, always: nothing is settled before each
copy or its dead letter is confirmed, or the message is dropped because the policy says ``drop``. Messages of one key
reach a target in the order in which they were read; `bridge.pump.order` and `bridge.pump.outlet` keep this order over
refusals and lost connections. Everything runs on one thread, that of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from random import random as any_random
from time import time
from typing import Any, Final

from bridge.aside import cancel_all, run_within
from bridge.client_errors import describe_unexpected
from bridge.endpoint import Delivery, Failure, Outgoing, Target, to_disconnected
from bridge.interop.marks import may_have_hops, read_hops
from bridge.pump.events import PumpEvents
from bridge.pump.inlet import Inlet, InletReader
from bridge.pump.learning import Learning
from bridge.pump.outlet import Outlet
from bridge.pump.placing import Placing
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.replies import PassedRequest, Replies, RequestOutcome
from bridge.pump.reply_sender import ReplySender
from bridge.pump.undeliverable import Undeliverable
from bridge.pump.window import Pending
from exchange.errors import HashstarError, InputError
from exchange.partition.partitioner import Partitioner
from exchange.routing.route import Placement
from exchange.routing.router import Router
from exchange.topology.reach import find_reachable_queues
from exchange.values.message import Message

__all__ = ["NO_PARTITIONERS", "NO_REPLIES", "Inlet", "Pump"]

CLOSING: Final = 2.0
"""Maximum number of seconds, after a stop, for closing all targets, and again for all sources; what is left of
`Policy.drain`, if that is more."""

FINISHING: Final = 90.0
"""The same, where all sources have ended and nobody waits: an archive may have a large file to write."""

NO_REPLIES: Final = Replies({}, {})
NO_REQUESTS: Final[Mapping[str, PassedRequest | None]] = {}

NO_PLACEMENTS: Final[Mapping[str, Placement]] = {}
NO_PARTITIONERS: Final[Mapping[str, Partitioner]] = {}


class Pump:
    """Moves messages from inlets through a router to the targets of its queues.

    ``targets`` maps the topology's queues to targets; several queues may share one. Messages that reach only queues of
    ``ignored`` are settled without being sent. ``dead_letters`` is the target of messages that cannot be delivered;
    without it, they are held. ``replies`` are the requests and replies that pass. ``partitioners`` maps queues to
    partitioners of the owner, which the router knows by name only. ``random`` returns numbers in [0, 1), for jitter;
    ``clock`` returns seconds since 1970, for dead letters and time limits. Build and run a pump on the same event loop.
    """

    def __init__(
        self,
        inlets: Sequence[Inlet],
        router: Router,
        targets: Mapping[str, Target],
        events: PumpEvents,
        policy: Policy = Policy(),  # noqa: B008  a frozen value
        dead_letters: Target | None = None,
        ignored: frozenset[str] = frozenset(),
        random: Callable[[], float] = any_random,
        clock: Callable[[], float] = time,
        *,
        replies: Replies = NO_REPLIES,
        partitioners: Mapping[str, Partitioner] = NO_PARTITIONERS,
    ) -> None:
        self._placing = Placing(partitioners, random, lambda: asyncio.get_running_loop().time())
        self._inlets = inlets
        self._router = router
        self._learning = Learning(router)
        self._events = events
        self._policy = policy
        self._random = random
        self._clock = clock
        self._ignored = ignored
        self._replies = replies
        self._numbers = count(1)
        self._undeliverable = Undeliverable(
            dead_letters, policy, events, random, clock, self._numbers, self._wake, self._route_again
        )
        dead = self._undeliverable.outlet
        outlets: dict[Target, Outlet] = {}
        for target in targets.values():
            if target not in outlets:
                dead_letter = None if dead is None else self._undeliverable.send
                outlets[target] = Outlet(
                    target, policy, events, random, dead_letter, self._wake, is_limited=dead_letter is not None
                )
        self._outlets = {queue: outlets[target] for queue, target in targets.items()}
        self._servers = {
            queue: replies.servers[target] for queue, target in targets.items() if target in replies.servers
        }
        """Queue of the topology -> the servers that answer the requests in it."""
        self._reply_sender = ReplySender(replies, policy, events, random, self._numbers, clock, self._wake)
        last = [] if dead is None else [dead]
        self._all_outlets = [*outlets.values(), *self._reply_sender.outlets, *last]
        self._readings: dict[Inlet, InletReader] = {}
        for inlet in inlets:
            if inlet.replies_of is None:
                queues = find_reachable_queues(router.topology, inlet.exchange)
                reached = [self._outlets[queue] for queue in queues if queue in self._outlets]
            else:
                reached = [*self._reply_sender.outlets]
            reached = [*dict.fromkeys([*reached, *last])]
            self._readings[inlet] = InletReader(
                inlet, reached, policy, random, self._take, events.settled, lambda: self._paused
            )
        self._stopping = asyncio.Event()
        self._paused = False
        self.leaves = False
        """Whether it was asked to drain: its sources are closed, or will be once all that was read is settled."""
        self.is_over = False
        """Whether it has run: nothing is routed any more, and no timer keeps it and its messages in memory."""

    # State and control, for the pump's owner, while it runs.

    @property
    def outlets(self) -> Sequence[Outlet]:
        """Outlets of its targets, the one for dead letters last."""
        return self._all_outlets

    @property
    def in_flight(self) -> int:
        """Number of deliveries that were read and are not settled."""
        return sum([inlet.window.messages for inlet in self._inlets])

    @property
    def paused(self) -> bool:
        """Whether the pump is paused, and reads nothing."""
        return self._paused

    @property
    def takes(self) -> bool:
        """Whether its sources are open, or opened again if they are not: it is neither paused nor drained."""
        return not (self._paused or self.leaves)

    @property
    def draining(self) -> bool:
        """Whether the pump was stopped, or is to be drained, and waits until all that was read is settled."""
        return self._stopping.is_set() or (self.leaves and not self.drained)

    @property
    def drained(self) -> bool:
        """Whether `drain` is done: nothing is read or under way, and all sources are closed."""
        return self.leaves and all(reading.is_idle for reading in self._readings.values())

    def waiting_for(self, inlet: Inlet) -> str | None:
        """Return why an inlet's source waits for its targets before it is opened; None if it does not."""
        return self._readings[inlet].waiting_for()

    def pause(self) -> None:
        """Stop reading; messages that were read are still moved."""
        self._paused = True

    def drain(self) -> None:
        """Read nothing more, settle all that was read, and close the sources; targets stay open."""
        self.leaves = True
        for reading in self._readings.values():
            reading.leave()

    def resume(self) -> None:
        """Continue reading; where the limit of dead letters was reached, count anew, and try what waits again."""
        self._paused = self.leaves = False
        for reading in self._readings.values():
            reading.take_up()
            reading.limit.lift()
        self._wake()

    def stop(self) -> None:
        """Stop reading, and end once all is settled that can be, or after `Policy.drain` seconds."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until all sources have ended or until stopped."""
        loop, stop_by = asyncio.get_running_loop(), 0.0
        keepers = [asyncio.create_task(outlet.run()) for outlet in self._all_outlets]
        readers = [asyncio.create_task(self._read(reading)) for reading in self._readings.values()]
        stopping = asyncio.create_task(self._stopping.wait())
        ended = asyncio.gather(*readers)
        try:
            watched: list[asyncio.Future[Any]] = [ended, stopping, *keepers]
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                stop_by = loop.time() + self._policy.drain
                await cancel_all(readers)
                await self._drain()
            for task in (*readers, *keepers):
                if task.done() and not task.cancelled():
                    task.result()  # raises only if this package has a bug
        finally:
            self.is_over = True
            await cancel_all([stopping, *readers, *keepers])
            await asyncio.gather(ended, return_exceptions=True)
            # Targets first: a transactional one may still commit what was settled at its sources, which must be open.
            seconds = max(CLOSING, stop_by - loop.time()) if self._stopping.is_set() else FINISHING
            await run_within(seconds, [outlet.close() for outlet in self._all_outlets])
            await run_within(seconds, [reading.close() for reading in self._readings.values()])

    async def _read(self, reading: InletReader) -> None:
        name, events = reading.inlet.source.name, self._events
        if not self._stopping.is_set():
            await reading.run(*[partial(each, name) for each in (events.connected, events.disconnected, events.left)])
            events.ended(name)

    def _wake(self) -> None:
        for reading in self._readings.values():
            reading.wake()

    def _take(self, inlet: Inlet, deliveries: Sequence[Delivery]) -> None:
        self._events.read(inlet.source.name, deliveries)
        now = asyncio.get_running_loop().time()
        pendings = inlet.window.admit(deliveries, now)
        if inlet.replies_of is None:
            self._learning.look(inlet, deliveries)
            self._route(inlet, pendings)
        else:
            self._reply_sender.send(inlet, pendings, inlet.replies_of)

    def _route(self, inlet: Inlet, pendings: Sequence[Pending]) -> None:
        """Route deliveries and send their copies, one for each queue that a delivery reaches.

        A delivery has one copy until it is routed. All are routed, and their numbers of copies set, before anything is
        sent, since a target may confirm while it is sent to.
        """
        ready: dict[Outlet, list[Outgoing]] = {}
        enter, route_of, wanted = inlet.enter, self._router.route, inlet.filter
        max_hops, give_up = self._policy.max_hops, self._undeliverable
        bad: list[Callable[[], None]] = []
        """Calls that decide on each delivery that cannot be routed: after all others, as their share counts."""
        for pending in pendings:
            delivery = pending.delivery
            try:
                if may_have_hops(delivery.message.headers):
                    hops = read_hops(delivery.message)
                    if hops > max_hops:
                        bad.append(partial(give_up.end_loop, inlet, pending, hops, ready))
                        continue
                # Before the filter, which must not see an incomplete message.
                if delivery.refusal is not None:
                    bad.append(partial(give_up.unroutable, inlet, pending, delivery.refusal, ready))
                    continue
                if wanted is not None and (objection := wanted.objection(delivery.message)) is not None:
                    self._events.filtered(inlet.source.name, delivery, objection)
                    inlet.window.finish_copy(pending)
                    continue
                message = enter(delivery.message)
                queues, _, placed, _ = route_of(message)  # a bridge does not wait: what is delayed goes on at once
                requests = self._pass_on(inlet, delivery, message, queues) if self._servers else NO_REQUESTS
            except Exception as error:  # noqa: BLE001  an unexpected error of one message must not stop the others
                # A known error is what a broker would refuse, or a header that cannot be read.
                reason = str(error) if isinstance(error, HashstarError) else describe_unexpected(error)
                bad.append(partial(give_up.unroutable, inlet, pending, reason, ready))
                continue
            if not queues:
                bad.append(partial(give_up.unroutable, inlet, pending, "no queue of the topology gets it", ready))
                continue
            placements, dead_letters = NO_PLACEMENTS, 0
            if placed:
                placements = {placement.queue: placement for placement in placed}
                if open_placements := [each for each in placed if self._placing.is_open(message, each)]:
                    done = self._place(inlet, pending, message, queues, placements, open_placements, ready)
                    if done is None:
                        continue
                    queues, placements, dead_letters = done
            if requests:
                self._send_requests(pending, message, queues, placements, requests, ready, dead_letters)
            else:
                self._add_copies(pending, message, queues, placements, ready, dead_letters)
        if (limit := inlet.window.limit) is not None:
            limit.note_written("", len(pendings) - len(bad))
        for decide in bad:
            decide()
        for outlet, messages in ready.items():
            outlet.send(messages)
        inlet.window.settle()

    def _pass_on(
        self, inlet: Inlet, delivery: Delivery, message: Message, queues: Collection[str]
    ) -> Mapping[str, PassedRequest | None]:
        """Return the request for each queue whose servers shall reply, None if its caller waits no longer.

        Raises as `Replies.pass_on`.
        """
        name, requests = inlet.source.name, {}
        for queue in queues:
            if (servers := self._servers.get(queue)) is not None:
                outcome: RequestOutcome = "passed on"
                try:
                    asked = self._replies.pass_on(name, delivery, message, servers, self._clock())
                except TimeoutError:
                    asked, outcome = None, "expired"
                else:
                    if asked is None:  # the message is no request
                        continue
                requests[queue] = asked
                self._events.requested(name, outcome)
        return requests

    def _send_requests(
        self,
        pending: Pending,
        message: Message,
        queues: Collection[str],
        placements: Mapping[str, Placement],
        requests: Mapping[str, PassedRequest | None],
        ready: dict[Outlet, list[Outgoing]],
        dead_letters: int,
    ) -> None:
        """Add the copies of a request to ``ready``, and the dead letters of those that expired, if there are any.

        ``dead_letters`` is the number of those of it that are in ``ready`` already.
        """
        copies, dead_outlet = [], self._undeliverable.outlet
        for queue in queues:
            outlet = self._outlets.get(queue)  # an ignored queue has none
            asked = requests.get(queue, (message, None))
            if outlet is not None and asked is not None:
                outgoing = Outgoing(asked[0], pending.delivery, queue, placements.get(queue), next(self._numbers))
                outgoing.context, outgoing.request = pending, asked[1]
                copies.append((outlet, outgoing))
            elif outlet is not None and self._servers[queue].expired is Unroutable.DEAD_LETTER and dead_outlet:
                reason = "expired: its caller waits no longer"
                copies.append((dead_outlet, self._undeliverable.build(pending, reason, outlet.target.name, queue)))
        pending.copies = max(1, dead_letters + len(copies))
        for outlet, outgoing in copies:
            ready.setdefault(outlet, []).append(outgoing)
        if not copies and not dead_letters:
            pending.window.finish_copy(pending)

    def _add_copies(
        self,
        pending: Pending,
        message: Message,
        queues: Iterable[str],
        placements: Mapping[str, Placement],
        ready: dict[Outlet, list[Outgoing]],
        dead_letters: int,
    ) -> None:
        """Add a copy of the message for each queue to ``ready``, where ``dead_letters`` of it are already."""
        ignored, outlets, numbers = self._ignored, self._outlets, self._numbers
        delivery, copies = pending.delivery, dead_letters
        for queue in queues:
            if queue not in ignored:
                copies += 1
                outgoing = Outgoing(message, delivery, queue, placements.get(queue), next(numbers), 0, pending)
                outlet = outlets[queue]
                if outlet in ready:
                    ready[outlet].append(outgoing)
                else:
                    ready[outlet] = [outgoing]
        if copies:
            pending.copies = copies
        else:
            pending.window.finish_copy(pending)

    def _place(
        self,
        inlet: Inlet,
        pending: Pending,
        message: Message,
        queues: Iterable[str],
        placements: Mapping[str, Placement],
        open_placements: Iterable[Placement],
        ready: dict[Outlet, list[Outgoing]],
    ) -> tuple[tuple[str, ...], Mapping[str, Placement], int] | None:
        """Choose what keys do not decide; return the queues, their placements, and the number of dead letters.

        Where a partitioner of the owner fails, a dead letter takes the place of that copy, and is in ``ready``. Without
        dead letters, the delivery is held, and the result is None.
        """
        chosen, refused = dict(placements), dict[str, str]()
        for placement in open_placements:
            queue = placement.queue
            if queue not in self._ignored:
                try:
                    chosen[queue] = self._placing.place(message, placement, self._outlets[queue].target)
                except InputError as error:
                    refused[queue] = f"unmappable: {error}"
        dead_outlet = self._undeliverable.outlet
        if refused and dead_outlet is None:
            self._undeliverable.hold(inlet, pending, next(iter(refused.values())))
            return None
        if not all(self._undeliverable.permits(inlet, pending, queue, why) for queue, why in refused.items()):
            return None
        for queue, reason in refused.items():
            assert dead_outlet is not None  # noqa: S101  else the delivery is held
            target = self._outlets[queue].target.name
            outgoing = Outgoing(message, pending.delivery, queue, placements[queue], next(self._numbers), 0, pending)
            self._events.gave_up(target, outgoing, Failure(reason, final=True), Unroutable.DEAD_LETTER.value)
            ready.setdefault(dead_outlet, []).append(self._undeliverable.build(pending, reason, target, queue))
        return tuple([queue for queue in queues if queue not in refused]), chosen, len(refused)

    def _route_again(self, inlet: Inlet, pending: Pending) -> None:
        if not (pending.dropped or self.is_over):
            self._route(inlet, [pending])

    async def _drain(self) -> None:
        """Send each source the pending settlements, unless its connection is lost; within `Policy.drain` seconds."""

        async def drain(reading: InletReader) -> None:
            try:
                await reading.drain()
            except Exception as error:  # noqa: BLE001  whatever it is, the others are drained, and it is logged
                self._events.disconnected(reading.inlet.source.name, to_disconnected(error), 0.0)

        await run_within(self._policy.drain, [drain(reading) for reading in self._readings.values()])
