"""The queues that are a member's share of its group: divided, locked, pulled, and where the group stands in each.

One task for each queue pulls it, one divides all queues anew when the group or a route has changed, one renews locks,
one persists offsets. A queue that is taken away hands nothing out any more; what was done with last is persisted before
the next member is let in, where locks allow to wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from math import inf
from typing import Final

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.fetching import Fetching
from bridge.rocketmq.consumer.group import Group, MessageModel
from bridge.rocketmq.consumer.offsets import BrokerOffsets, LocalOffsets, Offsets, start_offset
from bridge.rocketmq.consumer.ordering import REBALANCE_LOCK_INTERVAL, REBALANCE_LOCK_MAX_LIVE_TIME, Locks
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.room import Reading, Room
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from exchange.errors import HashstarError, InputError

__all__ = ["Share"]

LOG: Final = logging.getLogger(__name__)

REBALANCE_AGAIN: Final = 1.0
"""Seconds until the next division when one could not be carried out (``rocketmq.client.rebalance.minInterval``)."""


class Share:
    """What a member reads.

    ``news`` is called when there may be something to hand out, ``assigned`` and ``revoked`` with each queue that comes
    and goes; all on the event loop.
    """

    def __init__(
        self,
        client: Client,
        group: Group,
        *,
        news: Callable[[], None],
        assigned: Callable[[AssignedQueue], None] | None,
        revoked: Callable[[AssignedQueue], None] | None,
    ) -> None:
        self.group: Final = group
        self.settings: Final = group.settings
        self.readings: Final[dict[TopicQueue, Reading]] = {}
        self.room: Final = Room(self.readings, self.settings.limits.pull_threshold_size_for_all)
        self.turns: Final[deque[Reading]] = deque()
        """The same, in the order in which messages are handed out."""
        self.troubles: Final[dict[TopicQueue | str, HashstarError]] = {}
        """Queue or topic -> why it was not pulled, locked or divided when that was tried last."""
        self.unpersisted: Final[dict[TopicQueue, Exception]] = {}
        """Queue -> why where the group stands in it could not be kept when that was tried last."""
        self.divided: frozenset[str] = frozenset()
        """The topics of which all queues that should be ours are, as of the last division."""
        self.changed: Final = asyncio.Event()
        """The group or a route has changed."""
        self.resumed: Final = asyncio.Event()
        """Messages are to be pulled."""
        self.broken: Exception | None = None
        """What ended a task that never ends."""
        self._client: Final = client
        self._queues: Final = BrokerQueues(client, group.name)
        self._locks: Final = Locks(client, group.name)
        self._offsets: Offsets = BrokerOffsets(self._queues)
        self._news: Final = news
        self._fetching: Final = Fetching(
            client, group, self._queues, self.troubles,
            news=news, reset=self._misplaced, bytes_left=self.room.left,
        )  # fmt: skip
        self._on_assigned: Final = assigned
        self._on_revoked: Final = revoked
        self._unlocked: Final = asyncio.Event()
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def load(self) -> None:
        """Find the file of offsets, if they are in one. Raises InputError."""
        if self.settings.message_model is MessageModel.BROADCASTING:
            local = LocalOffsets.of(self._client.client_id, self.group.name, self.settings.offset_folder)
            local.load()
            self._offsets = local

    def open(self) -> None:
        """Begin."""
        self.resumed.set()
        self._start(self._rebalance_on())
        self._start(self._persist_on())
        if self.settings.locks:
            self._start(self._lock_on())

    async def close(self) -> None:
        """Persist what is done with, and give up the queues."""
        # Nothing is pulled or divided any more; then offsets, then locks, so that who comes next reads from there.
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.persist()
        held = list(self.readings.values())
        for reading in held:
            self._let_go(reading)
        if self.settings.locks:
            await self._locks.unlock([reading.assigned.queue for reading in held])

    async def persist(self, queues: Iterable[TopicQueue] | None = None) -> dict[TopicQueue, int]:
        """Tell where the group stands in these queues, else in all that are ours; what was told and heard."""
        readings = self.readings
        which = readings.values() if queues is None else [readings[queue] for queue in queues if queue in readings]
        return await self._persist(self._standing(which))

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Go on with these queues, as far as they are ours, from other offsets: they are given up, and come anew."""
        self._start(self._reset(offsets))

    # Pulling.

    async def _pull_on(self, reading: Reading) -> None:
        assigned = reading.assigned
        while not assigned.leaving:
            self.check_lock(reading)
            room = assigned.room(self.settings.limits, len(self.readings))
            if room:
                room = min(room, self.room.messages_for(reading))
            if not self.resumed.is_set():
                await self.resumed.wait()
            elif not room or asyncio.get_running_loop().time() >= assigned.locked_until:
                reading.moved.clear()
                reading.waits = True
                await reading.moved.wait()
                reading.waits = False
            else:
                reading.pulled_ms = now_ms()
                commit = assigned.committable if self._offsets.pulls_may_tell(assigned.queue) else None
                delay = await self._fetching.pull(assigned, room, commit)
                if delay is not None:
                    await asyncio.sleep(delay)

    # The division of the queues.

    async def _rebalance_on(self) -> None:
        unknown = 0
        while True:
            self.changed.clear()
            wait = self.settings.rebalance_interval
            if not await self._rebalance():
                # A queue that another member is to give up is asked for soon, a topic that there is not ever later.
                unknown = unknown + 1 if self.troubles.keys() & self.group.subscriptions.keys() else 0
                wait = min(wait, REBALANCE_AGAIN * 2 ** min(unknown, 8))
            await _within(wait, self.changed)

    async def _rebalance(self) -> bool:
        """Divide the queues anew; whether all is as it should be now (`RebalanceImpl.doRebalance`)."""
        divided, changed, fresh = set[str](), set[str](), list[Reading]()
        for topic in self.group.subscriptions:
            try:
                wanted = await self.group.share(topic)
                self.troubles.pop(topic, None)
            except (RemotingError, InputError) as error:
                if topic not in self.troubles and topic != self.group.retry_topic:
                    LOG.warning("group %s: topic %s is not divided: %s", self.group.name, topic, error)
                self.troubles[topic] = error
                continue
            ours = {queue: reading for queue, reading in self.readings.items() if queue.topic == topic}
            lost = [reading for queue, reading in ours.items() if queue not in wanted and not reading.assigned.leaving]
            await self._leave(lost)
            came = sorted(wanted - ours.keys(), key=lambda queue: queue.order)
            joined = await self._join(came)
            if len(joined) == len(came) and not any(ours[queue].assigned.leaving for queue in wanted & ours.keys()):
                divided.add(topic)
            fresh += joined
            if joined or lost:
                changed.add(topic)
        if changed:
            await self.group.changed(changed)
        # Only now: until brokers have heard of the new version of a subscription, they refuse to be pulled.
        for reading in fresh:
            if not reading.assigned.dropped:
                reading.task = self._start(self._pull_on(reading))
        self.divided = frozenset(divided)
        return divided == self.group.subscriptions.keys()

    async def _join(self, queues: list[TopicQueue]) -> list[Reading]:
        """Take these queues, as far as they can be locked and where they begin can be known."""
        until = asyncio.get_running_loop().time() + REBALANCE_LOCK_MAX_LIVE_TIME
        if self.settings.locks and queues:
            locked, unknown = await self._locks.lock(queues)
            for queue, error in unknown.items():
                self.troubles[queue] = error
            queues = [queue for queue in queues if queue in locked]
        joined = []
        begins = await asyncio.gather(*[self._begin_of(queue) for queue in queues])
        for queue, offset in zip(queues, begins, strict=True):
            if offset is None:
                continue
            assigned = AssignedQueue(queue, offset, ordered=self.settings.orderly)
            reading = self.readings[queue] = Reading(assigned)
            if self.settings.locks:
                self._lock_until(reading, until)
            else:
                assigned.locked_until = inf
            self.turns.append(reading)
            joined.append(reading)
            if self._on_assigned is not None:
                self._on_assigned(assigned)
        return joined

    async def _begin_of(self, queue: TopicQueue) -> int | None:
        where, timestamp = self.settings.consume_from, self.settings.consume_timestamp
        try:
            offset = await start_offset(queue, self._offsets, self._queues, where, timestamp)
        except (RemotingError, InputError) as error:
            LOG.warning("group %s: where to begin with %s is not known: %s", self.group.name, queue, error)
            self.troubles[queue] = error
            return None
        self.troubles.pop(queue, None)
        return offset

    async def _leave(self, readings: Iterable[Reading]) -> None:
        """Give queues up: at once, or in order when what was handed out of each is done with."""
        offsets: dict[TopicQueue, int] = {}
        for reading in readings:
            if self.settings.locks:
                reading.assigned.leaving = True
                if reading.task is not None:
                    reading.task.cancel()
                self._start(self._leave_in_order(reading))
            else:
                offsets |= self._let_go(reading)
        await self._persist(offsets)

    async def _leave_in_order(self, reading: Reading) -> None:
        """`RebalancePushImpl.tryRemoveOrderMessageQueue`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.unlock_delay_time):
                reading.waits = True
                while reading.assigned.out:
                    reading.moved.clear()
                    await reading.moved.wait()
        await self._persist(self._standing([reading]))
        # It stays here until that is done: whoever divides the queues meanwhile would lock it, and begin too early.
        reading.assigned.drop()
        await self._locks.unlock([reading.assigned.queue])
        self._let_go(reading)
        self.changed.set()

    def _let_go(self, reading: Reading) -> dict[TopicQueue, int]:
        """Hand nothing out of a queue any more; where it stands, as far as that is ours to say."""
        assigned = reading.assigned
        if self.readings.get(assigned.queue) is not reading:
            return {}
        offsets = self._standing([reading])
        if reading.task is not None:
            reading.task.cancel()
        assigned.drop()
        del self.readings[assigned.queue]
        # Else a source that ends with its queues would take one that is to come back for one that it has read.
        self.divided -= {assigned.queue.topic}
        self.room.leave(reading)
        self.turns.remove(reading)
        self._queues.forget(assigned.queue)
        self.troubles.pop(assigned.queue, None)
        self.unpersisted.pop(assigned.queue, None)
        if self._on_revoked is not None:
            try:
                self._on_revoked(assigned)
            except Exception:  # the queues after it are to be given up, too
                LOG.exception("group %s: what is told of revoked queues failed at %s", self.group.name, assigned.queue)
        return offsets

    def _standing(self, readings: Iterable[Reading]) -> dict[TopicQueue, int]:
        now = asyncio.get_running_loop().time()
        return {
            reading.assigned.queue: offset
            for reading in readings
            # A queue whose lock may be another's by now has an offset that may be another's, too.
            if (offset := reading.assigned.committable) is not None and now < reading.assigned.locked_until
        }

    def _misplaced(self, assigned: AssignedQueue, offset: int) -> None:
        assigned.leaving = True
        self.reset({assigned.queue: offset})

    async def _reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        ours = {queue: offset for queue, offset in offsets.items() if queue in self.readings}
        moved = [self.readings[queue] for queue in ours]
        for reading in moved:
            reading.assigned.move(ours[reading.assigned.queue])
            self.room.leave(reading)
            if reading.task is not None:
                reading.task.cancel()
        # They stay here until that is done: whoever divides the queues meanwhile would begin at the old offsets.
        await self._persist(ours)
        for reading in moved:
            self._let_go(reading)
        self.changed.set()

    # Locks.

    def check_lock(self, reading: Reading) -> None:
        """A broker that was restarted knows of no locks: with its connection, a lock is lost until it was had anew."""
        if reading.channel is not None and reading.channel.closed:
            reading.channel = None
            reading.assigned.locked_until = -inf
            self._unlocked.set()

    async def _lock_on(self) -> None:
        loop = asyncio.get_running_loop()
        wait = REBALANCE_LOCK_INTERVAL
        while True:
            await _within(wait, self._unlocked)
            self._unlocked.clear()
            held = {queue: reading for queue, reading in self.readings.items() if not reading.assigned.dropped}
            asked = loop.time()
            locked, unknown = await self._locks.lock(held)
            wait = REBALANCE_AGAIN if unknown else REBALANCE_LOCK_INTERVAL
            for queue, reading in held.items():
                if self.readings.get(queue) is not reading or reading.assigned.dropped:
                    continue
                if queue in locked:
                    await self._locked(reading, asked)
                elif queue in unknown:
                    self.troubles[queue] = unknown[queue]
                else:
                    LOG.warning("group %s: %s is locked by another member", self.group.name, queue)
                    reading.assigned.locked_until = -inf
                    self._let_go(reading)
                    self.changed.set()

    async def _locked(self, reading: Reading, asked: float) -> None:
        """The lock was had again. If it may have been another's meanwhile, see whether that one has read on."""
        assigned = reading.assigned
        if assigned.locked_until <= asked:
            try:
                known = await self._offsets.read(assigned.queue)
            except (RemotingError, InputError) as error:
                self.troubles[assigned.queue] = error
                return
            if known is not None and known > (assigned.committable or 0):
                self._let_go(reading)
                self.changed.set()
                return
        self._lock_until(reading, asked + REBALANCE_LOCK_MAX_LIVE_TIME)
        reading.moved.set()
        self._news()

    def _lock_until(self, reading: Reading, until: float) -> None:
        with suppress(ClientError):
            reading.channel = self._client.open_channel(self._client.address(reading.assigned.queue.broker))
        if reading.channel is None:
            self._unlocked.set()
        else:
            reading.assigned.locked_until = until
            reading.locked_ms = now_ms()

    # Offsets.

    async def _persist_on(self) -> None:
        while True:
            await asyncio.sleep(self.settings.persist_consumer_offset_interval)
            await self.persist()

    async def _persist(self, offsets: Mapping[TopicQueue, int]) -> dict[TopicQueue, int]:
        failed = await self._offsets.persist(offsets)
        for queue in offsets:
            if queue not in failed:
                self.unpersisted.pop(queue, None)
        for queue, error in failed.items():
            if queue in self.readings:
                self.unpersisted[queue] = error
            LOG.warning("group %s: offset %d of %s is not persisted: %s", self.group.name, offsets[queue], queue, error)
        return {queue: offset for queue, offset in offsets.items() if queue not in failed}

    def _start(self, what: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._news()


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for it, but no longer. Not by ``wait_for``: that one loses a cancellation which comes with the event."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
