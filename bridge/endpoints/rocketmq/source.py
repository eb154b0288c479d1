"""Topics as a source: a consumer group, whose offsets follow what is settled.

A queue is a lane as long as it is assigned. The offset of the first delivery that is not settled is committed to the
broker soon. The window bounds the deliveries that are not *committed*: so when the process is killed, at most a window
of messages comes again. No message is given back for a retry: what cannot be delivered, the pump holds or dead-letters.

A new member begins to read the queues that it gets at the committed offsets, while the member that had them may still
be writing the same messages: then these are there twice. Still, the first copies of a queue's messages are in order:
both members write in order, and the new one begins no later than where the old one ends. With ``orderly``, queues are
read under the broker's locks, and go to another member only when all that was read of them is settled. But a member
that is killed leaves its locks behind: the others wait for 60 seconds.

The client reconnects by itself and learns of brokers that come and go, so a source is disconnected only by a problem
that does not pass by itself: a missing permission, a topic that was deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Final

from bridge.aside import call_aside
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Finding, Place, Removal, Source, to_disconnected
from bridge.endpoints.rocketmq.backlog import Backlog, look_up_removals
from bridge.endpoints.rocketmq.checking import check_source, find_places, find_servers
from bridge.endpoints.rocketmq.lane import QueueLane
from bridge.endpoints.rocketmq.placing import routes_of
from bridge.rocketmq.consumer.assigned import AssignedQueue, PullLimits, TopicQueue
from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, RemotingError
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.pulse import Pulse
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import subscribe_queues

LOG: Final = logging.getLogger(__name__)

COMMIT_EVERY: Final = 0.1
"""Seconds between commits; sooner when a quarter of the window is settled."""
COMMIT_AGAIN: Final = 1.0
"""Seconds until a commit that failed is tried again."""
LOOK_EVERY: Final = 1.0
"""Seconds between checks for problems while no message comes."""
END_EVERY: Final = 0.2
"""Seconds between checks for the end."""

QUEUE_BYTES: Final = 16 << 20
"""Maximum size of the messages of one queue that are kept here, in bytes."""
WINDOW_BYTES: Final = 256 << 20
"""Default maximum size of all messages that are kept here, in bytes."""

LASTING: Final = frozenset({
    ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED,
})  # fmt: skip
"""Answers about problems that do not pass by themselves."""

PASSING: Final = frozenset({
    ResponseCode.FLOW_CONTROL, ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.FILTER_DATA_NOT_EXIST, ResponseCode.FILTER_DATA_NOT_LATEST,
})  # fmt: skip
"""Answers about problems that pass within moments, as after a broker's start."""

CLOSING: Final = 1.5
"""Seconds until the group must be left; then connections are ended at once, by which brokers notice it."""
ENDING: Final = 0.5
"""Seconds until background tasks must have ended after that."""


