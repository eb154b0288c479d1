"""Each fact about parts of a topology: where it is seen, where a similar topology does not show it, and when."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bindings.upgrading.facts.crossing import DeadLetterWays
from bindings.upgrading.facts.fact import ALWAYS
from bindings.upgrading.facts.table import FACTS
from bindings.upgrading.releases import release_of
from bindings.upgrading.upgrade import upgrade_topology
from exchange import Binding, Exchange, Policy, Queue, Topology, Typed
from tests.support.cases import with_each

BY_RULES = {fact.id for fact in FACTS if fact.since == ALWAYS}
"""Facts that ask the rules of both releases; tests/bindings/upgrading/test_upgrade.py is about them."""


def queue(policy: dict[str, object] | None = None, *, durable: bool = True, **arguments: object) -> Topology:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    policies = [] if policy is None else [Policy("p", "^q", policy, "queues")]
    return Topology([], [Queue("q", durable, arguments=named)], [], policies)


def quorum(policy: dict[str, object] | None = None, **arguments: Any) -> Topology:
    return queue(policy, queue_type="quorum", **arguments)


def headers(wanted: object) -> Topology:
    return Topology([Exchange("h", "headers")], [Queue("q")], [Binding.to_queue("h", "q", "", {"n": wanted})])


def of_deaths(match: str) -> Topology:
    binding = Binding.to_queue("h", "q", "", {"x-match": match, "x-death": None, "n": "1"})
    return Topology([Exchange("h", "headers")], [Queue("q")], [binding])


def exchange(kind: str, number: int = 2, key: str = "1", *, durable: bool = True, **arguments: object) -> Topology:
    """Return an exchange with some queues bound to it."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    queues = [Queue(f"q{n}") for n in range(number)]
    bindings = [Binding.to_queue("e", each.name, key) for each in queues]
    return Topology([Exchange("e", kind, durable, arguments=named)], queues, bindings)


def ring(first: str, second: str) -> Topology:
    bindings = [Binding.to_queue("e", first, "1"), Binding.to_queue("e", second, "1")]
    return Topology([Exchange("e", "x-consistent-hash")], [Queue("a"), Queue("b")], bindings)


def weights(*given: str) -> Topology:
    return Topology([Exchange("e", "x-consistent-hash")], [Queue("q")], [Binding.to_queue("e", "q", w) for w in given])


