"""A member's time in a group, from joining it to leaving it or losing its connection.

A member that loses a connection gives up all its partitions, since it cannot be sure of any, and joins again under a
new id, as a new member.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bridge.consumers.groups.connection import (
    GroupConnectionLost,
    Lease,
    close,
    close_channel,
    connect,
    is_blocked,
    is_missing,
    list_loss_errors,
    read_clock,
    translate_losses,
)
from bridge.consumers.groups.membership import BEATS, Beat, GroupPlan, Membership, read_beat
from bridge.consumers.groups.names import PartitionedQueue
from bridge.consumers.groups.partition import ApplicationFailed, OwnedPartition, PartitionSettings
from bridge.consumers.groups.state import find_state, read_state
from exchange.errors import InputError

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage

log = logging.getLogger(__name__)

LOSING: Final = 3.0
"""Number of heartbeats without an answer after which the connection counts as lost, as the broker does with clients."""
LOOKING: Final = 600.0
"""Seconds after which the planner reads the number of partitions again, in case an announcement of it was lost."""
RETRYING: Final = 0.5
"""Seconds until a partition that could not be consumed is tried again."""
LOOK: Final = b'"look"'
"""Announcement that the number of partitions has changed."""


class Session:
    """State of a member between joining and leaving: two connections, a lease, partitions. Implements `Host`."""

    def __init__(
        self,
        url: str,
        name: str,
        heartbeat: int,
        settings: PartitionSettings,
        call: Callable[[str, int], Awaitable[None]],
        take_plan: Callable[[GroupPlan], None],
    ) -> None:
        self.call: Callable[[str, int], Awaitable[None]] = call
        self.settings: PartitionSettings = settings
        self.lease: Lease = Lease(heartbeat)
        self.carrying: Any = None
        self.member: Final = f"{name}-{uuid4().hex[:8]}"
        self.partitions: Final[dict[int, OwnedPartition]] = {}
        self.membership: Final = Membership(self.member, time.time(), heartbeat=heartbeat, now=read_clock())
        self._url: Final = url
        self._heartbeat: Final = heartbeat
        self._take_plan: Final = take_plan
        self._names: Final = PartitionedQueue(settings.queue)
        self._beat: Final = heartbeat / BEATS
        self._talking: Any = None
        self._beats: Any = None  # the channel for beats
        self._owned: int | None = None
        self._looked = 0.0
        self._plan: GroupPlan | None = None
        self._lives: Final[dict[int, asyncio.Task[None]]] = {}
        self._changed: Final = asyncio.Event()
        self._hurried: Final = asyncio.Event()
        self._leaving = False
        self._failure: BaseException | None = None

    def leave(self) -> None:
        """Leave the group when running handlers have ended."""
        self._leaving = True
        self._changed.set()
        self._hurried.set()

    async def run(self) -> None:
        """Join, work, and leave. Raises GroupConnectionLost; InputError without such a queue; a handler's error."""
        try:
            with translate_losses("a request failed"):
                self.carrying = await connect(self._url, f"{self.member} (deliveries)", self._heartbeat)
                self._talking = await connect(self._url, f"{self.member} (group)", self._heartbeat)
                await self._join()
                await self._work()
        finally:
            for connection in (self.carrying, self._talking):
                if connection is not None:
                    await close(connection)
        if self._failure is not None:
            raise self._failure

    async def _work(self) -> None:
        """Run the tasks of a member until it has left the group, or one of the tasks fails."""
        works = (self._watch(), self._keep_lease(), self._announce(), self._follow())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *self._lives.values()):
                task.cancel()
            await asyncio.gather(*tasks, *self._lives.values(), return_exceptions=True)
        for task in tasks:  # in this order: the loss of a connection causes other errors
            if task in done:
                task.result()

    async def _join(self) -> None:
        self._owned = (await read_state(self._talking, self.settings.queue)).owned
        self._beats = channel = await self._talking.channel(publisher_confirms=False)
        await channel.exchange_declare(self._names.members, exchange_type="fanout", auto_delete=True)
        inbox = (await channel.queue_declare(exclusive=True, auto_delete=True)).queue
        await channel.queue_bind(inbox, self._names.members)
        await channel.basic_consume(inbox, self._hear, no_ack=True)

    async def _hear(self, delivered: DeliveredMessage) -> None:
        if delivered.body == LOOK:
            self._owned = None
            self._hurried.set()
            return
        try:
            beat = read_beat(delivered.body)
        except InputError as error:
            log.debug("%s: %s", self.settings.queue, error)
            return
        if beat.prefetch != self.settings.prefetch and beat.member not in self.membership.others():
            log.warning(
                "%s: member %s has prefetch %d, this one %d: a quorum queue keeps its order in a hand-over only if all "
                "members have the same", self.settings.queue, beat.member, beat.prefetch, self.settings.prefetch,
            )  # fmt: skip
        self.membership.hear(beat, read_clock())
        if self.membership.plan is not self._plan:
            self._changed.set()
        for number, partition in self.partitions.items():
            if not self.membership.is_held_by_another(number):
                partition.activate()

    async def _announce(self) -> None:
        """Send beats, and plan if this member is the planner."""
        while True:
            now = read_clock()
            if not is_blocked(self._talking):
                if not self._leaving and self.lease.is_valid():
                    await self._plan_if_due(now)
                await self._send_beat()
            for number, partition in self.partitions.items():
                if not self.membership.is_held_by_another(number):
                    partition.activate()
            try:
                async with asyncio.timeout(self._beat):
                    await self._hurried.wait()
                await asyncio.sleep(self._beat / 10)  # several changes at once are one announcement
            except TimeoutError:
                pass
            self._hurried.clear()

    async def _plan_if_due(self, now: float) -> None:
        if not self.membership.is_planner():
            return
        if self._owned is None or now - self._looked > LOOKING:
            state = await find_state(self._talking, self.settings.queue, wait=0)
            self._owned = self._owned if state is None else state.owned
            self._looked = now
        if self._owned is not None and self.membership.plan_if_due(read_clock(), self._owned) is not None:
            self._changed.set()

    async def _send_beat(self) -> None:
        plans = not self._leaving and self.membership.is_planner()
        beat = Beat(
            self.member,
            self.membership.joined,
            self._heartbeat,
            self.settings.prefetch,
            {number: partition.progress for number, partition in self.partitions.items()},
            self._leaving,
            self.membership.plan if plans else None,
        )
        await self._beats.basic_publish(beat.to_bytes(), exchange=self._names.members, wait=False)

    async def _keep_lease(self) -> None:
        """Renew the lease: prove at intervals that the broker still has the connection for deliveries."""
        channel = await self.carrying.channel(publisher_confirms=False)
        proved = read_clock()
        while True:
            sent = read_clock()
            try:
                async with asyncio.timeout(LOSING * self._heartbeat):
                    await channel.basic_qos(prefetch_count=1)  # changes nothing: nothing is consumed on this channel
            except TimeoutError:
                raise GroupConnectionLost("the broker does not answer") from None
            if not self.lease.is_valid() and read_clock() - proved > self._heartbeat:
                log.warning(
                    "%s: no message was begun for %.1f s, as the broker or this process was slow: if it was the "
                    "process, let the heartbeat be longer, or do the work in threads",
                    self.settings.queue,
                    read_clock() - proved,
                )
            self.lease.renew(sent)
            proved = read_clock()
            await asyncio.sleep(self._beat)

    async def _watch(self) -> None:
        """End when one of the connections does."""
        closings = [connection.closing for connection in (self.carrying, self._talking)]
        await asyncio.wait(closings, return_when=asyncio.FIRST_COMPLETED)
        for closing in closings:
            if closing.done():
                error = None if closing.cancelled() else closing.exception()
                raise GroupConnectionLost(f"the connection is closed: {error or 'by the broker'}")

    async def _follow(self) -> None:
        """Own the assigned partitions, hand over all others; return when the member has left."""
        while True:
            self._changed.clear()
            plan = self.membership.plan
            if plan is not self._plan:
                self._plan = plan
                self._hurried.set()
                if plan is not None:
                    mine = self.membership.assigned()
                    log.info(
                        "%s: plan %d of %s: %d members, %d partitions; ours: %s",
                        self.settings.queue, plan.epoch, plan.planner, len(plan.assignment), plan.partitions, mine,
                    )  # fmt: skip
                    self._take_plan(plan)
            wanted = set() if self._leaving else set(self.membership.assigned())
            for number in self.partitions.keys() - wanted:
                self.partitions[number].release()
            for number in wanted - self._lives.keys():
                self._lives[number] = asyncio.create_task(self._own(number))
            if self._leaving and not self._lives:
                await self._send_beat()
                return
            await self._changed.wait()

    async def _own(self, number: int) -> None:
        """Own a partition until it is handed over or lost."""
        partition = self.partitions[number] = OwnedPartition(number, self)
        self._hurried.set()
        try:
            await partition.run()
        except GroupConnectionLost as error:
            if not self._leaving:
                log.warning("%s: %s", self.settings.queue, error)
            await asyncio.sleep(RETRYING)
        except Exception as error:  # noqa: BLE001  # of the application, or a bug here: it ends the member
            self._failure = error.__cause__ if isinstance(error, ApplicationFailed) else error
            self.leave()
        finally:
            del self.partitions[number], self._lives[number]
            self._changed.set()
            self._hurried.set()

    async def publish(self, exchange: str, body: bytes) -> bool:
        """Publish durably and wait for the confirm; return False if there is no such exchange."""
        from pamqp.commands import Basic

        channel = await self._talking.channel()
        try:
            await channel.basic_publish(body, exchange=exchange, properties=Basic.Properties(delivery_mode=2))
        except list_loss_errors() as error:
            if is_missing(error):
                return False
            raise
        finally:
            await close_channel(channel)
        return True
