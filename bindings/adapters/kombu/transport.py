"""A transport of kombu that routes in memory as RabbitMQ does: ``hashstar://``, once `register` was called.

It has all of RabbitMQ's routing: every exchange type that `Router` knows, bindings between exchanges, alternate
exchanges, CC and BCC, mandatory and delayed messages; refusals have RabbitMQ's code and text. A queue keeps its
messages in order, gets unacknowledged messages back at its front, and is deleted with its last consumer (auto_delete)
or its connection (exclusive). Nothing expires, overflows or is dead-lettered.

All connections of a process to one host and virtual host share a `MemoryBroker`, which `find_broker` returns.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty
from threading import Condition, Timer
from time import monotonic
from typing import Any, Final

from amqp.exceptions import ChannelError, error_for_code
from amqp.protocol import queue_declare_ok_t
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport.base import to_rabbitmq_queue_arguments

from exchange.entities.entities import Binding, Exchange, Queue
from exchange.entities.queue_arguments import NO_FLAGS, DeclareFlags
from exchange.errors import BrokerError, NotFound, PreconditionFailed
from exchange.kinds import KINDS, compute_delivered_headers
from exchange.routing.route import LaterRoute
from exchange.routing.router import Router
from exchange.topology.requests import name_queue, refuse_delete
from exchange.topology.topology import Topology
from exchange.values.message import BASIC_PROPERTIES, Message

ALIAS: Final = "hashstar"
HOST: Final = "localhost"
"""Host of the URL ``hashstar://``."""

PATIENCE: Final = 0.25
"""Maximum number of seconds to wait for a message before consumers are listed again: others may have started."""

Payload = dict[str, Any]
"""A message as kombu's virtual transports carry it: body, headers, properties, content type and encoding."""


def register() -> None:
    """Make ``hashstar://[HOST[/VHOST]]`` a URL that kombu and Celery connect to."""
    TRANSPORT_ALIASES[ALIAS] = f"{__name__}:Transport"


