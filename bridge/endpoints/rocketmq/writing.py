"""Writing to topics: each message goes to its queue, in order, and is confirmed when the broker has stored it.

A broker works on several requests at a time and stores them in any order, so each queue has one request under way. The
messages that come meanwhile form the next request, as a batch. Without an answer it is unknown whether the batch is
stored. Then the connection is lost: all messages that are not confirmed are written again, and may be there twice, but
in order.

The meaning of answers (`SendStatus`, and codes of a broker that refuses):

=============================  =========================================================================================
SEND_OK                        confirmed
FLUSH_DISK_TIMEOUT,            the broker has the message, but not yet as safely as configured. This is treated as
FLUSH_SLAVE_TIMEOUT,           back-pressure: the message is sent again until it is safe, and may be there several
SLAVE_NOT_AVAILABLE            times; or it is confirmed, if the target is configured to accept this
MESSAGE_ILLEGAL                a final refusal of a message that was sent alone; a batch is sent again in halves
SYSTEM_ERROR: message (body)   the same: brokers since 5.0 say so of a batch over their ``maxMessageSize``
size exceeded
SYSTEM_BUSY, SYSTEM_ERROR,     the broker is overloaded, or is just starting or stopping: the batch is sent again soon,
SERVICE_NOT_AVAILABLE,         for `BUSY_SECONDS`; then the connection is lost
FLOW_CONTROL
others                         the cause is the topic or a missing permission, and no message: the connection is lost
=============================  =========================================================================================

The only dead letters are messages with MESSAGE_ILLEGAL, and those that cannot be encoded as a request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, to_disconnected
from bridge.endpoints.rocketmq.placing import MessageWriter
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, CommandError, RemotingError
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import IllegalMessage
from exchange.partition.clients.rocketmq.priority import PRIORITY
from exchange.partition.clients.rocketmq.queues import MessageQueue

BATCH_MESSAGES: Final = 500
"""Maximum number of messages in a batch."""
BATCH_BYTES: Final = 1 << 20
"""Maximum size of a batch's bodies and properties, in bytes; a broker takes as much as for one message: if its settings
do not say otherwise, 4 MiB."""
PROPERTY_BYTES: Final = 30_000
"""Maximum size of a message in a batch without its body, as `_size` measures. Brokers add properties, and take 32,767
bytes: of a message that is sent alone they refuse more, of one in a batch those of 4.9 write what nobody can read, nor
what is behind it in the queue."""
EXTRA_BYTES: Final = 512
"""Maximum size of a message in a batch beside its body and properties, in bytes."""

BUSY: Final = frozenset({
    ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL,
})  # fmt: skip
"""Answers of a broker that is busy."""
SIZE_EXCEEDED: Final = "size exceeded"
"""Part of a SYSTEM_ERROR about what is larger than a broker takes."""
BUSY_SECONDS: Final = 10.0
"""Seconds until a busy broker must take a batch."""
BUSY_FIRST: Final = 0.05
"""Seconds until the first try after a broker was busy; doubled for each further one."""
BUSY_MOST: Final = 1.0
"""Maximum number of seconds between two tries."""

LATE: Final = 5.0
"""Seconds without an answer until the target reports trouble."""

Queued = tuple[Outgoing, RocketMessage]


class QueueLine:
    """The messages that wait to be written to one queue, in order."""

    __slots__ = ("asked", "batch_bytes", "busy", "queue", "running", "topic", "waiting")

    def __init__(self, topic: str, queue: MessageQueue) -> None:
        self.topic = topic
        self.queue = queue
        self.waiting: deque[Queued] = deque()
        self.running: asyncio.Task[None] | None = None
        """The task that writes, while there are messages."""
        self.asked: float | None = None
        """When the request that is not answered yet was sent, by the loop's clock."""
        self.batch_bytes = BATCH_BYTES
        """Maximum size of a batch that the broker is known to take, as `_size` measures."""
        self.busy = ""
        """Answer of the broker while it is busy, else ""."""

    def next_batch(self) -> list[Queued]:
        """Remove and return the next messages, as many as one request takes; some go alone (`_goes_alone`)."""
        waiting = self.waiting
        first = waiting.popleft()
        batch, size = [first], _size(first[1])
        wait_store_ok = first[1].wait_store_ok
        while waiting and len(batch) < BATCH_MESSAGES and not _goes_alone(*first):
            outgoing, message = waiting[0]
            size += _size(message)
            if size > self.batch_bytes or message.wait_store_ok != wait_store_ok or _goes_alone(outgoing, message):
                break
            batch.append(waiting.popleft())
        return batch


