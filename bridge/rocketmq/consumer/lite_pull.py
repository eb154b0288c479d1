"""A consumer whose caller decides which queues it reads, from which offset, when, and what is committed.

It is `DefaultLitePullConsumer` in Java. It subscribes to topics and shares their queues with the other members of its
group; or it is assigned queues by its caller, and reads them whether or not others do. Messages are pulled ahead, and
`poll` returns them. There are no retries: a message that failed is read again by a `seek`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Self

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.properties import check_topic
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import TopicRoute, subscribe_queues

NOTHING: Final = -1
"""The mark of a queue that has nothing to commit yet."""

Listener = Callable[[str, frozenset[TopicQueue]], None]
"""Function that is called with a topic and all its queues."""


class LitePullConsumer:
    """A consumer of a group; ``async with`` opens and closes it.

    With ``auto_commit``, a poll marks all messages of earlier polls as done, and the marks are committed every
    ``persist_consumer_offset_interval``; without, `commit` does both. Of ``settings``, those for retries, order and POP
    have no meaning. ``assigned`` and ``revoked`` are called with each queue that comes and goes, on the event loop.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        settings: ConsumerSettings | None = None,
        *,
        auto_commit: bool = True,
        assigned: Callable[[TopicQueue], None] | None = None,
        revoked: Callable[[TopicQueue], None] | None = None,
    ) -> None:
        """Check name and settings. Raises InputError, IllegalMessage."""
        own = replace(settings or ConsumerSettings(), is_active=True, orderly=False, client_rebalance=True)
        self.auto_commit: Final = auto_commit
        self._client: Final = client
        self._on_assigned: Final = assigned
        self._on_revoked: Final = revoked
        self._consumer: Final = Consumer(client, group, (), own, assigned=self._take_queue, revoked=self._leave_queue)
        self._group: Final = self._consumer.group
        self._share: Final = self._consumer.share
        self._queues: Final = BrokerQueues(client, group)
        self._paused: Final[set[TopicQueue]] = set()
        self._listeners: Final[list[tuple[str, Listener]]] = []
        self._known: Final[dict[str, frozenset[TopicQueue]]] = {}

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(commit=kind is None)

    async def open(self) -> None:
        """Join the group. Raises as `Consumer.open`."""
        await self._consumer.open()
        self._client.on_routes.append(self._take_route)

    async def close(self, *, commit: bool = True) -> None:
        """Leave the group; with ``commit`` and ``auto_commit``, what was polled last counts as done."""
        if self._take_route in self._client.on_routes:
            self._client.on_routes.remove(self._take_route)
        if commit and self.auto_commit:
            self._mark()
        await self._consumer.close()

    # Subscriptions and assigned queues.

    async def subscribe(self, *subscriptions: Subscription) -> None:
        """Share the queues of more topics with the other members of the group, from now on.

        Raises InputError for a topic that is subscribed to already, and if queues were assigned; BrokerError for a
        condition that the broker refuses.
        """
        if self._group.fixed is not None:
            raise InputError(f"group {self._group.name}: queues are assigned to it: it cannot subscribe as well")
        for each in subscriptions:
            if check_topic(each.topic) in self._group.subscriptions:
                raise InputError(f"topic {each.topic} is subscribed to already")
        added = {each.topic: each.at(now_ms()) for each in subscriptions}
        self._group.subscriptions |= added
        try:
            await self._group.check()
        except HashstarError:
            for topic in added:
                self._group.subscriptions.pop(topic, None)
            raise
        await self._share.rebalancing.finish_next()

    async def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic, and commit its marked offsets."""
        self._group.subscriptions.pop(topic, None)
        await self._share.rebalancing.finish_next()

    async def assign(self, queues: Iterable[TopicQueue], *expressions: Subscription) -> None:
        """Read these queues, and no others, whatever the other members of the group read.

        ``expressions`` have the tags or conditions for topics; else all messages are read. Raises InputError if topics
        are subscribed to.
        """
        if self._group.fixed is None and self._group.subscriptions:
            raise InputError(f"group {self._group.name}: it subscribes to topics: queues cannot be assigned as well")
        wanted = frozenset(queues)
        given = {each.topic: each for each in expressions}
        topics = {check_topic(queue.topic) for queue in wanted}
        now = now_ms()
        self._group.fixed = wanted
        self._group.subscriptions.clear()
        self._group.subscriptions |= {
            topic: given.get(topic, Subscription.to_tags(topic)).at(now) for topic in sorted(topics)
        }
        await self._share.rebalancing.finish_next()

    @property
    def assigned(self) -> frozenset[TopicQueue]:
        """Queues that it reads now."""
        return frozenset(self._consumer.assigned)

    @property
    def troubles(self) -> Mapping[TopicQueue | str, HashstarError]:
        """Queue or topic -> error of the last attempt to read or divide it, which is repeated."""
        return self._consumer.troubles

    async def queues(self, topic: str) -> frozenset[TopicQueue]:
        """Return all queues of a topic (``fetchMessageQueues``). Raises ClientError."""
        return _queues_in(topic, await self._client.route(topic))

    async def on_queues_changed(self, topic: str, listener: Listener) -> None:
        """Have a listener called when a topic gets or loses queues (``registerTopicMessageQueueChangeListener``).

        The routes are looked up every ``poll_name_server_interval``. Raises ClientError for a topic that is not there.
        """
        self._known.setdefault(topic, await self.queues(topic))
        self._listeners.append((topic, listener))

    # Messages.

    async def poll(self, timeout: float = 5.0, limit: int = 32) -> list[StoredMessage]:  # noqa: ASYNC109  as in Java
        """Wait ``timeout`` seconds for messages, and return at most ``limit`` of them, by queue in their order.

        May be cancelled without losing messages. Raises ClientError when the consumer is closed.
        """
        if self.auto_commit:
            self._mark()
        try:
            async with asyncio.timeout(timeout):
                batches = await self._consumer.receive_by_queue(limit)
        except TimeoutError:
            return []
        for assigned, messages in batches:
            self._consumer.done_before(assigned, messages[-1].queue_offset + 1)
        return [message for _, messages in batches for message in messages]

    def pause(self, queues: Iterable[TopicQueue]) -> None:
        """Return no more messages of these queues, until `resume`; queues that come later count, too."""
        for queue in queues:
            self._paused.add(queue)
            if queue in self._share.readings:
                self._share.pause_queue(queue, paused=True)

    def resume(self, queues: Iterable[TopicQueue]) -> None:
        """Return messages of these queues again."""
        for queue in queues:
            self._paused.discard(queue)
            if queue in self._share.readings:
                self._share.pause_queue(queue, paused=False)

    # Positions.

    def position(self, queue: TopicQueue) -> int:
        """Return the offset behind the last message of a queue that was polled. Raises ClientError, as `seek`."""
        return self._reading(queue).position

    async def seek(self, queue: TopicQueue, offset: int) -> None:
        """Continue a queue at an offset: the next poll returns its message.

        Raises ClientError if the queue is not assigned, as during a rebalance, or has no such offset.
        """
        self._reading(queue)
        first, end = await asyncio.gather(self._queues.min_offset(queue), self._queues.max_offset(queue))
        if not first <= offset <= end:
            raise ClientError(f"Seek offset illegal, seek offset = {offset}, min offset = {first}, max offset = {end}")
        self._reading(queue)
        self._share.seek(queue, offset)

    async def seek_to_begin(self, queue: TopicQueue) -> None:
        """Continue a queue at its first message; otherwise as `seek`."""
        await self.seek(queue, await self._queues.min_offset(queue))

    async def seek_to_end(self, queue: TopicQueue) -> None:
        """Continue a queue at its end; otherwise as `seek`."""
        await self.seek(queue, await self._queues.max_offset(queue))

    async def seek_to_time(self, queue: TopicQueue, time_ms: int) -> None:
        """Continue a queue at its first message stored at or after a time; otherwise as `seek`."""
        await self.seek(queue, await self.offset_for_time(queue, time_ms))

    async def offset_for_time(self, queue: TopicQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at or after a time, in milliseconds since 1970, or the end.

        Raises RemotingError.
        """
        return await self._queues.search_offset(queue, time_ms)

    async def committed(self, queue: TopicQueue) -> int | None:
        """Return the group's offset in a queue, as its broker has it; None if there is none. Raises RemotingError."""
        return await self._queues.committed_offset(queue)

    async def commit(self, offsets: Mapping[TopicQueue, int] | None = None) -> dict[TopicQueue, int]:
        """Commit all that was polled, or these offsets, now; return what the brokers have confirmed.

        Raises ClientError for a queue that is not assigned, InputError for a negative offset.
        """
        if offsets is None:
            self._mark()
            return await self._consumer.persist()
        for queue, offset in offsets.items():
            if offset < 0:
                raise InputError(f"{queue}: offset {offset} cannot be committed")
            self._reading(queue)
        for queue, offset in offsets.items():
            self._reading(queue).marked = offset
        return await self._consumer.persist(offsets)

    def _mark(self) -> None:
        """Mark all that was polled as done."""
        for assigned in self._consumer.assigned.values():
            if assigned.pulled or assigned.marked != NOTHING:
                assigned.marked = assigned.position

    def _reading(self, queue: TopicQueue) -> AssignedQueue:
        reading = self._share.readings.get(queue)
        if reading is None or reading.assigned.dropped:
            raise ClientError(f"The message queue is not in assigned list, message queue: {queue}")
        return reading.assigned

    # Events.

    def _take_queue(self, assigned: AssignedQueue) -> None:
        assigned.marked = NOTHING
        assigned.paused = assigned.queue in self._paused
        if self._on_assigned is not None:
            self._on_assigned(assigned.queue)

    def _leave_queue(self, assigned: AssignedQueue) -> None:
        if self._on_revoked is not None:
            self._on_revoked(assigned.queue)

    def _take_route(self, topic: str, route: TopicRoute) -> None:
        if topic not in self._known:
            return
        queues = _queues_in(topic, route)
        if queues != self._known[topic]:
            self._known[topic] = queues
            for wanted, listener in tuple(self._listeners):
                if wanted == topic:
                    listener(topic, queues)


def _queues_in(topic: str, route: TopicRoute) -> frozenset[TopicQueue]:
    """Return the queues of a route that can be read; an empty set if there are none."""
    try:
        return frozenset([TopicQueue.from_partition(topic, queue) for queue in subscribe_queues(route).all])
    except InputError:
        return frozenset()
