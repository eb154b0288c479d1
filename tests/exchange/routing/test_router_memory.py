"""What the router remembers of routes, and forgets when a route may change: the same few keys, asked again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.errors import BrokerError
from exchange.partition.partitioning.specification import Partitioning
from tests.support import oracle
from tests.support.tiers import examples

A, B = Binding.to_queue, Binding.to_exchange


def router_of(*parts: Exchange | Queue | Binding | Policy, cache: int = 65_536) -> Router:
    """Build a router of these parts, declared and bound in this order."""
    made = Topology()
    edits = {Exchange: "declare_exchange", Queue: "declare_queue", Binding: "bind", Policy: "set_policy"}
    for part in parts:
        made = getattr(made, edits[type(part)])(part)
    return Router(made, choose=lambda n: 0, cache=cache)


PLAIN = Message("x", "k")
WITH_HEADER = Message("x", "k", {"a": 1})
HEADERS: list[Exchange | Queue | Binding | Policy] = [Exchange("h", "headers"), Queue("q"), A("h", "q", "", {"a": 1})]


def test_a_route_through_an_alternate_that_reads_headers_is_not_cached_by_key() -> None:
    router = router_of(*HEADERS, Exchange("x", "direct", arguments={"alternate-exchange": "h"}))
    assert router.route(PLAIN).queues == ()
    assert router.route(WITH_HEADER).queues == ("q",)
    assert router.route(PLAIN).queues == ()


def test_a_policy_with_an_alternate_that_reads_headers_ends_caching_by_key() -> None:
    router = router_of(*HEADERS, Exchange("x", "direct"))
    assert router.route(PLAIN).queues == ()
    router.set_policy(Policy("p", "^x$", {"alternate-exchange": "h"}, "exchanges"))
    assert router.route(PLAIN).queues == ()
    assert router.route(WITH_HEADER).queues == ("q",)
    router.clear_policy("p")
    assert router.route(WITH_HEADER).queues == ()


def test_a_route_through_a_new_binding_to_an_exchange_that_reads_headers_is_not_cached_by_key() -> None:
    router = router_of(*HEADERS, Exchange("up", "direct"), Exchange("x", "direct"), B("up", "x", "k"))
    for name in ("x", "up"):
        assert router.route(Message(name, "k")).queues == ()
    router.bind(B("x", "h", "k"))
    for name in ("x", "up"):
        assert router.route(Message(name, "k")).queues == ()
        assert router.route(Message(name, "k", {"a": 1})).queues == ("q",)
        assert router.route(Message(name, "k")).queues == ()


def test_a_queue_that_is_declared_or_deleted_changes_the_default_exchange() -> None:
    router = router_of(Queue("other"))
    for _ in range(2):
        assert router.route(Message("", "q")).queues == ()
        router.declare_queue(Queue("q"))
        assert router.route(Message("", "q")).queues == ("q",)
        router.delete_queue("q")


def test_a_new_binding_drops_cached_routes_of_exchanges_that_lead_to_its_own() -> None:
    router = router_of(Exchange("x", "fanout"), Exchange("t", "topic"), Queue("q"), B("x", "t"))
    assert router.route(PLAIN).queues == ()
    router.bind(A("t", "q", "k"))
    assert router.route(PLAIN).queues == ("q",)
    router.unbind(A("t", "q", "k"))
    assert router.route(PLAIN).queues == ()


@pytest.mark.parametrize("pattern", ["#", "*", "*.#", "k", "#.k"])
def test_a_new_pattern_drops_the_cached_answers_of_all_its_keys(pattern: str) -> None:
    router = router_of(Exchange("x", "topic"), Queue("q"))
    for _ in range(2):
        assert router.route(PLAIN).queues == ()
        router.bind(A("x", "q", pattern))
        assert router.route(PLAIN).queues == ("q",)
        router.unbind(A("x", "q", pattern))


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_a_route_that_cc_or_bcc_decides_is_not_cached(header: str) -> None:
    router = router_of(Exchange("x", "direct"), Queue("q"), A("x", "q", "other"))
    assert router.route(Message("x", "k", {header: ["other"]})).queues == ("q",)
    assert router.route(PLAIN).queues == ()


def test_a_partition_that_a_header_decides_is_not_cached_by_key() -> None:
    """By the default exchange either, and not longer than the queue is there."""
    partitioned = Partitioning.parse('kafka.murmur2 over 7 by header "a"')
    router = router_of(Exchange("x", "fanout"), Queue("q", partitioning=partitioned), A("x", "q"))
    for exchange in ("", "x"):
        found = {
            placement.partition
            for number in range(20)
            for placement in router.route(Message(exchange, "q", {"a": str(number)})).placements
        }
        assert len(found) > 3
    router.delete_queue("q")
    router.declare_queue(Queue("q"))
    assert router.route(Message("", "q", {"a": "1"})).placements == ()


def test_no_more_routes_are_cached_than_allowed() -> None:
    router = router_of(Exchange("x", "direct"), Queue("q"), cache=4)
    for number in range(50):
        router.route(Message("x", str(number)))
        router.route(Message("", str(number)))
        assert 0 < sum(map(len, router._remembered.local.own.by_exchange.values())) <= 4


def test_a_route_is_computed_and_cached_under_the_lock() -> None:
    """Nothing can be changed while a message is on its way: what was found before a change is not kept after it."""
    held: list[bool] = []
    router: Router

    def choose(count: int) -> int:
        with ThreadPoolExecutor(1) as other:  # the thread that holds the lock could take it again
            held.append(not other.submit(router._lock.acquire, blocking=False).result())
        return 0

    topology = Topology().declare_exchange(Exchange("x", "x-random")).declare_queue(Queue("q"))
    topology = topology.declare_queue(Queue("r")).bind(A("x", "q")).bind(A("x", "r"))
    router = Router(topology, choose=choose)
    router.route(PLAIN)
    router.explain(PLAIN)
    assert held
    assert all(held)


def test_an_exchange_that_is_bound_to_itself_is_passed_once() -> None:
    router = router_of(Exchange("x", "fanout"), Queue("q"), A("x", "q"), B("x", "x"))
    [hop] = router.explain(PLAIN).hops
    assert {step.destination.name: step.outcome for step in hop.steps} == {"q": "queued", "x": "seen already"}


@pytest.mark.parametrize("name", ["xyz", "x", "x_", "X-", "h"])
@pytest.mark.parametrize("mode", ["all", "any"])
def test_only_headers_that_begin_with_x_and_a_dash_do_not_count(name: str, mode: str) -> None:
    router = router_of(Exchange("x", "headers"), Queue("q"), A("x", "q", "", {"x-match": mode, name: 1, "x-y": 2}))
    assert router.route(Message("x", "", {name: 1})).queues == ("q",)
    assert router.route(Message("x", "", {name: 2})).queues == ()
    assert router.route(Message("x", "", {"x-y": 2})).queues == ()


@pytest.mark.parametrize("mode", ["all", "any"])
def test_the_header_bcc_is_gone_before_headers_are_looked_at(mode: str) -> None:
    router = router_of(Exchange("x", "headers"), Queue("q"), A("x", "q", "", {"x-match": mode, "BCC": None}))
    assert router.route(Message("x", "", {"BCC": ["k"]})).queues == ()


TYPES = ("direct", "topic", "fanout", "headers")


@examples(200)
@given(st.integers(0, 2**32), st.sampled_from([3, 65_536]))
def test_after_edits_messages_go_where_a_new_router_sends_them(seed: int, cache: int) -> None:
    """After each edit: every exchange and key were asked before it, so that whatever is remembered is asked again."""
    rng = Random(seed)
    topology = Topology()
    for number in range(4):
        topology = topology.declare_exchange(Exchange(f"x{number}", rng.choice(TYPES)))
    for number in range(3):
        topology = topology.declare_queue(Queue(f"q{number}"))
    router = Router(topology, cache=cache)
    keys = ("a", "a.b", "q0", "q3", "b.b", "")
    for _ in range(15):
        name, part = drawn_edit(rng, topology)
        try:
            topology = getattr(topology, name)(part)
        except BrokerError:
            continue
        getattr(router, name)(part)
        for exchange in topology.exchanges:
            if topology.exchanges[exchange].internal or exchange.startswith("amq."):
                continue
            for key in keys:
                for headers in ({}, {"h": 1}):
                    message = Message(exchange, key, headers)
                    assert router.route(message).queues == oracle.route(topology, message, lambda n: 0)


def drawn_edit(rng: Random, topology: Topology) -> tuple[str, object]:
    """Draw an edit with few names, keys and headers, which is likely to change a route."""
    source, other = f"x{rng.randint(0, 3)}", f"x{rng.randint(0, 3)}"
    queue = f"q{rng.randint(0, 3)}"
    key = rng.choice(("a", "a.b", "#", "*", "a.#", "*.b"))
    arguments = rng.choice(({}, {"h": 1}, {"h": 2}))
    alternate = Policy(
        f"p{rng.randint(0, 1)}", rng.choice(("^x", "^x[01]$")), {"alternate-exchange": other}, "exchanges"
    )
    bindings = [one for one in topology.bindings if one.source]
    edits: list[tuple[str, object]] = [
        *[("bind", A(source, queue, key, arguments)), ("bind", B(source, other, key))] * 3,
        *[("unbind", rng.choice(bindings)) for _ in range(3) if bindings],
        ("declare_queue", Queue(queue)),
        ("delete_queue", queue),
        ("set_policy", alternate),
        ("delete_exchange", source),
        ("declare_exchange", Exchange(source, rng.choice(TYPES))),
        *[("clear_policy", name) for name in topology.policies],
    ]
    return rng.choice(edits)
