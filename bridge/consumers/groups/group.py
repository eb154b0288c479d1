"""A member of a consumer group, as an application runs it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping
from inspect import isawaitable
from typing import Any, Final, Literal

from bridge.consumers.groups.connection import GroupConnectionLost
from bridge.consumers.groups.membership import LONGEST_HEARTBEAT, GroupPlan, Progress
from bridge.consumers.groups.partition import ApplicationFailed, PartitionSettings
from bridge.consumers.groups.session import Session
from exchange.errors import InputError
from exchange.values.message import Message

log = logging.getLogger(__name__)

REJOINING: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds to wait before joining again, by the number of attempts that failed in a row; the last one for more."""

Hook = Callable[[int], object]
"""Function of the application that is called with the number of a partition."""


class _End:
    """What `ConsumerGroup.stop` returns: it may be awaited, until `run` has returned, or ignored."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def __await__(self) -> Generator[object, None, None]:
        yield from self._ended.wait().__await__()


class ConsumerGroup:
    """One member of the group that consumes a partitioned queue; run as many as there are partitions, at most.

    ::

        async def handle(message: Message) -> None: ...

        group = ConsumerGroup("amqp://guest:guest@127.0.0.1", "orders", handle)
        await group.run()

    ``handler`` is called with each message, its slot removed from the routing key. It may be a coroutine function, such
    as ``dispatch_async`` of an `exchange.Dispatcher`. A message is acknowledged when it has returned; if it raises, the
    message is not acknowledged and the member leaves the group and raises it from `run`, or with
    ``on_error="dead-letter"`` the message is rejected for good. Partitions are handled side by side, and so are up to
    ``concurrency`` slots of each. The messages of one key are handled one after another, and with ``concurrency=1``
    those of one partition.

    ``prefetch`` is the maximum number of unacknowledged messages of each partition, the same for all members.
    ``heartbeat`` is in whole seconds: a member that dies is replaced after two to three of them, and so
    is one whose event loop is blocked for as long. ``drain_seconds`` is the maximum time for which a
    handler may go on when its partition is handed over; then it is cancelled.

    ``on_assigned`` is called with the number of a partition before the first of its messages is handled, and after its
    former owner has handed it over; ``on_revoked`` before it is handed over, when all that was handled is acknowledged;
    ``on_lost`` when it was lost together with the connection, and may have another owner already (without it,
    ``on_revoked`` is called then, too). Each may be a coroutine function. ``name`` begins the member's id.

    Raises InputError for settings that are out of range, TypeError for a handler that cannot be called.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        handler: Callable[[Message], object],
        *,
        name: str = "",
        prefetch: int = 100,
        concurrency: int = 1,
        heartbeat: int = 1,
        drain_seconds: float = 30.0,
        on_error: Literal["raise", "dead-letter"] = "raise",
        on_assigned: Hook | None = None,
        on_revoked: Hook | None = None,
        on_lost: Hook | None = None,
    ) -> None:
        if not callable(handler):
            raise TypeError(f"handler is a function, such as dispatcher.dispatch_async, not {handler!r}")
        if not 1 <= prefetch <= 65_535:
            raise InputError(f"prefetch is 1 to 65,535, not {prefetch}")
        if concurrency < 1:
            raise InputError(f"concurrency is at least 1, not {concurrency}")
        if heartbeat != int(heartbeat) or not 1 <= heartbeat <= LONGEST_HEARTBEAT:
            raise InputError(f"the heartbeat is 1 to {LONGEST_HEARTBEAT} whole seconds, not {heartbeat}")
        if on_error not in ("raise", "dead-letter"):
            raise InputError(f'on_error is "raise" or "dead-letter", not {on_error!r}')
        self.url: Final = url
        self.settings: Final = PartitionSettings(
            queue, handler, on_error == "dead-letter", int(prefetch), int(concurrency), drain_seconds
        )
        self.name: Final = name or socket.gethostname()[:40] or "member"
        self.heartbeat: Final = int(heartbeat)
        self._hooks: Final[Mapping[str, Hook | None]] = {
            "assigned": on_assigned, "revoked": on_revoked, "lost": on_lost or on_revoked,
        }  # fmt: skip
        self._session: Session | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self.plan: GroupPlan | None = None
        """The plan that this member follows; None before it has joined."""

    async def run(self) -> None:
        """Join the group, and consume until `stop`; after a loss of the connection, join again.

        Raises InputError if there is no such partitioned queue, and what a handler or one of the functions for
        partitions raises. If it is cancelled, handlers are cancelled, and what they handled is not acknowledged.
        """
        self._ended.clear()
        try:
            await self._consume()
        finally:
            self._ended.set()

    async def _consume(self) -> None:
        failed = 0
        while not self._stopping.is_set():
            self._session = session = Session(
                self.url, self.name, self.heartbeat, self.settings, self._call, self._take_plan
            )
            try:
                await session.run()
            except GroupConnectionLost as error:
                failed = 0 if self.plan is not None else failed + 1
                wait = REJOINING[min(failed, len(REJOINING) - 1)]
                log.warning("%s: %s; joining again in %g s", self.settings.queue, error, wait)
            else:
                return
            finally:
                self._session = self.plan = None
            try:
                async with asyncio.timeout(wait):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    def stop(self) -> Awaitable[None]:
        """Leave the group: `run` returns when handlers have ended and partitions are handed over.

        May be awaited, outside of handlers: until `run` has returned.
        """
        self._stopping.set()
        if self._session is not None:
            self._session.leave()
        return _End(self._ended)

    @property
    def partitions(self) -> Mapping[int, Progress]:
        """The partitions that this member holds, with the number of handled and of waiting messages of each."""
        session = self._session
        return {} if session is None else {number: held.progress for number, held in session.partitions.items()}

    @property
    def member(self) -> str | None:
        """The member's id; None while it is in no group. It has a new one whenever it joins again."""
        return None if self._session is None else self._session.member

    def _take_plan(self, plan: GroupPlan) -> None:
        """Keep the plan that is followed from now on."""
        self.plan = plan

    async def _call(self, hook: str, partition: int) -> None:
        """Call the function for "assigned", "revoked" or "lost", if there is one."""
        function = self._hooks[hook]
        try:
            result: Any = function(partition) if function is not None else None
            if isawaitable(result):
                await result
        except Exception as error:
            raise ApplicationFailed from error
