"""The claims of `compare` about two topologies, against the router: for all keys up to five words of the patterns."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.conditions import Probe, holds
from bindings.diffing.comparison.meaning import Meaning
from bindings.diffing.comparison.paths import PathConditions
from bindings.diffing.comparison.terms import Term
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.entities.entities import Destination
from exchange.errors import BrokerError
from tests.support.tiers import examples

PATTERN_WORDS = ("a", "b", "*", "*", "#", "#")
TYPES = ("topic", "topic", "topic", "direct", "fanout", "x-recent-history")
KEYS = [".".join(words) for length in range(6) for words in product(("a", "b", "c", ""), repeat=length)]
KEYS = list(dict.fromkeys(KEYS))
"""The words of the patterns, another one, and the empty one."""


def drawn(rng: Random, exchanges: int = 4, queues: int = 3, bindings: int = 9) -> Topology:
    """Return a topology over few words, with cycles, alternates, long paths, and dangling bindings."""
    names = [f"x{n}" for n in range(exchanges)]
    declared = []
    for name in names:
        if rng.random() < 0.9:
            arguments = {"alternate-exchange": rng.choice([*names, "", "nowhere"])} if rng.random() < 0.4 else {}
            declared.append(Exchange(name, rng.choice(TYPES), internal=rng.random() < 0.15, arguments=arguments))
    made = [Queue(f"q{n}" if n else "a.b") for n in range(queues) if rng.random() < 0.9]
    policies = [Policy("p", f"^x[0-{rng.randrange(4)}]$", {"alternate-exchange": rng.choice(names)})]
    return Topology(
        declared,
        made,
        [binding(rng, names, queues) for _ in range(rng.randint(2, bindings))],
        policies if rng.random() < 0.2 else [],
    )


def binding(rng: Random, names: list[str], queues: int) -> Binding:
    key = ".".join(rng.choice(PATTERN_WORDS) for _ in range(rng.choice((0, 1, 1, 2, 2, 3))))
    place = rng.randrange(queues)
    destination = (
        Destination("exchange", rng.choice(names))
        if rng.random() < 0.4
        else Destination("queue", f"q{place}" if place else "a.b")
    )
    arguments = {"note": 1} if rng.random() < 0.1 else None
    return Binding(rng.choice(names), destination, key, Binding.to_queue("", "", "", arguments).arguments)


def changed(rng: Random, topology: Topology) -> Topology:
    """Return the topology with one to three changes."""
    exchanges, queues = dict(topology.exchanges), dict(topology.queues)
    bindings = list(topology.bindings)
    policies = dict(topology.policies)
    names = sorted({*(name for name in exchanges if name.startswith("x")), "x0"})
    for _ in range(rng.randint(1, 3)):
        what = rng.random()
        if what < 0.35 and bindings:
            bindings.pop(rng.randrange(len(bindings)))
        elif what < 0.7:
            bindings.append(binding(rng, names, 3))
        elif what < 0.75:
            queues.pop(rng.choice(sorted(queues)), None) if queues else None
        elif what < 0.8:
            policies["p"] = Policy("p", "^x", {"alternate-exchange": rng.choice(names)})
        else:
            name = rng.choice(names)
            arguments = {"alternate-exchange": rng.choice(names)} if rng.random() < 0.5 else {}
            exchanges[name] = Exchange(name, rng.choice(TYPES), internal=rng.random() < 0.1, arguments=arguments)
    return Topology(exchanges.values(), queues.values(), bindings, policies.values())


def pair(seed: int) -> tuple[Topology, Topology]:
    rng = Random(seed)
    before = drawn(rng)
    return before, changed(rng, before) if rng.random() < 0.7 else drawn(rng)


def queues_of(router: Router, message: Message) -> frozenset[str]:
    try:
        return frozenset(router.route(message).queues)
    except BrokerError:
        return frozenset()


def entries(*topologies: Topology) -> list[str]:
    return sorted({name for t in topologies for name, x in t.exchanges.items() if not x.internal})


def words_of(message: Message) -> int:
    return message.routing_key.count(".") + 1 if message.routing_key else 0


def describes(term: Term, probe: Probe, sides: tuple[Topology, Topology], gained: bool) -> bool:
    """Return whether a term describes a message."""
    here, there = (sides[1], sides[0]) if gained else sides
    return _goes(term.path, probe, here) and not any(_goes(way, probe, there) for way in term.unless)


def _goes(way: PathConditions, probe: Probe, topology: Topology) -> bool:
    return all(holds(condition, probe) for condition in way.matching) and not any(
        _matched(topology, name, probe) for name in way.unmatched
    )


def _matched(topology: Topology, name: str, probe: Probe) -> bool:
    """Return whether a message matches a binding of the exchange: by a router, with a queue behind each binding."""
    bindings = [Binding.to_queue(name, "q", b.routing_key, b.arguments) for b in topology.bindings_from(name)]
    exchange = topology.exchanges[name]
    arguments = {key: value for key, value in exchange.arguments.items() if key != "alternate-exchange"}
    plain = Exchange(name, exchange.type, arguments=arguments)
    router = _ROUTERS.get((id(topology), name))
    if router is None:
        router = _ROUTERS[id(topology), name] = Router(
            Topology([plain], [Queue("q")], bindings, profile=topology.profile)
        )
        _KEPT.append(topology)
    return bool(router.route(Message(name, probe.key, probe.headers)).queues)


_ROUTERS: dict[tuple[int, str], Router] = {}
_KEPT: list[Topology] = []


def check(before: Topology, after: Topology, messages: list[Message]) -> Meaning:
    """Check that every claim holds for all these messages, and nothing else differs."""
    meaning = compare(before, after)
    before, after = (each.with_parts(bindings=each.bindings - each.find_refused().keys()) for each in (before, after))
    routers = Router(before), Router(after)
    claimed = {(e.exchange, e.queue, e.gained): e for e in meaning.effects}
    undecided = {(u.exchange, u.destination.name if u.destination else None) for u in meaning.undecided}
    shown = {
        key: [(words_of(e.witness), len(e.witness.headers))]
        for key, e in claimed.items()
        if (e.queue in queues_of(routers[1], e.witness)) is e.gained
        and (e.queue in queues_of(routers[0], e.witness)) is not e.gained
    }
    assert shown.keys() == claimed.keys(), "a witness that shows nothing"
    lost: dict[tuple[str, bool], int] = {}
    sides = before, after
    for entry in entries(before, after):
        for message in messages:
            sent = Message(entry, message.routing_key, message.headers)
            was, is_ = (queues_of(router, sent) for router in routers)
            probe = Probe(sent.routing_key, sent.headers)
            for queue in was ^ is_:
                key = entry, queue, queue in is_
                assert key in claimed or (entry, queue) in undecided, (sent, was, is_)
                if key in claimed and (entry, queue) not in undecided:
                    assert (words_of(sent), len(sent.headers)) >= shown[key][0], (sent, "is shorter", claimed[key])
            for (exchange, queue, gained), effect in claimed.items():
                if exchange == entry and effect.exact:
                    differs = queue in (was ^ is_) and (queue in is_) is gained
                    about = any(describes(term, probe, sides, gained) for term in effect.terms)
                    assert about is differs, (sent, effect, was, is_)
            if bool(was) is not bool(is_) and all(
                entry in s.exchanges and not s.exchanges[entry].internal for s in sides
            ):
                now = not is_
                lost[entry, now] = min(lost.get((entry, now), 99), words_of(sent))
    claimed_lost = {(u.exchange, u.now): u for u in meaning.unroutable}
    if not undecided:
        for where, length in lost.items():
            assert where in claimed_lost, (where, "became unroutable or routable, untold")
            assert words_of(claimed_lost[where].witness) <= length
    for (_, now), unroutable in claimed_lost.items():
        routed = [bool(queues_of(router, unroutable.witness)) for router in routers]
        assert routed == [now, not now], unroutable
    return meaning


@examples(60)
@given(st.integers(0, 2**32))
def test_each_claim_holds_and_nothing_is_left_out(seed: int) -> None:
    before, after = pair(seed)
    check(before, after, [Message("", key) for key in [*KEYS, "q1", "q2"]])


@examples(80)
@given(st.integers(0, 2**32))
def test_an_exchange_that_closes_to_publishers_or_opens_loses_or_gains_its_bindings_and_its_alternate(
    seed: int,
) -> None:
    """Where nothing else changes."""
    rng = Random(seed)
    other = drawn(rng)
    name, alternate = rng.sample(["x0", "x1", "x2"], 2)
    bindings = [each for each in other.bindings if each.source != name or rng.random() < 0.3]
    arguments = {"alternate-exchange": alternate}
    bindings.append(binding(rng, [alternate], 3))
    before, after = (
        Topology(
            {**other.exchanges, name: Exchange(name, "topic", internal=internal, arguments=arguments)}.values(),
            other.queues.values(), bindings, other.policies.values(),
        )
        for internal in rng.sample([True, False], 2)
    )  # fmt: skip
    check(before, after, [Message("", key) for key in [*KEYS[:40], "q1", "q2"]])


@pytest.mark.parametrize("name", [field.name for field in fields(Meaning)])
@pytest.mark.parametrize("certain", [False, True])
def test_nothing_that_was_found_is_no_difference(name: str, certain: bool) -> None:
    """Certain or not, and whatever it is: ``same`` claims a proof."""
    assert Meaning().verdict == "same"
    changes: Any = {name: (SimpleNamespace(certain=certain),)}
    assert replace(Meaning(), **changes).verdict != "same"