class RocketmqSource(Source):
    """Topics of RocketMQ, read with a consumer group.

    With ``orderly`` it reads under the broker's locks; with ``until_end`` the stream ends when all queues that are ours
    are read to their ends. ``window`` bounds the number of messages read and not committed, ``window_bytes`` the size
    of all messages that are kept here, read ahead or not settled. A queue that the group has never read is begun at its
    first message, or with ``from_last`` at its end, unless this source has read the topic before it was made anew.
    """

    def __init__(
        self,
        name: str,
        settings: ClientSettings,
        group: str,
        subscriptions: Sequence[Subscription],
        *,
        orderly: bool = False,
        until_end: bool = False,
        from_last: bool = False,
        window: int = 2_000,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.name = name
        self._settings = settings
        self._group = group
        self._subscriptions = subscriptions
        self._until_end = until_end
        self._consuming = ConsumerSettings(
            orderly=orderly,
            consume_from=ConsumeFrom.LAST if from_last else ConsumeFrom.FIRST,
            limits=PullLimits(
                pull_threshold_for_queue=window,
                pull_threshold_size_for_queue=QUEUE_BYTES,
                pull_threshold_size_for_all=max(window_bytes, 1),
                consume_concurrently_max_span=max(window, 2_000),
            ),
        )
        self._window = window
        self._client: Client | None = None
        self._consumer: Consumer | None = None
        self._committing: asyncio.Task[None] | None = None
        self._commits: dict[str, asyncio.Task[None]] = {}
        """Broker -> the commit that is under way."""
        self._asking: asyncio.Task[None] | None = None
        self._backlog: Final = Backlog(name)
        self._known: Final = set[TopicQueue | str]()
        """What consumers of all connections have read, so that none takes a topic that was made anew for a new group's:
        `Persisting.known`."""
        self._lanes: dict[AssignedQueue, QueueLane] = {}
        self._uncommitted = 0
        """Number of deliveries that were read and are not committed."""
        self._settled_since = 0
        """Approximate number of deliveries that were settled since the last commit."""
        self._settled = asyncio.Event()
        """Set when there is something to commit."""
        self._many_settled = asyncio.Event()
        """Set when the next commit must not wait for `COMMIT_EVERY`."""
        self._committed = asyncio.Event()
        """Set when the window may have room again, or the connection is broken."""
        self._pulse: Pulse | None = None
        self._broken: Exception | None = None
        """Exception that ended a task of this connection, which should not end."""

    @property
    def trouble(self) -> str | None:
        consumer, pulse = self._consumer, self._pulse
        if consumer is None or pulse is None:
            return None
        if (silence := pulse.trouble) is not None:
            return silence
        for where, trouble in consumer.troubles.items():
            # Errors of connections are left to the pulse, which notices their end earlier.
            if isinstance(trouble, BrokerError | InputError) and not (_is_retry(where) or _is_passing(trouble)):
                return f"{where}: {trouble}"
        for queue, problem in consumer.unpersisted.items():
            if isinstance(problem, BrokerError) and not _is_retry(queue.topic):
                return f"{queue}: what is settled cannot be committed: {problem}"
        return None

    @property
    def lag(self) -> int | None:
        return None if self._consumer is None else self._backlog.count(self._consumer.assigned.values())

    @property
    def vanished(self) -> int:
        return self._backlog.vanished

    async def find_removals(self) -> Sequence[Removal] | None:
        if self._pulse is not None and self._client is not None:
            return await self._ask_for_removals(self._client)
        client = Client(await call_aside(self._settings.current))
        try:
            await client.open()
            return await self._ask_for_removals(client)
        finally:
            client.abort()

    async def _ask_for_removals(self, client: Client) -> Sequence[Removal] | None:
        servers: dict[str, str] = {}
        for route in (await routes_of(client, [each.topic for each in self._subscriptions])).values():
            servers |= find_servers(route)
        hidden: list[str] = []
        found = await look_up_removals(client, servers, hidden)
        return found if found or not hidden else None

    @property
    def places(self) -> frozenset[Place]:
        return find_places(self._settings, [each.topic for each in self._subscriptions])

    @property
    def settled_in(self) -> str:
        return self._group

    async def check(self) -> Sequence[Finding]:
        from_last = self._consuming.consume_from is ConsumeFrom.LAST
        return await check_source(self._settings, self._group, self._subscriptions, from_last=from_last)

    async def open(self) -> None:
        self._broken = None
        try:
            client = self._client = Client(await call_aside(self._settings.current))
            client.on_broken.append(self._break)
            await client.open()
            for topic, route in (await routes_of(client, [each.topic for each in self._subscriptions])).items():
                try:
                    subscribe_queues(route)
                except InputError:
                    raise Disconnected(f"topic {topic!r} has no queue that may be read") from None
            consumer = Consumer(
                client, self._group, self._subscriptions, self._consuming, revoked=self._drop_lane,
                answered=self._backlog.take_answer, known=self._known,
            )  # fmt: skip
            self._consumer = consumer
            await consumer.open()
        except Exception as error:
            raise to_disconnected(error) from error
        # Nothing is awaited from here on, so a cancellation leaves the source either open or not, never half open.
        self._pulse = Pulse(client, [each.topic for each in self._subscriptions], replicas=True, failed=self._break)
        self._pulse.open()
        self._committing = self._start(self._commit(consumer))
        self._asking = self._start(self._backlog.keep_asking(consumer, BrokerQueues(client, self._group)))

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._check_ended)
        return task

    def _check_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self._broken = error if isinstance(error, Exception) else RuntimeError(repr(error))
        self._committed.set()

    def _drop_lane(self, assigned: AssignedQueue) -> None:
        self._backlog.forget(assigned)
        lane = self._lanes.pop(assigned, None)
        if lane is not None:
            self._uncommitted -= len(lane.offsets)
            self._committed.set()

    async def read(self, limit: int) -> Sequence[Delivery]:
        while True:
            consumer = self._consumer
            if consumer is None:
                raise Disconnected("closed")
            self._raise_broken(consumer)
            try:
                # No await between receiving messages and returning them: a cancellation there would lose them.
                async with asyncio.timeout(END_EVERY if self._until_end else LOOK_EVERY):
                    batches = await consumer.receive_by_queue(min(limit, await self._room()))
            except TimeoutError:
                self._look(consumer)
                if self._until_end and await self._is_at_end(consumer):
                    raise EndOfStream from None
            except Exception as error:
                raise to_disconnected(error) from error
            else:
                return [delivery for batch in batches for delivery in self._deliveries(*batch)]

    async def _room(self) -> int:
        """Wait until a message may be read, and return how many may."""
        while (room := self._window - self._uncommitted) <= 0 and self._broken is None:
            self._many_settled.set()
            self._committed.clear()
            await self._committed.wait()
        if self._broken is not None:
            raise to_disconnected(self._broken)
        return room

    def _deliveries(self, assigned: AssignedQueue, messages: Sequence[StoredMessage]) -> list[Delivery]:
        lane = self._lanes.get(assigned)
        if lane is None:
            lane = self._lanes[assigned] = QueueLane(self.name, assigned)
        lane.offsets += [message.queue_offset for message in messages]
        self._uncommitted += len(messages)
        return [lane.make_delivery(message) for message in messages]

    @property
    def lost(self) -> Disconnected | None:
        if self._consumer is not None:
            try:
                self._raise_broken(self._consumer)
                self._look(self._consumer)
            except Disconnected as error:
                return error
        return None

    def _raise_broken(self, consumer: Consumer) -> None:
        """Raise Disconnected if a task has ended that should not end."""
        broken = self._broken or consumer.broken
        if broken is not None:
            raise to_disconnected(broken) from broken

    def _look(self, consumer: Consumer) -> None:
        """Raise Disconnected for a problem that does not pass by itself."""
        for where, trouble in consumer.troubles.items():
            if _is_lasting(trouble) and not _is_retry(where):
                raise Disconnected(f"{where}: {trouble}")
        for queue, problem in consumer.unpersisted.items():
            if isinstance(problem, BrokerError) and problem.code in LASTING and not _is_retry(queue.topic):
                raise Disconnected(f"{queue}: what is settled cannot be committed: {problem}")

    async def _is_at_end(self, consumer: Consumer) -> bool:
        """Return whether this member has all queues of its share, and has read them to their present ends."""
        lanes = [lane for queue, lane in consumer.assigned.items() if not _is_retry(queue.topic)]
        missing = {each.topic for each in self._subscriptions} - consumer.complete
        if missing or any(not _is_retry(where) for where in consumer.troubles):
            return False
        if any(lane.ready for lane in lanes) or self._client is None:
            return False
        queues = BrokerQueues(self._client, self._group)
        try:
            ends = await asyncio.gather(*[queues.max_offset(lane.queue) for lane in lanes])
        except RemotingError:
            return False
        return not any(lane.ready or lane.next_offset < end for lane, end in zip(lanes, ends, strict=True))

    def settle(self, delivery: Delivery) -> None:
        if self._consumer is not None:
            lane: QueueLane = delivery.lane  # type: ignore[assignment]  # a delivery of this source
            count = self._consumer.done_before(lane.assigned, delivery.position + 1)
            if count:
                lane.has_news = True
                self._settled_since += count
                self._settled.set()
                if self._settled_since * 4 >= self._window:
                    self._many_settled.set()

    async def _commit(self, consumer: Consumer) -> None:
        """Commit what is settled, until cancelled; with a task for each broker, since one that hangs must not delay the
        queues of the others.
        """
        while True:
            await self._settled.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_EVERY):
                    await self._many_settled.wait()
            self._settled.clear()
            self._many_settled.clear()
            self._settled_since = 0
            news: dict[str, list[QueueLane]] = {}
            for lane in self._lanes.values():
                if lane.has_news and lane.assigned.queue.broker not in self._commits:
                    news.setdefault(lane.assigned.queue.broker, []).append(lane)
            for broker, lanes in news.items():
                self._commits[broker] = self._start(self._commit_at(consumer, broker, lanes))

    async def _commit_at(self, consumer: Consumer, broker: str, lanes: Sequence[QueueLane]) -> None:
        """Commit the offsets of lanes at their broker."""
        for lane in lanes:
            lane.has_news = False
        committed = await consumer.persist([lane.assigned.queue for lane in lanes])
        for lane in lanes:
            offset = committed.get(lane.assigned.queue)
            if self._lanes.get(lane.assigned) is lane:
                self._uncommitted -= lane.mark_committed(offset)
            lane.has_news |= offset is None
        self._committed.set()
        if len(committed) < len(lanes):
            await asyncio.sleep(COMMIT_AGAIN)
        del self._commits[broker]
        self._settled.set()

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        client, self._client = self._client, None
        pulse, self._pulse = self._pulse, None
        tasks = [task for task in (self._committing, self._asking, *self._commits.values()) if task is not None]
        for task in tasks:
            task.cancel()
        self._committing = self._asking = None
        self._commits.clear()
        has_left = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._leave(client, consumer, pulse, tasks)
                    has_left = True
        finally:  # also when this is cancelled: without their connection, brokers remove the member
            if client is not None:
                client.abort()
            self._lanes.clear()
            self._backlog.clear()
            self._uncommitted = self._settled_since = 0
        if not has_left:
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING):
                    await self._leave(client, consumer, pulse, tasks)

    async def _leave(
        self, client: Client | None, consumer: Consumer | None, pulse: Pulse | None, tasks: Sequence[asyncio.Task[None]]
    ) -> None:
        """Close consumer and client. A failure is logged only, as the caller can do nothing about it."""
        try:
            if pulse is not None:
                await pulse.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            if consumer is not None:
                await consumer.close()
            if client is not None:
                await client.close()
        except Exception:
            LOG.exception("%s: closing failed", self.name)


def _is_lasting(trouble: HashstarError) -> bool:
    """Return whether a problem does not pass by itself: a permission, a topic, an answer that cannot be read."""
    if isinstance(trouble, BrokerError | ClientError):
        return trouble.code in LASTING
    return isinstance(trouble, InputError)


def _is_passing(trouble: HashstarError) -> bool:
    return isinstance(trouble, BrokerError) and trouble.code in PASSING


def _is_retry(where: object) -> bool:
    return str(where).startswith("%RETRY%")