class MemoryBroker:
    """The router and the queues that all connections of this process to one virtual host share."""

    def __init__(self, topology: Topology) -> None:
        self.router: Final = Router(topology)
        self.queues: Final[dict[str, deque[Payload]]] = {name: deque() for name in topology.queues}
        """Queue -> the messages that are ready, oldest first."""
        self.consumers: Final[Counter[str]] = Counter()
        """Queue -> number of its consumers."""
        self.changed: Final = Condition()
        """Guards the queues; notified when a message becomes ready."""
        self.puts = 0
        """Number of messages that have become ready so far."""

    @property
    def topology(self) -> Topology:
        """The present topology."""
        return self.router.topology

    def declare_queue(self, queue: Queue, flags: DeclareFlags = NO_FLAGS) -> None:
        """Declare a queue. Raises as the broker."""
        with self.changed:
            self.router.declare_queue(queue, flags)
            self.queues.setdefault(queue.name, deque())

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its bindings and messages."""
        with self.changed:
            self.router.delete_queue(name)
            self.queues.pop(name, None)

    def count_consumer(self, queue: str, change: int) -> None:
        """Count a consumer that was added (1) or cancelled (-1); an auto-delete queue is deleted with its last one."""
        with self.changed:
            self.consumers[queue] += change
            declared = self.topology.queues.get(queue)
            if change < 0 and declared is not None and declared.auto_delete and not self.consumers[queue]:
                self.delete_queue(queue)

    def put(self, queue: str, payload: Payload, *, in_front: bool = False) -> None:
        """Put a message into a queue, behind the others or in front of them; a deleted queue drops it."""
        with self.changed:
            messages = self.queues.get(queue)
            if messages is not None:
                (messages.appendleft if in_front else messages.append)(payload)
                self.puts += 1
                self.changed.notify_all()

    def put_later(self, payload: Payload, published: Message, later: LaterRoute) -> None:
        """Put a message that an exchange delays into its queues, those of then, when the delay is over."""
        exchange, delay, _ = later
        rewritten = "BCC" in published.headers
        headers = compute_delivered_headers(published.headers, delay, self.topology.profile, rewritten=rewritten)

        def put() -> None:
            for queue in self.router.route_later(published, exchange, delay).queues:
                self.put(queue, _copy_for({**payload, "headers": headers}, queue))

        timer = Timer(delay / 1000, put)
        timer.daemon = True  # the delayed messages of a broker in memory end with the process
        timer.start()

    def get(self, queue: str) -> Payload:
        """Remove the oldest message of a queue. Raises `queue.Empty`."""
        with self.changed:
            messages = self.queues.get(queue)
            if not messages:
                raise Empty
            return messages.popleft()

    def wait_for_put(self, puts: int, seconds: float) -> None:
        """Wait until more than ``puts`` messages have become ready, for at most ``seconds``."""
        with self.changed:
            self.changed.wait_for(lambda: self.puts > puts, seconds)


_brokers: Final[dict[tuple[str, str], MemoryBroker]] = {}


def find_broker(host: str = HOST, vhost: str = "/", *, topology: Topology | None = None) -> MemoryBroker:
    """Return the broker of ``hashstar://HOST/VHOST``; the first call makes it.

    With a topology, it is a new broker with this topology, for connections that are opened from now on; ``vhost`` then
    is that of the topology.
    """
    if topology is not None:
        vhost = topology.vhost
        _brokers[host, vhost] = MemoryBroker(topology)
    broker = _brokers.get((host, vhost))
    return broker if broker is not None else _brokers.setdefault((host, vhost), MemoryBroker(Topology(vhost=vhost)))


class Channel(virtual.Channel):  # type: ignore[misc]  # kombu has no types
    """A channel to a `MemoryBroker`."""

    supports_fanout = True
    do_restore = True

    def __init__(self, connection: Any, **options: Any) -> None:
        super().__init__(connection, **options)
        self.events: Final[dict[str, set[Callable[..., object]]]] = defaultdict(set)
        """Event -> callbacks; kombu's Producer adds its ``on_return`` to ``basic_return``."""

    @property
    def broker(self) -> MemoryBroker:
        """The broker of the connection."""
        broker: MemoryBroker = self.connection.broker
        return broker

    # Declarations

    def exchange_declare(
        self,
        exchange: str = "",
        type: str = "direct",  # noqa: A002  kombu's name
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        nowait: bool = False,
        passive: bool = False,
    ) -> None:
        with _amqp_errors(40, 10):
            if not passive:
                declared = Exchange(
                    exchange, type or "direct", bool(durable), bool(auto_delete), False, arguments or {}
                )
                self.broker.router.declare_exchange(declared)
            elif exchange not in self.broker.topology.exchanges:
                raise NotFound(f"no exchange '{exchange}' in vhost '{self.broker.topology.vhost}'")

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        with _amqp_errors(40, 20):
            self.broker.router.delete_exchange(exchange, if_unused=if_unused)

    def exchange_bind(
        self,
        destination: str,
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        with _amqp_errors(40, 30):
            self.broker.router.bind(Binding.to_exchange(source, destination, routing_key or "", arguments))

    def exchange_unbind(
        self,
        destination: str,
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        with _amqp_errors(40, 40):
            self.broker.router.unbind(Binding.to_exchange(source, destination, routing_key or "", arguments))

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> queue_declare_ok_t:
        flags = DeclareFlags(exclusive, is_named_by_server=not queue)
        queue = queue or name_queue()
        with _amqp_errors(50, 10):
            if passive and queue not in self.broker.queues:
                raise NotFound(f"no queue '{queue}' in vhost '{self.broker.topology.vhost}'")
            if not passive:
                self.broker.declare_queue(Queue(queue, bool(durable), bool(auto_delete), arguments or {}), flags)
                if exclusive:
                    self.connection.exclusive.add(queue)
        return queue_declare_ok_t(queue, self._size(queue), self.broker.consumers[queue])

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any) -> int:
        size = self._size(queue)
        with _amqp_errors(50, 40):
            declared = self.broker.topology.queues.get(queue)
            if declared is not None:
                what = f"queue '{queue}' in vhost '{self.broker.topology.vhost}'"
                refuse_delete(declared.type, what, if_unused=if_unused, if_empty=if_empty)
            for asked, is_so, what in (
                (if_unused, self.broker.consumers[queue], "in use"),
                (if_empty, size, "not empty"),
            ):
                if asked and is_so:
                    raise PreconditionFailed(f"queue '{queue}' in vhost '{self.broker.topology.vhost}' {what}")
            self.broker.delete_queue(queue)
        return size

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        with _amqp_errors(50, 20):
            self.broker.router.bind(Binding.to_queue(exchange or "amq.direct", queue, routing_key or "", arguments))

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        with _amqp_errors(50, 50):
            self.broker.router.unbind(Binding.to_queue(exchange or "amq.direct", queue, routing_key or "", arguments))

    def list_bindings(self) -> Iterator[tuple[str, str, str]]:
        """Yield queue, exchange and routing key of each binding to a queue."""
        for binding in self.broker.topology.bindings:
            if binding.destination.kind == "queue":
                yield binding.destination.name, binding.source, binding.routing_key

    def get_exchanges(self) -> list[str]:
        return list(self.broker.topology.exchanges)

    def get_table(self, exchange: str) -> list[tuple[str, None, str]]:
        return [(key, None, queue) for queue, source, key in self.list_bindings() if source == exchange]

    def prepare_queue_arguments(self, arguments: Mapping[str, Any], **options: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **options)

    # Messages

    def basic_publish(
        self, message: Payload, exchange: str, routing_key: str, mandatory: bool = False, **options: Any
    ) -> None:
        exchange, routing_key = exchange or "", routing_key or ""
        self._inplace_augment_message(message, exchange, routing_key)
        published = _message_of(message, exchange, routing_key)
        with _amqp_errors(60, 40):
            route = self.broker.router.route(published)
        for queue in route.at_once.queues:
            self.broker.put(queue, _copy_for(message, queue))
        for later in route.later:
            self.broker.put_later(message, published, later)
        if mandatory and route.at_once.unroutable:
            error = error_for_code(312, "NO_ROUTE", (60, 50), ChannelError)
            for callback in [*self.events["basic_return"]]:
                callback(error, exchange, routing_key, self.message_to_python(message))

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[..., object], consumer_tag: str, **options: Any
    ) -> None:
        with _amqp_errors(60, 20):
            if queue not in self.broker.queues:
                raise NotFound(f"no queue '{queue}' in vhost '{self.broker.topology.vhost}'")
        self.broker.count_consumer(queue, 1)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **options)

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag) if consumer_tag in self._consumers else None
        super().basic_cancel(consumer_tag)
        if queue is not None:
            self.broker.count_consumer(queue, -1)

    def after_reply_message_received(self, queue: str) -> None:
        """Keep the queue, as a broker does; kombu's virtual transports delete it."""

    def _restore(self, message: Any) -> None:
        """Give a message back to the front of the queue that it came from."""
        payload = {**message.serializable(), "redelivered": True}
        self.broker.put(message.delivery_info["queue"], payload, in_front=True)

    def _get(self, queue: str, timeout: float | None = None) -> Payload:
        return self.broker.get(queue)

    def _put(self, queue: str, message: Payload, **options: Any) -> None:
        self.broker.put(queue, _copy_for(message, queue))

    def _size(self, queue: str) -> int:
        return len(self.broker.queues.get(queue, ()))

    def _has_queue(self, queue: str, **options: Any) -> bool:
        return queue in self.broker.queues

    def _purge(self, queue: str) -> int:
        with self.broker.changed:
            messages = self.broker.queues.get(queue, deque())
            size = len(messages)
            messages.clear()
        return size


