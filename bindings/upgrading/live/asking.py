"""Make calls of AMQP on a live virtual host, as recorded or foretold, and return the broker's answers.

Calls that are foretold to close the connection are made on one of their own, so that exclusive queues stay on the
other. Each call of a consumer or publisher has a channel of its own. Arguments keep their AMQP types: `exchange.amqp`
encodes them in place of pika.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from bindings.applying.address import Addresses
from bindings.applying.amqp import BrokerConnection, Lost, OperationRefused
from bindings.sources.recording.model import ACCEPTED, CLOSED, NO_CODE, RecordedAnswer
from bindings.upgrading.requests.answering import normalise
from exchange.amqp import get_content
from exchange.entities.part import with_last_queue
from exchange.values.message import Message

SECONDS: Final = 15.0
"""Maximum duration in seconds of one call."""
NAME: Final = "hashstar upgrade"
CLOSES_CONNECTION: Final = 500
"""The smallest reply code that closes a connection; 405, 406 and others below close a channel."""
OWN_CHANNEL: Final = frozenset({"basic.qos", "basic.consume", "basic.publish", "basic.get"})
UNCONDITIONAL: Final = {"if_unused": False, "if_empty": False}
EXTRA: Final = ("prefetch_count", "prefetch_global")
"""Arguments of a recorded consumer that basic.qos has set."""


class LiveHost:
    """A virtual host of a live broker. A context manager, which closes its connections."""

    def __init__(self, addresses: Addresses, vhost: str) -> None:
        self._addresses: Final = addresses
        self.vhost: Final = vhost
        self._connections: Final[dict[bool, BrokerConnection]] = {}
        """Whether its calls may close it -> connection."""
        self._generated = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def answer(self, method: str, arguments: Mapping[str, Any], foretold: RecordedAnswer) -> RecordedAnswer:
        """Make a call, and return the broker's answer. Raises Lost if there is none."""
        connection = self._connection(closes=(foretold.code or 0) >= CLOSES_CONNECTION)
        if method in OWN_CHANNEL:
            connection.leave_channel()
        try:
            given = with_last_queue(method, arguments, self._generated)
            if method == "queue.delete" and foretold == ACCEPTED:
                given = {**given, **UNCONDITIONAL}  # whether it has messages or consumers is not what is foretold
            self._make(connection, method, given)
        except OperationRefused as refused:
            return RecordedAnswer(refused.code, normalise(str(refused).removeprefix(f"{refused.code} ")))
        finally:
            if method in OWN_CHANNEL:
                connection.leave_channel()
        return ACCEPTED

    def tune(self, frame_max: int) -> RecordedAnswer:
        """Open and close a connection with a maximum size of frames."""
        try:
            self._connect(frame_max).close()
        except (OperationRefused, Lost):  # pika takes the end of the connection for a refusal of the virtual host
            return RecordedAnswer(NO_CODE, CLOSED)
        return ACCEPTED

    def publish(self, message: Message) -> None:
        """Publish a message, and return when the broker has it. Raises OperationRefused or Lost."""
        connection = self._connection(closes=False)
        connection.leave_channel()
        _publish(connection, message)
        connection.leave_channel()

    def count(self, queue: str) -> int:
        """Return the number of messages of a queue that are ready. Raises OperationRefused or Lost."""
        connection = self._connection(closes=False)
        answer = connection.call(
            f"queue.declare {queue!r}", lambda channel, done: channel.queue_declare(queue, passive=True, callback=done)
        )
        return int(answer.method.message_count)

    def purge(self, queue: str) -> None:
        """Delete the messages of a queue. Raises OperationRefused or Lost."""
        connection = self._connection(closes=False)
        connection.call(f"queue.purge {queue!r}", lambda channel, done: channel.queue_purge(queue, callback=done))

    def _connection(self, *, closes: bool) -> BrokerConnection:
        connection = self._connections.get(closes)
        if connection is None or not connection.is_open:
            if connection is not None:
                connection.close()
            connection = self._connections[closes] = self._connect()
        return connection

    def _connect(self, frame_max: int | None = None) -> BrokerConnection:
        return BrokerConnection(
            self._addresses.amqp, *self._addresses.management.read_login(), self.vhost,
            seconds=SECONDS, name=NAME, frame_max=frame_max,
        )  # fmt: skip

    def _make(self, connection: BrokerConnection, method: str, given: Mapping[str, Any]) -> None:
        if method == "basic.publish":
            _publish(connection, Message(given["exchange"]), immediate=given["immediate"])
        elif method == "basic.get":
            _get(connection, given["queue"])
        else:
            if method == "basic.consume":
                self._set_prefetch(connection, given)
                given = {name: value for name, value in given.items() if name not in EXTRA} | {"exclusive": False}
            answer = connection.send(method, method, given)
            if method == "queue.declare" and given["queue"] == "":
                self._generated = answer.method.queue

    def _set_prefetch(self, connection: BrokerConnection, given: Mapping[str, Any]) -> None:
        count, is_global = (given[name] for name in EXTRA)
        if count or is_global:
            qos = {"prefetch_size": 0, "prefetch_count": count, "global": is_global}
            connection.send("basic.qos", "basic.qos", qos)


def _publish(connection: BrokerConnection, message: Message, *, immediate: bool = False) -> None:
    """Publish a message with a confirm, and wait for it."""
    from pika import amqp_object, spec

    payload = get_content(message).payload(len(message.body))

    class RawProperties(amqp_object.Properties):  # type: ignore[misc]
        INDEX = spec.BasicProperties.INDEX

        def encode(self) -> list[bytes]:
            return [payload[12:]]  # behind class, weight and the size of the body, which pika writes

    def publish(channel: Any, done: Any) -> None:
        channel.confirm_delivery(done)
        method = spec.Basic.Publish(exchange=message.exchange, routing_key=message.routing_key, immediate=immediate)
        channel._send_method(method, (RawProperties(), message.body))

    connection.call(f"basic.publish to {message.exchange!r}", publish)


def _get(connection: BrokerConnection, queue: str) -> None:
    from pika import spec

    def get(channel: Any, done: Any) -> None:
        channel.add_callback(done, [spec.Basic.GetEmpty])
        channel.basic_get(queue, lambda *answer: done(answer))

    connection.call(f"basic.get {queue!r}", get)
