"""The router: kinds that the random topologies do not hold, what it remembers, its threads, and its explanations."""

from __future__ import annotations

import pickle
from itertools import count, permutations

import pytest

from exchange import Binding, Exchange, Message, Policy, PreconditionFailed, Queue, Router, Topology
from tests.support.threads import reading
from tests.support.tiers import scale

A, B = Binding.to_queue, Binding.to_exchange


def topology(*parts: Exchange | Queue | Binding | Policy, profile: str = "rabbitmq-4.3") -> Topology:
    """Build a topology of these parts, declared and bound in this order."""
    made = Topology(profile=profile)
    edits = {Exchange: "declare_exchange", Queue: "declare_queue", Binding: "bind", Policy: "set_policy"}
    for part in parts:
        made = getattr(made, edits[type(part)])(part)
    return made


def test_the_default_exchange_routes_to_the_queue_the_key_names() -> None:
    """Without bindings and alternate; as an alternate exchange itself it routes nowhere."""
    to_default = Exchange("x", arguments={"alternate-exchange": ""})
    router = Router(topology(Queue("q"), to_default))
    assert router.route(Message("", "q")).queues == ("q",)
    assert router.route(Message("", "q", {"CC": ["q", "other"]})).queues == ("q",)
    assert router.route(Message("", "Q")).unroutable is True
    assert router.route(Message("x", "q")).queues == ()


def test_a_delayed_exchange_routes_as_the_type_it_names() -> None:
    """x-delayed-message with x-delayed-type: keys, headers and remembering are the inner type's."""
    delayed = [Exchange(kind, "x-delayed-message", arguments={"x-delayed-type": kind}) for kind in ("topic", "headers")]
    router = Router(topology(*delayed, Queue("q"), A("topic", "q", "a.*"), A("headers", "q", "", {"h": 1})))
    assert router.route(Message("topic", "a.b")).queues == ("q",)
    assert router.route(Message("topic", "b")).queues == ()
    assert router.route(Message("headers", "b", {"h": 1})).queues == ("q",)
    assert router.route(Message("headers", "b", {"h": 2})).queues == ()
    router.unbind(A("topic", "q", "a.*"))
    assert router.route(Message("topic", "a.b")).queues == ()
    with pytest.raises(PreconditionFailed, match="x-delayed-type"):
        router.declare_exchange(Exchange("y", "x-delayed-message"))


def test_a_random_exchange_takes_one_binding_by_the_choice_it_is_given() -> None:
    """Each choice can be replayed; x-random ignores keys, x-local-random wants none."""
    queues = [Queue(name) for name in "abc"]
    made = topology(Exchange("r", "x-random"), *queues, *[A("r", name, "key") for name in "abc"])
    chosen = [Router(made, choose=lambda n, i=i: i).route(Message("r", "k")).queues for i in range(3)]  # type: ignore[misc]
    assert chosen == [("a",), ("b",), ("c",)]
    assert {Router(made).route(Message("r")).queues for _ in range(200)} == set(chosen)


def test_an_exchange_of_unknown_type_leaves_a_route_undecided() -> None:
    """Other ways are still followed; the alternate is not taken, since whether anything matched is unknown."""
    made = Topology(
        [Exchange("x", "fanout"), Exchange("odd", "x-odd", arguments={"alternate-exchange": "x"})],
        [Queue("q")],
        [B("x", "odd"), A("x", "q"), A("odd", "q")],
    )
    router = Router(made)
    route = router.route(Message("odd", "k"))
    assert (route.queues, route.undecided, route.unroutable) == ((), ("odd",), None)
    route = router.route(Message("x", "k"))
    assert (route.queues, route.undecided, route.unroutable) == (("q",), ("odd",), False)
    assert "undecided" in str(router.explain(Message("x", "k"), "nope"))


@pytest.mark.parametrize("inner", ["x-odd", "x-delayed-message", None, 5, ["topic"]])
def test_a_delayed_exchange_of_unknown_type_is_undecided_too(inner: object) -> None:
    """What its x-delayed-type names decides; a topology with one that names nothing known still loads."""
    arguments = {} if inner is None else {"x-delayed-type": inner}
    router = Router(Topology([Exchange("d", "x-delayed-message", arguments=arguments)], [], [A("d", "q", "k")]))
    assert router.route(Message("d", "k")).undecided == ("d",)


