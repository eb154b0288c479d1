"""A consumer: a member of a group that pulls the queues of its share, hands out messages and persists offsets.

Messages of a queue are handed out in their order, and may be acknowledged in any order. The members of a group together
receive each message at least once. When a consumer is killed, the messages that it has not acknowledged, and those that
it acknowledged in its last seconds, are delivered again: to the other members, or to itself when it is started again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, MutableSet, Sequence
from contextlib import suppress
from typing import Final, Self, TypeVar

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.fetching import Answered
from bridge.rocketmq.consumer.group import ConsumerSettings, Group, MessageModel
from bridge.rocketmq.consumer.offsets import parse_table
from bridge.rocketmq.consumer.pop.handle import POP_CK
from bridge.rocketmq.consumer.retrying import DEAD, give_back, send_retry
from bridge.rocketmq.consumer.running import build_running_info, encode_offsets, format_stacks
from bridge.rocketmq.consumer.share import Batch, Share
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import TopicRoute

__all__ = ["Batch", "Consumer"]

T = TypeVar("T")

LOG: Final = logging.getLogger(__name__)


class Consumer:
    """A consumer of a group; ``async with`` opens and closes it.

    ``assigned`` and ``revoked`` are called with each queue that comes and goes, ``answered`` with each answer to a
    pull; all on the event loop. ``known`` has what `Persisting.known` does, from consumers before it.
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
        answered: Answered | None = None,
        known: MutableSet[TopicQueue | str] | None = None,
    ) -> None:
        """Check settings and subscriptions. Raises InputError, IllegalMessage."""
        self.settings: Final = settings or ConsumerSettings()
        self.group: Final = Group(client, group, subscriptions, self.settings)
        self._client: Final = client
        self._news: Final = asyncio.Event()
        self._share: Final = Share(
            client, self.group, news=self._news.set, assigned=assigned, revoked=revoked, answered=answered, known=known
        )
        self._handlers: list[Callable[[], None]] = []
        self._is_open = False
        self._closing: asyncio.Future[None] | None = None
        self._opened_ms = 0
        self._pops_first = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def share(self) -> Share:
        """Its queues and their tasks, for a consumer that is built upon this one."""
        return self._share

    @property
    def assigned(self) -> Mapping[TopicQueue, AssignedQueue]:
        """Queues that are assigned to it now."""
        return {queue: reading.assigned for queue, reading in self._share.readings.items()}

    @property
    def unpulled(self) -> Sequence[AssignedQueue]:
        """Queues assigned now that are not pulled, as what was pulled before is to be acknowledged first."""
        return [each.assigned for each in self._share.readings.values() if each.waits and not each.assigned.dropped]

    @property
    def popped(self) -> frozenset[TopicQueue]:
        """Queues that are popped now, as the broker assigned them; -1 stands for all queues of a broker."""
        return frozenset(self._share.popping.queues)

    @property
    def troubles(self) -> Mapping[TopicQueue | str, HashstarError]:
        """Queue or topic -> why the last try to pull, lock or rebalance it failed; it is tried again."""
        return self._share.troubles

    @property
    def unpersisted(self) -> Mapping[TopicQueue, Exception]:
        """Queue -> why the last try to persist its offset failed; it is tried again."""
        return self._share.unpersisted

    @property
    def broken(self) -> Exception | None:
        """Exception that ended a task of this consumer: some queues may not be read any more, so it must be closed."""
        return self._share.broken

    @property
    def complete(self) -> frozenset[str]:
        """Topics of which it has all queues of its share, as of the last rebalance."""
        return self._share.complete

    # Its life.

    async def open(self) -> None:
        """Join the group, and begin to pull. A topic that does not exist yet is read as soon as it does.

        Raises BrokerError for a condition in SQL92 that the broker refuses, InputError for a file of offsets that
        cannot be read (when broadcasting).
        """
        for topic in self.group.subscriptions:
            with suppress(ClientError):
                await self._client.route(topic)
        await self.group.check()
        self._share.load()
        await self._client.register_consumer(self.group.name, self.group.heartbeat)
        # Nothing is awaited from here on, so a cancellation leaves it either open or not, never half open.
        self._is_open = True
        self._opened_ms = now_ms()
        self._handlers = [
            self._client.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._handle_member_change),
            self._client.handle(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._handle_reset),
            self._client.handle(RequestCode.GET_CONSUMER_RUNNING_INFO, self._answer_running_info),
            self._client.handle(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._answer_status),
        ]
        self._client.on_routes.append(self._handle_route_change)
        self._share.open()

    async def close(self) -> None:
        """Persist the offsets, give up the queues and leave the group. Never raises.

        It continues when its caller is cancelled, so that no member that reads nothing stays in the group.
        """
        if self._is_open:
            self._is_open = False
            self._news.set()
            for stop in self._handlers:
                stop()
            self._client.on_routes.remove(self._handle_route_change)
            self._closing = asyncio.ensure_future(self._close())
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._share.close()
        finally:
            # Last of all: the brokers notify the other members at once, and these rebalance.
            await self._client.unregister_consumer(self.group.name)

    def pause(self) -> None:
        """Hand out and pull no more messages, but stay in the group and keep the queues."""
        self._share.pause()

    def resume(self) -> None:
        """Hand out and pull messages again."""
        self._share.resume()
        self._news.set()

    # Messages.

    async def receive(self, limit: int = 32) -> list[StoredMessage]:
        """Wait for a message, and return at most ``limit`` of them; may be cancelled, losing nothing.

        Messages of a queue come in order; retries have the topic that they were first read from. Raises ClientError
        when the consumer is closed.
        """
        return await self._receive(lambda: self._take(limit))

    async def receive_by_queue(self, limit: int = 32) -> list[Batch]:
        """Do as `receive`, but return messages by queue; see `done_before`. Popped messages are not among them."""
        return await self._receive(lambda: self._share.take(limit))

    def _take(self, limit: int) -> list[StoredMessage]:
        """Hand out popped and pulled messages; which come first alternates, so that neither waits for the other."""
        self._pops_first = not self._pops_first
        popped = self._share.popping.take(limit) if self._pops_first else []
        pulled = self._share.take(limit - len(popped)) if len(popped) < limit else []
        messages = [*popped, *[message for _, messages in pulled for message in messages]]
        if not self._pops_first and len(messages) < limit:
            messages += self._share.popping.take(limit - len(messages))
        return messages

    async def _receive(self, take: Callable[[], list[T]]) -> list[T]:
        while self._is_open:
            if self._share.broken is not None:
                raise self._share.broken
            if not self._share.is_paused:
                taken = take()
                if taken:
                    return taken
            self._news.clear()
            await self._news.wait()
        raise ClientError(f"group {self.group.name}: the consumer is closed")

    def done(self, message: StoredMessage) -> bool:
        """Acknowledge a message as it was received, and return whether its queue is still ours.

        If not, another member gets the message again. For a popped message: whether its time is not over, else it is
        handed out again. It is acknowledged at the broker soon, with others.
        """
        if self._share.popping.holds(message):
            return self._share.popping.done(message)
        return self._share.done(message)

    def done_before(self, assigned: AssignedQueue, offset: int) -> int:
        """Acknowledge all messages received of this queue before an offset, and return their number."""
        return self._share.done_before(assigned, offset)

    async def retry(self, message: StoredMessage, delay_level: int = 0) -> bool:
        """Have a failed message delivered again later, and return whether its queue is still ours.

        The message is given back to the broker and acknowledged here. ``delay_level`` is its delay: with 0 the delay
        grows with each retry, with -1 the message becomes a dead letter at once.

        When the queue is read in order, the broker gets only dead letters: messages with -1, and those that have failed
        ``most_reconsumed`` times. Any other message is handed out again after ``suspend_current_queue_time``, with all
        messages that were received after it from its queue.

        A popped message is hidden until its delay is over: level 1 is 30 s (`POP_DELAYS`), with 0 it is the number of
        times that the message was popped before. In order it is ``suspend_current_queue_time``.

        Raises RemotingError if no broker takes the message: then it is not acknowledged. Raises InputError when
        broadcasting, which has no retries.
        """
        if self.settings.message_model is MessageModel.BROADCASTING:
            raise InputError(f"group {self.group.name} is broadcasting: RocketMQ delivers no message again there")
        most = self.settings.most_reconsumed
        if self._share.popping.holds(message):
            return await self._share.popping.retry(message, delay_level, most)
        assigned = self._share.queue_of(message)
        if assigned is None:
            return False
        if not self.settings.orderly:
            await give_back(self._client, self.group.name, message, delay_level, most)
        elif delay_level == DEAD or message.reconsume_times >= most:
            await send_retry(self._client, self.group.name, message, min(most, message.reconsume_times))
        else:
            until = asyncio.get_running_loop().time() + self.settings.suspend_current_queue_time
            changed = message._replace(reconsume_times=message.reconsume_times + 1)
            asyncio.get_running_loop().call_at(until, self._news.set)
            return assigned.hand_out_again(message, changed, until)
        return self.done(message)

    async def change_invisible_time(self, message: StoredMessage, seconds: float) -> StoredMessage:
        """Hide a popped message for ``seconds`` from now on, and return it with its new handle, to acknowledge it by.

        So work that takes longer keeps its message; with a short time the message is handed out again soon. Raises
        InputError for a message that was not popped, RemotingError if the broker does not change the time.
        """
        if POP_CK not in message.properties:
            raise InputError(f"message {message.message_id} was pulled: only popped messages are hidden for a time")
        return await self._share.popping.change_invisible_time(message, seconds)

    async def persist(self, queues: Iterable[TopicQueue] | None = None) -> dict[TopicQueue, int]:
        """Persist offsets now, in addition to every 5 s and with each pull, and return those that were persisted.

        All messages before such an offset are acknowledged. The result lacks queues whose offset could not be
        persisted, and queues whose lock has expired, which another member may have by now. ``queues`` are by default
        all that are ours. Waits up to 5 s for a broker that does not answer.
        """
        return await self._share.persist(queues)

    # Requests of brokers.

    def _handle_member_change(self, request: Command) -> None:
        if request.fields.get("consumerGroup") == self.group.name:
            self._share.rebalancing.request()

    def _handle_reset(self, request: Command) -> None:
        """Set offsets, on behalf of ``mqadmin resetOffsetByTime`` (`MQClientInstance.resetOffset`)."""
        if request.fields.get("group") != self.group.name:
            return
        try:
            offsets = parse_table(request.body.decode("utf-8", "replace"))
        except InputError as error:
            LOG.warning("group %s: offsets are not reset: %s", self.group.name, error)
            return
        self._share.reset(offsets)

    def _answer_running_info(self, request: Command) -> Command | None:
        """Answer as `ClientRemotingProcessor.getConsumerRunningInfo` does."""
        if request.fields.get("consumerGroup") != self.group.name:
            return None
        jstack = format_stacks() if request.fields.get("jstackEnable") == "true" else None
        servers = self._client.settings.name_servers
        body = build_running_info(
            self.group, self._share.readings.values(), servers, self._opened_ms, jstack,
            self._share.popping.queues.values(),
        )  # fmt: skip
        return request.response(ResponseCode.SUCCESS, body=body)

    def _answer_status(self, request: Command) -> Command | None:
        """Answer as `ClientRemotingProcessor.getConsumeStatus` does."""
        if request.fields.get("group") != self.group.name:
            return None
        body = encode_offsets(self._share.readings.values(), request.fields.get("topic", ""))
        return request.response(ResponseCode.SUCCESS, body=body)

    def _handle_route_change(self, topic: str, route: TopicRoute) -> None:
        if topic in self.group.subscriptions:
            self._share.rebalancing.request()
