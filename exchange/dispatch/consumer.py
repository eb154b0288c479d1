"""The asyncio consumer: deliveries of one queue, handled concurrently, each settled once, with an orderly stop.

A delivery waits for its turn (`exchange.dispatch.turns`), is handled in a task of its own, and is then settled as its
handlers or the policy for errors decide. Answers are sent together (`exchange.dispatch.sending`), on the channel that
the delivery came on: a delivery of a lost channel is never answered on the next one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from exchange.dispatch.delivery import Answer, Delivery, Ticket
from exchange.dispatch.failures import DONE, log_failure, place_of
from exchange.dispatch.link import Link, LinkLost, Unroutable
from exchange.dispatch.policy import ConsumeOptions, ConsumerCounts, Handle, Retry, restore_exchange, wrap_handle
from exchange.dispatch.sending import AnswerSender, finish
from exchange.dispatch.threads import HandlerThreads
from exchange.dispatch.turns import ConcurrentTurns
from exchange.values.message import Message

log: Final = logging.getLogger(__name__)

T = TypeVar("T")

ANSWER_SECONDS: Final = 5.0
"""Maximum seconds that a stopping consumer waits for the broker to answer, or for the socket to send its data."""

PAUSE_SECONDS: Final = 1.0
"""Seconds before a delivery is put back whose retry the broker refused: it is delivered again at once."""


class Consumer:
    """The consumption of one queue; `Dispatcher.consume` makes it.

    ``await`` it to start, or enter it with ``async with``, which also stops it, and raises the
    error that ended it unless `wait` has. It belongs to the event loop that starts it, and starts once.
    """

    def __init__(self, link: Link, dispatch: Callable[..., Awaitable[object]], settings: ConsumeOptions) -> None:
        self.counts: Final = ConsumerCounts()
        self._link: Final = link
        self._settings: Final = settings
        self._turns: Final[ConcurrentTurns[Delivery]] = ConcurrentTurns(settings.concurrency)
        self._tasks: Final[dict[Ticket, asyncio.Task[None]]] = {}
        self._starting = False
        self._answers: Final = AnswerSender(link, self.counts, settings.prefetch)
        self._publishing: Final[dict[Ticket, list[asyncio.Task[None]]]] = {}
        self._settling: Final[set[Ticket]] = set()  # handled, and not answered yet
        self._threads: Final = HandlerThreads(link.queue, settings.concurrency)
        self._dispatch: Final = dispatch
        self._handle: Handle = dispatch  # in its wrappers, from the start on
        self._limits: Final[dict[Ticket, asyncio.Timeout]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = False
        self._cut_short = False  # whether the handlers at work were cancelled, as the time to stop was over
        self._error: BaseException | None = None
        self._raised = False  # whether `wait` has raised it
        self._over: Final = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether the consumer takes deliveries: it was started, and has not ended."""
        return self._loop is not None and not self._stopped

    @property
    def in_flight(self) -> int:
        """Number of deliveries whose handlers are running."""
        return self._turns.at_work

    @property
    def waiting(self) -> int:
        """Number of deliveries that were received and wait for their turn."""
        return self._turns.waiting

    async def start(self) -> Self:
        """Begin to consume. Raises what the client raises, for example where there is no such queue."""
        if self._loop is not None:
            raise RuntimeError("a consumer starts once: call Dispatcher.consume again")
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        settings = self._settings
        self._handle = wrap_handle(self._call_handlers, settings.middleware)
        try:
            if isinstance(settings.on_error, Retry) and settings.on_error.declare:
                await self._link.declare(*settings.on_error.declarations(self._link.queue))
            await self._link.open(self, self._receive, self._end, settings.prefetch, settings.options)
        except BaseException:
            self._begin_to_stop()
            raise
        return self

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # what runs longer is cancelled
        """Stop in an orderly way: take no more deliveries, wait for running handlers, acknowledge, put back the rest.

        After ``timeout`` seconds, handlers that still run are cancelled and their deliveries put back; None waits as
        long as they run. The application's channel and connection stay open. May be called more than once; called by a
        handler, it does not wait, as it would wait for that handler.
        """
        if self._loop is None:
            return
        self._begin_to_stop()
        if asyncio.current_task() in self._tasks.values():
            return
        try:
            async with asyncio.timeout(timeout):
                await self._over.wait()
        except TimeoutError:
            self._cut_short = True
            for ticket, task in [*self._tasks.items()]:
                if ticket not in self._settling:
                    task.cancel()
            try:  # what was handled in time is settled
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._over.wait()
            except TimeoutError:
                for task in [*self._tasks.values()]:
                    task.cancel()
                await self._over.wait()

    async def wait(self) -> None:
        """Wait until the consumer is over; raise the error that ended it.

        That is the error of a handler with ``on_error="raise"``, or `LinkLost` where the channel is gone for good.
        Returns after `stop`, and after the application has closed the channel. Raises RuntimeError where the consumer
        was never started.
        """
        if self._loop is None:
            raise RuntimeError("the consumer was never started: write consumer = await dispatcher.consume(...)")
        await self._over.wait()
        if self._error is not None:
            self._raised = True
            raise self._error

    def __await__(self) -> Generator[Any, None, Self]:
        return self.start().__await__()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A block that was cancelled, or has failed, must not wait for handlers without a limit.
        await self.stop(None if kind is None else 0)
        if kind is None and self._error is not None and not self._raised:
            raise self._error

    def __del__(self) -> None:
        if getattr(self, "_over", None) is not None and self._loop is None:
            text = f"the consumer of queue {self._link.queue!r} was never awaited: write await dispatcher.consume(...)"
            warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)

    # Receiving. All of this runs in the thread of the event loop.

    def _receive(self, delivery: Delivery) -> None:
        delivery = restore_exchange(delivery)
        self._answers.receive(delivery._ticket)
        self.counts.received += 1
        if self._stopped:
            self._release(delivery)
            return
        key: Hashable = None
        if self._settings.key_of is not None:
            try:
                key = self._settings.key_of(delivery)
                hash(key)
            except Exception as error:  # noqa: BLE001  # the key is computed by the application
                self._start(delivery, None, error)
                return
        self._turns.add(delivery, key)
        self._start_next()

    def _start_next(self) -> None:
        if self._starting:  # eager tasks end in here, and so begin the next ones
            return
        self._starting = True
        try:
            while (started := self._turns.start()) is not None:
                delivery, key = started
                if self._link.is_open(delivery._ticket.channel):
                    self._start(delivery, key)
                else:  # the broker delivers it again: do not handle it twice
                    self.counts.lost += 1
                    self._turns.leave(key)
        finally:
            self._starting = False

    def _start(self, delivery: Delivery, key: Hashable, error: Exception | None = None) -> None:
        task = asyncio.get_running_loop().create_task(self._work(delivery, key, error))
        if not task.done():  # as an eager one may be (`asyncio.eager_task_factory`)
            self._tasks[delivery._ticket] = task

    async def _work(self, delivery: Delivery, key: Hashable, error: Exception | None) -> None:
        """Handle one delivery and settle it; ``error`` is the reason not to handle it at all."""
        ticket = delivery._ticket
        counted = error is None
        self._tasks[ticket] = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            if error is None:
                if self._settings.timeout is None:
                    await self._handle(delivery)
                else:
                    await self._handle_in_time(delivery)
        except Exception as raised:  # noqa: BLE001  # whatever a handler raises
            error = raised
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if self._cut_short or (task is not None and task.cancelling()):  # this task, and not one of the handler
                self._release(delivery)
                self._leave(ticket, key, counted)
                raise
            error = RuntimeError("a handler was cancelled from within")
            error.__cause__ = raised
        except BaseException as raised:  # sys.exit in a handler, or Ctrl-C: the event loop ends with it
            self._end(raised)
            self._leave(ticket, key, counted)
            raise
        try:
            if ticket in self._publishing:
                self._settling.add(ticket)
                error = await self._wait_for_replies(ticket) or error
            if error is not None:
                self._settling.add(ticket)
                await self._settle_failed(delivery, error)
            else:
                self.counts.handled += 1
                if not self._settings.ack_by_hand:
                    ticket.try_to_settle("ack")
        except asyncio.CancelledError:
            self._release(delivery)
            raise
        except Exception as trouble:
            log.exception("%s, could not be settled: not acknowledged", place_of(delivery))
            self._end(trouble)
        finally:
            self._leave(ticket, key, counted)

    async def _handle_in_time(self, delivery: Delivery) -> None:
        async with asyncio.timeout(self._settings.timeout) as limit:
            self._limits[delivery._ticket] = limit
            try:
                await self._handle(delivery)
            finally:
                del self._limits[delivery._ticket]

    async def _call_handlers(self, delivery: Delivery) -> object:
        """Call the handlers. One that catches its cancellation and returns has been cancelled all the same."""
        result = await self._dispatch(delivery, call=self._threads.call if self._settings.threads else None)
        limit = self._limits.get(delivery._ticket)
        if self._cut_short or (limit is not None and limit.expired()):
            raise asyncio.CancelledError
        return result

    def _leave(self, ticket: Ticket, key: Hashable, counted: bool) -> None:
        if self._tasks.pop(ticket, None) is None:
            return
        self._settling.discard(ticket)
        self._publishing.pop(ticket, None)
        running = self._threads.take_running(ticket)
        if running is not None:
            # Its turn ends with its thread: no other handler of its key, and no more than allowed, until then.
            running.add_done_callback(lambda _: self._leave_from_thread(key))
        elif counted:
            self._turns.leave(key)
        if not self._stopped:
            self._start_next()

    def _leave_from_thread(self, key: Hashable) -> None:
        def leave() -> None:
            self._turns.leave(key)
            if not self._stopped:
                self._start_next()

        with suppress(RuntimeError):  # the loop was closed meanwhile
            cast("asyncio.AbstractEventLoop", self._loop).call_soon_threadsafe(leave)

    # Deliveries that failed.

    async def _settle_failed(self, delivery: Delivery, error: Exception) -> None:
        ticket, policy = delivery._ticket, self._settings.on_error
        where = place_of(delivery)
        lost = not self._link.is_open(ticket.channel)
        if lost and isinstance(error, LinkLost):  # of its reply
            log.warning("%s, was handled, but its channel is lost: the broker delivers it again", where)
            ticket.try_to_settle("requeue")
            return
        self.counts.failed += 1
        if ticket.answer is not None:
            log.error("%s, failed after its handler had settled it: %s", where, ticket.answer, exc_info=error)
            return
        if lost and policy != "raise":  # a retry would come in addition to what the broker delivers
            log.error("%s, failed, and its channel is lost: the broker delivers it again", where, exc_info=error)
            ticket.try_to_settle("requeue")
            return
        if isinstance(policy, Retry):
            seconds = policy.delay_after(error, delivery.retries)
            if seconds is not None:
                await self._retry(policy, delivery, seconds, error)
                return
            policy = policy.then
        log_failure(log, f"{where}, failed", DONE[policy], error)
        if policy == "raise":
            self._end(error)
        else:
            ticket.try_to_settle("requeue" if policy == "requeue" else "reject")

    async def _retry(self, policy: Retry, delivery: Delivery, seconds: float, error: Exception) -> None:
        where = place_of(delivery)
        try:
            await finish(self._link.publish(policy.delay(delivery, seconds)))
        except (LinkLost, Unroutable) as trouble:
            text = "%s, failed: requeued, since the broker refused its retry: %s"
            log.error(text, where, trouble, exc_info=error)  # noqa: TRY400  # the traceback is that of the handler
            await asyncio.sleep(PAUSE_SECONDS)
            delivery._ticket.try_to_settle("requeue")
            return
        what = f"{type(error).__name__}: {error}"
        trace = error if log.isEnabledFor(logging.DEBUG) else None  # the user expects this error
        log.warning("%s, failed: retry %d in %g s: %s", where, delivery.retries + 1, seconds, what, exc_info=trace)
        self.counts.retried += 1
        delivery._ticket.try_to_settle("ack")

    def _release(self, delivery: Delivery) -> None:
        """Put a delivery back that was not handled."""
        if delivery._ticket.try_to_settle("requeue"):
            self.counts.released += 1

    # Answers and replies: the methods of `Carrier`. Handlers in threads call them, too.

    def settle(self, ticket: Ticket, answer: Answer) -> None:
        """Send an answer, together with others."""
        self._call(self._answers.add, ticket, answer)

    def reply(self, ticket: Ticket, reply: Message) -> None:
        """Publish a reply; its delivery is settled only after the broker has taken it."""
        self._call(self._reply, ticket, reply)

    def _call(self, function: Callable[[Ticket, T], None], ticket: Ticket, argument: T) -> None:
        """Call a function in the thread of the event loop."""
        if threading.get_ident() == self._thread:
            function(ticket, argument)
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(function, ticket, argument)

    def _reply(self, ticket: Ticket, reply: Message) -> None:
        publishing = asyncio.get_running_loop().create_task(self._publish(reply))
        self._publishing.setdefault(ticket, []).append(publishing)

    async def _publish(self, reply: Message) -> None:
        try:
            await self._link.publish(reply)
        except Unroutable:
            log.warning("reply to %r was refused: the caller's queue is gone", reply.routing_key)

    async def _wait_for_replies(self, ticket: Ticket) -> Exception | None:
        """Wait until the broker has the replies; return the error if it did not take one."""
        results = await finish(asyncio.gather(*self._publishing.pop(ticket), return_exceptions=True))
        return next((result for result in results if isinstance(result, Exception)), None)

    # The end.

    def _end(self, error: BaseException | None) -> None:
        """End the consumption: a handler failed, or the client delivers no more."""
        if self._loop is not None and not self._stopped:
            self._error = error
            if isinstance(error, LinkLost):
                log.error("nothing is consumed any more: %s", error)
            self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        self._stopped = self._answers.at_once = True
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
            # A callback, as a loop that ends may cancel the task before its first step.
            self._stopping.add_done_callback(self._end_of_stop)

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._link.cancel()
        except (LinkLost, TimeoutError) as trouble:
            log.debug("queue %r: the consumer was not cancelled: %s", self._link.queue, trouble)
        for delivery in self._turns.clear():
            self._release(delivery)
        while self._tasks:
            done, _ = await asyncio.wait([*self._tasks.values()])
            for ticket in [ticket for ticket, task in self._tasks.items() if task in done]:
                del self._tasks[ticket]  # it was cancelled before its first step
                if ticket.try_to_settle("requeue"):
                    self.counts.released += 1
        await self._answers.finish(ANSWER_SECONDS)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._link.close()
        except Exception as trouble:  # noqa: BLE001  # of a connection that breaks at this moment
            log.debug("queue %r: the channel for publishing was not closed: %s", self._link.queue, trouble)

    def _end_of_stop(self, _: asyncio.Task[None]) -> None:
        self._threads.shutdown()
        self._over.set()
