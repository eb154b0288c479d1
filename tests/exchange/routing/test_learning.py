"""Keys that a router learned as columns are routed as by a router that learned none: any topology, any messages."""

from __future__ import annotations

import re
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import PROFILES, Binding, BrokerError, Exchange, InputError, Message, Profile, Queue, Router, Topology
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.route import Route
from exchange.text.site import build_install_command
from tests.support import topologies
from tests.support.tiers import examples

pytest.importorskip("pyarrow")


def answer(router: Router, message: Message) -> Route | str:
    try:
        return router.route(message)
    except BrokerError as error:
        return f"{type(error).__name__}: {error}"


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from(list(PROFILES.values())), st.sampled_from([0, 3, 1_000]))
def test_a_router_that_learned_keys_routes_as_one_that_did_not(seed: int, profile: Profile, cache: int) -> None:
    """With headers, CC, alternates, cycles, refusals, partitions, and the same random draws; also after a change."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    messages = [topologies.message(rng, topology) for _ in range(20)]
    messages += [Message(rng.choice(["nowhere", "amq.rabbitmq.trace", ""]), "a.b") for _ in range(3)]
    learned = Router(topology, choose=Random(seed).randrange, cache=cache)
    plain = Router(topology, choose=Random(seed).randrange, cache=cache)
    change = Binding.to_queue("amq.topic", next(iter(topology.queues), "none"), "#")
    for _ in range(2):
        for name in {message.exchange for message in messages}:
            learned.learn(name, [message.routing_key for message in messages])
        for message in messages:
            assert answer(learned, message) == answer(plain, message), message
        for router in (learned, plain):
            try:
                router.bind(change)
            except BrokerError:
                break


KEYS = [f"order.{number}.paid" for number in range(100)]


def make_router(cache: int = 1_000) -> Router:
    queues = [Queue("a"), Queue("p", partitioning=Partitioning.parse("kafka.murmur2 over 12 by routing_key"))]
    bindings = [
        Binding.to_queue("orders", "a", "order.*.paid"),
        Binding.to_queue("orders", "p", "order.7.#"),
        Binding.to_queue("docs", "a", "", {"format": "pdf"}),
    ]
    return Router(Topology([Exchange("orders", "topic"), Exchange("docs", "headers")], queues, bindings), cache=cache)


def test_learned_keys_are_known_except_where_more_than_the_key_decides() -> None:
    router = make_router()
    router.learn("orders", KEYS)
    assert [key for key in KEYS if not router.knows("orders", key)] == ["order.7.paid"]  # a partition is to be chosen
    assert router.route(Message("orders", "order.7.paid")).placements
    for exchange in ("docs", "nowhere"):
        router.learn(exchange, KEYS)
        assert not any(router.knows(exchange, key) for key in KEYS)
    router.bind(Binding.to_queue("orders", "p", "#"))
    assert not any(router.knows("orders", key) for key in KEYS)


def test_keys_that_are_no_utf_8_and_routers_without_a_cache_learn_nothing() -> None:
    router = make_router()
    router.learn("orders", [*KEYS, "order.\udcff.paid"])
    assert not router.knows("orders", KEYS[0])
    without = make_router(cache=0)
    without.learn("orders", KEYS)
    assert not without.knows("orders", KEYS[0])


def test_no_more_routes_are_kept_than_the_cache_holds() -> None:
    router = make_router(cache=8)
    router.learn("orders", KEYS)
    assert not any(router.knows("orders", key) for key in KEYS)
    for low in range(0, 20, 5):
        router.learn("orders", KEYS[10 + low : 15 + low])
        assert [key for key in KEYS if router.knows("orders", key)] == KEYS[10 + low : 15 + low]


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=re.escape(build_install_command("audit"))):
        make_router().learn("orders", KEYS)
