"""Requests that wait for a reply from their consumer (`DefaultMQProducer.request`).

A request is a message with three more properties: the id of the client that waits, a correlation id, and how long that
client waits (TTL, in milliseconds). The consumer sends a reply: a message to the cluster's reply topic, which the
broker does not store, but pushes to the waiting client over its connection. So requester and replier must be connected
to the same broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Self
from uuid import uuid4

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import MESSAGE_TYPE, REPLY
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import check_property, decode_properties
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.partitioner import Partitioner
from exchange.rocketmq.stored_record import unpack_body

CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
CLUSTER: Final = "CLUSTER"
ARRIVE_TIME: Final = "ARRIVE_TIME"

# `ClientErrorCode`
REQUEST_TIMEOUT: Final = 10_006
CREATE_REPLY: Final = 10_007


class ReplyTimeout(ClientError):
    """No reply to a request came in time (`RequestTimeoutException`)."""


class Requester:
    """Requests over a producer that is open; ``async with`` opens and closes it, not the producer."""

    def __init__(self, producer: Producer) -> None:
        self._producer: Final = producer
        self._waiting: Final[dict[str, asyncio.Future[RocketMessage]]] = {}
        self._known: Final[set[str]] = set()
        self._stop: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        self._stop = self._producer.client.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._take_reply)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ClientError("the requester is closed"))

    async def request(
        self,
        message: RocketMessage,
        *,
        queue: MessageQueue | None = None,
        selector: Partitioner | None = None,
        key: Any = None,
        timeout_ms: int = 3000,
    ) -> RocketMessage:
        """Send a request as `Producer.send_async` does, and wait for its reply: at most ``timeout_ms`` for both.

        Raises as `Producer.send_async` and its future, and ReplyTimeout.
        """
        producer, client = self._producer, self._producer.client
        if message.topic not in self._known:
            await producer.queues(message.topic)
            await client.heartbeat()  # a broker can push a reply only to a client that it knows
            self._known.add(message.topic)
        correlation = str(uuid4())
        own = {CORRELATION_ID: correlation, REPLY_TO_CLIENT: client.client_id, TTL: str(timeout_ms)}
        request = RocketMessage(message.topic, message.body, {**message.properties, **own}, message.flag)
        replied: asyncio.Future[RocketMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = replied
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                sending = await producer.send_async(
                    request, queue=queue, selector=selector, key=key, timeout_ms=timeout_ms
                )
                await asyncio.wait((sending, replied), return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()  # raises where it failed
                return await replied
        except TimeoutError:
            raise ReplyTimeout(
                f"send request message to <{message.topic}> OK, but wait reply message timeout, {timeout_ms} ms.",
                REQUEST_TIMEOUT,
            ) from None
        finally:
            del self._waiting[correlation]

    def _take_reply(self, pushed: Command) -> Command:
        """Answer a broker that pushes a reply (`ClientRemotingProcessor.receiveReplyMessage`)."""
        fields = pushed.fields
        properties = {**decode_properties(fields.get("properties", "").encode()), ARRIVE_TIME: str(now_ms())}
        try:
            body = unpack_body(pushed.body, int(fields.get("sysFlag", 0)))
        except InputError as error:
            return pushed.response(ResponseCode.SYSTEM_ERROR, f"process reply message fail: {error}")
        waiting = self._waiting.get(properties.get(CORRELATION_ID, ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(RocketMessage(fields.get("topic", ""), body, properties, int(fields.get("flag", 0))))
        return pushed.response()


def reply_to(request: StoredMessage, body: bytes, properties: Mapping[str, str] | None = None) -> RocketMessage:
    """Build the reply to a request that was consumed, for `Producer.send` (`MessageUtil.createReplyMessage`).

    Raises ClientError for a message that is no request, IllegalMessage for properties that users may not give.
    """
    cluster = request.properties.get(CLUSTER)
    if cluster is None:
        text = "create reply message fail, requestMessage error, property[CLUSTER] is null."
        raise ClientError(text, CREATE_REPLY)
    given = dict(properties or {})
    for name, value in given.items():
        check_property(name, value)
    own = {
        name: request.properties[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if name in request.properties
    }
    return RocketMessage(f"{cluster}_REPLY_TOPIC", body, {**given, **own, MESSAGE_TYPE: REPLY})
