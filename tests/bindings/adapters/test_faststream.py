"""FastStream applications in our TestRabbitBroker: what the router decides, and what FastStream keeps doing itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from faststream import Context, FastStream, TestApp
from faststream.exceptions import SubscriberNotFound
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue, RabbitRouter

from bindings.adapters.faststream import TestRabbitBroker, topology_of
from exchange import Binding, NotFound, PreconditionFailed, Queue, Topology
from tests.support import oracle, topologies
from tests.support.tiers import scale


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test."""

    async def start() -> None:
        await main()

    asyncio.run(start())


class App:
    """A broker whose subscribers keep the names of the queues they got a message from."""

    def __init__(self) -> None:
        self.broker = RabbitBroker()
        self.got: list[str] = []

    def subscribe(self, queue: Any, exchange: Any = None) -> None:
        """Add a subscriber."""
        queue = RabbitQueue.validate(queue)

        @self.broker.subscriber(queue, exchange)
        async def handle(body: str) -> None:
            self.got.append(queue.name)

    async def publish(self, key: str, exchange: Any = None, **options: Any) -> list[str]:
        """Publish a message, and return the queues that got it, sorted."""
        self.got.clear()
        await self.broker.publish("x", routing_key=key, exchange=exchange, **options)
        return sorted(self.got)


def test_wildcards_match_as_in_rabbitmq() -> None:
    app, orders = App(), RabbitExchange("orders", type=ExchangeType.TOPIC)
    for name, pattern in {"all": "order.#", "ends": "#.created", "middle": "order.#.created"}.items():
        app.subscribe(RabbitQueue(name, routing_key=pattern), orders)

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            assert await app.publish("order", orders) == ["all"]
            assert await app.publish("order.created", orders) == ["all", "ends", "middle"]
            assert await app.publish("a.b.created", orders) == ["ends"]
            with pytest.raises(SubscriberNotFound):
                await app.publish("a.b", orders)

    run(main)


def test_headers_match_by_type_and_by_x_match() -> None:
    app, documents = App(), RabbitExchange("documents", type=ExchangeType.HEADERS)
    bindings: dict[str, dict[str, Any]] = {
        "both": {"x-match": "all", "type": "pdf", "pages": 2},
        "either": {"x-match": "any", "type": "pdf", "pages": 2},
        "extended": {"x-match": "all-with-x", "x-type": "pdf"},
        "none": {"x-match": "any", "type": "doc"},
    }
    for name, arguments in bindings.items():
        app.subscribe(RabbitQueue(name, bind_arguments=arguments), documents)

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            both = {"type": "pdf", "pages": 2}
            assert await app.publish("", documents, headers=both) == ["both", "either"]
            assert await app.publish("", documents, headers={"type": "pdf", "pages": "2"}) == ["either"]
            assert await app.publish("", documents, headers={"x-type": "pdf"}) == ["extended"]

    run(main)


def test_exchanges_are_bound_to_exchanges_and_have_alternates() -> None:
    app = App()
    orders = RabbitExchange("orders", type=ExchangeType.TOPIC, arguments={"alternate-exchange": "lost"})
    europe = RabbitExchange("europe", type=ExchangeType.FANOUT, bind_to=orders, routing_key="*.eu.#")
    app.subscribe("billing", europe)
    app.subscribe("lost", RabbitExchange("lost", type=ExchangeType.FANOUT))

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            assert await app.publish("order.eu", orders) == ["billing"]
            assert await app.publish("order.us", orders) == ["lost"]

    run(main)


def test_the_default_exchange_takes_the_name_of_a_queue() -> None:
    app = App()
    app.subscribe("billing")
    app.subscribe(RabbitQueue("audit", routing_key="billing"), RabbitExchange("direct"))

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            assert await app.publish("billing") == ["billing"]
            assert await app.publish("audit") == ["audit"], "every queue is bound to the default exchange"

    run(main)


def test_subscribers_of_one_queue_take_turns() -> None:
    broker, got = RabbitBroker(), list[str]()

    @broker.subscriber("work")
    async def first(body: str) -> None:
        got.append("first")

    @broker.subscriber("work")
    async def second(body: str) -> None:
        got.append("second")

    async def main() -> None:
        async with TestRabbitBroker(broker):
            for _ in range(4):
                await broker.publish("x", "work")

    run(main)
    assert sorted(got[:2]) == ["first", "second"]
    assert got[2:] == got[:2]


def test_mocks_publishers_and_replies_work_as_in_faststream() -> None:
    broker, done = RabbitBroker(), list[str]()
    orders = RabbitExchange("orders", type=ExchangeType.TOPIC)
    publisher = broker.publisher(routing_key="order.eu.paid", exchange=orders)
    to_nobody = broker.publisher(
        routing_key="order.eu.lost", exchange=RabbitExchange("others", type=ExchangeType.TOPIC)
    )

    @broker.subscriber(RabbitQueue("created", routing_key="order.*.created"), orders)
    async def pay(body: str) -> None:
        await publisher.publish(f"paid {body}")
        await to_nobody.publish(f"paid {body}")

    @broker.subscriber(RabbitQueue("paid", routing_key="order.#.paid"), orders)
    async def ship(body: str) -> None:
        done.append(body)

    @broker.subscriber("double")
    async def double(body: int) -> int:
        return 2 * body

    async def main() -> None:
        async with TestRabbitBroker(broker):
            await broker.publish("1", routing_key="order.eu.created", exchange=orders)
            publisher.mock.assert_called_once_with("paid 1")
            to_nobody.mock.assert_called_once_with("paid 1")
            ship.mock.assert_called_once_with("paid 1")
            assert await (await broker.request(21, "double")).decode() == 42

    run(main)
    assert done == ["paid 1"]


