"""Sending messages: to a queue that the caller names, that a selector chooses, or that is next in turn.

`Producer.send` waits for the broker's answer; `Producer.send_async` is faster. A broker works on several requests at a
time, so messages that are under way to one queue at the same time may be stored in any order. To keep an order, wait
for each answer, or send the messages as one batch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from random import randrange
from typing import Any, Final, Self

from bridge.rocketmq.producer.publishing import (
    ProducerSettings,
    SendRequest,
    SendResult,
    SendTo,
    TopicPublishInfo,
    build_request,
)
from bridge.rocketmq.producer.tries import Tries, encode_frame
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import ONEWAY, encode, now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.ids import UniqueIds
from bridge.rocketmq.remoting.message import RocketMessage, encode_batch
from bridge.rocketmq.remoting.properties import (
    UNIQ_KEY,
    WAIT,
    check_body,
    check_group,
    check_topic,
    encode_checked_properties,
)
from exchange.partition import partitioner
from exchange.partition.clients.rocketmq.faults import Faults
from exchange.partition.clients.rocketmq.queues import MessageQueue, TopicRoute
from exchange.partition.partitioner import Draw, Partitioner
from exchange.partition.partitions import Partitions


class Producer:
    """A producer of one group over a `Client`; ``async with`` opens and closes it, not the client.

    ``draw`` is the source of randomness. Queues take turns as in one thread of a Java producer: each topic has one
    index of its next queue.
    """

    def __init__(self, client: Client, settings: ProducerSettings, draw: Draw = randrange) -> None:
        check_group(settings.group)
        self.client: Final = client
        self.settings: Final = settings
        self._tries: Final = Tries(client, settings, draw)
        self._draw: Final = draw
        self._publishing: Final[dict[str, TopicPublishInfo]] = {}
        self._selectors: Final[dict[Partitioner, partitioner.Producer]] = {}
        self._ids: UniqueIds | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Register the group with the brokers."""
        host = self.client.client_id.partition("@")[0]
        self._ids = UniqueIds(host, os.getpid(), randrange(1 << 32), now_ms)
        self.client.on_routes.append(self._route_changed)
        await self.client.register_producer(self.settings.group)
        if self.settings.sending.start_detector_enable:
            self._tries.run_in_background(self._tries.detect())

    async def close(self) -> None:
        """Wait for the messages that are under way, and leave the group."""
        await self.flush()
        self._ids = None
        with suppress(ValueError):
            self.client.on_routes.remove(self._route_changed)
        await self._tries.close()
        await self.client.unregister_producer(self.settings.group)

    @property
    def faults(self) -> Faults:
        """Table of faults: the broker's name -> its last latency, and until when it is avoided."""
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

        Without ``queue`` and ``selector``, queues take turns, and another broker is tried after a failure that permits
        it. A ``selector`` chooses a queue by ``key``. A queue that the caller or the selector has chosen is tried once.
        All tries together may take ``timeout_ms``, by default ``send_msg_timeout``.

        Raises IllegalMessage for a message that brokers refuse, MQClientException (`InputError`) where a selector
        chooses no queue, ClientError for a topic without a route and when all tries failed, BrokerError,
        TooMuchRequest; and, where only one try is made, ConnectError, SendRequestError and RemotingTimeout.
        """
        request = self._request(message)
        return await self._tries.send(request, await self._send_to(request.topic, queue, selector, key), timeout_ms)

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

        They are stored in this order in one queue, each with an offset of its own. Raises as `send`.
        """
        request = self._batch(messages)
        return await self._tries.send(request, await self._send_to(request.topic, queue, selector, key), timeout_ms)

    async def send_oneway(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
    ) -> None:
        """Send a message without an answer (``sendOneway``): whether it arrives is not known. Raises as `send`."""
        request = self._request(message)
        send_to = await self._send_to(request.topic, queue, selector, key)
        target = self._tries.first_queue(request, send_to)
        broker = target.queue.broker
        channel = self._tries.open_channel(broker) or await self._tries.channel(broker)
        channel.write(encode_frame(channel, target, request, 0, ONEWAY))

    async def send_async(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """Start to send a message, and return the future of its result (``send(Message, SendCallback)``).

        Waits while ``async_send_num`` messages or ``async_send_size`` bytes are under way. A try without an answer is
        repeated up to ``retry_times_when_send_async_failed`` times, at another broker unless the queue was chosen; a
        refusal by the broker is final. Raises as `send` for a wrong message, topic or selector; any other error is the
        future's exception: that of the last try.
        """
        request = self._request(message)
        return await self._tries.start(request, await self._send_to(request.topic, queue, selector, key), timeout_ms)

    async def send_batch_async(
        self,
        messages: Sequence[RocketMessage],
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """Start to send a batch, and return the future of its result (``send(Collection, SendCallback)``).

        The batch is as for `send_batch`; waits, retries and errors are as for `send_async`.
        """
        request = self._batch(messages)
        return await self._tries.start(request, await self._send_to(request.topic, queue, selector, key), timeout_ms)

    def check(self, message: RocketMessage) -> None:
        """Check a message as all methods that send it do before they send anything, and raise what they would raise.

        It is encoded as a message and as a batch of one.
        """
        request = self._request(message)
        target = TopicPublishInfo(message.topic, Partitions.queues({"": 1}), self.settings).queues[0]
        encode(target.command(request, now_ms()))
        self._batch([message])

    async def flush(self) -> None:
        """Wait until no message that was sent asynchronously is under way."""
        await self._tries.flush()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the publish queue list of a topic (``fetchPublishMessageQueues``). Raises ClientError."""
        publishing = self._publishing.get(topic) or await self._look_up(topic)
        return tuple([each.queue for each in publishing.queues])

    # Building requests, and choosing queues.

    def _open_ids(self) -> UniqueIds:
        if self._ids is None:
            raise ClientError(f"the producer of group {self.settings.group} is not open")
        return self._ids

    def _request(self, message: RocketMessage) -> SendRequest:
        if message.topic not in self._publishing:
            check_topic(message.topic)
        return build_request(message, self.settings, self._open_ids().next())

    def _batch(self, messages: Sequence[RocketMessage]) -> SendRequest:
        """Build the request of a batch, each of whose messages has a unique id. Raises IllegalMessage."""
        limit = self.settings.max_message_size
        ids = self._open_ids().take(len(messages))
        for at, (_, content, properties, _) in enumerate(messages):
            if not content or len(content) > limit:
                check_body(content, limit)
            if UNIQ_KEY in properties:
                ids[at] = properties[UNIQ_KEY]
        body = encode_batch(messages, ids)
        # Java's clients of 5.x give the batch an id of its own. Here it has none: brokers of 4.x would give that id to
        # each of its messages.
        own = {WAIT: "true" if messages[0].wait_store_ok else "false"}
        return SendRequest(
            RequestCode.SEND_BATCH_MESSAGE, check_topic(messages[0].topic),
            check_body(body, limit), encode_checked_properties(own), ",".join(ids), 0, 0, is_batch=True,
        )  # fmt: skip

    async def _look_up(self, topic: str) -> TopicPublishInfo:
        """Look up the queues of a topic; for a topic that does not exist yet, the queues with which brokers will create
        it (`tryToFindTopicPublishInfo`).
        """
        try:
            publishing = TopicPublishInfo.from_route(topic, await self.client.route(topic), self.settings)
        except ClientError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            try:
                route = await self.client.route(self.settings.create_topic_key)
            except ClientError:
                raise error from None
            publishing = TopicPublishInfo.from_route(topic, route, self.settings, is_new=True)
            # These queues are a guess: look the topic up again after the time in which a route would be refreshed.
            seconds = self.client.settings.poll_name_server_interval
            asyncio.get_running_loop().call_later(seconds, self._publishing.pop, topic, None)
        self._publishing[topic] = publishing
        return publishing

    def _route_changed(self, topic: str, _: TopicRoute) -> None:
        self._publishing.pop(topic, None)
        self._tries.forget_channels()

    async def _send_to(self, topic: str, queue: MessageQueue | None, selector: Partitioner | None, key: Any) -> SendTo:
        """Return the destination of a message of this topic: with its queue, if one is given or selected.

        Raises as `send`.
        """
        publishing = self._publishing.get(topic) or await self._look_up(topic)
        if queue is not None:
            return SendTo(publishing, publishing.find(queue))
        if selector is None:
            return SendTo(publishing, None)
        chooser = self._selectors.get(selector)
        if chooser is None:
            chooser = self._selectors[selector] = partitioner.Producer(selector, self._draw, now_ms)
        position = chooser.choose(topic, key, publishing.partitions).partition
        if position is None:
            raise ClientError("select message queue return null.")
        return SendTo(publishing, publishing.queues[position])
