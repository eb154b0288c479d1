"""The queues that a member consumes by POP: its popped messages, which are ready or handed out, and their deadlines.

Each assigned queue, or broker, has a task that pops. A pop never waits at the broker, since messages in an answer to a
cancelled pop would stay hidden for their whole invisible time; while there is no message, a request for news
waits instead. A message belongs to no member: it may be acknowledged by its handle after its queue was assigned to
another member. A message that is not acknowledged in time is handed out again, to any member.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.pop.acking import Acking, Start
from bridge.rocketmq.consumer.pop.answers import Popped, PopStatus
from bridge.rocketmq.consumer.pop.handle import POP_CK, PopHandle
from bridge.rocketmq.consumer.pop.requests import InitMode, PopRequests
from bridge.rocketmq.consumer.retrying import DEAD, give_back
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import BrokerError, RemotingError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import HashstarError, InputError

LOG: Final = logging.getLogger(__name__)

POP_DELAYS: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds until a failed message is handed out again, by delay level (``popDelayLevel``)."""

NEWS_SECONDS: Final = 15.0
"""Seconds that a request for news waits at the broker."""
ORDERED_NEWS_SECONDS: Final = 1.0
"""The same in order: brokers do not report that a queue is free because another member acknowledged its messages."""
SPIN_SECONDS: Final = (0.005, 1.0)
"""Shortest and longest pause, in seconds, after a pop without messages although there was news: another member was
quicker or has the queue's lock, or the group has too many unacknowledged messages (``popInflightMessageThreshold``)."""
FLOW_CONTROL_SECONDS: Final = 0.02
GIVE_BACK_SECONDS: Final = 1.0
"""Seconds for which popped messages stay hidden that this member gives back."""
MARGIN: Final = 0.1
"""Share of the invisible time that a message must have left to be handed out."""


class PopQueue:
    """An assigned queue, or all queues of a broker, with the messages that were popped from it (`PopProcessQueue`)."""

    __slots__ = ("acked", "held", "leaving", "moved", "popped_ms", "queue", "ready", "task", "under_way")

    def __init__(self, queue: TopicQueue) -> None:
        self.queue = queue
        self.held: Final[dict[str, float]] = {}
        """Handle -> deadline, of the messages that are not acknowledged."""
        self.ready: Final[deque[StoredMessage]] = deque()
        """Popped messages that are not handed out yet."""
        self.moved = asyncio.Event()
        """Set when a message was acknowledged here."""
        self.acked = asyncio.Event()
        """Set when messages were acknowledged at its broker."""
        self.leaving = False
        """Whether popping it has ended."""
        self.popped_ms = 0
        """Time of the last pop, in milliseconds since 1970."""
        self.under_way = False
        """Whether a pop is in flight."""
        self.task: asyncio.Task[None] | None = None


