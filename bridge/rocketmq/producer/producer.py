"""Sends messages: to a queue that the caller names, that a selector chooses, or that comes next.

`Producer.send` waits for the broker's answer; `Producer.send_async` is the fast way. A broker works on several requests
at a time, so that messages under way to one queue together are stored in any order: who needs an order waits for each
answer, or sends what belongs together as a batch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from random import randrange
from typing import Any, Final, Self

from bridge.rocketmq.producer.publishing import Place, ProducerSettings, Publishing, Request, SendResult, request_for
from bridge.rocketmq.producer.tries import Flight, Tries, frame
from bridge.rocketmq.remoting.batch import batch_of
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import ONEWAY, encode, now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.ids import UniqueIds
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import (
    UNIQ_KEY,
    WAIT,
    checked_body,
    checked_group,
    checked_properties,
    checked_topic,
)
from exchange.partition import partitioner
from exchange.partition.clients.rocketmq.faults import Faults
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.clients.rocketmq.queues import TopicRoute
from exchange.partition.partitioner import Draw, Partitioner
from exchange.partition.partitions import Partitions

__all__ = ["Producer"]


class Producer:
    """Sends messages of one group over a `Client`; ``async with`` opens and closes it, not the client.

    ``draw`` brings chance. Its messages are those of one thread of a Java producer: one index goes round in a topic.
    """

    def __init__(self, client: Client, settings: ProducerSettings, draw: Draw = randrange) -> None:
        checked_group(settings.group)
        self.client: Final = client
        self.settings: Final = settings
        self._tries: Final = Tries(client, settings, draw)
        self._draw: Final = draw
        self._publishing: Final[dict[str, Publishing]] = {}
        self._selectors: Final[dict[Partitioner, partitioner.Producer]] = {}
        self._ids: UniqueIds | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Have the brokers know the group."""
        host = self.client.client_id.partition("@")[0]
        self._ids = UniqueIds(host, os.getpid(), randrange(1 << 32), now_ms)
        self.client.on_routes.append(self._route_changed)
        await self.client.register_producer(self.settings.group)
        if self.settings.sending.start_detector_enable:
            self._tries.start(self._tries.detect())

    async def close(self) -> None:
        """Wait for what is under way, and leave the group."""
        await self.flush()
        self._ids = None
        with suppress(ValueError):
            self.client.on_routes.remove(self._route_changed)
        await self._tries.close()
        await self.client.unregister_producer(self.settings.group)

    @property
    def faults(self) -> Faults:
        """The table of faults: broker name -> what is known of it."""
        return self._tries.faults

    # Sending.

    async def send(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message and wait for the broker's answer (``send(Message)``, ``sendSelectImpl``, ``sendKernelImpl``).

        Without ``queue`` and ``selector``, queues take turns, and after a failure that allows it another broker is
        tried. A ``selector`` chooses by ``key``, and what was chosen is tried once. All tries together take
        ``timeout_ms``, else ``send_msg_timeout``.

        Raises IllegalMessage for a message that brokers do not take, MQClientException (`InputError`) where a selector
        does not choose, ClientError for a topic without a route and when all tries failed, BrokerError, TooMuchRequest,
        and of a message that is tried once ConnectError, SendRequestError and RemotingTimeout.
        """
        return await self._send(self._request(message), queue, selector, key, timeout_ms)

    async def send_batch(
        self,
        messages: Sequence[RocketMessage],
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic in one request (``send(Collection)``): all are stored together, or none is.

        They stand in their order in one queue, and each counts as one there. Raises as `send`.
        """
        return await self._send(self._batch(messages), queue, selector, key, timeout_ms)

    async def send_oneway(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
    ) -> None:
        """Send a message and hear no more of it (``sendOneway``): whether it arrives is not known. Raises as `send`."""
        request = self._request(message)
        publishing = self._publishing.get(message.topic) or await self._look_up(message.topic)
        chosen = self._chosen(publishing, message.topic, queue, selector, key)
        place = chosen or self._tries.select(publishing, message.topic, None)
        broker = place.queue.broker
        channel = self._tries.open_channel(broker) or await self._tries.channel(broker)
        channel.write(frame(channel, place, request, 0, ONEWAY))

    async def send_async(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """Have a message on its way, and give what becomes of it (``send(Message, SendCallback)``).

        Waits while ``async_send_num`` messages or ``async_send_size`` bytes are under way. A try without an answer is
        made again ``retry_times_when_send_async_failed`` times, with another broker unless the queue was chosen; an
        answer that says no is the end. Raises as `send` what is wrong with message, topic or selector; the future tells
        the rest, as what the last try raised.
        """
        return await self._send_async(self._request(message), queue, selector, key, timeout_ms)

    async def send_batch_async(
        self,
        messages: Sequence[RocketMessage],
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """`send_batch` as `send_async` sends (``send(Collection, SendCallback)``)."""
        return await self._send_async(self._batch(messages), queue, selector, key, timeout_ms)

    async def _send(
        self, request: Request, queue: MessageQueue | None, selector: Partitioner | None, key: Any, limit: int | None
    ) -> SendResult:
        publishing = self._publishing.get(request.topic) or await self._look_up(request.topic)
        chosen = self._chosen(publishing, request.topic, queue, selector, key)
        return await self._tries.send(request, publishing, chosen, limit)

    async def _send_async(
        self, request: Request, queue: MessageQueue | None, selector: Partitioner | None, key: Any, limit: int | None
    ) -> asyncio.Future[SendResult]:
        publishing = self._publishing.get(request.topic) or await self._look_up(request.topic)
        chosen = self._chosen(publishing, request.topic, queue, selector, key)
        if self._tries.is_full:
            await self._tries.room()
        flight = Flight(self._tries, publishing, request, chosen, limit)
        if not flight.take_off():
            await flight.connect_and_take_off()
        return flight.landed

    def check(self, message: RocketMessage) -> None:
        """Raise what `send` would raise for this message before it sends anything, however it is sent."""
        request = self._request(message)
        place = Publishing(message.topic, Partitions.queues({"": 1}), self.settings).places[0]
        encode(place.command(request, now_ms()))
        self._batch([message])

    async def flush(self) -> None:
        """Wait until nothing is under way that was sent asynchronously."""
        await self._tries.flush()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The publish queue list (``fetchPublishMessageQueues``). Raises ClientError."""
        publishing = self._publishing.get(topic) or await self._look_up(topic)
        return tuple([place.queue for place in publishing.places])

    # What is sent, and where.

    def _next_id(self) -> str:
        if self._ids is None:
            raise ClientError(f"the producer of group {self.settings.group} is not open")
        return self._ids.next()

    def _request(self, message: RocketMessage) -> Request:
        if message.topic not in self._publishing:
            checked_topic(message.topic)
        return request_for(message, self.settings, self._next_id())

    def _batch(self, messages: Sequence[RocketMessage]) -> Request:
        limit = self.settings.max_message_size
        named: list[RocketMessage] = []
        ids: list[str] = []
        for topic, content, properties, flag in messages:
            checked_body(content, limit)
            own_id = properties[UNIQ_KEY] if UNIQ_KEY in properties else self._next_id()
            named.append(RocketMessage(topic, content, {**properties, UNIQ_KEY: own_id}, flag))
            ids.append(own_id)
        body = batch_of(named)
        # Without an id of its own, as Java's clients of 5.x give it: brokers of 4.x would give that to each message.
        own = {WAIT: "true" if named[0].wait_store_ok else "false"}
        return Request(
            RequestCode.SEND_BATCH_MESSAGE, checked_topic(named[0].topic),
            checked_body(body, limit), checked_properties(own), ",".join(ids), 0, 0, is_batch=True,
        )  # fmt: skip

    async def _look_up(self, topic: str) -> Publishing:
        """The queues of a topic; of one that is not there, those that it will have (`tryToFindTopicPublishInfo`)."""
        try:
            publishing = Publishing.of(topic, await self.client.route(topic), self.settings)
        except ClientError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            try:
                route = await self.client.route(self.settings.create_topic_key)
            except ClientError:
                raise error from None
            publishing = Publishing.of(topic, route, self.settings, is_new=True)
            seconds = self.client.settings.poll_name_server_interval
            asyncio.get_running_loop().call_later(seconds, self._publishing.pop, topic, None)
        self._publishing[topic] = publishing
        return publishing

    def _route_changed(self, topic: str, _: TopicRoute) -> None:
        self._publishing.pop(topic, None)
        self._tries.forget_channels()

    def _chosen(
        self, publishing: Publishing, topic: str, queue: MessageQueue | None, selector: Partitioner | None, key: Any
    ) -> Place | None:
        if queue is not None:
            return publishing.place(queue)
        if selector is None:
            return None
        chooser = self._selectors.get(selector)
        if chooser is None:
            chooser = self._selectors[selector] = partitioner.Producer(selector, self._draw, now_ms)
        at = chooser.choose(topic, key, publishing.partitions).partition
        if at is None:
            raise ClientError("select message queue return null.")
        return publishing.places[at]
