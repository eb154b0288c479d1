"""Whole applications, as their authors run them: a Celery worker, a FastStream broker, and a live RabbitMQ's truth."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from kombu import Exchange, Queue

from bindings.adapters.kombu import register
from bindings.testing.server import AmqpServer
from tests.recorders import golden
from tests.recorders.rabbitmq_topics import answers
from tests.support.waiting import find_limit, wait_until

if TYPE_CHECKING:
    from tests.support.servers import Server


@pytest.mark.filterwarnings("default")  # Celery's own
def test_a_celery_worker_runs_what_is_routed_to_its_queues() -> None:
    done: list[str] = []
    all_done = threading.Event()
    register()
    app = Celery("real-use", broker="hashstar://celery", set_as_current=False)
    tasks = Exchange("tasks", "topic")
    app.conf.task_queues = [Queue("feeds", tasks, "feed.#"), Queue("rest", tasks, "rest")]
    app.conf.update(task_default_queue="rest", task_default_exchange="tasks", task_default_routing_key="rest")
    app.conf.task_routes = {"feed.*": {"queue": "feeds", "routing_key": "feed"}}  # the '#' stands for no word

    @app.task(name="feed.read", bind=True, max_retries=1, shared=False)  # type: ignore[untyped-decorator]
    def read(self: Any, name: str) -> None:
        if not self.request.retries:
            raise self.retry(countdown=0.01)
        done.append(name)
        finish.delay()

    @app.task(name="finish", shared=False)  # type: ignore[untyped-decorator]
    def finish() -> None:
        done.append("finished")
        all_done.set()

    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="ERROR", shutdown_timeout=20):
        read.delay("news")
        assert all_done.wait(find_limit())
        assert wait_until(lambda: app.control.ping(timeout=0.5))
    assert done == ["news", "finished"]


def test_a_broker_of_faststream_runs_on_the_test_server() -> None:
    """Its real RabbitBroker, with requests by direct reply."""

    async def main(url: str) -> None:
        broker, got = RabbitBroker(url, logger=None), asyncio.Queue[str]()
        orders = RabbitExchange("orders", type=ExchangeType.TOPIC)

        @broker.subscriber(RabbitQueue("billing", routing_key="order.#"), orders)
        async def bill(body: str) -> None:
            await got.put(body)

        @broker.subscriber("double")
        async def double(number: int) -> int:
            return 2 * number

        async with broker:
            await broker.start()
            await broker.publish("x", routing_key="order", exchange=orders)
            assert await asyncio.wait_for(got.get(), find_limit()) == "x"
            assert await (await broker.request(21, "double", timeout=find_limit())).decode() == 42

    with AmqpServer() as server:
        asyncio.run(main(server.url))


@pytest.mark.smoke
@pytest.mark.live
def test_a_live_broker_gives_the_recorded_answers(rabbitmq_servers: list[Server]) -> None:
    recorded = golden.read("rabbitmq-topics-4.3")["answers"]
    for server in rabbitmq_servers:
        assert answers(server.url) == recorded, server.version
