"""The matcher against the slow matcher: any patterns, any edits, caches on, tiny and off; its traps; its threads."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Matcher, Pattern
from exchange.patterns import conjunctions as conjunctions_module
from exchange.patterns import shapes as shapes_module
from exchange.patterns.conjunctions import PRESENT, Conjunctions
from exchange.patterns.pattern import DIALECTS, MQTT
from tests.support.threads import reading
from tests.support.tiers import examples, scale

SEED = st.integers(0, 2**32)


def random_words(rng: Random, pool: list[str]) -> list[str]:
    """Draw words, mostly few, sometimes more than the longest keys that have an index of their own."""
    return [rng.choice(pool) for _ in range(rng.choice([0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14]))]


def random_pattern(rng: Random, dialect: str) -> Pattern:
    """Draw a pattern of a dialect, with many wildcards."""
    if dialect == "amqp":
        return Pattern(".".join(random_words(rng, ["a", "b", "c", "", "$s", "*", "*", "#", "#"])))
    if dialect == "mqtt":
        levels = random_words(rng, ["a", "b", "", "$s", "+", "+"]) or ["a"]
        text = "/".join(levels + rng.choice([[], ["#"]]))
        return Pattern(text or "#", "mqtt")
    tokens = random_words(rng, ["a", "b", "$s", "*", "*"]) or ["a"]
    return Pattern(".".join(tokens + rng.choice([[], [">"]])), "nats")


@examples(150)
@given(
    SEED,
    st.sampled_from(list(DIALECTS)),
    st.sampled_from([0, 3, 65_536]),
    st.sampled_from([2, 5, 1024]),
    st.sampled_from([1, 2, 3, 1024]),
)
def test_match_is_what_the_slow_matcher_says(seed: int, dialect: str, cache: int, width: int, large: int) -> None:
    """Through any binding and unbinding, match gives the values whose pattern matches, each once."""
    rng = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjunctions_module, "WIDTH", width)
        patch.setattr(conjunctions_module, "MASKS", 2 * width)
        patch.setattr(shapes_module, "LARGE_SHAPE_PATTERNS", large)
        matcher: Matcher[int] = Matcher(DIALECTS[dialect], cache=cache)
        bound: dict[tuple[Pattern, int], None] = {}
        for _ in range(150):
            chance = rng.random()
            if chance < 0.4:
                entry = random_pattern(rng, dialect), rng.randint(0, 5)
                assert matcher.bind(*entry) == (entry not in bound)
                bound[entry] = None
            elif chance < 0.6 and bound:
                entry = rng.choice(list(bound))
                assert matcher.unbind(*entry)
                assert not matcher.unbind(*entry)
                del bound[entry]
            else:
                key = DIALECTS[dialect].separator.join(random_words(rng, ["a", "b", "c", "z", "$s", "", "*", "#"]))
                expected = {value for pattern, value in bound if pattern.matches(key)}
                for _ in range(2):
                    found = matcher.match(key)
                    assert set(found) == expected
                    assert len(found) == len(expected)
        assert len(matcher) == len({pattern for pattern, _ in bound})


@examples(50)
@given(SEED, st.sampled_from([0, 100]), st.sampled_from([1, 3, 1024]))
def test_a_distinct_matcher_finds_the_same(seed: int, cache: int, large: int) -> None:
    """When no value is bound twice, not comparing values changes nothing: each is still there once."""
    rng = Random(seed)
    matcher: Matcher[str] = Matcher(cache=cache, distinct=True)
    patterns = {random_pattern(rng, "amqp") for _ in range(60)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes_module, "LARGE_SHAPE_PATTERNS", large)
        for pattern in patterns:
            matcher.bind(pattern, pattern.text)
    for _ in range(60):
        key = ".".join(random_words(rng, ["a", "b", "c", ""]))
        assert sorted(matcher.match(key)) == sorted(p.text for p in patterns if p.matches(key))


@pytest.mark.parametrize(("dialect", "every", "none"), [("mqtt", "#", ""), ("nats", ">", "")])
def test_an_impossible_key_matches_nothing_whatever_was_matched_before(dialect: str, every: str, none: str) -> None:
    matcher: Matcher[int] = Matcher(DIALECTS[dialect])
    matcher.bind(Pattern(every, dialect), 1)
    assert [matcher.match(key) for key in ("unknown", none, "other")] == [(1,), (), (1,)]


@examples(50)
@given(SEED, st.sampled_from([2, 1024]), st.sampled_from([1, 3, 1024]))
def test_unbinding_frees_what_binding_took(seed: int, width: int, large: int) -> None:
    """When every pattern is gone, so is everything in the matcher but empty indexes."""
    rng = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjunctions_module, "WIDTH", width)
        patch.setattr(conjunctions_module, "MASKS", 2 * width)
        patch.setattr(shapes_module, "LARGE_SHAPE_PATTERNS", large)
        matcher: Matcher[int] = Matcher(cache=0)
        for length in range(12):
            matcher.match(".".join("a" * length))
        empty = size_of(matcher)
        bound = [(random_pattern(rng, "amqp"), rng.randint(0, 3)) for _ in range(100)]
        for entry in bound:
            matcher.bind(*entry)
        assert size_of(matcher) > empty
        for entry in rng.sample(bound, len(bound)):
            matcher.unbind(*entry)
        assert size_of(matcher) <= empty
        assert len(matcher) == 0


def size_of(thing: object, seen: set[int] | None = None) -> int:
    """Return the number of entries in all containers that an object contains."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, (str, int, type)):
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        return len(thing) + sum(size_of(value, seen) for value in thing.values())
    slots = [getattr(thing, name) for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    inside = [*getattr(thing, "__dict__", {}).values(), *slots] if type(thing).__module__.startswith("exchange") else []
    return sum(size_of(value, seen) for value in inside)


def operations(run: Callable[[], object], limit: int) -> int:
    """Return the number of lines of Python that a call executes, up to a limit: a count, not a time."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        if count > limit:
            raise RuntimeError(f"more than {limit} lines")
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        run()
    finally:
        sys.settrace(None)
    return count


def test_many_patterns_with_inner_words_do_not_multiply() -> None:
    """Patterns ``#.wN.#`` are 2**n states to an eager automaton; here the work is matches x words, at most."""
    work = {}
    for count in (10, 14, 20, 40, 80):
        matcher: Matcher[int] = Matcher(cache=0)
        for number in range(count):
            matcher.bind(Pattern(f"#.w{number}.#"), number)
        words = [f"w{number}" for number in range(0, count, 2)]
        assert set(matcher.match(".".join(words))) == set(range(0, count, 2))
        work[count] = operations(partial(matcher.match, ".".join(words)), 100_000)
    assert work[80] < 5 * work[40] < 25 * work[20]
    assert work[80] < 10_000


def test_many_hashes_on_one_path_do_not_backtrack() -> None:
    """15 ``#`` against 31 words are C(46, 15) ways to a backtracking walk."""
    pattern = Pattern(".".join(["#", "a"] * 15))
    near_miss = ".".join(["a"] * 30 + ["b"])
    matcher: Matcher[int] = Matcher(cache=0)
    matcher.bind(pattern, 1)
    assert matcher.match(".".join(["a"] * 31)) == (1,)
    assert matcher.match(near_miss) == ()
    assert operations(partial(matcher.match, near_miss), 10_000) < 3_000
    assert not pattern.matches(near_miss)


def test_caches_are_bounded() -> None:
    """However many keys are asked for, no more are remembered than were allowed."""
    matcher: Matcher[int] = Matcher(cache=100)
    matcher.bind(Pattern("a.*"), 1)
    for number in range(1000):
        matcher.match(f"a.{number}")
        matcher.match(".".join(["a"] * (number % 50)))
        assert len(matcher._local.own) <= 100
        assert len(matcher._signatures) <= 100


def test_a_literal_pattern_drops_the_cached_answer_of_one_key_only() -> None:
    """Binding and unbinding a pattern without wildcards leaves what is remembered of other keys."""
    matcher: Matcher[int] = Matcher()
    matcher.bind(Pattern("a.*"), 1)
    matcher.match("a.b")
    matcher.match("a.c")
    matcher.bind(Pattern("a.b"), 2)
    assert set(matcher._local.own) == {"a.c"}
    assert set(matcher.match("a.b")) == {1, 2}
    matcher.unbind(Pattern("a.b"), 2)
    assert matcher.match("a.b") == (1,)
    matcher.bind(Pattern("#"), 3)
    assert not matcher._local.own


def test_a_pattern_of_another_dialect_is_refused() -> None:
    """Keys of one dialect cannot be split for patterns of another."""
    matcher: Matcher[int] = Matcher(MQTT)
    with pytest.raises(ValueError, match=r"Pattern\.to"):
        matcher.bind(Pattern("a"), 1)


def test_threads_see_the_matcher_before_or_after_a_change() -> None:
    """While one thread moves a value between two patterns, routing threads see it under one of them or both.

    The value is bound under the second pattern before it is unbound from the first, so a match without it would be
    half a change, and one that stays wrong when the writer rests, a stale cache.
    """
    matcher: Matcher[str] = Matcher(cache=50)
    patterns = [Pattern("a.*"), Pattern("*.b"), Pattern("a.b"), Pattern("#.b.#"), Pattern("#.a.#.b.#")]
    matcher.bind(patterns[0], "moving")
    for number in range(200):
        matcher.bind(Pattern(f"a.{number}.*"), f"v{number}")
    wrong: list[tuple[str, ...]] = []
    numbers = itertools.count()

    def read() -> None:
        found = matcher.match("a.b")
        matcher.match(f"a.{next(numbers) % 300}.x")
        if found != ("moving",):
            wrong.append(found)

    at = 0
    with reading(read):
        for _ in range(scale(10_000)):
            following = (at + 1) % len(patterns)
            matcher.bind(patterns[following], "moving")
            matcher.unbind(patterns[at], "moving")
            at = following
    assert not wrong
    matcher.unbind(patterns[at], "moving")
    assert matcher.match("a.b") == ()


@examples(100)
@given(SEED, st.sampled_from([1, 3, 1024]))
def test_a_search_of_conjunctions_finds_what_checking_each_finds(seed: int, width: int) -> None:
    """Presence, equality and absence, through adding, splitting and removing."""
    rng = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjunctions_module, "WIDTH", width)
        patch.setattr(conjunctions_module, "MASKS", 2 * width)
        conjunctions: Conjunctions[int] = Conjunctions()
        kept: dict[tuple[tuple[tuple[str, object], ...], int], None] = {}
        for _ in range(150):
            chance = rng.random()
            if chance < 0.5:
                names = sorted(rng.sample("abcd", rng.randint(0, 3)))
                entry = tuple((name, rng.choice([1, 2, 3, PRESENT])) for name in names), rng.randint(0, 3)
                conjunctions.add(*entry)
                kept[entry] = None
            elif chance < 0.7 and kept:
                entry = rng.choice(list(kept))
                conjunctions.remove(*entry)
                del kept[entry]
            else:
                features = {name: rng.choice([1, 2, 3, 4]) for name in rng.sample("abcde", rng.randint(0, 4))}
                found = set(conjunctions.search(frozenset(features), features.items()))
                assert found == {value for conditions, value in kept if satisfied(conditions, features)}