def test_the_queue_of_a_publisher_without_subscriber_disturbs_no_other_queue() -> None:
    app, orders = App(), RabbitExchange("orders", type=ExchangeType.TOPIC)
    app.subscribe(RabbitQueue("paid", routing_key="order.paid"), orders)
    app.broker.publisher(routing_key="paid", exchange=orders)

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            assert await app.publish("order.paid", orders) == ["paid"]
            assert await app.publish("paid", orders) == [], "only the publisher's own queue"

    run(main)


def test_routers_prefixes_and_captured_words_work() -> None:
    broker, got = RabbitBroker(), list[tuple[str, str]]()
    router = RabbitRouter(prefix="shop.")

    @router.subscriber(RabbitQueue("logs", routing_key="logs.{level}"), RabbitExchange("logs", type=ExchangeType.TOPIC))
    async def handle(body: str, level: str = Context("message.path.level")) -> None:
        got.append((body, level))

    broker.include_router(router)

    async def main() -> None:
        async with TestRabbitBroker(broker), TestApp(FastStream(broker)):
            exchange = RabbitExchange("logs", type=ExchangeType.TOPIC)
            await broker.publish("x", routing_key="shop.logs.info", exchange=exchange)

    run(main)
    assert [body for body, _ in got] == ["x"]
    assert [*topology_of(broker).bindings] == [Binding.to_queue("logs", "shop.logs", "shop.logs.*")]


def test_queues_of_other_services_take_messages_away_from_nobody() -> None:
    app = App()
    app.subscribe("mine", RabbitExchange("orders", type=ExchangeType.TOPIC))
    others = Topology(
        [*topology_of(app.broker).exchanges.values()],
        [Queue("theirs")],
        [Binding.to_queue("orders", "theirs", "order.#")],
    )

    async def main() -> None:
        test_broker = TestRabbitBroker(app.broker)
        test_broker.topology = others
        async with test_broker:
            exchange = RabbitExchange("orders", type=ExchangeType.TOPIC)
            assert await app.publish("order.eu", exchange) == []
            assert await app.publish("mine", exchange) == ["mine"]
            with pytest.raises(SubscriberNotFound):
                await app.publish("nowhere", exchange)

    run(main)


def test_what_the_broker_refuses_is_refused() -> None:
    app = App()
    app.subscribe("a", RabbitExchange("orders", type=ExchangeType.TOPIC))

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            with pytest.raises(NotFound, match="no exchange 'nowhere'"):
                await app.publish("a", RabbitExchange("nowhere"))
            app.subscribe("b", RabbitExchange("orders", type=ExchangeType.FANOUT))
            with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
                await app.publish("a", RabbitExchange("orders"))

    run(main)


def test_faststream_itself_is_as_it_was_afterwards() -> None:
    from faststream.rabbit import testing

    before = testing._is_handler_matches
    app = App()
    app.subscribe("a")

    async def main() -> None:
        async with TestRabbitBroker(app.broker):
            other = App()
            other.subscribe(RabbitQueue("b", routing_key="x.#"), RabbitExchange("t", type=ExchangeType.TOPIC))
            async with testing.TestRabbitBroker(other.broker):
                with pytest.raises(SubscriberNotFound):  # FastStream's own '#' wants a word
                    await other.publish("x", RabbitExchange("t", type=ExchangeType.TOPIC))

    run(main)
    assert testing._is_handler_matches is before


@pytest.mark.parametrize("seed", range(int(os.environ.get("HASHSTAR_ADAPTER_SEEDS", "0")) or scale(8)))
def test_random_topologies_route_as_the_slow_router(seed: int) -> None:
    rng = Random(f"faststream/{seed}")
    types = ("direct", "fanout", "topic", "topic", "headers")
    topology = topologies.topology(rng, Topology().profile, topologies.Kinds(types, policies=False))
    app = App()
    for queue in topology.queues:
        app.subscribe(queue)

    async def main() -> None:
        test_broker = TestRabbitBroker(app.broker)
        queues = topology_of(app.broker).queues.values()  # as FastStream declares them
        test_broker.topology = Topology(topology.exchanges.values(), queues, topology.bindings)
        async with test_broker:
            for _ in range(60):
                message = topologies.message(rng, topology)
                if message.exchange == "" and message.routing_key == "":
                    continue  # FastStream puts the name of a queue there
                exchange = topology.exchanges[message.exchange]
                target = RabbitExchange(exchange.name, type=ExchangeType(exchange.type))
                wanted = list(oracle.route(topology, message, lambda n: 0))
                try:
                    got = await app.publish(message.routing_key, target, headers=dict(message.headers))
                except SubscriberNotFound:
                    got = []
                assert got == wanted, message

    run(main)