class Transport(virtual.Transport):  # type: ignore[misc]  # kombu has no types
    """The transport of ``hashstar://``."""

    Channel = Channel

    implements = virtual.Transport.implements.extend(exchange_type=frozenset(KINDS))
    driver_type = "hashstar"
    driver_name = "hashstar"

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.broker: Final = find_broker(client.hostname or HOST, client.virtual_host or "/")
        self.exclusive: Final[set[str]] = set()
        """The queues that are deleted with the connection."""

    def driver_version(self) -> str:
        return "N/A"

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message, waiting for it for at most ``timeout`` seconds, then raise TimeoutError."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            puts = self.broker.puts
            try:
                self.cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = PATIENCE if deadline is None else deadline - monotonic()
                if left <= 0:
                    raise TimeoutError from None
                self.broker.wait_for_put(puts, min(left, PATIENCE))
            else:
                return

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        while self.exclusive:
            self.broker.delete_queue(self.exclusive.pop())


@contextmanager
def _amqp_errors(class_id: int, method_id: int) -> Iterator[None]:
    """Raise the broker's errors as py-amqp does, the client of kombu's transport for RabbitMQ."""
    try:
        yield
    except BrokerError as error:
        text = f"{error.name} - {error.text}"
        raise error_for_code(error.code, text, (class_id, method_id), ChannelError) from None


def _message_of(payload: Payload, exchange: str, routing_key: str) -> Message:
    properties = payload["properties"]
    given = {name: properties[name] for name in BASIC_PROPERTIES if properties.get(name) is not None}
    return Message(exchange, routing_key, payload["headers"] or {}, given)


def _copy_for(payload: Payload, queue: str) -> Payload:
    """Return the copy of a message for a queue: without BCC, and with the queue's name in its ``delivery_info``."""
    properties = payload["properties"]
    headers = {name: value for name, value in (payload["headers"] or {}).items() if name != "BCC"}
    info = {**properties["delivery_info"], "queue": queue}
    return {**payload, "headers": headers, "properties": {**properties, "delivery_info": info}}
