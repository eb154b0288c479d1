"""One partition of a member: its deliveries are handled in order, until it is handed over or lost.

The broker gives the deliveries of a partition's queue to a single active consumer: that member owns it. To hand it
over, a member finishes what it handles, and acknowledges it. Then it closes the channel: the broker puts the rest back
in order, and gives it to the next one. It does not cancel its consumer before, since a cancelled one is replaced at
once, whatever it still has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Protocol

from bridge.consumers.groups.barrier import GATE, MARKER, PartitionGate, Resize, read_news, read_resize, write_news
from bridge.consumers.groups.connection import (
    GroupConnectionLost,
    Lease,
    close_channel,
    is_missing,
    list_loss_errors,
    read_message,
    translate_losses,
)
from bridge.consumers.groups.membership import Progress
from bridge.consumers.groups.names import split_key
from exchange.dispatch.answers import Answers
from exchange.dispatch.turns import ConcurrentTurns
from exchange.errors import InputError
from exchange.values.message import Message

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

log = logging.getLogger(__name__)

RUN: Final = 32
"""Number of messages after which the worker yields to the event loop, if the handler never awaits anything."""
RESTING: Final = 0.05
"""Seconds between the last acknowledgement and the hand-over: a quorum queue that loses a consumer sooner can apply the
loss before acknowledgements that it has received, and deliver their messages again."""


class ApplicationFailed(Exception):
    """A handler, or a function for assigned, revoked or lost partitions, has raised; the cause is what it raised."""


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """The settings of a partition; see `bridge.consumers.groups.group.ConsumerGroup`."""

    queue: str
    """Name of the partitioned queue."""
    handler: Callable[[Message], object]
    dead_letters: bool
    """Whether a message whose handler raises is rejected; else it ends the member."""
    prefetch: int
    concurrency: int
    drain_seconds: float


class PartitionHost(Protocol):
    """What a partition needs from its member."""

    settings: PartitionSettings
    lease: Lease
    carrying: Any
    """The connection for deliveries."""
    call: Callable[[str, int], Awaitable[None]]
    """Calls the application's function for "assigned", "revoked" or "lost" with a partition."""

    async def publish(self, exchange: str, body: bytes) -> bool:
        """Publish durably and wait for the confirm; return False if there is no such exchange."""


