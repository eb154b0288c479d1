"""What `bindings.diff` claims of headers, against the router: for all headers that conditions can tell apart."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bindings.analysis.crawl import Budget
from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.conditions import Probe
from bindings.diffing.comparison.headers import find_fewest_headers
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology, Typed
from exchange.entities.entities import Destination
from exchange.entities.releases import LATEST_PROFILE, PROFILES
from exchange.kinds.condition import Condition, HeadersCondition
from exchange.kinds.headers import HeadersExchange as HeadersKind
from tests.bindings.diffing.test_diff_meaning import check
from tests.support.tiers import examples

NAMES = ("h", "k", "x-h")
ASKED = (1, "1", None)
MODES = ("all", "any", "all-with-x", "any-with-x", None)
ABSENT = object()
SENT = (ABSENT, 1, "1", "other")
KEYS = ("", "a", "b", "a.b", "c")


def arguments(rng: Random) -> dict[str, Any]:
    asked = {name: rng.choice(ASKED) for name in rng.sample(NAMES, rng.choice((0, 1, 1, 2, 2, 3)))}
    mode = rng.choice(MODES)
    return asked if mode is None else {**asked, "x-match": mode}


def all_headers() -> list[dict[str, Any]]:
    """Return every combination of a requested value, another one, and none."""
    chosen = product(SENT, repeat=len(NAMES))
    return [{n: v for n, v in zip(NAMES, values, strict=True) if v is not ABSENT} for values in chosen]


def binding(rng: Random, kinds: dict[str, str]) -> Binding:
    source = rng.choice(sorted(kinds))
    destination = Destination("exchange", rng.choice(sorted(kinds)))
    if rng.random() < 0.6:
        destination = Destination("queue", f"q{rng.randrange(3)}")
    if kinds[source] == "headers":
        return Binding.to_queue(source, "", "", arguments(rng))._replace(destination=destination)
    return Binding(source, destination, rng.choice(("a", "b", "#", "a.#", "*")))


def pair(seed: int) -> tuple[Topology, Topology]:
    rng = Random(seed)
    kinds = {f"x{n}": rng.choice(("headers", "headers", "topic", "fanout")) for n in range(3)}
    exchanges = [
        Exchange(name, kind, arguments={"alternate-exchange": f"x{rng.randrange(3)}"} if rng.random() < 0.4 else {})
        for name, kind in kinds.items()
    ]
    queues = [Queue(f"q{n}") for n in range(3)]
    before = [binding(rng, kinds) for _ in range(rng.randint(1, 7))]
    after = list(before)
    for _ in range(rng.randint(1, 3)):
        if after and rng.random() < 0.5:
            after.pop(rng.randrange(len(after)))
        else:
            after.append(binding(rng, kinds))
    return Topology(exchanges, queues, before), Topology(exchanges, queues, after)


@examples(60)
@given(st.integers(0, 2**32))
def test_each_claim_holds_for_all_keys_with_all_headers(seed: int) -> None:
    messages = [Message("", key, headers) for key in KEYS for headers in all_headers()]
    check(*pair(seed), messages)


@given(st.integers(0, 2**32), st.sampled_from(list(PROFILES.values())))
def test_the_fewest_headers_are_found_or_there_are_none(seed: int, profile: Any) -> None:
    """For some conditions that must hold and some that must not, against all headers there are."""
    rng = Random(seed)

    def conditions(most: int) -> list[Condition]:
        asked = [Binding.to_queue("x", "q", "", arguments(rng)) for _ in range(rng.randint(0, most))]
        return [HeadersKind.condition(binding, profile) for binding in asked]

    all_of, none_of = ([c for c in conditions(3) if isinstance(c, HeadersCondition)] for _ in range(2))

    def fit(headers: dict[str, Any]) -> bool:
        probe = Probe("", headers)
        held = [[condition.holds(probe.compared(condition.rules)) for condition in side] for side in (all_of, none_of)]
        return all(held[0]) and not any(held[1])

    found = find_fewest_headers(all_of, none_of, Budget(100_000))
    fitting = [len(headers) for headers in all_headers() if fit(headers)]
    if found is None:
        assert not fitting
    else:
        assert fit(found)
        assert len(found) == min(fitting)


def headers_change(asked: dict[str, Any], profile: str = LATEST_PROFILE.name) -> list[Message]:
    """Return the witnesses of a headers binding that is added."""
    exchanges, queues = [Exchange("x", "headers")], [Queue("q")]
    added = Binding.to_queue("x", "q", "", asked)
    before, after = (Topology(exchanges, queues, some, profile=profile) for some in ((), (added,)))
    meaning = compare(before, after)
    for effect in meaning.effects:
        assert Router(after).route(effect.witness).queues == ("q",)
    return [effect.witness for effect in meaning.effects]


def test_a_condition_that_no_message_meets_changes_nothing() -> None:
    """Any of nothing; the header BCC, which is taken out; CC that is no array, with which messages are refused."""
    assert headers_change({"x-match": "any"}) == []
    assert headers_change({"BCC": None}) == []
    assert headers_change({"CC": "a"}) == []
    assert [witness.headers for witness in headers_change({"CC": None})] == [{"CC": []}]


def test_a_condition_on_a_timestamp_is_met_by_an_equal_value() -> None:
    """A message's own is multiplied by 1000 since 3.13, so the number does; one beyond 63 bits only a timestamp can."""
    for profile in PROFILES:
        assert len(headers_change({"h": Typed("timestamp", 5)}, profile)) == 1
        assert len(headers_change({"h": Typed("timestamp", 5000 * 2**51)}, profile)) == 1
    assert headers_change({"h": Typed("timestamp", 2**64 - 1)}) == []