def test_an_alternate_exchange_is_taken_exactly_when_nothing_matches() -> None:
    """Not for a dead end further on; by argument before policy, the policy of the highest priority; in cycles too."""
    alternate = {"alternate-exchange": "ae"}
    made = topology(
        Exchange("x", "direct", arguments=alternate),
        Exchange("p", "direct"),
        Exchange("dead", "fanout"),
        Exchange("ae", "fanout", internal=True, arguments={"alternate-exchange": "x"}),
        Exchange("other", "fanout"),
        Queue("q"),
        Queue("o"),
        A("ae", "q"),
        A("other", "o"),
        B("x", "dead", "dead"),
        Policy("low", "^p", {"alternate-exchange": "ae"}),
        Policy("high", "^(p|x)$", {"alternate-exchange": "other"}, apply_to="exchanges", priority=1),
        Policy("queues", "", {"alternate-exchange": "ae"}, apply_to="queues", priority=9),
    )
    router = Router(made)
    assert router.route(Message("x", "k")).queues == ("q",)
    assert router.route(Message("x", "dead")).queues == ()
    assert router.route(Message("p", "k")).queues == ("o",)
    assert router.explain(Message("p", "k")).hops[0].alternate == ("other", True, "high")
    router.clear_policy("high")
    assert router.route(Message("p", "k")).queues == ("q",)
    router.unbind(A("ae", "q"))
    assert router.route(Message("x", "k")).unroutable is True


def test_only_routes_that_the_key_decides_are_cached() -> None:
    """Not from a headers exchange or one that leads there, nor of a message with CC; and no more than allowed."""
    made = topology(
        Exchange("t", "topic"), Exchange("h", "headers"), Exchange("up", "fanout"), Queue("q"),
        A("t", "q", "#"), B("up", "h"), A("h", "q", "", {"a": 1}),
    )  # fmt: skip
    router = Router(made, cache=10)
    for number in range(100):
        for name in ("t", "h", "up"):
            router.route(Message(name, f"{number}"))
            router.route(Message(name, f"{number}", {"CC": ["k"]}))
        assert set(router._remembered.local.own.by_exchange) <= {"t"}
        assert sum(map(len, router._remembered.local.own.by_exchange.values())) <= 10
    router.delete_exchange("h")
    router.route(Message("up", "k"))
    assert "up" in router._remembered.local.own.by_exchange


def test_threads_see_the_router_before_or_after_a_change() -> None:
    """A queue whose deletion takes several bindings along is either bound everywhere or nowhere, and no cache lies."""
    names = [f"t{i}" for i in range(4)]
    made = topology(
        Exchange("all", "fanout"), *[Exchange(name, "topic") for name in names], Queue("q"), Queue("kept"),
        *[B("all", name) for name in names], *[A(name, "q", "a.*") for name in names], A("t3", "kept", "a.#"),
    )  # fmt: skip
    router = Router(made, cache=20)
    wrong: list[object] = []
    numbers = count()
    deleting = [0]  # odd while the queue is being deleted, and its bindings with it

    def read() -> None:
        before = deleting[0]
        explanation = router.explain(Message("all", "a.b"))
        matches = sum(binding.destination.name == "q" for hop in explanation.hops for binding in hop.matched)
        if before % 2 and before == deleting[0] and matches not in (0, 4):
            wrong.append(matches)
        if "kept" not in router.route(Message("all", f"a.{next(numbers) % 50}")).queues:
            wrong.append("kept")

    with reading(read):
        for _ in range(scale(1_500)):
            deleting[0] += 1
            router.delete_queue("q")
            deleting[0] += 1
            assert router.route(Message("all", "a.b")).queues == ("kept",)
            router.declare_queue(Queue("q"))
            for name in names:
                router.bind(A(name, "q", "a.*"))
            assert router.route(Message("all", "a.b")).queues == ("kept", "q")
    assert not wrong


def test_messages_and_topology_parts_can_be_pickled() -> None:
    """Spark and process pools send them from one Python to another."""
    for value in (Message("x", "k", {"h": 1}), A("x", "q", "k", {"a": 1}), Exchange("x"), Queue("q"), Policy("p", "")):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


@pytest.mark.parametrize(("other", "queues", "undecided"), [("b", (), ("t",)), ("a", ("qa",), ())])
def test_policies_of_one_priority_decide_only_what_they_agree_on(
    other: str, queues: tuple[str, ...], undecided: tuple[str, ...]
) -> None:
    """Whichever is given first; one of lower priority has no part in it."""
    topology = Topology().declare_exchange(Exchange("t", "topic"))
    for name in "abc":
        topology = topology.declare_exchange(Exchange(name, "fanout")).declare_queue(Queue(f"q{name}"))
        topology = topology.bind(Binding.to_queue(name, f"q{name}"))
    policies = [
        Policy("one", "^t$", {"alternate-exchange": "a"}, "exchanges", 5),
        Policy("two", "^t", {"alternate-exchange": other}, "exchanges", 5),
        Policy("three", "t", {"alternate-exchange": "c"}, "exchanges", 4),
    ]
    for order in permutations(policies):
        made = topology
        for policy in order:
            made = made.set_policy(policy)
        route = Router(made).route(Message("t", "k"))
        assert (route.queues, route.undecided) == (queues, undecided)
        named = any(f"(policy '{name}')" in str(Router(made).explain(Message("t", "k"))) for name in ("one", "two"))
        assert named == (other == "a")