def retries(back: str = "q", **arguments: object) -> Topology:
    """Return a queue that rejects to one from which messages come back, or go elsewhere."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    jobs = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait", **named}
    wait = {"x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": back}
    return Topology(queues=[Queue("q", arguments=jobs), Queue("wait", arguments=wait), Queue("done")])


def to_a(kind: str) -> Topology:
    """Return a queue whose dead letters go through two exchanges to a queue of a type."""
    jobs = Queue("q", arguments={"x-dead-letter-exchange": "first"})
    bindings = [Binding.to_exchange("first", "second", "#"), Binding.to_queue("second", "target", "k")]
    exchanges = [Exchange("first", "topic"), Exchange("second")]
    return Topology(exchanges, [jobs, Queue("target", arguments={"x-queue-type": kind})], bindings)


def policy(**definition: object) -> Topology:
    named = {name.replace("_", "-"): value for name, value in definition.items()}
    return Topology(policies=[Policy("p", ".*", named)])


DLX: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "done"}

CASES: dict[str, tuple[Topology, Topology]] = {
    "HSU005": (queue(durable=False), queue()),
    "HSU006": (queue({"ha-mode": "all"}), quorum({"ha-mode": "all"})),
    "HSU007": (quorum(), quorum(**DLX)),
    "HSU008": (quorum(**DLX), quorum(**DLX, delivery_limit=9)),
    "HSU009": (queue(queue_mode="lazy"), queue(queue_mode="default")),
    "HSU010": (queue(), queue(queue_version=2)),
    "HSU011": (headers(1), headers(1.5)),
    "HSU012": (headers(Typed("timestamp", 5)), headers("5")),
    "HSU013": (ring("b", "a"), ring("a", "b")),
    "HSU014": (queue(**DLX), queue()),
    "HSU015": (queue({"consumer-timeout": 5}), quorum({"consumer-timeout": 5})),
    "HSU016": (quorum(delivery_limit=9), quorum(delivery_limit=-1)),
    "HSU017": (queue(durable=False), queue()),
    "HSU018": (queue({"ha-mode": "all"}), queue({"max-length": 5})),
    "HSU019": (queue({"queue-master-locator": "min-masters"}), queue({"queue-leader-locator": "balanced"})),
    "HSU020": (queue(single_active_consumer=True), quorum(single_active_consumer=True)),
    "HSU021": (exchange("fanout", durable=False), exchange("fanout")),
    "HSU022": (exchange("x-delayed-message", x_delayed_type="topic"), exchange("x-random")),
    "HSU023": (policy(federation_upstream_set="all"), policy(alternate_exchange="a")),
    "HSU024": (exchange("x-modulus-hash"), exchange("x-modulus-hash", 1)),
    "HSU025": (queue(**DLX), queue()),
    "HSU026": (retries(message_ttl=9), retries()),
    "HSU027": (retries(), retries("done")),
    "HSU028": (queue(**DLX), quorum(**DLX)),
    "HSU029": (quorum(**DLX), queue(**DLX)),
    "HSU030": (quorum(), quorum(delivery_limit=9)),
    "HSU031": (quorum(), queue()),
    "HSU032": (quorum(), queue(max_priority=9)),
    "HSU033": (quorum(single_active_consumer=True), quorum(single_active_consumer=False)),
    "HSU034": (quorum(max_length_bytes=99), quorum(max_length=99)),
    "HSU035": (quorum(max_length=9, **DLX), quorum(max_length=9)),
    "HSU036": (quorum(), queue()),
    "HSU037": (quorum(), queue()),
    "HSU038": (quorum(delivery_limit=-1), quorum(delivery_limit=0)),
    "HSU039": (quorum({"delivery-limit": 9}), quorum(delivery_limit=9)),
    "HSU040": (quorum(dead_letter_strategy="at-least-once", overflow="reject-publish", **DLX), quorum(**DLX)),
    "HSU041": (quorum(), queue({"consumer-timeout": 5})),
    "HSU042": (quorum(), queue()),
    "HSU043": (retries(queue_type="quorum"), retries("done", queue_type="quorum")),
    "HSU044": (to_a("stream"), to_a("quorum")),
    "HSU045": (exchange("x-consistent-hash", hash_header="h"), exchange("x-consistent-hash")),
    "HSU046": (
        exchange("x-consistent-hash", hash_header="h"),
        exchange("x-consistent-hash", hash_property="message_id"),
    ),
    "HSU047": (headers(0.0), headers(0)),
    "HSU049": (queue({"queue-version": 1}), queue({"queue-version": 2})),
    "HSU048": (exchange("topic", key=""), exchange("direct", key="")),
    "HSU050": (exchange("x-modulus-hash"), exchange("x-modulus-hash", 1)),
    "HSU052": (quorum(delivery_limit=-1), quorum()),
    "HSU053": (queue(queue_type="stream", stream_initial_offset=9), queue(stream_initial_offset=9)),
    "HSU054": (quorum(), queue()),
    "HSU057": (quorum(consumer_timeout=1.8e6), quorum(consumer_timeout=1_800_000)),
    "HSU058": (quorum(consumer_disconnected_timeout="5"), quorum(consumer_disconnected_timeout=5)),
    "HSU059": (quorum(consumer_timeout=-5), quorum(consumer_timeout=5)),
    "HSU060": (exchange("x-consistent-hash", 1, hash_header="h"), exchange("x-consistent-hash", 0, hash_header="h")),
    "HSU061": (weights("1", "9"), weights("9")),
    "HSU062": (quorum(single_active_consumer=True), quorum()),
    "HSU063": (quorum(single_active_consumer=True), queue(single_active_consumer=True)),
    "HSU064": (queue(max_priority=0), queue(max_priority=1)),
    "HSU066": (queue(**DLX), queue()),
    "HSU067": (queue(**DLX), queue()),
    "HSU068": (quorum(), queue()),
    "HSU069": (queue(**DLX), queue()),
    "HSU051": (of_deaths("any-with-x"), of_deaths("any")),
}
"""Fact -> a topology that shows it, and one that does not."""

TWINS: list[tuple[str, Topology]] = [
    ("HSU007", quorum({"dead-letter-exchange": ""})),
    ("HSU057", quorum({"consumer-timeout": 5}, consumer_timeout="9")),
    ("HSU058", queue(consumer_disconnected_timeout="5")),
    ("HSU059", queue(quorum_target_group_size=5)),
    ("HSU008", quorum({"delivery-limit": 9}, **DLX)),
    ("HSU016", quorum({"delivery-limit": -1})),
    ("HSU030", quorum({"delivery-limit": 9})),
    ("HSU033", queue(single_active_consumer=True)),
    ("HSU034", queue(max_length_bytes=99)),
    ("HSU035", quorum(**DLX)),
    ("HSU035", queue(max_length=9, **DLX)),
    ("HSU038", quorum({"delivery-limit": -1})),
    ("HSU038", quorum()),
    ("HSU039", quorum({"max-length": 9})),
    ("HSU043", retries(queue_type="quorum", delivery_limit=-1)),
    ("HSU043", retries()),
    ("HSU052", queue()),
]
"""Facts and further topologies that do not show them: what their conditions are about is there, but for one of it."""

OLDEST = release_of("3.10.0")
SINCE = {"HSU015": release_of("4.0"), "HSU067": release_of("3.13.2")}
"""Fact about what the oldest release does not have or do -> a release that does."""
LATER = [release_of(name) for name in ("4.4", "4.3", "4.2", "4.1", "4.0", "4.0.2", "3.13", "3.13.1", "3.12", "3.11")]


def test_each_fact_about_a_topology_has_a_case() -> None:
    assert CASES.keys() | BY_RULES == {fact.id for fact in FACTS if fact.id < "HSU100"}


def is_seen(name: str, topology: Topology) -> bool:
    [fact] = [each for each in FACTS if each.id == name]
    new = next(release for release in LATER if fact.holds_for(release.numbers))
    sightings = upgrade_topology(topology, SINCE.get(name, OLDEST), new).sightings
    return any(sighting.fact.id == name and sighting.parts for sighting in sightings)


@pytest.mark.parametrize("name", CASES)
def test_a_fact_is_seen_in_the_topology_that_is_concerned(name: str) -> None:
    assert is_seen(name, CASES[name][0])


@with_each(("name", "unseen"), [*((name, unseen) for name, (_, unseen) in CASES.items()), *TWINS])
def test_a_fact_is_not_seen_in_a_similar_topology(name: str, unseen: Topology) -> None:
    assert not is_seen(name, unseen)


def test_dead_letters_with_a_key_are_followed_exactly() -> None:
    """A key that leads elsewhere makes no circle; one that is kept may lead anywhere behind the exchange."""

    def of(**arguments: str) -> set[str]:
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        bindings = [Binding.to_queue("d", "q", "again"), Binding.to_queue("d", "done", "dead")]
        queues = [Queue("q", arguments={"x-dead-letter-exchange": "d", **named}), Queue("done")]
        return DeadLetterWays(Topology([Exchange("d")], queues, bindings)).circles

    assert of(dead_letter_routing_key="dead") == set()
    assert of(dead_letter_routing_key="again") == {"q"}
    assert of() == {"q"}


def test_what_has_no_dead_letters_has_no_ways() -> None:
    ways = DeadLetterWays(Topology(queues=[Queue("q")]))
    assert (ways.circles, ways.leading_to(["q"])) == (set(), [])


def test_a_fact_that_names_its_last_release_holds_for_none_after_it() -> None:
    last = {fact.id: re.search(r"up to (\d+)\.(\d+)\.(\d+)", fact.what) for fact in FACTS}
    ends = {name: tuple(map(int, found.groups())) for name, found in last.items() if found is not None}
    assert ends
    assert {fact.id: fact.until for fact in FACTS if fact.id in ends} == {
        name: (major, minor, patch + 1) for name, (major, minor, patch) in ends.items()
    }