def test_a_condition_on_keys_in_a_cc_header_is_undecided() -> None:
    """A message that meets it has several routing keys, of which nothing is claimed."""
    exchanges, queues = [Exchange("x", "headers")], [Queue("q")]
    after = Topology(exchanges, queues, [Binding.to_queue("x", "q", "", {"CC": ["a"]})])
    meaning = compare(Topology(exchanges, queues), after)
    assert (meaning.verdict, len(meaning.undecided)) == ("undecided", 1)


def test_contradicting_and_implied_conditions_are_told_apart() -> None:
    """A narrower binding beside a wider one changes nothing; a wider one gains just what the narrow one lacked."""
    exchanges = [Exchange("x", "headers", arguments={"alternate-exchange": "y"}), Exchange("y", "fanout")]
    queues = [Queue("q"), Queue("rest")]
    wide, narrow = ({"h": 1}, {"h": 1, "k": 2})
    rest = Binding.to_queue("y", "rest")
    before = Topology(exchanges, queues, [rest, Binding.to_queue("x", "q", "", wide)])
    both = before.bind(Binding.to_queue("x", "q", "", narrow))
    assert compare(before, both).verdict == "same"
    only = Topology(exchanges, queues, [rest, Binding.to_queue("x", "q", "", narrow)])
    effects = {(e.queue, e.gained): e.witness.headers for e in compare(only, both).effects if e.exchange == "x"}
    assert effects == {("q", True): {"h": 1}, ("rest", False): {"h": 1}}


def test_policies_are_part_of_the_meaning() -> None:
    """A policy that names an alternate exchange takes what nothing matched."""
    exchanges, queues = [Exchange("x", "headers"), Exchange("y", "fanout")], [Queue("q")]
    before = Topology(exchanges, queues, [Binding.to_queue("y", "q")])
    after = before.set_policy(Policy("p", "^x$", {"alternate-exchange": "y"}, "exchanges"))
    (effect,) = compare(before, after).effects
    assert (effect.exchange, effect.queue, effect.gained, effect.witness) == ("x", "q", True, Message("x"))


def test_a_binding_that_rabbitmq_refuses_takes_no_message_over() -> None:
    parts = [Exchange("d", "headers")], [Queue("q")]
    refused = Binding.to_queue("d", "q", "", {"x-match": "banana", "a": 1})
    valid = Binding.to_queue("d", "q", "", {"a": 1})
    changed = compare(Topology(*parts, [refused, valid]), Topology(*parts, [refused]))
    assert changed.verdict == "changed"
    assert [(effect.queue, effect.gained) for effect in changed.effects] == [("q", False)]
    assert "RabbitMQ refuses a binding" in changed.undecided[0].reason
    assert compare(Topology(*parts, [refused]), Topology(*parts)).verdict == "undecided"
    assert compare(Topology(*parts, [refused, valid]), Topology(*parts, [valid])).verdict == "same"
