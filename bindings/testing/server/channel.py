"""One channel of a client of the test server: its methods, its consumers, and its unacknowledged messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Final
from uuid import uuid4

from bindings.testing.server.broker import FrameSender
from bindings.testing.server.consumers import ChannelConsumer, knows_timeouts
from exchange.amqp import ContentHeader, get_content
from exchange.entities.entities import DIRECT_REPLY_TO
from exchange.entities.part import decode_binding, decode_exchange, decode_queue, with_last_queue
from exchange.entities.queue_arguments import refuse_consumer, takes_credit
from exchange.errors import BrokerError, NotAllowed, NotFound, NotImplementedByBroker, PreconditionFailed
from exchange.lifecycle.consumers import Delivery
from exchange.lifecycle.queues import LiveQueue
from exchange.topology.requests import refuse_consume, refuse_delete, refuse_exclusive, refuse_prefetch_size
from exchange.values.message import Message

Arguments = Mapping[str, Any]
CONFIGURE: Final = "This timeout value can be configured, see consumers doc guide to learn more"


class Channel:
    """The state of a channel. Methods that raise a BrokerError close it."""

    def __init__(self, connection: FrameSender, number: int) -> None:
        self._connection: Final = connection
        self._broker: Final = connection.broker
        self._number: Final = number
        self._consumers: Final[dict[str, ChannelConsumer]] = {}
        self._cancelled: Final[list[ChannelConsumer]] = []
        """Consumers that held messages when they were cancelled."""
        self._unacked: Final[dict[int, Delivery]] = {}
        self._tag = 0
        self._limit = 0
        """Prefetch limit of the whole channel; 0 for none."""
        self._limit_of_new = 0
        """Prefetch count of consumers that start later."""
        self._confirmed: int | None = None
        """Number of confirmed messages; None until the client selects confirms."""
        self._transaction: list[Callable[[], Any]] | None = None
        self._reply_tag: str | None = None
        """Tag of the consumer of direct replies."""
        self._reply_address = ""
        self._last_queue = ""
        self.pending: tuple[str, str, bool] | None = None
        """Exchange, key and mandatory of the publish whose content has not come yet."""
        self._broker.channels.add(self)

    @property
    def room(self) -> float:
        """Number of messages that its consumers may still get, by the limit of the channel."""
        if not self._limit:
            return inf
        return self._limit - sum(each.held for each in self._consumers.values() if not each.auto_ack)

    def handle(self, name: str, given: Arguments) -> None:
        """Carry out a method of the client. Raises BrokerError."""
        handler = getattr(self, "_" + name.replace(".", "_").replace("-", "_"), None)
        if handler is None:
            raise NotImplementedByBroker(f"{name} is not implemented by this server")
        with self._broker.act():
            handler(with_last_queue(name, given, self._last_queue))

    def _answer(self, given: Arguments, name: str, **arguments: Any) -> None:
        if not given.get("nowait"):
            self._connection.send(self._number, name, **arguments)

    def close(self) -> None:
        """Cancel the consumers, and requeue unacknowledged messages."""
        self._broker.channels.discard(self)
        self._broker.reply_channels.pop(self._reply_address, None)
        with self._broker.act():
            for consumer in (*self._consumers.values(), *self._cancelled):
                self._broker.life.close(consumer)
            for delivery in self._unacked.values():  # those of basic.get
                if not delivery.is_settled:
                    self._broker.life.reject(delivery)

    # Exchanges

    def _exchange_declare(self, given: Arguments) -> None:
        name = given["exchange"]
        if not given["passive"]:
            self._broker.life.declare_exchange(decode_exchange(given))
        elif name not in self._broker.life.topology.exchanges:
            raise NotFound(f"no exchange '{name}' in vhost '{self._broker.vhost}'")
        self._answer(given, "exchange.declare-ok")

    def _exchange_delete(self, given: Arguments) -> None:
        self._broker.life.delete_exchange(given["exchange"], if_unused=given["if_unused"])
        self._answer(given, "exchange.delete-ok")

    def _exchange_bind(self, given: Arguments) -> None:
        self._broker.life.bind(decode_binding(given))
        self._answer(given, "exchange.bind-ok")

    def _exchange_unbind(self, given: Arguments) -> None:
        self._broker.life.unbind(decode_binding(given))
        self._answer(given, "exchange.unbind-ok")

    # Queues

    def _queue_declare(self, given: Arguments) -> None:
        name = given["queue"]
        if name == DIRECT_REPLY_TO:
            self._answer(given, "queue.declare-ok", queue=name)
            return
        if given["passive"]:
            queue = self._queue(name or self._last_queue)
        else:
            queue = self._broker.declare_queue(decode_queue(given), self._connection, exclusive=given["exclusive"])
        self._last_queue = queue.name
        self._answer(
            given,
            "queue.declare-ok",
            queue=queue.name,
            message_count=len(queue.order),
            consumer_count=queue.consumer_count,
        )

    def _queue_bind(self, given: Arguments) -> None:
        if given["queue"] in self._broker.life.queues:
            self._queue(given["queue"])
        self._broker.life.bind(decode_binding(given))
        self._answer(given, "queue.bind-ok")

    def _queue_unbind(self, given: Arguments) -> None:
        self._broker.life.unbind(decode_binding(given))
        self._answer(given, "queue.unbind-ok")

    def _queue_purge(self, given: Arguments) -> None:
        queue = self._queue(given["queue"])
        self._answer(given, "queue.purge-ok", message_count=self._broker.life.purge(queue.name))

    def _queue_delete(self, given: Arguments) -> None:
        name = given["queue"]
        count = 0
        if name in self._broker.life.queues:
            queue = self._queue(name)
            kind, conditions = self._type_of(name), {flag: given[flag] for flag in ("if_unused", "if_empty")}
            refuse_delete(kind, self._broker.life.describe_queue(name), **conditions)
            count = len(queue.order) if kind != "stream" else 0
            for wanted, is_so, what in (
                ("if_unused", queue.turns.consumers, "in use"),
                ("if_empty", count, "not empty"),
            ):
                if given[wanted] and is_so and kind == "classic":
                    raise PreconditionFailed(f"{self._broker.life.describe_queue(name)} {what}")
            self._broker.delete_queue(name)
        self._answer(given, "queue.delete-ok", message_count=count)

    def _queue(self, name: str) -> LiveQueue:
        return self._broker.queue(name, self._connection)

    def _type_of(self, name: str) -> str:
        return self._broker.life.topology.queues[name].type

    # Consumers

    def _basic_qos(self, given: Arguments) -> None:
        refuse_prefetch_size(given["prefetch_size"])
        if given["global"] and "global_qos" not in self._broker.life.topology.profile.denied_features:
            self._limit = given["prefetch_count"]
        else:
            self._limit, self._limit_of_new = 0, given["prefetch_count"]
        self._answer(given, "basic.qos-ok")
        for consumer in [*self._consumers.values()]:  # they may have more room than before
            self._broker.life.resume(consumer)

    def _basic_consume(self, given: Arguments) -> None:
        tag = given["consumer_tag"] or f"amq.ctag-{uuid4().hex}"
        if tag in self._consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        if given["queue"] == DIRECT_REPLY_TO:
            if not given["no_ack"]:
                raise PreconditionFailed("reply consumer cannot acknowledge")
            if self._reply_tag is not None:
                raise PreconditionFailed("reply consumer already set")
            self._reply_tag, self._reply_address = tag, f"{DIRECT_REPLY_TO}.{uuid4().hex}"
            self._broker.reply_channels[self._reply_address] = self
            self._answer(given, "basic.consume-ok", consumer_tag=tag)
            return
        queue = self._queue(given["queue"])
        arguments, life = given["arguments"], self._broker.life
        what, profile = life.describe_queue(queue.name), life.topology.profile
        refuse_consumer(life.topology.queues[queue.name], what, arguments, profile)
        queue.refuse_reader()
        refuse_consume(
            self._type_of(queue.name), what, life.release,
            prefetch=self._limit_of_new, auto_ack=given["no_ack"], channel_prefetch=self._limit,
        )  # fmt: skip
        others = [isinstance(each, ChannelConsumer) and each.is_exclusive for each in queue.turns.consumers]
        refuse_exclusive(
            self._type_of(queue.name), what,
            is_exclusive=given["exclusive"], has_active=queue.limits.single_active_consumer, others=others,
        )  # fmt: skip
        if takes_credit(self._type_of(queue.name), arguments, profile):
            raise NotImplementedByBroker("x-credit, which clients of AMQP 1.0 need, is not implemented by this server")
        consumer = self._consumers[tag] = ChannelConsumer(self, queue.name, self._limit_of_new, given)
        life.start(consumer, arguments.get("x-stream-offset", "next"))
        self._answer(given, "basic.consume-ok", consumer_tag=tag)

    def _basic_cancel_ok(self, given: Arguments) -> None:
        """End a consumer that was too slow, and whose client agrees."""
        if self._broker.life.release.consumer_timeout is None:
            raise NotImplementedByBroker("basic.cancel-ok is not implemented by this server")
        if given["consumer_tag"] not in self._consumers:
            raise BrokerError("the channel crashes on basic.cancel-ok for a consumer that it does not have")
        self._basic_cancel({**given, "nowait": True})

    def _basic_cancel(self, given: Arguments) -> None:
        tag = given["consumer_tag"]
        consumer = self._consumers.pop(tag, None) if tag != self._reply_tag else None
        if consumer is not None:
            if self._connection.supports_cancels:
                consumer.note_timeouts()
            self._broker.life.cancel(consumer)
            if consumer.held:
                self._cancelled.append(consumer)
        elif tag == self._reply_tag:
            self._reply_tag = None
            self._broker.reply_channels.pop(self._reply_address, None)
        self._answer(given, "basic.cancel-ok", consumer_tag=tag)

    def send_deliveries(self) -> None:
        """Send what the consumers were delivered, and ``basic.cancel`` to those whose queue was deleted."""
        for tag, consumer in [*self._consumers.items()]:
            while (delivery := consumer.receive()) is not None:
                self._send_delivery(tag, delivery.message, delivery)
            if not consumer.is_active:
                del self._consumers[tag]
            if not consumer.is_active or (self._connection.supports_cancels and not consumer.knows_timeouts):
                consumer.note_timeouts()
                self._connection.send(self._number, "basic.cancel", consumer_tag=tag, nowait=True)
        if any(delivery.is_late and not knows_timeouts(delivery.consumer) for delivery in self._unacked.values()):
            text = (
                f"delivery acknowledgement on channel {self._number} timed out. Timeout value used: -1 ms. {CONFIGURE}"
            )
            self._connection.close_channel(self._number, self, PreconditionFailed(text))

    def send_reply(self, message: Message) -> None:
        """Send a direct reply."""
        if self._reply_tag is not None:
            self._send_delivery(self._reply_tag, message, None)

    def _send_delivery(self, tag: str, message: Message, delivery: Delivery | None) -> None:
        self._connection.send(
            self._number,
            "basic.deliver",
            (get_content(message), message.body),
            consumer_tag=tag,
            delivery_tag=self._number_delivery(delivery),
            redelivered=delivery is not None and delivery.redelivered,
            exchange=message.exchange,
            routing_key=message.routing_key,
        )

    def _number_delivery(self, delivery: Delivery | None) -> int:
        """Return the tag of a delivery, and keep it until it is settled, if it is to be."""
        self._tag += 1
        if delivery is not None and not delivery.is_settled:
            self._unacked[self._tag] = delivery
        return self._tag

    def _basic_get(self, given: Arguments) -> None:
        queue = self._queue(given["queue"])
        delivery = self._broker.life.get(queue.name, auto_ack=given["no_ack"])
        if delivery is None:
            self._answer(given, "basic.get-empty")
            return
        message = delivery.message
        self._answer(
            given,
            "basic.get-ok",
            content=(get_content(message), message.body),
            delivery_tag=self._number_delivery(delivery),
            redelivered=delivery.redelivered,
            exchange=message.exchange,
            routing_key=message.routing_key,
            message_count=len(queue.order),
        )

    # Acknowledgements

    def _tags(self, given: Arguments) -> list[int]:
        tag = given["delivery_tag"]
        if given.get("multiple"):
            return [each for each in self._unacked if each <= tag or tag == 0]
        if tag not in self._unacked:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        return [tag]

    def _basic_ack(self, given: Arguments) -> None:
        self._settle(self._tags(given), self._broker.life.ack)

    def _basic_nack(self, given: Arguments) -> None:
        self._settle(self._tags(given), partial(self._broker.life.nack, requeue=given["requeue"]))

    def _basic_reject(self, given: Arguments) -> None:
        self._settle(self._tags(given), partial(self._broker.life.reject, requeue=given["requeue"]))

    def _settle(self, tags: Sequence[int], act: Callable[[Delivery], None]) -> None:
        if self._transaction is None:
            self._end_deliveries(tags, act)
        else:
            self._transaction.append(lambda: self._end_deliveries(tags, act))

    def _end_deliveries(self, tags: Iterable[int], act: Callable[[Delivery], None]) -> None:
        for delivery in [self._unacked.pop(tag) for tag in tags if tag in self._unacked]:
            act(delivery)
        self._resume()

    def _basic_recover(self, given: Arguments) -> None:
        if not given["requeue"]:
            raise NotImplementedByBroker("requeue=false")
        self._end_deliveries([*self._unacked], self._broker.life.reject)
        self._answer(given, "basic.recover-ok")

    def _resume(self) -> None:
        """Give the consumers their turns again: the limit of the channel may leave them room."""
        if self._limit:
            for consumer in [*self._consumers.values()]:
                self._broker.life.resume(consumer)

    # Publishing

    def _basic_publish(self, given: Arguments) -> None:
        if given["immediate"]:
            raise NotImplementedByBroker("immediate=true")
        self.pending = (given["exchange"], given["routing_key"], given["mandatory"])

    def publish(self, content: ContentHeader, body: bytes) -> None:
        """Publish the content that belongs to the last basic.publish. Raises as the broker."""
        if self.pending is None:
            raise NotAllowed("content without basic.publish")
        (exchange, key, mandatory), self.pending = self.pending, None
        if content.property("reply_to") == DIRECT_REPLY_TO:
            if self._reply_tag is None:
                raise PreconditionFailed("fast reply consumer does not exist")
            content = content.with_property("reply_to", self._reply_address)
        self._check_user(exchange, content)

        def publish() -> bool:
            publication = self._broker.publish(exchange, key, content, body)
            if publication is None:
                return True
            if mandatory and publication.route.at_once.unroutable:
                given = {"reply_code": 312, "reply_text": "NO_ROUTE", "exchange": exchange, "routing_key": key}
                self._connection.send(self._number, "basic.return", (content, body), **given)
            return publication.is_confirmed

        if self._transaction is not None:
            self._transaction.append(publish)
            return
        with self._broker.act():
            is_confirmed = publish()
        if self._confirmed is not None:
            self._confirmed += 1
            method = "basic.ack" if is_confirmed else "basic.nack"
            self._connection.send(self._number, method, delivery_tag=self._confirmed)

    def _check_user(self, exchange: str, content: ContentHeader) -> None:
        """Raise PreconditionFailed for the name of another user. What is wrong with the exchange is answered first."""
        user, actual = content.property("user_id"), self._connection.user
        known = self._broker.life.topology.exchanges.get(exchange)
        if user not in (None, actual) and known is not None and not known.internal:
            raise PreconditionFailed(f"user_id property set to '{user}' but authenticated user was '{actual}'")

    def _confirm_select(self, given: Arguments) -> None:
        if self._transaction is not None:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        self._confirmed = self._confirmed or 0
        self._answer(given, "confirm.select-ok")

    def _tx_select(self, given: Arguments) -> None:
        if self._confirmed is not None:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
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

    def _end_transaction(self) -> list[Callable[[], Any]]:
        if self._transaction is None:
            raise PreconditionFailed("channel is not transactional")
        return self._transaction

    def _channel_flow(self, given: Arguments) -> None:
        if not given["active"]:
            raise NotImplementedByBroker("active=false")
        self._answer(given, "channel.flow-ok", active=True)
