"""Topics as a target: each message on its queue, in order, and confirmed when the broker has stored it.

A broker works on several requests at a time and stores them in any order, so that of each queue one request is under
way; what comes meanwhile is the next, as a batch. An answer that does not come leaves open whether the batch is stored.
Then the connection is lost: all that is not confirmed is written again, and may be there twice, never less in order.

What an answer means (`SendStatus`, and codes of a broker that refuses):

=============================  =========================================================================================
SEND_OK                        confirmed
FLUSH_DISK_TIMEOUT,            the broker has it, and not yet as safe as it is set to keep it. A refusal, tried again
FLUSH_SLAVE_TIMEOUT,           like others, so that it may be there several times; or confirmed, if the target is told
SLAVE_NOT_AVAILABLE            that this is enough
MESSAGE_ILLEGAL                a refusal for ever. Of a batch, its messages are sent one by one to find which
SYSTEM_BUSY, SYSTEM_ERROR,     the broker has too much to do, or is just starting or stopping: the same again soon, for
SERVICE_NOT_AVAILABLE,         `BUSY_SECONDS`; then the connection is lost
FLOW_CONTROL
others                         of the topic, a right that is missing: the connection is lost, as no message can help it
=============================  =========================================================================================
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from bridge.endpoint import Disconnected, Failure, Layout, Outgoing, Receiver, Target
from bridge.rocketmq.client import Client, ClientSettings
from bridge.rocketmq.codes import ResponseCode
from bridge.rocketmq.errors import BrokerError, RemotingError
from bridge.rocketmq.message import RocketMessage
from bridge.rocketmq.placing import Destination, Spread, Writer, route_of
from bridge.rocketmq.producer import Producer
from bridge.rocketmq.properties import IllegalMessage
from bridge.rocketmq.publishing import ProducerSettings
from exchange.errors import HashstarError, InputError
from exchange.partition.partitioning import Partitioning
from exchange.partition.rocketmq.message_queue import MessageQueue
from exchange.partition.rocketmq.queues import TopicRoute
from exchange.partition.rocketmq.send import SendSettings

__all__ = ["GROUP", "RocketmqTarget"]

GROUP: Final = "hashstar-bridge"
"""The producer group: brokers ask it for the state of transactions, and there are none."""

BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 1 << 20
"""Of bodies and properties; a batch may be as large as one message, 4 MiB."""
EXTRA_BYTES: Final = 512
"""Of a message in a batch, at most, beside the body and the properties with text of its own: types, order."""

BUSY: Final = frozenset({
    ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL,
})  # fmt: skip
BUSY_SECONDS: Final = 10.0
BUSY_FIRST: Final = 0.05
BUSY_MOST: Final = 1.0
"""Seconds between tries while a broker is busy."""

SENDING: Final = SendSettings(send_msg_timeout=10_000)
"""Milliseconds: a broker with much to do answers late, and asking again would give it more."""

CLOSING: Final = 5.0
"""Seconds that taking leave may take."""

Written = tuple[Outgoing, RocketMessage]


class Line:
    """What is to be written to one queue, in order."""

    __slots__ = ("queue", "running", "topic", "waiting")

    def __init__(self, topic: str, queue: MessageQueue) -> None:
        self.topic = topic
        self.queue = queue
        self.waiting: deque[Written] = deque()
        self.running: asyncio.Task[None] | None = None

    def next_batch(self) -> list[Written]:
        """The next messages, as many as one request takes."""
        waiting = self.waiting
        first = waiting.popleft()
        batch, size = [first], _size(first[1])
        wait_store_ok = first[1].wait_store_ok
        while waiting and len(batch) < BATCH_MESSAGES:
            message = waiting[0][1]
            size += _size(message)
            if size > BATCH_BYTES or message.wait_store_ok != wait_store_ok:
                break
            batch.append(waiting.popleft())
        return batch


def _size(message: RocketMessage) -> int:
    names = sum([len(name) + len(value) for name, value in message.properties.items()])
    return len(message.body) + EXTRA_BYTES + 3 * names


class Writing:
    """One connection, from its opening to its end."""

    def __init__(
        self, client: Client, producer: Producer, receiver: Receiver, writer: Writer, *, confirm_not_store_ok: bool
    ) -> None:
        self.client = client
        self.producer = producer
        self.writer = writer
        self.closed = False
        self.lines: dict[tuple[str, MessageQueue], Line] = {}
        self._receiver = receiver
        self._confirm_not_store_ok = confirm_not_store_ok
        self._failed: list[tuple[Outgoing, Failure]] = []

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Put these in line."""
        loop = asyncio.get_running_loop()
        for outgoing in messages:
            if self.closed:
                return
            try:
                message, queue = self.writer.placed(outgoing)
            except Disconnected as error:
                loop.call_soon(self.lose, error)
                return
            except (HashstarError, TypeError, ValueError) as error:
                if not self._failed:
                    loop.call_soon(self._tell_failed)
                self._failed.append((outgoing, Failure(f"unmappable: {error}", final=True)))
                continue
            line = self.lines.get((message.topic, queue))
            if line is None:
                line = self.lines[message.topic, queue] = Line(message.topic, queue)
            line.waiting.append((outgoing, message))
            if line.running is None:
                line.running = loop.create_task(self._write(line))

    def _tell_failed(self) -> None:
        failed, self._failed = self._failed, []
        for outgoing, failure in failed:
            if not self.closed:
                self._receiver.failed(outgoing, failure)

    def lose(self, error: Disconnected) -> None:
        """Tell that the connection is gone, once."""
        if not self.closed:
            self.closed = True
            self._receiver.lost(error)

    async def _write(self, line: Line) -> None:
        try:
            while line.waiting and not self.closed:
                await self._deliver(line, line.next_batch())
        except (RemotingError, InputError) as error:
            self.lose(Disconnected(f"{line.topic} at {line.queue.name}: {error}"))
        finally:
            line.running = None

    async def _deliver(self, line: Line, batch: list[Written]) -> None:
        """Send a batch until there is an answer that counts. Raises RemotingError, InputError."""
        try:
            status = await self._stored(line, [message for _, message in batch])
        except (BrokerError, IllegalMessage) as error:
            if isinstance(error, BrokerError) and error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            if len(batch) > 1:
                for each in batch:
                    if not self.closed:
                        await self._deliver(line, [each])
            elif not self.closed:
                self._receiver.failed(batch[0][0], Failure(f"illegal: {error}", final=True))
            return
        if self.closed:
            return
        if status == "SEND_OK" or self._confirm_not_store_ok:
            self._receiver.confirmed([outgoing for outgoing, _ in batch])
        else:
            for outgoing, _ in batch:
                if not self.closed:
                    self._receiver.failed(outgoing, Failure(f"not as safe as it is to be: {status}"))

    async def _stored(self, line: Line, messages: list[RocketMessage]) -> str:
        """The broker's answer, asked again while it is busy."""
        loop = asyncio.get_running_loop()
        until, wait = loop.time() + BUSY_SECONDS, BUSY_FIRST
        while True:
            try:
                if len(messages) == 1:
                    result = await self.producer.send(messages[0], queue=line.queue)
                else:
                    result = await self.producer.send_batch(messages, queue=line.queue)
            except BrokerError as error:
                if error.code not in BUSY or loop.time() > until or self.closed:
                    raise
                await asyncio.sleep(wait)
                wait = min(2 * wait, BUSY_MOST)
            else:
                return result.status

    async def end(self) -> None:
        """Write nothing more."""
        self.closed = True
        tasks = [line.running for line in self.lines.values() if line.running is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class RocketmqTarget(Target):
    """Topics. ``destinations`` maps the topology's queues to them; ``""`` among them is for messages of no queue.

    With ``confirm_not_store_ok`` a message is confirmed that the broker has, and could not make as safe as it is set
    to; see the head of this module.
    """

    def __init__(
        self,
        name: str,
        settings: ClientSettings,
        destinations: Mapping[str, Destination],
        *,
        confirm_not_store_ok: bool = False,
    ) -> None:
        self.name = name
        self._settings = settings
        self._destinations = destinations
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._confirm_not_store_ok = confirm_not_store_ok
        self._partitioned: dict[str, Partitioning] = {}
        self._client: Client | None = None
        self._writing: Writing | None = None

    def meet(self, layout: Layout) -> None:
        for queue in self._destinations:
            partitioning = layout.topology.queues[queue].partitioning
            if partitioning is not None:
                self._partitioned[queue] = partitioning

    def key_of(self, outgoing: Outgoing) -> Hashable:
        destination = self._destinations.get(outgoing.queue)
        if outgoing.placement is not None or destination is None or destination.key is None:
            return super().key_of(outgoing)
        try:
            key = destination.key.of(outgoing.message)
        except HashstarError:  # nor can it be written then
            return super().key_of(outgoing)
        return outgoing.queue, key if isinstance(key, Hashable) else repr(key)

    async def open(self, receiver: Receiver) -> None:
        client = self._client = Client(self._settings)
        writer = Writer(self._destinations)
        try:
            await client.open()
            for topic in self._topics:
                writer.spreads[topic] = Spread.of(topic, await route_of(client, topic))
            for queue, partitioning in self._partitioned.items():
                writer.spreads[self._destinations[queue].topic].agree(queue, partitioning)
            producer = Producer(client, ProducerSettings(GROUP, SENDING))
            writing = Writing(client, producer, receiver, writer, confirm_not_store_ok=self._confirm_not_store_ok)
            await producer.open()
        except RemotingError as error:
            raise Disconnected(str(error)) from None
        client.on_routes.append(partial(self._rerouted, writing))
        self._writing = writing

    def _rerouted(self, writing: Writing, topic: str, route: TopicRoute) -> None:
        """Brokers came or went, or the topic has more queues."""
        if topic in writing.writer.spreads:
            try:
                writing.writer.spreads[topic] = Spread.of(topic, route)
            except Disconnected as error:
                writing.lose(error)

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._writing is not None:
            self._writing.send(messages)

    async def close(self) -> None:
        writing, self._writing = self._writing, None
        client, self._client = self._client, None
        with suppress(TimeoutError, HashstarError, OSError):
            async with asyncio.timeout(CLOSING):
                if writing is not None:
                    await writing.end()
                    await writing.producer.close()
        with suppress(TimeoutError, HashstarError, OSError):
            if client is not None:
                await asyncio.wait_for(client.close(), CLOSING)
