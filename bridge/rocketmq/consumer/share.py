"""A member's share of the queues of its group: it assigns, locks and pulls them, and persists their offsets.

Each queue has a task that pulls it. Three more tasks serve all queues: one rebalances when the group or a route has
changed, one renews locks, one persists offsets. A queue that is taken away hands out no more messages; where there are
locks, its last offset is persisted before the next member gets the lock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableSet
from contextlib import suppress
from math import inf
from typing import Final

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.fetching import Answered, QueuePulls
from bridge.rocketmq.consumer.group import Group
from bridge.rocketmq.consumer.locking import REBALANCE_LOCK_MAX_LIVE_TIME, Locking
from bridge.rocketmq.consumer.offsets import BrokerOffsets, start_offset
from bridge.rocketmq.consumer.persisting import Persisting, group_offsets
from bridge.rocketmq.consumer.pop.popping import Popping
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.room import PulledQueue, Room
from bridge.rocketmq.consumer.tasks import Division, Rebalancing, Tasks
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import RemotingError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import HashstarError, InputError

LOG: Final = logging.getLogger(__name__)

Batch = tuple[AssignedQueue, list[StoredMessage]]
"""Messages of one queue, in order."""


class Share:
    """The queues that a member reads, with the tasks that read them.

    ``news`` is called when there may be messages to hand out, ``assigned`` and ``revoked`` with each queue that comes
    and goes, ``answered`` with each answer to a pull; all on the event loop.
    """

    def __init__(
        self,
        client: Client,
        group: Group,
        *,
        news: Callable[[], None],
        assigned: Callable[[AssignedQueue], None] | None,
        revoked: Callable[[AssignedQueue], None] | None,
        answered: Answered | None = None,
        known: MutableSet[TopicQueue | str] | None = None,
    ) -> None:
        self.troubles: Final[dict[TopicQueue | str, HashstarError]] = {}
        """Queue or topic -> why the last try to pull, lock or rebalance it failed."""
        self.complete: frozenset[str] = frozenset()
        """Topics of which this member has all queues of its share, as of the last rebalance."""
        self._group: Final = group
        self._settings: Final = group.settings
        self._readings: Final[dict[TopicQueue, PulledQueue]] = {}
        self._room: Final = Room(self._readings, self._settings.limits.pull_threshold_size_for_all)
        self._turns: Final[deque[PulledQueue]] = deque()
        """The same readings, in the order in which they are asked for messages; `take` rotates them."""
        self._resumed: Final = asyncio.Event()
        """Set while messages are pulled and handed out."""
        self._client: Final = client
        self._queues: Final = BrokerQueues(client, group.name)
        self._persisting: Final = Persisting(group, self._readings, BrokerOffsets(self._queues), known)
        self._locking: Final = Locking(
            client, group.name, self._readings, self._persisting, self.troubles, renewed=news, lost=self._lose,
        )  # fmt: skip
        self._tasks: Final = Tasks(failed=news)
        self._news: Final = news
        self._fetching: Final = QueuePulls(
            client, group, self._queues, self.troubles,
            news=news, reset=self._move, bytes_left=self._room.left, gone=self._persisting.note_gone, answered=answered,
        )  # fmt: skip
        self.popping: Final = Popping(client, group, self.troubles, self._resumed, self._tasks.start, news)
        """The queues that are popped, where the broker assigns them."""
        self._on_assigned: Final = assigned
        self._on_revoked: Final = revoked
        self.rebalancing: Final = Rebalancing(self._rebalance, self._settings.rebalance_interval)

    @property
    def unpersisted(self) -> Mapping[TopicQueue, Exception]:
        """Queue -> why the last try to persist its offset failed."""
        return self._persisting.unpersisted

    @property
    def broken(self) -> Exception | None:
        """Exception that ended a task which should not end."""
        return self._tasks.broken

    @property
    def readings(self) -> Mapping[TopicQueue, PulledQueue]:
        """Readings of the queues that are assigned now, by queue."""
        return self._readings

    def load(self) -> None:
        """Read the file of offsets, when broadcasting. Raises InputError."""
        self._persisting.load(self._client.client_id)

    def open(self) -> None:
        """Start the tasks."""
        self._resumed.set()
        self.rebalancing.start(self._tasks)
        self._tasks.start(self._persisting.run())
        if self._settings.locks:
            self._tasks.start(self._locking.run())

    async def close(self) -> None:
        """Persist the offsets, and give up the queues."""
        # First no more rebalances, and popped messages; then no more pulls, then offsets, then locks, so that the next
        # member reads from there on.
        self.rebalancing.stop()
        await self.popping.close()
        await self._tasks.cancel()
        await self.persist()
        held = list(self._readings.values())
        for reading in held:
            self._let_go(reading)
        if self._settings.locks:
            await self._locking.release([reading.assigned.queue for reading in held])

    def pause(self) -> None:
        """Stop pulling, and keep the queues."""
        self._resumed.clear()

    def resume(self) -> None:
        """Pull again."""
        self._resumed.set()

    @property
    def is_paused(self) -> bool:
        """Whether it does not pull, and no message is to be handed out."""
        return not self._resumed.is_set()

    async def persist(self, queues: Iterable[TopicQueue] | None = None) -> dict[TopicQueue, int]:
        """Persist the offsets of these queues, by default of all that are ours; return those that were persisted."""
        ours = self._readings
        readings = ours.values() if queues is None else [ours[queue] for queue in queues if queue in ours]
        return await self._persisting.persist(group_offsets(readings))

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Continue these queues from other offsets: give each up, and let a rebalance assign it again.

        Queues that are not ours are ignored.
        """
        self._tasks.start(self._reset(offsets))

    # What the caller of a lite pull consumer decides.

    def seek(self, queue: TopicQueue, offset: int) -> None:
        """Continue a queue of ours from another offset. A pull under way is cancelled, so its answer is not kept."""
        reading = self._readings[queue]
        reading.assigned.seek(offset)
        self._room.wake()
        if reading.task is not None:  # else it begins after this rebalance
            reading.task.cancel()
            reading.task = self._tasks.start(self._pull_on(reading))

    def pause_queue(self, queue: TopicQueue, *, paused: bool) -> None:
        """Pull and hand out a queue of ours no more, or again."""
        reading = self._readings[queue]
        reading.assigned.paused = paused
        reading.moved.set()
        self._news()

    # Messages.

    def take(self, limit: int) -> list[Batch]:
        """Hand out at most ``limit`` messages; the queues take turns."""
        now, window = asyncio.get_running_loop().time(), self._settings.window
        batches = []
        for _ in range(len(self._turns)):
            reading = self._turns[0]
            if reading.channel is not None:
                self._locking.check(reading)
            assigned = reading.assigned
            messages = assigned.take(limit, now, window)
            if messages:
                batches.append((assigned, messages))
                limit -= len(messages)
            self._turns.rotate(-1)
            if not limit:
                break
        return batches

    def done(self, message: StoredMessage) -> bool:
        """Acknowledge a message, and return whether its queue is still ours."""
        readings = self._readings
        for topic in self._group.stored_topics(message.topic):  # retries are handed out with their first topic
            reading = readings.get((topic, message.broker, message.queue_id))  # type: ignore[call-overload]  # a plain tuple is quicker made
            if reading is not None and reading.assigned.done(message):
                self._advance(reading)
                return True
        return False

    def done_before(self, assigned: AssignedQueue, offset: int) -> int:
        """Acknowledge all messages of a queue before an offset that were handed out, and return their number."""
        count = assigned.done_before(offset)
        reading = self._readings.get(assigned.queue)
        if count and reading is not None:
            self._advance(reading)
        return count

    def queue_of(self, message: StoredMessage) -> AssignedQueue | None:
        """Return the queue of a message that was handed out and not acknowledged; None if that is no longer ours."""
        for topic in self._group.stored_topics(message.topic):
            reading = self._readings.get(TopicQueue(topic, message.broker, message.queue_id))
            if reading is not None and reading.assigned.is_out(message):
                return reading.assigned
        return None

    def _advance(self, reading: PulledQueue) -> None:
        """Wake the tasks that wait for an acknowledgement, or for the room that it makes."""
        reading.consumed_ms = now_ms()
        if reading.waits:
            reading.moved.set()
        self._room.wake()
        if self._settings.window:
            self._news()

    # Pulling.

    async def _pull_on(self, reading: PulledQueue) -> None:
        """Pull one queue until it is given up; wait while pulls are paused, and while it has no room or no lock."""
        assigned = reading.assigned
        while not assigned.leaving:
            self._locking.check(reading)
            room = assigned.room(self._settings.limits, len(self._readings))
            if room:
                room = min(room, self._room.messages_for(reading))
            if not self._resumed.is_set():
                await self._resumed.wait()
            elif not room or assigned.paused or asyncio.get_running_loop().time() >= assigned.locked_until:
                # Nothing is awaited between the checks above and this wait, so no wake-up is lost.
                reading.moved.clear()
                reading.waits = True
                await reading.moved.wait()
                reading.waits = False
            else:
                reading.pulled_ms = now_ms()
                # What a caller commits may be lower: a pull could bring an offset of before after it.
                carries = assigned.marked is None and self._persisting.offsets.may_commit_with_pull(assigned.queue)
                commit = assigned.committable if carries else None
                delay = await self._fetching.pull(assigned, room, commit)
                if delay is not None:
                    await asyncio.sleep(delay)

    # Rebalance.

    async def _rebalance(self) -> Division:
        """Divide the queues anew (`RebalanceImpl.doRebalance`)."""
        for topic in {queue.topic for queue in self._readings} - self._group.subscriptions.keys():  # unsubscribed
            await self._leave([reading for queue, reading in self._readings.items() if queue.topic == topic])
        complete, changed, fresh = set[str](), set[str](), list[PulledQueue]()
        for topic in tuple(self._group.subscriptions):
            try:
                wanted, popped = await self._group.share(topic)
                self.troubles.pop(topic, None)
            except (RemotingError, InputError) as error:
                if topic not in self.troubles and topic != self._group.retry_topic:
                    LOG.warning("group %s: topic %s is not divided: %s", self._group.name, topic, error)
                self.troubles[topic] = error
                continue
            if self.popping.assign(topic, popped):
                changed.add(topic)
            if not self._settings.client_rebalance:
                await self._group.follow_pop_retries(topic, popped=bool(popped))
            ours = {queue: reading for queue, reading in self._readings.items() if queue.topic == topic}
            lost = [reading for queue, reading in ours.items() if queue not in wanted and not reading.assigned.leaving]
            await self._leave(lost)
            missing = sorted(wanted - ours.keys(), key=lambda queue: queue.order)
            joined = await self._join(missing)
            if len(joined) == len(missing) and not any(ours[queue].assigned.leaving for queue in wanted & ours.keys()):
                complete.add(topic)
            fresh += joined
            if joined or lost:
                changed.add(topic)
        if changed:
            await self._group.renew_subscriptions(changed)
        # Pulls begin only after the heartbeat: a broker refuses them until it knows the subscription's new version.
        for reading in fresh:
            if not reading.assigned.dropped:
                reading.task = self._tasks.start(self._pull_on(reading))
        self.complete = frozenset(complete)
        topics = self._group.subscriptions.keys()
        if complete == topics:
            return Division.COMPLETE
        return Division.FAILED if self.troubles.keys() & topics else Division.WAITS

    async def _join(self, queues: list[TopicQueue]) -> list[PulledQueue]:
        """Assign these queues, and return their readings; not of queues without a lock or a known first offset."""
        # We count the age of a lock from before the request, the broker from the grant, which is later: so a lock
        # expires here before it expires there.
        until = asyncio.get_running_loop().time() + REBALANCE_LOCK_MAX_LIVE_TIME
        if self._settings.locks and queues:
            locked = await self._locking.acquire(queues)
            queues = [queue for queue in queues if queue in locked]
        joined = []
        starts = await asyncio.gather(*[self._find_start(queue) for queue in queues])
        for queue, start in zip(queues, starts, strict=True):
            if start is None:
                continue
            offset, is_known = start
            assigned = AssignedQueue(queue, offset, ordered=self._settings.orderly)
            assigned.begun = offset if is_known else -1
            reading = self._readings[queue] = PulledQueue(assigned)
            if self._settings.locks:
                self._locking.hold(reading, until)
            else:
                assigned.locked_until = inf
            self._turns.append(reading)
            joined.append(reading)
            if self._on_assigned is not None:
                self._on_assigned(assigned)
        return joined

    async def _find_start(self, queue: TopicQueue) -> tuple[int, bool] | None:
        """Return what `start_offset` does; None, with an entry in ``troubles``, if the offset cannot be read now."""
        where, timestamp = self._persisting.find_begin(queue), self._settings.consume_timestamp
        try:
            start = await start_offset(queue, self._persisting.offsets, self._queues, where, timestamp)
        except (RemotingError, InputError) as error:
            LOG.warning("group %s: where to begin with %s is not known: %s", self._group.name, queue, error)
            self.troubles[queue] = error
            return None
        self.troubles.pop(queue, None)
        return start

    async def _leave(self, readings: Iterable[PulledQueue]) -> None:
        """Give queues up: without locks at once, with locks when all messages handed out are acknowledged."""
        offsets: dict[TopicQueue, int] = {}
        for reading in readings:
            if self._settings.locks:
                reading.assigned.leaving = True
                if reading.task is not None:
                    reading.task.cancel()
                self._tasks.start(self._leave_in_order(reading))
            else:
                offsets |= self._let_go(reading)
        await self._persisting.persist(offsets)

    async def _leave_in_order(self, reading: PulledQueue) -> None:
        """Give a locked queue up (`RebalancePushImpl.tryRemoveOrderMessageQueue`).

        Wait at most ``unlock_delay_time`` for the acknowledgements, then persist the offset, then unlock the queue.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.unlock_delay_time):
                reading.waits = True
                while reading.assigned.out:
                    reading.moved.clear()
                    await reading.moved.wait()
        await self._persisting.persist(group_offsets([reading]))
        # The queue stays among the readings until it is unlocked: else a rebalance could lock and begin it again
        # before, and the unlock would take that new lock away.
        reading.assigned.drop()
        await self._locking.release([reading.assigned.queue])
        self._let_go(reading)
        self.rebalancing.request()

    def _let_go(self, reading: PulledQueue) -> dict[TopicQueue, int]:
        """Give a queue up at once, and return the offset to persist, as `group_offsets` does."""
        assigned = reading.assigned
        if self._readings.get(assigned.queue) is not reading:
            return {}
        offsets = group_offsets([reading])
        if reading.task is not None:
            reading.task.cancel()
        assigned.drop()
        del self._readings[assigned.queue]
        # A bounded source ends when all queues of complete topics are read. This queue may be assigned again, unread:
        # until the next rebalance its topic is not complete.
        self.complete -= {assigned.queue.topic}
        self._room.remove(reading)
        self._turns.remove(reading)
        self._queues.forget(assigned.queue)
        self.troubles.pop(assigned.queue, None)
        self._persisting.unpersisted.pop(assigned.queue, None)
        if self._on_revoked is not None:
            try:
                self._on_revoked(assigned)
            except Exception:  # the queues after it must be given up, too
                LOG.exception(
                    "group %s: the callback for revoked queues failed at %s", self._group.name, assigned.queue
                )
        return offsets

    def _lose(self, reading: PulledQueue) -> None:
        """Give up a queue that another member has locked."""
        self._let_go(reading)
        self.rebalancing.request()

    def _move(self, assigned: AssignedQueue, offset: int) -> None:
        """Continue a queue from another offset, and stop pulling it from this one at once."""
        assigned.leaving = True
        self.reset({assigned.queue: offset})

    async def _reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Stop reading these queues, persist their new offsets, and give the queues up for the next rebalance."""
        ours = {queue: offset for queue, offset in offsets.items() if queue in self._readings}
        moved = [self._readings[queue] for queue in ours]
        for reading in moved:
            reading.assigned.move(ours[reading.assigned.queue])
            self._room.remove(reading)
            if reading.task is not None:
                reading.task.cancel()
        # The queues stay among the readings until their offsets are persisted: else a rebalance would assign them again
        # at the old offsets.
        await self._persisting.persist_all(ours)
        for reading in moved:
            self._let_go(reading)
        self.rebalancing.request()
