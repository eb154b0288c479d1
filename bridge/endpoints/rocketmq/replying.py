"""Replies to RocketMQ's callers, and how the bridge reads the replies of RocketMQ's servers.

**To callers.** A reply is a message for the cluster's topic of replies, which the broker pushes at once to the client
that waits, over that client's connection (`bridge.rocketmq.producer.requests`). So it goes to the broker that the
request came from. A broker that has no connection to the client answers SYSTEM_ERROR: the caller is gone, and the reply
is refused for good.

**From servers.** A server replies to the client that the request names, which is the bridge's target. But the broker
also stores each reply in that topic (`storeReplyMessageEnable`, true by default), and there the bridge reads it as from
any other topic: at least once, including replies that came while no bridge ran. The target only accepts a pushed reply,
so that the server's send succeeds; its client keeps its name over a restart of the bridge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Sequence
from typing import Final

from bridge.aside import call_aside
from bridge.endpoint import Disconnected, Failure, Finding, Outgoing, Receiver, Target, to_disconnected
from bridge.endpoints.rocketmq.checking import check_target
from bridge.interop import to_rocketmq
from bridge.interop.marks import HOPS, mark_message
from bridge.interop.requests import build_rocketmq_reply
from bridge.pump.replies import AddressedReply
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import BrokerError, ClientError
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.pulse import Pulse
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue

LOG: Final = logging.getLogger(__name__)

GROUP: Final = "hashstar-bridge-replies"

GONE: Final = frozenset({
    ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.INVALID_PARAMETER,
})  # fmt: skip
"""Answers after which another try is useless: the caller has left, or the request did not come from this cluster."""

CLOSING: Final = 1.5
"""Seconds until producer and client must be closed; then connections are ended at once."""


class CallerTarget(Target):
    """The callers of a cluster."""

    def __init__(self, name: str, settings: ClientSettings) -> None:
        self.name = name
        self._settings = settings
        self._client: Client | None = None
        self._producer: Producer | None = None
        self._pulse: Pulse | None = None
        self._receiver: Receiver | None = None
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def trouble(self) -> str | None:
        return None if self._pulse is None else self._pulse.trouble

    def key_of(self, outgoing: Outgoing) -> Hashable:
        """Return a key of its own for each call: replies need no order, and one that waits must not hold up others."""
        reply: AddressedReply = outgoing.request
        return reply.address

    async def check(self) -> Sequence[Finding]:
        return await check_target(self._settings, {}, {})

    async def open(self, receiver: Receiver) -> None:
        try:
            client = self._client = Client(await call_aside(self._settings.current))
            await client.open()
            producer = Producer(client, ProducerSettings(GROUP))
            await producer.open()
        except Exception as error:
            raise to_disconnected(error) from error
        client.on_broken.append(self._break)
        self._pulse = Pulse(client, (), replicas=False, failed=self._break)
        self._pulse.open()
        self._producer, self._receiver = producer, receiver

    def _break(self, error: BaseException) -> None:
        """Report the loss of the connection for an exception that ended a background task."""
        self._lose(to_disconnected(error if isinstance(error, Exception) else RuntimeError(repr(error))))

    def _lose(self, error: Disconnected) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost(error)

    def send(self, messages: Sequence[Outgoing]) -> None:
        producer = self._producer
        if producer is None:
            return
        for outgoing in messages:
            task = asyncio.get_running_loop().create_task(self._reply(producer, outgoing))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _reply(self, producer: Producer, outgoing: Outgoing) -> None:
        """Send one reply, and report whether it was accepted."""
        failure: Failure | None = None
        try:
            reply, broker = make_reply(outgoing, now_ms())
            queue = await _queue_at(producer, reply.topic, broker)
            await (await producer.send_async(reply, queue=queue))
        except (BrokerError, ClientError) as error:
            failure = Failure(f"refused: {error}", final=error.code in GONE)
        except InputError as error:
            failure = Failure(f"illegal: {error}", final=True)
        except Exception as error:  # noqa: BLE001  of a connection, or of this message's data
            if _is_about_the_message(producer, outgoing):
                failure = Failure(f"illegal: {to_disconnected(error)}", final=True)
            else:
                self._lose(to_disconnected(error))
                return
        if self._receiver is not None:
            if failure is None:
                self._receiver.confirmed([outgoing])
            else:
                self._receiver.failed(outgoing, failure)

    async def close(self) -> None:
        client, self._client = self._client, None
        producer, self._producer = self._producer, None
        pulse, self._pulse, self._receiver = self._pulse, None, None
        for task in self._sending:
            task.cancel()
        try:
            async with asyncio.timeout(CLOSING):
                await asyncio.gather(*self._sending, return_exceptions=True)
                if pulse is not None:
                    await pulse.close()
                if producer is not None:
                    await producer.close()
                if client is not None:
                    await client.close()
        except Exception as error:  # noqa: BLE001  the caller can do nothing about it
            LOG.debug("%s: closing: %r", self.name, error)
        finally:
            if client is not None:
                client.abort()


def make_reply(outgoing: Outgoing, now: int) -> tuple[RocketMessage, str]:
    """Return a reply as its caller's client expects it, and the broker that it goes to, "" for any.

    ``now`` is in milliseconds since 1970. Raises HashstarError, TypeError or ValueError for what RocketMQ cannot hold.
    """
    reply: AddressedReply = outgoing.request
    topic, broker, own = build_rocketmq_reply(reply.address, reply.deadline - now)
    marked, hops = mark_message(outgoing.message, outgoing.delivery.identity)
    made = to_rocketmq(marked, topic)
    return RocketMessage(topic, made.body, {**made.properties, HOPS: str(hops), **own}, made.flag), broker


async def _queue_at(producer: Producer, topic: str, broker: str) -> MessageQueue | None:
    """Return a queue of a topic at a broker; None, for any, if there is none. Raises ClientError."""
    return next((queue for queue in await producer.queues(topic) if queue.broker == broker), None)


def _is_about_the_message(producer: Producer, outgoing: Outgoing) -> bool:
    """Return whether a message cannot be encoded, whatever the connection is like."""
    try:
        producer.check(make_reply(outgoing, now_ms())[0])
    except Exception:  # noqa: BLE001  whatever is wrong with it
        return True
    return False
