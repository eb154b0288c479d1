"""Comparisons of topologies that delay messages: what is proved holds for messages with a delay, too."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.paths import PathConditions
from exchange import Binding, Exchange, Message, Queue, Route, Router, Topology
from exchange.errors import BrokerError
from tests.recorders.delayed_exchange import make_case
from tests.support.tiers import examples


def made(number: int, *, readers: bool = False) -> Topology:
    """Make a topology with exchanges that delay; with ``readers``, bindings may ask for x-delay."""
    case = make_case(number)
    rename = {name: f"{name[-1]}" for name in [each["name"] for each in case["exchanges"]] + case["queues"]}
    topology = Topology()
    for each in case["exchanges"]:
        arguments = {name: rename.get(value, value) for name, value in each["arguments"].items()}
        topology = topology.declare_exchange(Exchange(rename[each["name"]], each["type"], arguments=arguments))
    for name in case["queues"]:
        topology = topology.declare_queue(Queue(rename[name]))
    for each in case["bindings"]:
        if readers or "x-delay" not in each["arguments"]:
            bind = Binding.to_queue if each["kind"] == "queue" else Binding.to_exchange
            ends = rename[each["source"]], rename[each["destination"]]
            topology = topology.bind(bind(*ends, each["key"], each["arguments"]))
    return topology


def edited(rng: Random, topology: Topology) -> Topology:
    """Change an alternate exchange, a type, or a binding."""
    names = [name for name in topology.exchanges if name in "xyz" and name]
    name = rng.choice(names)
    before, what = topology.exchanges[name], rng.randrange(3)
    if what == 2:
        bindings = [*topology.bindings]
        return topology.unbind(rng.choice(bindings)) if bindings else topology
    arguments, type_ = dict(before.arguments), before.type
    if what == 1:
        inner = arguments.pop("x-delayed-type", None)
        type_ = inner if inner is not None else "x-delayed-message"
        arguments |= {} if inner is not None else {"x-delayed-type": before.type}
    elif arguments.pop("alternate-exchange", None) is None:
        arguments["alternate-exchange"] = rng.choice([each for each in names if each != name])
    others = [each for each in topology.exchanges.values() if each.name and each.name != name]
    changed = Exchange(name, type_, arguments=arguments)
    return Topology([*others, changed], topology.queues.values(), topology.bindings)


def outcome(router: Router, message: Message) -> object:
    try:
        route = router.route(message)
    except BrokerError as error:
        return str(error)
    return copies(route)


def copies(route: Route) -> object:
    """Which queues get it at once, and which later, from whichever exchange."""
    return route.at_once.queues, sorted({queue for each in route.later for queue in each.route.queues})


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@examples(60)
def test_what_is_the_same_is_the_same_with_a_delay_and_what_differs_is_shown(number: int, seed: int) -> None:
    """The oracle routes messages of few keys and headers; the copies from two exchanges count once."""
    before = made(number, readers=seed % 5 == 0)
    after = edited(Random(seed), before)
    meaning = compare(before, after)
    routers = Router(before), Router(after)
    for effect in meaning.effects:
        if effect.exchange and effect.certain:
            got = [outcome(router, effect.witness) for router in routers]
            assert got[0] != got[1], (effect, got)
    messages = [
        Message(exchange, key, headers)
        for exchange, key, headers in product(
            "xyz", ("a", "b", "a.b", "c"), ({}, {"h": 1}, {"x-delay": 7}, {"x-delay": 7, "h": 1}, {"x-delay": -7})
        )
    ]
    differ = [each for each in messages if outcome(routers[0], each) != outcome(routers[1], each)]
    if differ:
        assert meaning.verdict != "same", (differ[0], [outcome(router, differ[0]) for router in routers])


def test_an_alternate_exchange_gets_each_delayed_message_even_if_all_keys_match() -> None:
    late = Exchange("later", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    rest = Exchange("later", "x-delayed-message", arguments={"x-delayed-type": "topic", "alternate-exchange": "u"})
    parts = [Queue("q"), Queue("lost")], [Binding.to_queue("later", "q", "#"), Binding.to_queue("u", "lost")]
    before, after = (Topology([each, Exchange("u", "fanout")], *parts) for each in (late, rest))
    (effect,) = compare(before, after).effects
    assert (effect.exchange, effect.queue, effect.gained, effect.timing) == ("later", "lost", True, "at once")
    assert effect.witness == Message("later", "", {"x-delay": 1000})
    assert compare(after, after).verdict == "same"


@pytest.mark.parametrize("type_", ["topic", "fanout"])
def test_a_type_that_delays_no_more_delivers_at_once(type_: str) -> None:
    parts = [Queue("q")], [Binding.to_queue("x", "q", "#")]
    late = Exchange("x", "x-delayed-message", arguments={"x-delayed-type": type_})
    found = compare(Topology([late], *parts), Topology([Exchange("x", type_)], *parts)).effects
    assert sorted([(each.gained, each.timing) for each in found]) == [(False, "later"), (True, "at once")]


def test_what_delayed_messages_lose_is_said_if_others_lose_less() -> None:
    """Without the alternate exchange, messages that no binding matches are lost, and at once all that are delayed."""
    arguments = {"x-delayed-type": "topic"}
    rest = Exchange("later", "x-delayed-message", arguments={**arguments, "alternate-exchange": "u"})
    parts = [Queue("q"), Queue("lost")], [Binding.to_queue("later", "q", "a.*"), Binding.to_queue("u", "lost")]
    before, after = (
        Topology([each, Exchange("u", "fanout")], *parts)
        for each in (rest, Exchange("later", "x-delayed-message", arguments=arguments))
    )
    lost = [(each.timing, each.terms[0].path) for each in compare(before, after).effects]
    assert lost == [(None, PathConditions(unmatched=("later",))), ("at once", PathConditions())]


def test_no_name_of_a_copy_is_shown() -> None:
    """With a delay the binding counts later only, and then for messages that another one does not take."""
    late = Exchange("x", "x-delayed-message", arguments={"x-delayed-type": "topic", "alternate-exchange": "u"})
    topology = Topology([late, Exchange("u", "fanout"), Exchange("y", "topic")], [Queue("q"), Queue("lost")])
    topology = topology.bind(Binding.to_queue("u", "lost")).bind(Binding.to_exchange("y", "x", "#"))
    found = compare(topology, topology.bind(Binding.to_queue("x", "q", "a"))).effects
    assert found
    assert "\\x00" not in repr(found)
