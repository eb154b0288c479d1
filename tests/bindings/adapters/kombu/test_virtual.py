"""kombu's own transports with exact routing: memory, and filesystem as one whose tables other processes share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue, binding
from kombu.transport import memory
from kombu.transport.virtual import base

from bindings.adapters.kombu import install, route_exactly, uninstall
from tests.support.bindings.kombu_channels import bodies, take
from tests.support.waiting import find_limit


@pytest.fixture
def channel() -> Iterator[Any]:
    with route_exactly(), Connection("memory://") as connection:
        yield connection.channel()
    memory.Transport.global_state.clear()
    memory.Channel.queues.clear()


def test_wildcards_match_as_in_rabbitmq(channel: Any) -> None:
    orders = Exchange("orders", "topic")
    for name, pattern in {"all": "order.#", "ends": "#.created", "one": "order.*", "any": "*.*"}.items():
        Queue(name, orders, pattern)(channel).declare()
    producer = Producer(channel, orders)
    for key in ("order", "order.eu.created", "created", "order."):
        producer.publish(key, routing_key=key)
    assert bodies(channel, "all") == ["order", "order.eu.created", "order."]
    assert bodies(channel, "ends") == ["order.eu.created", "created"]
    assert bodies(channel, "one") == bodies(channel, "any") == ["order."]


def test_a_pattern_that_kombu_cannot_compile_breaks_nothing(channel: Any) -> None:
    orders = Exchange("orders", "topic")
    for name, pattern in {"odd": "*eu", "all": "#"}.items():
        Queue(name, orders, pattern)(channel).declare()
    for key in ("eu", "*eu"):
        Producer(channel, orders).publish(key, routing_key=key)
    assert bodies(channel, "odd") == ["*eu"]
    assert bodies(channel, "all") == ["eu", "*eu"]


def test_a_key_too_long_for_amqp_still_matches_as_kombu_has_it(channel: Any) -> None:
    long = "a" * 300
    exchange = Exchange("long", "topic")
    Queue("long", exchange, f"{long}.*")(channel).declare()
    Producer(channel, exchange).publish("x", routing_key=f"{long}.b")
    assert bodies(channel, "long") == ["x"]


def test_headers_exchanges_match_by_their_arguments(channel: Any) -> None:
    documents = Exchange("documents", "headers")
    both = {"x-match": "all", "type": "pdf", "pages": 2}
    either = {"x-match": "any", "type": "pdf", "pages": 2}
    Queue("both", documents, binding_arguments=both)(channel).declare()
    Queue("either", documents, binding_arguments=either)(channel).declare()
    for headers in ({"type": "pdf", "pages": 2}, {"type": "pdf"}, {"pages": "2"}, {"pages": 2, "more": 1}):
        Producer(channel, documents).publish(headers, headers=headers)
    assert bodies(channel, "both") == [{"type": "pdf", "pages": 2}]
    assert bodies(channel, "either") == [{"type": "pdf", "pages": 2}, {"type": "pdf"}, {"pages": 2, "more": 1}]


def test_headers_bindings_that_differ_in_arguments_only_are_two(channel: Any) -> None:
    documents = Exchange("documents", "headers")
    pair = [binding(documents, arguments={"type": kind}) for kind in ("pdf", "txt")]
    queue = Queue("some", pair)(channel)
    queue.declare()
    producer = Producer(channel, documents)
    for kind in ("pdf", "txt", "doc"):
        producer.publish(kind, headers={"type": kind})
    assert bodies(channel, "some") == ["pdf", "txt"]
    channel.queue_unbind("some", "documents", "", {"type": "pdf"})
    for kind in ("pdf", "txt"):
        producer.publish(kind, headers={"type": kind})
    assert bodies(channel, "some") == ["txt"]


@pytest.mark.parametrize("kind", ["direct", "topic", "headers", "fanout"])
def test_a_message_that_nothing_matches_goes_to_the_alternate_exchange(channel: Any, kind: str) -> None:
    alternate = {"alternate-exchange": "lost"}
    Queue("lost", Exchange("lost", "fanout"))(channel).declare()
    main = Exchange("main", kind, arguments=alternate)
    Producer(channel, main, auto_declare=True).publish("unbound", routing_key="a")
    if kind != "fanout":
        Queue("taken", main, "a", binding_arguments={"x-match": "any", "h": 1})(channel).declare()
        Producer(channel, main).publish("taken", routing_key="a", headers={"h": 1})
        Producer(channel, main).publish("other", routing_key="b", headers={"h": 2})
        assert bodies(channel, "taken") == ["taken"]
    assert bodies(channel, "lost") == ["unbound", *([] if kind == "fanout" else ["other"])]


def test_alternate_exchanges_in_a_circle_end(channel: Any) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        Exchange(name, "topic", arguments={"alternate-exchange": other})(channel).declare()
    Producer(channel).publish("x", exchange="one", routing_key="a")


def test_a_rejected_message_returns_to_its_own_queue_only(channel: Any) -> None:
    orders = Exchange("orders", "topic")
    queues = [Queue(name, orders, "order.#") for name in ("billing", "audit")]
    for queue in queues:
        queue(channel).declare()
    Producer(channel, orders).publish("x", routing_key="order.eu")
    channel.basic_get("billing").reject(requeue=True)
    assert bodies(channel, "billing") == bodies(channel, "audit") == ["x"]


def test_the_queue_of_dead_letters_stays_as_kombu_has_it() -> None:
    options = {"deadletter_queue": "dead"}
    with route_exactly(), Connection("memory://", transport_options=options) as connection:
        channel = connection.channel()
        Exchange("direct", "direct")(channel).declare()
        with pytest.warns(base.UndeliverableWarning):
            Producer(channel).publish("x", exchange="direct", routing_key="a")
        assert bodies(channel, "dead") == ["x"]


def test_uninstalling_gives_kombu_back_as_it_was() -> None:
    before = {name: vars(base.Channel)[name] for name in ("_lookup", "_restore", "queue_bind", "queue_unbind")}
    install()
    install()
    with route_exactly():
        pass
    assert vars(base.Channel)["_lookup"] is not before["_lookup"], "an inner block must not uninstall"
    uninstall()
    uninstall()
    assert {name: vars(base.Channel)[name] for name in before} == before
    assert "headers" not in base.Channel.exchange_types


BIND = """
import sys
from kombu import Connection, Exchange, Queue
folder = sys.argv[1]
options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder + "/control"}
with Connection("filesystem://", transport_options=options) as connection:
    channel = connection.channel()
    Queue("billing", Exchange("orders", "topic"), "order.#")(channel).declare()
    for key in ("a", "b"):
        Queue("all", Exchange("news", "fanout"), key)(channel).declare()
"""


def test_bindings_of_other_processes_without_exact_routing_count(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", BIND, str(tmp_path)], check=True)
    folder = str(tmp_path)
    options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": f"{folder}/control"}
    with route_exactly(), Connection("filesystem://", transport_options=options) as connection:
        channel = connection.channel()
        Producer(channel, Exchange("orders", "topic")).publish("x", routing_key="order")
        Producer(channel, Exchange("news", "fanout")).publish("news")
        assert bodies(channel, "billing") == ["x"], "kombu's '#' needs a word"
        assert bodies(channel, "all") == ["news"], "one copy, however many bindings lead to the queue"


def test_consumers_get_what_was_routed(channel: Any) -> None:
    orders = Exchange("orders", "topic")
    queue = Queue("billing", orders, "order.#")
    got: list[Any] = []
    with Consumer(channel, [queue], on_message=lambda message: take(message, got)):
        Producer(channel, orders).publish("x", routing_key="order")
        channel.connection.client.drain_events(timeout=find_limit())
    assert got == ["x"]
