"""The test server keeps delayed messages by its clock, and returns mandatory ones at once."""

from __future__ import annotations

from typing import Any

import pika

from bindings.testing.server import AmqpServer
from exchange import Binding, Exchange, Queue, Topology
from tests.support.waiting import wait_until

DELAYING = Exchange("d", "x-delayed-message", arguments={"x-delayed-type": "direct", "alternate-exchange": "rest"})


def test_a_delayed_message_goes_to_the_alternate_at_once_and_to_its_queues_later() -> None:
    topology = Topology(
        [DELAYING, Exchange("rest", "fanout")], [Queue("q"), Queue("now")],
        [Binding.to_queue("d", "q", "k"), Binding.to_queue("rest", "now")],
    )  # fmt: skip
    with AmqpServer(topology) as server, pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("d", "k", b"1", pika.BasicProperties(headers={"x-delay": 400}), mandatory=True)
        got: list[tuple[str, Any]] = []
        for queue in ("now", "q"):
            method, properties, _ = channel.basic_get(queue, auto_ack=True)
            got += [] if method is None else [(queue, properties.headers)]
        assert got == [("now", {"x-delay": 400})]

        def take() -> bool:
            method, properties, _ = channel.basic_get("q", auto_ack=True)
            got.extend([] if method is None else [("q", properties.headers)])
            return method is not None

        wait_until(take)
        assert got[1:] == [("q", {"x-delay": -400})]
        assert channel.basic_get("now", auto_ack=True)[0] is None


def test_a_delayed_mandatory_message_that_no_queue_gets_at_once_is_returned_and_delivered() -> None:
    topology = Topology([Exchange("d", "x-delayed-message", arguments={"x-delayed-type": "fanout"})], [Queue("q")])
    topology = topology.bind(Binding.to_queue("d", "q"))
    with AmqpServer(topology) as server, pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        returned: list[Any] = []
        channel.add_on_return_callback(lambda _, method, __, body: returned.append((method.reply_code, body)))
        channel.tx_select()
        channel.basic_publish("d", "k", b"1", pika.BasicProperties(headers={"x-delay": 50}), mandatory=True)
        channel.tx_commit()
        connection.process_data_events()
        wait_until(lambda: channel.basic_get("q", auto_ack=True)[0] is not None)
        assert returned == [(312, b"1")]
