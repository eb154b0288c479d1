"""Laws of the router, on random topologies: it is the slow one, remembered or not, edited or built anew."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange import PROFILES, Binding, Exchange, Message, Profile, Queue, Router, Topology
from exchange.errors import BrokerError
from tests.support import oracle, topologies
from tests.support.tiers import examples

PROFILE = st.sampled_from(list(PROFILES.values()))
SEED = st.integers(0, 2**32)


Queues = tuple[str, ...] | type[BrokerError]
"""The queues of a route, or the class of the error with which the broker ends the channel."""


def route_slowly(topology: Topology, message: Message) -> Queues:
    try:
        return oracle.route(topology, message, lambda n: 0)
    except BrokerError as error:
        return type(error)


def route(router: Router, message: Message) -> Queues:
    try:
        return router.route(message).queues
    except BrokerError as error:
        return type(error)


@examples(300)
@given(SEED, PROFILE)
@example(3_314_715_600, PROFILES["rabbitmq-3.13"])  # ends the channel: an empty array in a hash header
def test_route_is_what_the_slow_router_says(seed: int, profile: Profile) -> None:
    """Router.route equals the oracle, with and without a cache, the first time and again."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    for cache in (0, 2, 65_536):
        router = Router(topology, choose=lambda n: 0, cache=cache)
        for _ in range(10):
            message = topologies.message(rng, topology)
            expected = route_slowly(topology, message)
            assert route(router, message) == expected
            assert route(router, message) == expected


@examples(200)
@given(SEED, PROFILE)
def test_explain_is_route_with_reasons(seed: int, profile: Profile) -> None:
    """The explanation holds the same route, and its hops deliver to exactly those queues."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    router = Router(topology, choose=lambda n: 0)
    for _ in range(10):
        message = topologies.message(rng, topology)
        if route(router, message) is BrokerError:
            with pytest.raises(BrokerError, match="crashes"):
                router.explain(message)
            continue
        for queue in topology.queues:
            explanation = router.explain(message, queue)
            assert explanation.route == router.route(message)
            delivered = {s.destination.name for hop in explanation.hops for s in hop.steps if s.outcome == "queued"}
            assert delivered == set(explanation.route.queues)
            assert not (explanation.obstacles and queue in delivered)
            assert str(explanation)


@examples(200)
@given(SEED, PROFILE)
def test_each_hop_but_the_first_was_followed_from_an_earlier_one(seed: int, profile: Profile) -> None:
    """Each queue and exchange is reached for the first time once in a walk, and a hop has all that its visit has."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    router = Router(topology, choose=lambda n: 0)
    for _ in range(10):
        message = topologies.message(rng, topology)
        if isinstance(route(router, message), type):
            with pytest.raises(BrokerError):
                router.trace(message)
            continue
        traced, visits = router.trace(message)
        explanation = router.explain(message)
        assert traced == explanation.route == router.route(message)
        for visit, hop in zip(visits, explanation.hops, strict=True):
            assert (hop.exchange, hop.came_from) == (visit.exchange, visit.came_from)
            assert (hop.delay, hop.after) == (visit.delay, visit.after)
            assert set(hop.matched) == set(visit.matched)
            taken = hop.alternate.name if hop.alternate is not None and hop.alternate.taken else None
            assert taken == visit.taken_alternate
        reached: list[str] = []
        walks = 0
        for hop in explanation.hops:
            if hop.came_from is None:
                assert not reached
                walks += 1
                known = {hop.exchange.name}
            else:
                reached.remove(hop.exchange.name)
            for step in hop.steps:
                kind, name = step.destination
                if step.outcome == "missing":
                    assert name not in (topology.queues if kind == "queue" else topology.exchanges)
                elif kind == "exchange":
                    assert (step.outcome == "followed") == (name not in known)
                    known.add(name)
                    reached += [name] if step.outcome == "followed" else []
        assert not reached
        assert walks == 1 + len(traced.later)


