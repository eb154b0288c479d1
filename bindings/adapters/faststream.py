"""FastStream's `TestRabbitBroker` with RabbitMQ's routing: change one import of a test.

FastStream decides for each subscriber alone whether it gets a message, by the exchange's name, its own pattern matcher
and its own comparison of headers. Here the declarations of all subscribers and publishers make a topology, and the
router finds the queues: wildcards, headers, bindings between exchanges (``bind_to``), alternate exchanges. A queue
gives a message to one of its subscribers, in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from operator import is_
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from exchange.text.site import build_install_command

try:
    from faststream.rabbit import RabbitQueue, testing
    from faststream.rabbit.testing import FakeProducer
except ImportError:
    raise ImportError(f"bindings.adapters.faststream needs FastStream: {build_install_command('faststream')}") from None

from faststream._internal.testing.broker import change_producer

from bindings.sources.applications.application import declare_parts
from bindings.sources.applications.faststream import read_parts, topology_of
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.message import Message

__all__ = ["TestRabbitBroker", "topology_of"]

_chosen: ContextVar[Collection[Any] | None] = ContextVar("chosen", default=None)
"""The subscribers that get the message in publication; None outside of `_RoutingProducer`."""


if TYPE_CHECKING:
    Base = testing.TestRabbitBroker[Any]
else:
    Base = testing.TestRabbitBroker  # generic since 0.7


class TestRabbitBroker(Base):
    """A drop-in replacement of `faststream.rabbit.TestRabbitBroker` that routes exactly.

    A message that reaches no queue raises `faststream.exceptions.SubscriberNotFound`, as in FastStream; one that only
    reaches queues without a subscriber of these brokers is no error. A publish to an exchange that does not exist, and
    a declaration that the broker would refuse, raise the `BrokerError` of RabbitMQ.
    """

    __test__ = False

    topology: Topology | None = None
    """Exchanges, queues and bindings that exist before the brokers start, such as those of other services. Set it
    before the ``async with``."""

    @contextmanager
    def _patch_broker(self, broker: Any) -> Generator[None, None, None]:
        with mock.patch.object(testing, "_is_handler_matches", _is_chosen), super()._patch_broker(broker):
            yield

    @contextmanager
    def _patch_producer(self, broker: Any) -> Generator[None, None, None]:
        producer = _RoutingProducer(broker, self.brokers)
        producer.routing = self._routing
        config = broker.config
        with change_producer(getattr(config, "broker_config", config), producer):
            yield

    @property
    def _routing(self) -> _Routing:
        found: _Routing | None = self.__dict__.get("_own_routing")
        if found is None:
            found = self.__dict__["_own_routing"] = _Routing(self.brokers, self.topology or Topology())
        return found

    def create_publisher_fake_subscriber(self, broker: Any, publisher: Any) -> tuple[Any, bool]:
        """Return the subscriber that gets what a publisher publishes, and whether it is one of the application.

        If there is none, it is a new one, with a queue of its own.
        """
        key, exchange = publisher.routing(), publisher.exchange
        _, subscribers = self._routing.find(exchange, key, dict(getattr(publisher, "headers", None) or {}))
        for subscriber in subscribers:
            return subscriber, True
        queue: Any = key
        if exchange is not None and exchange.name:
            queue = RabbitQueue(f"{key} (publisher {next(_numbers)})", routing_key=key)
        return broker.subscriber(queue=queue, exchange=exchange, persistent=False), False


_numbers: Final = count(1)


class _RoutingProducer(FakeProducer):
    """Chooses the subscribers that get a message, then publishes as FastStream's producer."""

    routing: _Routing

    async def publish(self, cmd: Any) -> None:
        queues, subscribers = self.routing.find(cmd.exchange, cmd.destination, dict(cmd.headers or {}))
        if queues and not subscribers:
            return  # its queues belong to other services
        with _choosing(subscribers):
            await super().publish(cmd)

    async def request(self, cmd: Any) -> Any:
        _, subscribers = self.routing.find(cmd.exchange, cmd.destination, dict(cmd.headers or {}))
        with _choosing(subscribers):
            return await super().request(cmd)


@contextmanager
def _choosing(subscribers: Collection[Any]) -> Iterator[None]:
    token = _chosen.set(subscribers)
    try:
        yield
    finally:
        _chosen.reset(token)


_original: Final = testing._is_handler_matches


def _is_chosen(handler: Any, *arguments: Any) -> bool:
    chosen = _chosen.get()
    if chosen is None:  # a TestRabbitBroker of FastStream that is open at the same time
        return bool(_original(handler, *arguments))
    return any(handler is each for each in chosen)


class _Routing:
    """The router of some brokers, compiled again when they have other subscribers or publishers."""

    def __init__(self, brokers: Collection[Any], base: Topology) -> None:
        self._brokers: Final = brokers
        self._base: Final = base
        self._seen: list[Any] = []
        self._router = Router(base)
        self._subscribers: dict[str, list[Any]] = {}
        self._turns: Final[dict[str, int]] = {}

    def find(self, exchange: Any, key: str, headers: dict[str, Any]) -> tuple[tuple[str, ...], list[Any]]:
        """Return the queues that get a message, and the subscriber whose turn it is at each. Raises BrokerError."""
        self._follow_brokers()
        name = "" if exchange is None else exchange.name
        queues = self._router.route(Message(name, key, headers)).queues
        chosen = []
        for queue in queues:
            subscribers = self._subscribers.get(queue)
            if subscribers:
                turn = self._turns.get(queue, 0)
                self._turns[queue] = turn + 1
                chosen.append(subscribers[turn % len(subscribers)])
        return queues, chosen

    def _follow_brokers(self) -> None:
        parts = [part for broker in self._brokers for part in (*broker.subscribers, *broker.publishers)]
        if len(parts) == len(self._seen) and all(map(is_, parts, self._seen)):
            return
        declared = declare_parts(_named(read_parts(*self._brokers)), self._base)
        for refusal in declared.refusals:
            raise refusal.error
        self._seen = parts
        self._router = Router(declared.topology)
        self._subscribers = {}
        for broker in self._brokers:
            for subscriber in broker.subscribers:
                queue = subscriber.queue.add_prefix(subscriber._outer_config.prefix)
                self._subscribers.setdefault(queue.name, []).append(subscriber)


def _named(parts: Iterator[Exchange | Queue | Binding]) -> Iterator[Exchange | Queue | Binding]:
    """Yield the parts that have a name: the broker gives names to queues without one."""
    for part in parts:
        if not isinstance(part, Queue) or part.name:
            yield part