def _goes_alone(outgoing: Outgoing, message: RocketMessage) -> bool:
    """Return whether a message may not be in a batch: a request for a reply, one with a priority or large properties.

    To a message of a batch, brokers do not add the name of their cluster, without which no server can reply; and its
    priority has no effect.
    """
    if outgoing.request is not None or PRIORITY in message.properties:
        return True
    return _size(message) - len(message.body) > PROPERTY_BYTES


def _is_illegal(error: BrokerError) -> bool:
    """Return whether a refusal is one of the messages, as they are; not of the topic, or of anything for now."""
    too_large = error.code == ResponseCode.SYSTEM_ERROR and SIZE_EXCEEDED in error.remark
    return too_large or error.code == ResponseCode.MESSAGE_ILLEGAL


def _size(message: RocketMessage) -> int:
    """Return the approximate size of a message in a batch, in bytes, with 3 bytes for a character of a property."""
    characters = sum([len(name) + len(value) for name, value in message.properties.items()])
    return len(message.body) + EXTRA_BYTES + 3 * characters


class Writing:
    """The writing over one connection, from its opening to its end."""

    def __init__(
        self,
        client: Client,
        producer: Producer,
        receiver: Receiver,
        writer: MessageWriter,
        *,
        confirm_not_store_ok: bool,
    ) -> None:
        self.client = client
        self.producer = producer
        self.writer = writer
        self.closed = False
        self.lines: dict[tuple[str, MessageQueue], QueueLine] = {}
        self._receiver = receiver
        self._confirm_not_store_ok = confirm_not_store_ok
        self._failed: list[tuple[Outgoing, Failure]] = []

    @property
    def trouble(self) -> str | None:
        """Why a queue takes no messages now; None: all do."""
        now = asyncio.get_running_loop().time()
        for line in self.lines.values():
            if line.busy:
                return f"{line.topic} at {line.queue.name}: {line.busy}"
            if line.asked is not None and now - line.asked >= LATE:
                return f"{line.topic} at {line.queue.name}: no answer to what was sent {now - line.asked:.0f} s ago"
        return None

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Queue messages, and start the tasks that write them."""
        loop = asyncio.get_running_loop()
        for outgoing in messages:
            if self.closed:
                return
            try:
                message, queue = self.writer.place(outgoing)
            except Disconnected as error:
                loop.call_soon(self.lose, error)
                return
            except Exception as error:  # noqa: BLE001  whatever is wrong with a message, the others go on
                if not self._failed:
                    loop.call_soon(self._report_failed)
                self._failed.append((outgoing, Failure(f"unmappable: {to_disconnected(error)}", final=True)))
                continue
            line = self.lines.get((message.topic, queue))
            if line is None:
                line = self.lines[message.topic, queue] = QueueLine(message.topic, queue)
            line.waiting.append((outgoing, message))
            if line.running is None:
                line.running = loop.create_task(self._write(line))

    def _report_failed(self) -> None:
        failed, self._failed = self._failed, []
        for outgoing, failure in failed:
            if not self.closed:
                self._receiver.failed(outgoing, failure)

    def lose(self, error: Disconnected) -> None:
        """Report the loss of the connection, once."""
        if not self.closed:
            self.closed = True
            self._receiver.lost(error)

    def fail(self, error: BaseException) -> None:
        """Report the loss of the connection for an exception that ended a background task."""
        self.lose(to_disconnected(error if isinstance(error, Exception) else RuntimeError(repr(error))))

    async def _write(self, line: QueueLine) -> None:
        """Write the messages of a queue, one request after the other, until none waits or the connection is lost."""
        try:
            while line.waiting and not self.closed:
                await self._deliver(line, line.next_batch())
        except Exception as error:  # noqa: BLE001  whatever it is, messages without an answer must not wait for ever
            self.lose(Disconnected(f"{line.topic} at {line.queue.name}: {to_disconnected(error)}"))
        finally:
            line.running = None

    async def _deliver(self, line: QueueLine, batch: list[Queued]) -> bool:
        """Send a batch until it is confirmed or refused, and return whether the broker has taken all of its messages.

        Raises errors that are no fault of its messages.

        A refusal of the whole batch is narrowed down to its illegal messages: a broker's by sending its halves in turn,
        an error while encoding by checking each. The others are sent again, in their order.
        """
        try:
            status = await self._store(line, [message for _, message in batch])
        except (BrokerError, IllegalMessage) as error:
            if isinstance(error, BrokerError) and not _is_illegal(error):
                raise
            if len(batch) > 1:
                return await self._deliver_halves(line, batch)
            if not self.closed:
                self._receiver.failed(batch[0][0], Failure(f"illegal: {error}", final=True))
            return False
        except Exception as error:
            if isinstance(error, RemotingError) and not isinstance(error, CommandError):
                raise
            others = self._fail_illegal(batch)
            if len(others) == len(batch):
                raise
            if others and not self.closed:
                await self._deliver(line, others)
            return False
        if self.closed:
            return False
        if status == "SEND_OK" or self._confirm_not_store_ok:
            self._receiver.confirmed([outgoing for outgoing, _ in batch])
        else:
            for outgoing, _ in batch:
                if not self.closed:
                    self._receiver.failed(outgoing, Failure(f"not as safe as it is to be: {status}", busy=True))
        return True

    async def _deliver_halves(self, line: QueueLine, batch: list[Queued]) -> bool:
        """Deliver a refused batch in two; if the broker takes all of it now, the batch was too large."""
        half, taken = len(batch) // 2, True
        for part in (batch[:half], batch[half:]):
            taken = not self.closed and await self._deliver(line, part) and taken
        if taken:
            line.batch_bytes = min(line.batch_bytes, sum([_size(message) for _, message in batch]) // 2)
        return taken

    def _fail_illegal(self, batch: list[Queued]) -> list[Queued]:
        """Refuse the messages of a batch that cannot be encoded as a request; return the others."""
        others: list[Queued] = []
        for outgoing, message in batch:
            try:
                self.producer.check(message)
            except Exception as error:  # noqa: BLE001  whatever it is, it is this message's fault
                if not self.closed:
                    self._receiver.failed(outgoing, Failure(f"illegal: {to_disconnected(error)}", final=True))
            else:
                others.append((outgoing, message))
        return others

    async def _store(self, line: QueueLine, messages: list[RocketMessage]) -> str:
        """Send messages, again while the broker is busy, and return the status of its answer."""
        loop = asyncio.get_running_loop()
        until, wait = loop.time() + BUSY_SECONDS, BUSY_FIRST
        while True:
            line.asked = loop.time()
            try:
                if len(messages) == 1:
                    result = await self.producer.send(messages[0], queue=line.queue)
                else:
                    result = await self.producer.send_batch(messages, queue=line.queue)
            except BrokerError as error:
                if error.code not in BUSY or _is_illegal(error) or loop.time() > until or self.closed:
                    raise
                line.busy = str(error)
            else:
                line.busy = ""
                return result.status
            finally:
                line.asked = None
            await asyncio.sleep(wait)
            wait = min(2 * wait, BUSY_MOST)

    async def end(self) -> None:
        """Stop writing."""
        self.closed = True
        tasks = [line.running for line in self.lines.values() if line.running is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