@examples(200)
@given(SEED, PROFILE)
def test_edited_router_is_a_new_router(seed: int, profile: Profile) -> None:
    """After any edits, a router that was edited in place and used meanwhile routes as one built from its topology."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    router = Router(topology, choose=lambda n: 0)
    for step in range(25):
        topology = edited(rng, router, topology, step)
        for _ in range(3):
            message = topologies.message(rng, topology)
            expected = route_slowly(topology, message)
            assert route(router, message) == expected
    assert router.topology == topology


def leaves_a_ring(binding: Binding, topology: Topology) -> bool:
    """Whether unbinding it takes a destination that stays bound out of a ring, which a topology does not know of."""
    if topology.exchanges[binding.source].type != "x-consistent-hash":
        return False
    return [other.destination for other in topology.bindings_from(binding.source)].count(binding.destination) > 1


def edited(rng: Random, router: Router, topology: Topology, step: int) -> Topology:
    """One edit made to both, which must agree on whether it is allowed."""
    binding = topologies.binding(rng, topology)
    present = [one for one in topology.bindings if not leaves_a_ring(one, topology)]
    edits: list[tuple[str, Any]] = [("bind", binding)] * 4
    edits += [("unbind", rng.choice(present))] * 4 if present else []
    edits += [("delete_queue", rng.choice(list(topology.queues)))] if len(topology.queues) > 1 else []
    edits += [("delete_exchange", f"x{rng.randint(0, 8)}")] if len(topology.exchanges) > 9 else []
    edits += [("set_policy", topologies.policy(rng, "", rng.randint(0, 2)))]
    edits += [("clear_policy", "p1")] if "p1" in topology.policies else []
    edits += [("declare_queue", Queue(f"q{rng.randint(0, 8)}"))]
    kind = rng.choice(("topic", "headers", "fanout"))
    edits += [("declare_exchange", Exchange(f"x{rng.randint(0, 8)}", kind, auto_delete=rng.random() < 0.5))]
    name, argument = rng.choice(edits)
    try:
        topology = getattr(topology, name)(argument)
    except BrokerError as error:
        with pytest.raises(type(error), match=r".*"):
            getattr(router, name)(argument)
    else:
        getattr(router, name)(argument)
    return topology


@examples(100)
@given(SEED)
def test_topologies_do_not_change(seed: int) -> None:
    """An edit returns a new topology and leaves the old one, which shares most of it, as it was."""
    rng = Random(seed)
    old = topologies.topology(rng, next(iter(PROFILES.values())))
    before = (dict(old.exchanges), dict(old.queues), list(old.bindings), dict(old.policies))
    new = old
    for _ in range(10):
        new = topologies.edit(rng, new)
    for binding in list(new.bindings)[::2]:
        new = new.unbind(binding)
    for queue in list(new.queues)[::2]:
        new = new.delete_queue(queue)
    assert (dict(old.exchanges), dict(old.queues), list(old.bindings), dict(old.policies)) == before


def test_routing_starts_where_publishing_may() -> None:
    """Publishing to no exchange or to an internal one is refused, in the broker's words."""
    router = Router(Topology())
    with pytest.raises(BrokerError, match=r"404 NOT_FOUND - no exchange 'x' in vhost '/'"):
        router.route(Message("x", "k"))
    with pytest.raises(BrokerError, match=r"403 .* cannot publish to internal exchange 'amq.rabbitmq.trace'"):
        router.route(Message("amq.rabbitmq.trace", "k"))


def test_a_dead_letter_may_go_where_publishers_may_not() -> None:
    """The broker publishes it by itself, also to an internal exchange; else it goes where messages do."""
    topology = Topology([Exchange("inside", "fanout", internal=True)], [Queue("q")])
    topology = topology.bind(Binding.to_queue("inside", "q")).bind(Binding.to_queue("amq.direct", "q", "k"))
    router = Router(topology)
    assert router.route_dead_letter(Message("inside", "k")).queues == ("q",)
    for key in ("k", "other"):
        message = Message("amq.direct", key)
        assert router.route_dead_letter(message) == router.route(message)
    with pytest.raises(BrokerError, match=r"404 NOT_FOUND - no exchange 'x'"):
        router.route_dead_letter(Message("x", "k"))