class OwnedPartition:
    """A partition from its assignment to its hand-over or loss; `run` is its life."""

    def __init__(self, number: int, host: PartitionHost) -> None:
        self.number: Final = number
        self._host: Final = host
        self._settings: Final = host.settings
        self._turns: Final[ConcurrentTurns[DeliveredMessage]] = ConcurrentTurns(host.settings.concurrency)
        self._answers: Final = Answers()
        self._unsettled: Final[dict[int, None]] = {}  # tags of all that is not answered, in order
        self._markers: Final[deque[tuple[int, Resize]]] = deque()
        self._gates: Final[dict[str, tuple[int, PartitionGate[DeliveredMessage]]]] = {}
        self._aside: Final[set[asyncio.Task[None]]] = set()  # tasks for gates and markers
        self._wake: Final = asyncio.Event()
        self._active: Final = asyncio.Event()
        self._answered: Final = asyncio.Event()
        self._released: Final = asyncio.Event()
        self._cut_short = False  # whether handlers were cancelled, as the time to end was over
        self._channel: Any = None
        self._handled = 0

    @property
    def progress(self) -> Progress:
        """What is announced about the partition."""
        return Progress(self._handled, len(self._unsettled))

    def activate(self) -> None:
        """Note that no other member holds the partition; the first delivery proves it, too."""
        self._active.set()

    def release(self) -> None:
        """Hand the partition over as soon as what is handled now has ended."""
        self._released.set()

    async def run(self) -> None:
        """Consume until the partition is released, and hand it over.

        Raises GroupConnectionLost when the channel is lost, and ApplicationFailed. However it ends, no handler runs any
        more, and the channel is closed.
        """
        host, settings = self._host, self._settings
        tasks: list[asyncio.Task[Any]] = []
        assigned = False
        try:
            with translate_losses(f"partition {self.number}"):
                self._channel = channel = await host.carrying.channel(publisher_confirms=False)
                await channel.basic_qos(prefetch_count=settings.prefetch)
                await channel.basic_consume(f"{settings.queue}-{self.number}", self._receive)
                released = asyncio.create_task(self._released.wait())
                active = asyncio.create_task(self._active.wait())
                closed = asyncio.create_task(_wait_closed(channel))
                tasks += [released, active, closed]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if active.done() and not released.done():
                    assigned = True
                    await host.call("assigned", self.number)
                    workers = [asyncio.create_task(self._work()) for _ in range(settings.concurrency)]
                    flusher = asyncio.create_task(self._flush())
                    tasks += [*workers, flusher]
                    await asyncio.wait([released, closed, flusher, *workers], return_when=asyncio.FIRST_COMPLETED)
                    for task in (flusher, *workers):
                        if task.done() and not self._released.is_set():
                            task.result()
                    if released.done() and not closed.done():
                        await self._drain(workers)
                        assigned = False
                        await host.call("revoked", self.number)
                if closed.done() and not released.done():
                    raise GroupConnectionLost(f"partition {self.number}: the channel is closed: {closed.result()}")
        finally:
            self._released.set()
            for task in (*tasks, *self._aside):
                task.cancel()
            await asyncio.gather(*tasks, *self._aside, return_exceptions=True)
            if self._channel is not None:
                await close_channel(self._channel)
            if assigned:
                await host.call("lost", self.number)

    async def _drain(self, workers: list[asyncio.Task[None]]) -> None:
        """Wait for running handlers, and until the broker has their acknowledgements."""
        self._wake.set()
        _, slow = await asyncio.wait(workers, timeout=self._settings.drain_seconds)
        if slow:
            log.warning(
                "partition %d: %d handlers are cancelled: they took more than %g s to end",
                self.number, len(slow), self._settings.drain_seconds,
            )  # fmt: skip
            self._cut_short = True
            for worker in slow:
                worker.cancel()
            await asyncio.wait(slow)
        for worker in workers:
            if not worker.cancelled():
                worker.result()
        await self._sync()
        await asyncio.sleep(RESTING)

    async def _receive(self, delivered: DeliveredMessage) -> None:
        tag = delivered.delivery_tag or 0
        self._answers.receive(tag)
        self._unsettled[tag] = None
        self._active.set()
        kind = delivered.header.properties.message_type
        if kind is not None and kind in (GATE, MARKER) and not delivered.exchange:
            self._receive_control(tag, kind, delivered.body)
            return
        slot = split_key(delivered.routing_key or "")[0] if self._gates or self._settings.concurrency > 1 else None
        for _, gate in self._gates.values():
            if gate.hold(delivered, slot):
                return
        self._add(delivered, slot)

    def _add(self, delivered: DeliveredMessage, slot: int | None) -> None:
        key: Hashable = 0
        if self._settings.concurrency > 1:
            key = delivered.routing_key if slot is None else slot
        self._turns.add(delivered, key)
        self._wake.set()

    def _receive_control(self, tag: int, kind: str, body: bytes) -> None:
        try:
            resize = read_resize(body)
        except InputError as error:
            log.warning("partition %d: a message with type %r is dropped: %s", self.number, kind, error)
            self._settle(tag)
            return
        if kind == MARKER:
            self._markers.append((tag, resize))
            self._check_markers()
        elif resize.id in self._gates or self.number not in resize.targets:
            self._settle(tag)  # a repeated gate or marker: the change was run again
        else:
            self._gates[resize.id] = tag, PartitionGate(resize, self.number)
            self._start_aside(self._guard(resize))

    async def _work(self) -> None:
        """Handle messages until the partition is released."""
        turns, released, lease = self._turns, self._released, self._host.lease
        run = 0
        while not released.is_set():
            started = turns.start()
            if started is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            delivered, turn = started
            if not lease.is_valid():
                await lease.wait()
                if released.is_set():
                    break
            await self._handle(delivered)
            turns.leave(turn)
            run += 1
            if run % RUN == 0:
                await asyncio.sleep(0)

    async def _handle(self, delivered: DeliveredMessage) -> None:
        settings = self._settings
        tag = delivered.delivery_tag or 0
        _, key = split_key(delivered.routing_key or "")
        try:
            await self._call_handler(read_message(delivered, key))
        except Exception as error:
            done = "rejected" if settings.dead_letters else "not acknowledged"
            log.exception("partition %d, key %r: the handler failed: %s", self.number, key, done)
            if not settings.dead_letters:
                raise ApplicationFailed from error
            self._settle(tag, rejected=True)
        else:
            self._handled += 1
            self._settle(tag)

    async def _call_handler(self, message: Message) -> None:
        """Call the handler. One that catches its cancellation and returns has been cancelled all the same."""
        try:
            result = self._settings.handler(message)
            if isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._cut_short or task is None or task.cancelling():
                raise
            raise RuntimeError("a handler was cancelled from within") from error
        if self._cut_short:
            raise asyncio.CancelledError

    def _settle(self, tag: int, *, rejected: bool = False) -> None:
        self._answers.add(tag, "reject" if rejected else "ack")
        del self._unsettled[tag]
        self._answered.set()
        if self._markers:
            self._check_markers()

    async def _flush(self) -> None:
        """Send answers, those of one turn of the event loop together."""
        while True:
            await self._answered.wait()
            self._answered.clear()
            await self._send_answers()

    async def _send_answers(self) -> None:
        for tag, answer, multiple in self._answers.take():
            if answer == "ack":
                await self._channel.basic_ack(tag, multiple=multiple, wait=False)
            else:
                await self._channel.basic_nack(tag, requeue=False, wait=False)

    async def _sync(self) -> None:
        """Send all answers, and wait until the broker's channel has them: it answers requests in order."""
        await self._send_answers()
        await self._channel.basic_qos(prefetch_count=self._settings.prefetch)

    def _start_aside(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._end_aside)

    def _end_aside(self, task: asyncio.Task[None]) -> None:
        self._aside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The channel ends with it, and so does this ownership: the next owner finds gate or marker again.
            log.warning("partition %d: a change of the number of partitions: %s", self.number, error)
            closing = asyncio.create_task(close_channel(self._channel))
            self._aside.add(closing)
            closing.add_done_callback(self._aside.discard)

    def _check_markers(self) -> None:
        """Announce a marker if all messages before it are settled."""
        tag, resize = self._markers[0]
        if next(iter(self._unsettled)) == tag:
            self._markers.popleft()
            self._start_aside(self._announce_passed(tag, resize))

    async def _announce_passed(self, tag: int, resize: Resize) -> None:
        await self._sync()
        await self._host.publish(resize.news(self._settings.queue), write_news(passed=self.number))
        self._settle(tag)

    async def _guard(self, resize: Resize) -> None:
        """Open a gate as old partitions are passed: read their announcements."""
        tag, gate = self._gates[resize.id]
        news: asyncio.Queue[int] = asyncio.Queue()

        async def read(delivered: DeliveredMessage) -> None:
            passed, _ = read_news(delivered.body)
            if passed is not None:
                news.put_nowait(passed)

        inbox = await self._host.carrying.channel(publisher_confirms=False)
        try:
            try:
                # Nothing is acknowledged here: the next owner of the partition reads the same.
                await inbox.basic_consume(resize.inbox(self._settings.queue, self.number), read)
            except list_loss_errors() as error:
                if not is_missing(error):
                    raise
                for source in resize.sources:  # the change was completed, so all old partitions are passed
                    news.put_nowait(source)
            while not gate.is_open:
                for delivered in gate.let_through(await news.get()):
                    self._add(delivered, split_key(delivered.routing_key or "")[0])
            await self._host.publish(resize.news(self._settings.queue), write_news(opened=self.number))
        finally:
            await close_channel(inbox)
        del self._gates[resize.id]
        self._settle(tag)


async def _wait_closed(channel: Any) -> str:
    """Wait until a channel is closed, by either side, and return why."""
    try:
        await asyncio.shield(channel.closing)
    except asyncio.CancelledError:
        if not channel.is_closed:
            raise
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the reason
        return str(error)
    return "by the broker"
