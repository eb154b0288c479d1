"""Why a queue got nothing: the nearest of several paths, with its obstacles in the order of the message."""

from __future__ import annotations

from exchange import Binding, Exchange, Message, Queue, Router, Topology

A, B = Binding.to_queue, Binding.to_exchange


def topology(*bindings: Binding, **types: str) -> Topology:
    exchanges = [Exchange(name, kind) for name, kind in types.items()]
    return Topology(exchanges, [Queue("q")], bindings)


def obstacles(topology: Topology, key: str) -> list[tuple[str, str | None]]:
    """Return exchange and binding key of each obstacle between a message and the queue."""
    found = Router(topology).explain(Message("start", key), "q").obstacles
    return [(each.exchange, each.binding.routing_key if each.binding else None) for each in found]


def test_a_nearer_way_that_is_found_later_is_the_one_that_is_named() -> None:
    """The direct binding is seen first, from the queue backwards; the way round is far shorter."""
    made = topology(
        A("start", "q", "one.two.three.four.five"), B("start", "middle", "k.right"), A("middle", "q"),
        start="topic", middle="fanout",
    )  # fmt: skip
    assert obstacles(made, "k.wrong") == [("start", "k.right")]


def test_obstacles_are_in_the_order_in_which_a_message_meets_them() -> None:
    made = topology(
        B("start", "second", "a"), B("second", "third", "b"), A("third", "q", "c"),
        start="direct", second="direct", third="direct",
    )  # fmt: skip
    assert obstacles(made, "k") == [("start", "a"), ("second", "b"), ("third", "c")]


def test_the_nearest_of_many_bindings_is_named_wherever_it_is() -> None:
    far = [A("start", "q", f"far{number}.from.all.of.it") for number in range(200)]
    made = topology(*far[:150], A("start", "q", "order.eu.created"), *far[150:], start="topic")
    assert obstacles(made, "order.eu.shipped") == [("start", "order.eu.created")]