class Popping:
    """The messages of a member that are popped; see `Share`, which owns it."""

    def __init__(
        self,
        client: Client,
        group: Group,
        troubles: dict[TopicQueue | str, HashstarError],
        resumed: asyncio.Event,
        start: Start,
        news: Callable[[], None],
    ) -> None:
        self._client: Final = client
        self._group: Final = group
        self._settings: Final[ConsumerSettings] = group.settings
        self._troubles: Final = troubles
        self._resumed: Final = resumed
        self._start: Final = start
        self._news: Final = news
        self._requests: Final = PopRequests(client, group.name)
        self._acking: Final = Acking(group.name, self._requests, start, self._note_ack)
        self._queues: Final[dict[TopicQueue, PopQueue]] = {}
        self._turns: Final[deque[PopQueue]] = deque()
        self._owners: Final[dict[str, PopQueue]] = {}
        """Handle -> its queue, of all messages that are not acknowledged."""

    @property
    def queues(self) -> Mapping[TopicQueue, PopQueue]:
        """The queues that are popped, by queue; -1 stands for all queues of a broker."""
        return self._queues

    # Assignment.

    def assign(self, topic: str, wanted: Iterable[TopicQueue]) -> bool:
        """Pop these queues of a topic, and no others, from now on; return whether that is a change."""
        ours = {queue for queue in self._queues if queue.topic == topic}
        for queue in ours - set(wanted):
            self._leave(self._queues.pop(queue))
        for queue in sorted(set(wanted) - ours, key=lambda queue: queue.order):
            popped = self._queues[queue] = PopQueue(queue)
            self._turns.append(popped)
            popped.task = self._start(self._pop_on(popped))
        return ours != set(wanted)

    async def close(self) -> None:
        """Acknowledge finished messages, and give the ready ones back to other members."""
        leaving = list(self._queues.values())
        self._queues.clear()
        for queue in leaving:
            self._leave(queue)
        await asyncio.gather(*[queue.task for queue in leaving if queue.task is not None], return_exceptions=True)
        await asyncio.gather(*[self._give_back(message) for queue in leaving for message in queue.ready])
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.persist_consumer_offset_interval):
                await self._acking.flush()

    def _leave(self, queue: PopQueue) -> None:
        """Stop popping a queue. Ready messages are still handed out, since they belong to no member.

        A pop in flight is not cancelled, as its messages would be hidden from all members.
        """
        queue.leaving = True
        if queue.task is not None and not queue.under_way:
            queue.task.cancel()

    async def _give_back(self, message: StoredMessage) -> None:
        with suppress(RemotingError):
            await self._hide(message, GIVE_BACK_SECONDS)

    # Messages.

    def take(self, limit: int) -> list[StoredMessage]:
        """Hand out at most ``limit`` messages; the queues take turns."""
        taken: list[StoredMessage] = []
        now = asyncio.get_running_loop().time()
        margin = MARGIN * self._settings.pop_invisible_time
        for _ in range(len(self._turns)):
            queue = self._turns[0]
            while queue.ready and len(taken) < limit:
                message = queue.ready.popleft()
                deadline = queue.held.get(message.properties[POP_CK])
                if deadline is None or deadline < now + margin:  # it is popped again, maybe by another member
                    self._forget(message.properties[POP_CK])
                else:
                    taken.append(message)
            if queue.leaving and not queue.ready:
                self._turns.popleft()
            else:
                self._turns.rotate(-1)
            if len(taken) == limit:
                break
        return taken

    def holds(self, message: StoredMessage) -> bool:
        """Return whether a message was popped by this member, and is neither acknowledged nor known to be overdue."""
        return message.properties.get(POP_CK) in self._owners

    def done(self, message: StoredMessage) -> bool:
        """Acknowledge a message, and return whether it was in time: else it is popped again."""
        deadline = self._forget(message.properties[POP_CK])
        if deadline is None or deadline <= asyncio.get_running_loop().time():
            return False
        self._acking.add(message.topic, PopHandle.parse(message.properties[POP_CK]), deadline)
        return True

    async def change_invisible_time(self, message: StoredMessage, seconds: float) -> StoredMessage:
        """Hide a message for ``seconds`` from now on, and return it with its new handle. Raises RemotingError."""
        owner = self._owners.get(message.properties[POP_CK])
        changed = await self._hide(message, seconds)
        if owner is not None and self._forget(message.properties[POP_CK]) is not None:
            self._hold(owner, changed, seconds)
        return changed

    async def retry(self, message: StoredMessage, delay_level: int, most: int) -> bool:
        """Have a failed message handed out again later, or make it a dead letter; return whether it was in time.

        In an ordered queue, the messages after it are handed out again after it, too. Raises RemotingError.
        """
        if not self.holds(message):
            return False
        if delay_level == DEAD or message.reconsume_times >= most:
            await self._bury(message)
            return True
        level = delay_level or message.reconsume_times
        if self._settings.orderly:
            await self._retry_in_order(message, self._settings.suspend_current_queue_time)
        else:
            await self._hide(message, POP_DELAYS[min(level, len(POP_DELAYS) - 1)])
        self._forget(message.properties[POP_CK])
        return True

    async def _retry_in_order(self, message: StoredMessage, seconds: float) -> None:
        """Let the broker hand out a message again after a time, with all that were popped after it from its queue."""
        handle = PopHandle.parse(message.properties[POP_CK])
        later = []
        for text in self._owners:
            other = PopHandle.parse(text)
            if other[1:7] == handle[1:7] and other.offset >= handle.offset:
                later.append(other)
        owner = self._owners[message.properties[POP_CK]]
        for each in later:
            await self._requests.change_invisible_time(message.topic, each, seconds)
            self._forget(each.text)
        texts = {each.text for each in later}
        kept = [each for each in owner.ready if each.properties[POP_CK] not in texts]
        owner.ready.clear()
        owner.ready.extend(kept)

    async def _bury(self, message: StoredMessage) -> None:
        """Make a message a dead letter of the group, and acknowledge it. Raises RemotingError."""
        properties = {name: value for name, value in message.properties.items() if name != POP_CK}
        await give_back(self._client, self._group.name, message._replace(properties=properties), DEAD)
        self.done(message)

    async def _hide(self, message: StoredMessage, seconds: float) -> StoredMessage:
        handle = PopHandle.parse(message.properties[POP_CK])
        changed = await self._requests.change_invisible_time(message.topic, handle, seconds)
        return message._replace(properties={**message.properties, POP_CK: changed.text})

    def _hold(self, queue: PopQueue, message: StoredMessage, seconds: float) -> None:
        handle = message.properties[POP_CK]
        queue.held[handle] = asyncio.get_running_loop().time() + seconds
        self._owners[handle] = queue

    def _forget(self, handle: str) -> float | None:
        """Forget a message that was handed out, and return its deadline; None if it was not held."""
        queue = self._owners.pop(handle, None)
        if queue is None:
            return None
        queue.moved.set()
        return queue.held.pop(handle)

    # Popping.

    async def _pop_on(self, queue: PopQueue) -> None:
        """Pop a queue until it is no longer assigned."""
        pause, had_news = SPIN_SECONDS[0], False
        while not queue.leaving:
            await self._resumed.wait()
            room = await self._room(queue)
            try:
                popped = await self._pop(queue, room)
                if popped.messages:
                    pause, had_news = SPIN_SECONDS[0], False
                    self._take_answer(queue, popped.messages)
                elif not queue.leaving:
                    if had_news or popped.status is PopStatus.POLLING_FULL:
                        await asyncio.sleep(pause)
                        pause = min(pause * 2, SPIN_SECONDS[1])
                    had_news = await self._wait_for_news(queue)
            except (RemotingError, InputError) as error:
                await self._note_failure(queue.queue, error)
            else:
                if self._troubles.pop(queue.queue, None) is not None:
                    LOG.info("group %s: %s is popped again", self._group.name, queue.queue)

    async def _room(self, queue: PopQueue) -> int:
        """Wait until fewer messages than the threshold are held, and return how many may be popped."""
        loop, most = asyncio.get_running_loop(), self._settings.pop_threshold_for_queue
        while True:
            queue.moved.clear()
            now = loop.time()
            for handle in [handle for handle, deadline in queue.held.items() if deadline <= now]:
                self._forget(handle)  # it is popped again: the caller has lost the message, or is late
            room = most - len(queue.held)
            if room > 0:
                return min(room, self._settings.pop_batch_nums)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(queue.held.values()) - now):
                    await queue.moved.wait()

    async def _pop(self, queue: PopQueue, room: int) -> Popped:
        queue.popped_ms, queue.under_way = now_ms(), True
        queue.acked.clear()  # before the pop: what is acknowledged while it is answered may free the queue
        settings = self._settings
        init: InitMode = "MAX" if settings.consume_from is ConsumeFrom.LAST else "MIN"
        try:
            return await self._requests.pop(
                queue.queue, self._group.subscriptions[queue.queue.topic], room, settings.pop_invisible_time,
                init=init, ordered=settings.orderly,
            )  # fmt: skip
        finally:
            queue.under_way = False

    def _take_answer(self, queue: PopQueue, messages: Iterable[StoredMessage]) -> None:
        """Keep messages to hand out; acknowledge those with another tag, bury those that failed too often."""
        subscription = self._group.subscriptions[queue.queue.topic]
        for message in messages:
            self._hold(queue, message, self._settings.pop_invisible_time)
            if not subscription.accepts(message.tags):
                self.done(message)
            elif message.reconsume_times > self._settings.most_reconsumed:
                self._start(self._bury_overdue(message))
            else:
                queue.ready.append(message)
        if queue.leaving and queue not in self._turns:  # the answer came after its last turn
            self._turns.append(queue)
        self._news()

    async def _bury_overdue(self, message: StoredMessage) -> None:
        try:
            await self._bury(message)
        except RemotingError as error:  # it is popped again after its time
            LOG.warning("group %s: %s is not made a dead letter: %s", self._group.name, message.message_id, error)

    async def _wait_for_news(self, queue: PopQueue) -> bool:
        """Wait until there may be messages, and return whether the broker reported any."""
        if not self._settings.orderly:
            return await self._requests.wait_for_news(queue.queue, NEWS_SECONDS)
        news = asyncio.ensure_future(self._requests.wait_for_news(queue.queue, ORDERED_NEWS_SECONDS, ordered=True))
        acked = asyncio.ensure_future(queue.acked.wait())
        try:
            await asyncio.wait((news, acked), return_when=asyncio.FIRST_COMPLETED)
            return news.done() and news.result()
        finally:
            news.cancel()
            acked.cancel()

    async def _note_failure(self, queue: TopicQueue, error: HashstarError) -> None:
        """Note why a pop failed, and wait until the next attempt."""
        if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(FLOW_CONTROL_SECONDS)
            return
        if queue not in self._troubles:
            LOG.warning("group %s: %s is not popped: %s", self._group.name, queue, error)
        self._troubles[queue] = error
        await asyncio.sleep(self._settings.pull_time_delay_when_exception)

    def _note_ack(self, broker: str, error: RemotingError | None) -> None:
        """Note the outcome of a request that acknowledges messages at a broker."""
        key = f"acknowledgements at {broker}"
        if error is None:
            self._troubles.pop(key, None)
            for queue in self._queues.values():
                if queue.queue.broker == broker:
                    queue.acked.set()
        else:
            if key not in self._troubles:
                LOG.warning("group %s: %s fail: %s", self._group.name, key, error)
            self._troubles[key] = error
