"""One channel of a client of the test server: its methods, its consumers, and its unacknowledged messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol
from uuid import uuid4

from bindings.testing.server.broker import REPLY_TO, Broker
from bindings.testing.server.queues import Consumer, Limit, Limits, Stored, StoredQueue
from exchange.amqp import ContentHeader
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed

__all__ = ["Channel", "Connection", "NotAllowed", "NotImplementedByServer"]

Arguments = Mapping[str, Any]


class NotAllowed(BrokerError):
    """530: it closes the connection."""

    code, name = 530, "NOT_ALLOWED"


class NotImplementedByServer(BrokerError):
    """540: a method that this server does not have; it closes the connection."""

    code, name = 540, "NOT_IMPLEMENTED"


class Connection(Protocol):
    """What a channel needs of its connection."""

    @property
    def broker(self) -> Broker:
        """The broker that the client is connected to."""

    def send(self, channel: int, name: str, content: tuple[ContentHeader, bytes] | None = None, **given: Any) -> None:
        """Send a method, with the content of a message."""


class Unacked(NamedTuple):
    """A message that was delivered and is not acknowledged."""

    queue: StoredQueue | None
    message: Stored
    limits: Limits | None
    """The prefetch limits that count it; None if it was fetched by basic.get."""


class Channel:
    """The state of a channel. Methods that raise a BrokerError close it."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection: Final = connection
        self._broker: Final = connection.broker
        self._number: Final = number
        self._consumers: Final[dict[str, tuple[StoredQueue | None, Consumer]]] = {}
        self._unacked: dict[int, Unacked] = {}
        self._tag = 0
        self._limit = Limit()
        """Prefetch limit of the whole channel."""
        self._limit_of_new = 0
        """Prefetch count of consumers that start later."""
        self._confirmed: int | None = None
        """Number of confirmed messages; None until the client selects confirms."""
        self._transaction: list[Callable[[], None]] | None = None
        self._reply_address = ""
        self._last_queue = ""
        self.pending: tuple[str, str, bool] | None = None
        """Exchange, key and mandatory of the publish whose content has not come yet."""

    def handle(self, name: str, given: Arguments) -> None:
        """Carry out a method of the client. Raises BrokerError."""
        handler = getattr(self, "_" + name.replace(".", "_").replace("-", "_"), None)
        if handler is None:
            raise NotImplementedByServer(f"{name} is not implemented by this server")
        handler(given)

    def _answer(self, given: Arguments, name: str, **arguments: Any) -> None:
        if not given.get("nowait"):
            self._connection.send(self._number, name, **arguments)

    def close(self) -> None:
        """Cancel the consumers, and requeue unacknowledged messages."""
        for tag in [*self._consumers]:
            self._cancel(tag)
        self._broker.reply_channels.pop(self._reply_address, None)
        self._give_back([*self._unacked])

    # Exchanges

    def _exchange_declare(self, given: Arguments) -> None:
        name = given["exchange"]
        if not given["passive"]:
            self._broker.router.declare_exchange(
                Exchange(name, given["type"], given["durable"], given["auto_delete"], given["internal"],
                         given["arguments"])
            )  # fmt: skip
        elif name not in self._broker.topology.exchanges:
            raise NotFound(f"no exchange '{name}' in vhost '{self._broker.vhost}'")
        self._answer(given, "exchange.declare-ok")

    def _exchange_delete(self, given: Arguments) -> None:
        self._broker.router.delete_exchange(given["exchange"], if_unused=given["if_unused"])
        self._answer(given, "exchange.delete-ok")

    def _exchange_bind(self, given: Arguments) -> None:
        self._broker.router.bind(_exchange_binding(given))
        self._answer(given, "exchange.bind-ok")

    def _exchange_unbind(self, given: Arguments) -> None:
        self._broker.router.unbind(_exchange_binding(given))
        self._answer(given, "exchange.unbind-ok")

    # Queues

    def _queue_declare(self, given: Arguments) -> None:
        name = given["queue"]
        if name == REPLY_TO:
            self._answer(given, "queue.declare-ok", queue=name)
            return
        if given["passive"]:
            queue = self._queue(name)
        else:
            declared = Queue(name, given["durable"], given["auto_delete"], given["arguments"])
            owner = self._connection if given["exclusive"] else None
            queue = self._broker.declare_queue(declared, owner, self._connection)
        self._last_queue = queue.declared.name
        self._answer(
            given,
            "queue.declare-ok",
            queue=queue.declared.name,
            message_count=len(queue.ready),
            consumer_count=len(queue.consumers),
        )

    def _queue_bind(self, given: Arguments) -> None:
        name = given["queue"] or self._last_queue
        if name in self._broker.queues:
            self._queue(name)
        key = given["routing_key"] or ("" if given["queue"] else self._last_queue)
        self._broker.router.bind(Binding.to_queue(given["exchange"], name, key, given["arguments"]))
        self._answer(given, "queue.bind-ok")

    def _queue_unbind(self, given: Arguments) -> None:
        name = given["queue"] or self._last_queue
        self._broker.router.unbind(Binding.to_queue(given["exchange"], name, given["routing_key"], given["arguments"]))
        self._answer(given, "queue.unbind-ok")

    def _queue_purge(self, given: Arguments) -> None:
        queue = self._queue(given["queue"])
        count = len(queue.ready)
        queue.ready.clear()
        self._answer(given, "queue.purge-ok", message_count=count)

    def _queue_delete(self, given: Arguments) -> None:
        name = given["queue"] or self._last_queue
        count = 0
        if name in self._broker.queues:
            queue = self._queue(name)
            count = len(queue.ready)
            for wanted, is_so, what in (
                ("if_unused", queue.consumers, "in use"),
                ("if_empty", queue.ready, "not empty"),
            ):
                if given[wanted] and is_so:
                    raise PreconditionFailed(f"queue '{name}' in vhost '{self._broker.vhost}' {what}")
            self._broker.delete_queue(name)
        self._answer(given, "queue.delete-ok", message_count=count)

    def _queue(self, name: str) -> StoredQueue:
        return self._broker.queue(name or self._last_queue, self._connection)

    # Consumers

    def _basic_qos(self, given: Arguments) -> None:
        if given["global"]:
            self._limit.most = given["prefetch_count"]
        else:
            self._limit_of_new = given["prefetch_count"]
        self._answer(given, "basic.qos-ok")
        self._deliver_more()

    def _basic_consume(self, given: Arguments) -> None:
        tag = given["consumer_tag"] or f"amq.ctag-{uuid4().hex}"
        if tag in self._consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        limits = Limits(Limit(self._limit_of_new), self._limit)
        consumer = Consumer(tag, given["no_ack"], given["exclusive"], limits, self._deliver, self)
        if given["queue"] == REPLY_TO:
            if not given["no_ack"]:
                raise PreconditionFailed("reply consumer cannot acknowledge")
            self._reply_address = f"{REPLY_TO}.{uuid4().hex}"
            self._broker.reply_channels[self._reply_address] = self
            self._consumers[tag] = (None, consumer)
            self._answer(given, "basic.consume-ok", consumer_tag=tag)
            return
        queue = self._queue(given["queue"])
        if any(other.exclusive for other in queue.consumers) or (given["exclusive"] and queue.consumers):
            raise AccessRefused(f"queue '{queue.declared.name}' in vhost '{self._broker.vhost}' in exclusive use")
        self._consumers[tag] = (queue, consumer)
        queue.add_consumer(consumer)
        self._answer(given, "basic.consume-ok", consumer_tag=tag)
        queue.deliver()

    def _basic_cancel(self, given: Arguments) -> None:
        self._cancel(given["consumer_tag"])
        self._answer(given, "basic.cancel-ok", consumer_tag=given["consumer_tag"])

    def _cancel(self, tag: str) -> None:
        queue, consumer = self._consumers.pop(tag, (None, None))
        if queue is not None and consumer is not None and queue.remove_consumer(consumer):
            self._broker.delete_queue(queue.declared.name)

    def lose_consumer(self, tag: str) -> None:
        """Send ``basic.cancel`` for a consumer whose queue was deleted."""
        self._consumers.pop(tag, None)
        self._connection.send(self._number, "basic.cancel", consumer_tag=tag, nowait=True)

    def _deliver(self, consumer: Consumer, message: Stored) -> None:
        queue = self._consumers[consumer.tag][0]
        self._tag += 1
        if not consumer.no_ack:
            self._hold(Unacked(queue, message, consumer.limits))
        self._connection.send(
            self._number,
            "basic.deliver",
            (message.content, message.body),
            consumer_tag=consumer.tag,
            delivery_tag=self._tag,
            redelivered=message.redelivered,
            exchange=message.exchange,
            routing_key=message.routing_key,
        )

    def deliver_reply(self, message: Stored) -> None:
        """Deliver a direct reply."""
        consumer = next((consumer for queue, consumer in self._consumers.values() if queue is None), None)
        if consumer is not None:
            self._deliver(consumer, message)

    def _basic_get(self, given: Arguments) -> None:
        queue = self._queue(given["queue"])
        if not queue.ready:
            self._answer(given, "basic.get-empty")
            return
        message = queue.ready.popleft()
        self._tag += 1
        if not given["no_ack"]:
            self._hold(Unacked(queue, message, None))
        self._answer(
            given,
            "basic.get-ok",
            content=(message.content, message.body),
            delivery_tag=self._tag,
            redelivered=message.redelivered,
            exchange=message.exchange,
            routing_key=message.routing_key,
            message_count=len(queue.ready),
        )

    # Acknowledgements

    def _hold(self, unacked: Unacked) -> None:
        self._unacked[self._tag] = unacked
        for limit in unacked.limits or ():
            limit.held += 1

    def _release(self, tags: list[int]) -> list[Unacked]:
        released = [self._unacked.pop(tag) for tag in tags]
        for unacked in released:
            for limit in unacked.limits or ():
                limit.held -= 1
        return released

    def _tags(self, given: Arguments) -> list[int]:
        tag = given["delivery_tag"]
        if given.get("multiple"):
            return [each for each in self._unacked if each <= tag or tag == 0]
        if tag not in self._unacked:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        return [tag]

    def _basic_ack(self, given: Arguments) -> None:
        self._settle(given, self._release)

    def _basic_nack(self, given: Arguments) -> None:
        self._settle(given, self._give_back if given["requeue"] else self._drop)

    _basic_reject = _basic_nack

    def _settle(self, given: Arguments, act: Callable[[list[int]], Any]) -> None:
        tags = self._tags(given)

        def settle() -> None:
            act(tags)
            self._deliver_more()

        if self._transaction is None:
            settle()
        else:
            self._transaction.append(settle)

    def _give_back(self, tags: list[int]) -> None:
        by_queue: dict[StoredQueue, list[Stored]] = {}
        for queue, message, _ in self._release(tags):
            if queue is not None:
                by_queue.setdefault(queue, []).append(message)
        for queue, messages in by_queue.items():
            queue.give_back(messages)

    def _drop(self, tags: list[int]) -> None:
        for queue, message, _ in self._release(tags):
            if queue is not None:
                self._broker.drop(queue, [message], "rejected")

    def _basic_recover(self, given: Arguments) -> None:
        self._give_back([*self._unacked])
        self._answer(given, "basic.recover-ok")

    def _deliver_more(self) -> None:
        for queue, _ in [*self._consumers.values()]:
            if queue is not None:
                queue.deliver()

    # Publishing

    def _basic_publish(self, given: Arguments) -> None:
        if given["immediate"]:
            raise NotImplementedByServer("immediate=true")
        self.pending = (given["exchange"], given["routing_key"], given["mandatory"])

    def publish(self, content: ContentHeader, body: bytes) -> None:
        """Publish the content that belongs to the last basic.publish. Raises as the broker."""
        if self.pending is None:
            raise NotAllowed("content without basic.publish")
        (exchange, key, mandatory), self.pending = self.pending, None
        if content.property("reply_to") == REPLY_TO:
            if not self._reply_address:
                raise PreconditionFailed("fast reply consumer does not exist")
            content = content.with_property("reply_to", self._reply_address)

        def publish() -> None:
            reached = self._broker.publish(exchange, key, content, body)
            if mandatory and not reached:
                given = {"reply_code": 312, "reply_text": "NO_ROUTE", "exchange": exchange, "routing_key": key}
                self._connection.send(self._number, "basic.return", (content, body), **given)

        if self._transaction is not None:
            self._transaction.append(publish)
            return
        publish()
        if self._confirmed is not None:
            self._confirmed += 1
            self._connection.send(self._number, "basic.ack", delivery_tag=self._confirmed)

    def _confirm_select(self, given: Arguments) -> None:
        self._confirmed = self._confirmed or 0
        self._answer(given, "confirm.select-ok")

    def _tx_select(self, given: Arguments) -> None:
        self._transaction = self._transaction or []
        self._answer(given, "tx.select-ok")

    def _tx_commit(self, given: Arguments) -> None:
        actions, self._transaction = self._end_transaction(), []
        for action in actions:
            action()
        self._answer(given, "tx.commit-ok")

    def _tx_rollback(self, given: Arguments) -> None:
        self._end_transaction()
        self._transaction = []
        self._answer(given, "tx.rollback-ok")

    def _end_transaction(self) -> list[Callable[[], None]]:
        if self._transaction is None:
            raise PreconditionFailed("channel is not transactional")
        return self._transaction

    def _channel_flow(self, given: Arguments) -> None:
        if not given["active"]:
            raise NotImplementedByServer("active=false")
        self._answer(given, "channel.flow-ok", active=True)


def _exchange_binding(given: Arguments) -> Binding:
    return Binding.to_exchange(given["source"], given["destination"], given["routing_key"], given["arguments"])
