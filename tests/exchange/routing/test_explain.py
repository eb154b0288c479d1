"""Explanations: each outcome of a hop, and for a queue that got nothing, the nearest obstacle."""

from __future__ import annotations

import json
from typing import Any

from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.routing.explain_json import to_json
from tests.support.cases import with_each

AE = {"alternate-exchange": "unrouted"}
TOPOLOGY = Topology(
    [
        Exchange("orders", "topic", arguments=AE),
        Exchange("unrouted", "fanout"),
        Exchange("audit", "headers"),
        Exchange("loop", "fanout"),
        Exchange("jobs", "direct"),
        Exchange("lottery", "x-random"),
    ],
    [Queue(name) for name in ("billing", "shipping", "lost", "eu", "any", "jobs", "lonely", "first", "second")],
    [
        Binding.to_queue("orders", "billing", "order.*.created"),
        Binding.to_queue("orders", "shipping", "order.*.shipped"),
        Binding.to_queue("orders", "shipping", "parcel.#"),
        Binding.to_queue("orders", "gone", "order.#"),
        Binding.to_queue("unrouted", "lost"),
        Binding.to_exchange("orders", "audit", "order.#"),
        Binding.to_exchange("orders", "loop", "loop"),
        Binding.to_exchange("loop", "orders"),
        Binding.to_exchange("loop", "loop"),
        Binding.to_queue("loop", "billing"),
        Binding.to_queue("audit", "eu", "", {"region": "eu", "size": 1}),
        Binding.to_queue("audit", "any", "", {"x-match": "any", "a": 1, "b": None}),
        Binding.to_queue("jobs", "jobs", "Render"),
        Binding.to_queue("lottery", "first"),
        Binding.to_queue("lottery", "second"),
    ],
)
ROUTER = Router(TOPOLOGY, choose=lambda n: 0)


@with_each(
    ("message", "queue", "reasons"),
    [
        (Message("orders", "order.eu.created"), "shipping", ["'order.*.shipped'", "word 3 is 'created', it wants 'shipped'"]),
        (Message("orders", "order.eu.Shipped"), "shipping", ["word 3 is 'Shipped', it wants 'shipped' (upper and lower case"]),
        (Message("orders", "order.shipped"), "shipping", ["the key lacks a word before word 2 'shipped': it wants any word"]),
        (Message("orders", "order.eu.shipped.late"), "shipping", ["word 4 'late' is one too many"]),
        (Message("orders", "parcels.x"), "shipping", ["'parcel.#'", "word 1 is 'parcels', it wants 'parcel'"]),
        (Message("orders", "x"), "eu", ["'order.#' -> exchange 'audit'", "word 1 is 'x'", "header 'region' is not there"]),
        (Message("orders", "order.eu", {"region": "eu", "size": "1"}), "eu", ["header 'size' is \"1\", it wants 1 (of another type)"]),
        (Message("orders", "order.eu", {"a": 2}), "any", ["header 'a' is 2, it wants 1; header 'b' is not there"]),
        (Message("orders", "order.eu"), "lost", ["alternate exchange of 'orders', whose own bindings matched"]),
        (Message("jobs", "render"), "jobs", ["is 'render', it wants 'Render' (upper and lower case differ)"]),
        (Message("", "billing "), "billing", ["the key is 'billing ', it wants 'billing' (white space differs)"]),
        (Message("lottery"), "second", ["chance picked another binding"]),
        (Message("jobs", "Render"), "lonely", ["no binding leads there from where this message is"]),
        (Message("jobs", "Render"), "nope", ["there is no such queue"]),
        (Message("jobs", "Render"), "lonley", ["there is no such queue; did you mean 'lonely'?"]),
    ],
)  # fmt: skip
def test_the_nearest_obstacle_is_named(message: Message, queue: str, reasons: list[str]) -> None:
    """The binding that came nearest, and the word, header or rule that failed."""
    explanation = ROUTER.explain(message, queue)
    text = str(explanation)
    asked = text[text.index(f"queue '{queue}' does not get it") :]
    for reason in reasons:
        assert reason in asked
    assert to_json(explanation)["asked"]["gets_it"] is False


