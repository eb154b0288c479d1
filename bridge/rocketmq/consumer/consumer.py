"""A consumer: a member of a group that pulls the queues of its share, hands messages out and keeps where it stands.

Messages of a queue are handed out in their order and may be done with in any; all members together get each at least
once. A consumer that is killed leaves what it was not done with, and what it was done with in the last seconds, to the
others, or to itself when it comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Self

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group, MessageModel
from bridge.rocketmq.consumer.offsets import parse_table
from bridge.rocketmq.consumer.retrying import DEAD, give_back, send_retry
from bridge.rocketmq.consumer.room import Reading
from bridge.rocketmq.consumer.running import offsets_body, running_info, stacks
from bridge.rocketmq.consumer.share import Share
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import TopicRoute

__all__ = ["Batch", "Consumer"]

LOG: Final = logging.getLogger(__name__)

Batch = tuple[AssignedQueue, list[StoredMessage]]
"""Messages of one queue, in order."""


class Consumer:
    """A consumer of a group; ``async with`` opens and closes it.

    ``assigned`` and ``revoked`` are called with each queue that comes and goes, on the event loop.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        subscriptions: Iterable[Subscription],
        settings: ConsumerSettings | None = None,
        *,
        assigned: Callable[[AssignedQueue], None] | None = None,
        revoked: Callable[[AssignedQueue], None] | None = None,
    ) -> None:
        """Raises InputError, IllegalMessage."""
        self.settings: Final = settings or ConsumerSettings()
        self.group: Final = Group(client, group, subscriptions, self.settings)
        self._client: Final = client
        self._news: Final = asyncio.Event()
        self._share: Final = Share(client, self.group, news=self._news.set, assigned=assigned, revoked=revoked)
        self._handled: list[Callable[[], None]] = []
        self._is_open = False
        self._closing: asyncio.Future[None] | None = None
        self._opened_ms = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def assigned(self) -> Mapping[TopicQueue, AssignedQueue]:
        """The queues of its share as of now."""
        return {queue: reading.assigned for queue, reading in self._share.readings.items()}

    @property
    def troubles(self) -> Mapping[TopicQueue | str, HashstarError]:
        """Queue or topic -> why it was not pulled, locked or divided when that was tried last; it is tried again."""
        return self._share.troubles

    @property
    def unpersisted(self) -> Mapping[TopicQueue, Exception]:
        """Queue -> why where the group stands in it could not be kept when that was tried last; it is tried again."""
        return self._share.unpersisted

    @property
    def broken(self) -> Exception | None:
        """What ended a task of this consumer's, after which not all is read; it is to be closed then."""
        return self._share.broken

    @property
    def divided(self) -> frozenset[str]:
        """The topics of which it has all queues that are to be its share, as of the last division."""
        return self._share.divided

    # Its life.

    async def open(self) -> None:
        """Join the group, and begin to pull.

        Raises BrokerError for a condition in SQL92 that the broker refuses, InputError for a file of offsets that
        cannot be read. A topic that there is not yet is read once there is.
        """
        for topic in self.group.subscriptions:
            with suppress(ClientError):
                await self._client.route(topic)
        await self.group.check()
        self._share.load()
        await self._client.register_consumer(self.group.name, self.group.heartbeat)
        # From here on nothing waits, so that it is open as a whole or not at all.
        self._is_open = True
        self._opened_ms = now_ms()
        self._handled = [
            self._client.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._notified),
            self._client.handle(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._told_to_reset),
            self._client.handle(RequestCode.GET_CONSUMER_RUNNING_INFO, self._asked_how_it_does),
            self._client.handle(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._asked_where_it_stands),
        ]
        self._client.on_routes.append(self._rerouted)
        self._share.open()

    async def close(self) -> None:
        """Persist what is done with, give up the queues and leave the group. Never raises.

        It goes on when who waits for it is cancelled, so that no member is left that does not read.
        """
        if self._is_open:
            self._is_open = False
            self._news.set()
            for ends in self._handled:
                ends()
            self._client.on_routes.remove(self._rerouted)
            self._closing = asyncio.ensure_future(self._close())
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._share.close()
        finally:
            # Only now, as the others divide the queues anew as soon as they hear of it.
            await self._client.unregister_consumer(self.group.name)

    def pause(self) -> None:
        """Hand nothing out and pull nothing more, but stay in the group and keep the queues."""
        self._share.resumed.clear()

    def resume(self) -> None:
        """Go on."""
        self._share.resumed.set()
        self._news.set()

    # Messages.

    async def receive(self, limit: int = 32) -> list[StoredMessage]:
        """At least one message and at most ``limit``, waiting for the first; may be cancelled, losing nothing.

        Messages of a queue come in order; retries have the topic that they were first read from. Raises ClientError on
        a consumer that is closed.
        """
        return [message for _, messages in await self.receive_by_queue(limit) for message in messages]

    async def receive_by_queue(self, limit: int = 32) -> list[Batch]:
        """As `receive`, but by queue; see `done_before`."""
        while self._is_open:
            if self._share.broken is not None:
                raise self._share.broken
            if self._share.resumed.is_set():
                taken = self._take(limit)
                if taken:
                    return taken
            self._news.clear()
            await self._news.wait()
        raise ClientError(f"group {self.group.name}: the consumer is closed")

    def done(self, message: StoredMessage) -> bool:
        """This message, as it was received, is done with; whether its queue is still ours.

        If not, another member gets the message again.
        """
        readings = self._share.readings
        for topic in (message.topic, self.group.retry_topic):  # with which retries are not shown
            reading = readings.get((topic, message.broker, message.queue_id))  # type: ignore[call-overload]  # a plain tuple is quicker made
            if reading is not None and reading.assigned.done(message):
                self._advanced(reading)
                return True
        return False

    def done_before(self, assigned: AssignedQueue, offset: int) -> int:
        """All that was received of this queue before an offset is done with; how many these are."""
        count = assigned.done_before(offset)
        reading = self._share.readings.get(assigned.queue)
        if count and reading is not None:
            self._advanced(reading)
        return count

    async def retry(self, message: StoredMessage, delay_level: int = 0) -> bool:
        """Have this message, which failed, delivered again later; whether its queue is still ours.

        It is given back to the broker, for the level in ``delay_level``, 0 being one that grows, -1 the dead letters;
        and is done with here. In order, it and what was received after it of its queue is handed out once more after
        ``suspend_current_queue_time``, unless it has failed too often. Raises RemotingError if no broker takes it: then
        it is not done with. Raises InputError when broadcasting, which knows no retries.
        """
        if self.settings.message_model is MessageModel.BROADCASTING:
            raise InputError(f"group {self.group.name} is broadcasting: RocketMQ delivers no message again there")
        reading = self._reading_of(message)
        if reading is None:
            return False
        most = self.settings.most_reconsumed
        if not self.settings.orderly:
            await give_back(self._client, self.group.name, message, delay_level, most)
        elif delay_level == DEAD or message.reconsume_times >= most:
            await send_retry(self._client, self.group.name, message, min(most, message.reconsume_times))
        else:
            until = asyncio.get_running_loop().time() + self.settings.suspend_current_queue_time
            changed = message._replace(reconsume_times=message.reconsume_times + 1)
            asyncio.get_running_loop().call_at(until, self._news.set)
            return reading.assigned.again(message, changed, until)
        return self.done(message)

    async def persist(self, queues: Iterable[TopicQueue] | None = None) -> dict[TopicQueue, int]:
        """Tell now where the group stands, which is else done every 5 s and with each pull; what is kept for certain.

        That are offsets: all before one is done with. A queue that could not be told is not in it, nor one whose lock
        may be another member's by now. Of all ``queues``, or those given, a broker that does not answer is waited for
        as long as 5 s.
        """
        return await self._share.persist(queues)

    def _take(self, limit: int) -> list[Batch]:
        turns, now, window = self._share.turns, asyncio.get_running_loop().time(), self.settings.window
        taken = []
        for _ in range(len(turns)):
            reading = turns[0]
            if reading.channel is not None:
                self._share.check_lock(reading)
            assigned = reading.assigned
            messages = assigned.take(limit, now, window)
            if messages:
                taken.append((assigned, messages))
                limit -= len(messages)
            turns.rotate(-1)
            if not limit:
                break
        return taken

    def _reading_of(self, message: StoredMessage) -> Reading | None:
        """Whose it is: that of the topic, or, as retries are shown with another topic, that of the retries."""
        for topic in (message.topic, self.group.retry_topic):
            reading = self._share.readings.get(TopicQueue(topic, message.broker, message.queue_id))
            if reading is not None and reading.assigned.is_out(message):
                return reading
        return None

    def _advanced(self, reading: Reading) -> None:
        reading.consumed_ms = now_ms()
        if reading.waits:
            reading.moved.set()
        self._share.room.look()
        if self.settings.window:
            self._news.set()

    # What brokers say.

    def _notified(self, request: Command) -> None:
        if request.fields.get("consumerGroup") == self.group.name:
            self._share.changed.set()

    def _told_to_reset(self, request: Command) -> None:
        """`MQClientInstance.resetOffset`; it is told by ``mqadmin resetOffsetByTime``."""
        if request.fields.get("group") != self.group.name:
            return
        try:
            offsets = parse_table(request.body.decode("utf-8", "replace"))
        except InputError as error:
            LOG.warning("group %s: offsets are not reset: %s", self.group.name, error)
            return
        self._share.reset(offsets)

    def _asked_how_it_does(self, request: Command) -> Command | None:
        """`ClientRemotingProcessor.getConsumerRunningInfo`."""
        if request.fields.get("consumerGroup") != self.group.name:
            return None
        jstack = stacks() if request.fields.get("jstackEnable") == "true" else None
        servers = self._client.settings.name_servers
        body = running_info(self.group, self._share.readings.values(), servers, self._opened_ms, jstack)
        return request.response(ResponseCode.SUCCESS, body=body)

    def _asked_where_it_stands(self, request: Command) -> Command | None:
        """`ClientRemotingProcessor.getConsumeStatus`."""
        if request.fields.get("group") != self.group.name:
            return None
        body = offsets_body(self._share.readings.values(), request.fields.get("topic", ""))
        return request.response(ResponseCode.SUCCESS, body=body)

    def _rerouted(self, topic: str, route: TopicRoute) -> None:
        if topic in self.group.subscriptions:
            self._share.changed.set()