def satisfied(conditions: tuple[tuple[str, object], ...], features: dict[str, int]) -> bool:
    """Return whether the features satisfy a conjunction: the definition."""
    return all(name in features and wanted in (PRESENT, features[name]) for name, wanted in conditions)


@pytest.mark.parametrize("many", ["values", "features", "both"])
def test_blocks_stay_narrow_however_many_words_there_are(many: str) -> None:
    """Distinct values of one feature, or distinct features, divide again and again; nothing grows with the square."""
    conjunctions: Conjunctions[int] = Conjunctions()
    made: list[tuple[tuple[str, object], ...]] = []
    for number in range(20_000):
        name = "name" if many == "values" else f"name{number}"
        made.append(((name, PRESENT if many == "features" else f"value{number}"),))
        conjunctions.add(made[-1], number)
    widths = [len(block.slots) for block in blocks(conjunctions._root)]
    assert sum(widths) == 20_000
    assert max(widths) <= conjunctions_module.MASKS
    for number in range(0, 20_000, 997):
        ((name, value),) = made[number]
        features = {name: value if value is not PRESENT else 1, "other": 1}
        assert conjunctions.search(frozenset(features), features.items()) == (number,)
    for number in range(20_000):
        conjunctions.remove(made[number], number)
    assert [len(block.slots) for block in blocks(conjunctions._root)] == [0]


def blocks(node: Any) -> list[Any]:
    """Yield the leaves of the tree."""
    return [leaf for child in node.children.values() for leaf in blocks(child)] if hasattr(node, "children") else [node]


def test_a_matcher_takes_the_name_of_its_dialect() -> None:
    matcher: Matcher[str] = Matcher("mqtt")
    matcher.bind(Pattern("order/+", "mqtt"), "all")
    assert matcher.match("order/eu") == ("all",)
    with pytest.raises(ValueError, match="amqp, mqtt, nats"):
        Matcher("stomp")


def test_a_text_in_place_of_a_pattern_is_refused_with_what_to_write() -> None:
    matcher: Matcher[str] = Matcher()
    for edit in (matcher.bind, matcher.unbind):
        with pytest.raises(TypeError, match=r"a pattern is a Pattern, not 'a\.\*': write Pattern\('a\.\*'\)"):
            edit("a.*", "value")  # type: ignore[arg-type]