def test_every_outcome_of_a_hop_is_explained() -> None:
    """Queued, queued already, followed, seen already, missing; alternate taken and not."""
    text = str(ROUTER.explain(Message("orders", "loop"), "billing"))
    assert "'loop' -> exchange 'loop': followed" in text
    assert "'' -> exchange 'orders': not followed again" in text
    assert "'' -> exchange 'loop': not followed again" in text
    assert "queue 'billing' gets it" in text
    assert "'order.#' -> queue 'gone': does not exist" in str(ROUTER.explain(Message("orders", "order.x")))
    twice = Router(Topology([Exchange("x", "fanout")], [Queue("q")], [
        Binding.to_queue("x", "q", "1"), Binding.to_exchange("x", "amq.fanout"), Binding.to_queue("amq.fanout", "q"),
    ]))  # fmt: skip
    assert "has it already, one copy is enough" in str(twice.explain(Message("x")))
    assert "alternate exchange 'unrouted': taken, followed" in str(ROUTER.explain(Message("orders", "z")))


def test_json_has_the_same_for_machines() -> None:
    """Stable fields; field values as exchange.values.field_json writes them; serialisable as it is."""
    explained: Any = to_json(ROUTER.explain(Message("orders", "order.eu", {"a": 1}), "eu"))
    assert json.loads(json.dumps(explained)) == explained
    assert list(explained) == [
        "exchange",
        "routing_key",
        "copied_to",
        "queues",
        "unroutable",
        "undecided",
        "placements",
        "hops",
        "dead_letters",
        "asked",
    ]
    hop = explained["hops"][0]
    assert list(hop) == ["exchange", "type", "came_from", "undecided", "chosen_by", "matched", "alternate"]
    assert hop["alternate"] == {"name": "unrouted", "taken": False, "from_policy": None, "outcome": None}
    assert explained["asked"]["obstacles"][0]["binding"]["arguments"] == {"region": "eu", "size": 1}


def test_a_key_that_no_client_can_publish_is_the_obstacle() -> None:
    """It is not compared word by word, which took 12 seconds for 20,000 words."""
    key = ".".join("a" * 20_000)
    for message in (Message("orders", key), Message("jobs", key), Message("orders", "a", {"CC": ["b", key]})):
        (obstacle,) = ROUTER.explain(message, "billing" if message.exchange == "orders" else "jobs").obstacles
        assert obstacle.reason == "the routing key has 39999 bytes, AMQP allows 255: nobody can publish it"


def test_the_alternate_of_the_default_exchange_is_shown_where_it_is_taken() -> None:
    """A policy can name it; what is published to the default exchange never gets there, what comes as an alternate does."""
    policy = Policy("catch-all", "^$", {"alternate-exchange": "unrouted"}, "exchanges")
    topology = Topology(
        [Exchange("entry", arguments={"alternate-exchange": ""}), Exchange("unrouted", "fanout")],
        [Queue("lost"), Queue("bound")],
        [Binding.to_queue("unrouted", "lost"), Binding.to_queue("entry", "bound", "b")],
    )
    in_place = Router(topology)
    in_place.set_policy(policy)
    for router in (in_place, Router(topology.set_policy(policy))):
        direct = router.explain(Message("", "no-such-queue"), "lost")
        assert "alternate exchange" not in str(direct)
        assert direct.route.unroutable
        assert [each.exchange for each in direct.obstacles] == [""]
        assert "it wants 'lost'" in direct.obstacles[0].reason
        taken = router.explain(Message("entry", "k"), "lost")
        assert "alternate exchange 'unrouted' (policy 'catch-all'): taken, followed" in str(taken)
        assert taken.route.queues == ("lost",)
        missed = router.explain(Message("entry", "b"), "lost")
        assert [each.reason for each in missed.obstacles] == [
            "it is the alternate exchange of 'entry', whose own bindings matched"
        ]


def test_a_binding_that_rabbitmq_refuses_is_said_to_be_refused() -> None:
    refused = Binding.to_queue("audit", "eu", "", {"x-match": "banana"})
    explanation = Router(TOPOLOGY.with_parts(bindings=[refused])).explain(Message("audit", ""))
    assert "      ! RabbitMQ refuses to make this binding: 406" in str(explanation)
    (match,) = to_json(explanation)["hops"][0]["matched"]
    assert match["refused"].startswith("406 PRECONDITION_FAILED - Invalid x-match field value")
