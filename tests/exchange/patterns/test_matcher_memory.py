"""The caches of the matcher and its memory: keys made from patterns, matched again; bounds of all caches."""

from __future__ import annotations

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
from tests.support.tiers import examples

ONE = {"amqp": "*", "mqtt": "+", "nats": "*"}
MANY = {"amqp": "#", "mqtt": "#", "nats": ">"}
WORDS = ["a", "b", "$s", "c"]


def drawn_pattern(rng: Random, dialect: str) -> list[str]:
    """Draw the words of a pattern, mostly about as long as the longest keys that have an index of their own."""
    length = rng.choice([1, 2, 3, 6, 7, 8, 9, 10, 11])
    words = [rng.choice([*WORDS, ONE[dialect], ONE[dialect]]) for _ in range(length)]
    if rng.random() < 0.6:
        # In AMQP the wildcard for many words may stand anywhere, and several times; elsewhere only at the end.
        places = [rng.randrange(length) for _ in range(rng.choice([1, 1, 2]))] if dialect == "amqp" else [length - 1]
        for place in places:
            words[place] = MANY[dialect]
    return words


def key_near(rng: Random, words: list[str], dialect: str) -> str:
    """Draw a key that the pattern matches, or that differs from such a key by one word."""
    key: list[str] = []
    for word in words:
        if word == MANY[dialect]:
            key += [rng.choice(WORDS) for _ in range(rng.choice([0, 0, 1, 2, 3]))]
        else:
            key.append(rng.choice(WORDS) if word == ONE[dialect] else word)
    change = rng.random()
    if change < 0.15 and key:
        del key[rng.randrange(len(key))]
    elif change < 0.3:
        key.insert(rng.randint(0, len(key)), rng.choice(WORDS))
    elif change < 0.4 and key:
        key[0] = rng.choice(["$s", "$other", "other"])
    return DIALECTS[dialect].separator.join(key or ["a"])


@examples(150)
@given(
    st.integers(0, 2**32),
    st.sampled_from(list(DIALECTS)),
    st.sampled_from([0, 4, 65_536]),
    st.sampled_from([1, 2, 1024]),
)
def test_keys_made_from_patterns_match_as_the_slow_matcher_says(
    seed: int, dialect: str, cache: int, large: int
) -> None:
    """Few keys, near to the patterns and asked again and again: whatever is remembered is looked up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes_module, "LARGE_SHAPE_PATTERNS", large)
        match_keys_near_to_patterns(seed, dialect, cache)


def match_keys_near_to_patterns(seed: int, dialect: str, cache: int) -> None:
    """Bind, unbind and match, and compare each answer with `Pattern.matches`."""
    rng = Random(seed)
    matcher: Matcher[int] = Matcher(DIALECTS[dialect], cache=cache)
    bound: dict[tuple[Pattern, int], None] = {}
    keys: list[str] = []
    for step in range(60):
        chance = rng.random()
        if step < 3 or chance < 0.15:
            words = drawn_pattern(rng, dialect)
            entry = Pattern(DIALECTS[dialect].separator.join(words), DIALECTS[dialect]), rng.randint(0, 3)
            matcher.bind(*entry)
            bound[entry] = None
            keys += [key_near(rng, words, dialect) for _ in range(4)]
        elif chance < 0.25 and bound:
            entry = rng.choice(list(bound))
            matcher.unbind(*entry)
            del bound[entry]
        for key in rng.sample(keys, min(len(keys), 6)):
            found = matcher.match(key)
            assert set(matcher.match_once(key)) == set(found)
            assert set(found) == {value for pattern, value in bound if pattern.matches(key)}
            assert len(found) == len(set(found))


def test_in_mqtt_keys_with_and_without_a_leading_dollar_are_cached_apart() -> None:
    matcher: Matcher[int] = Matcher(MQTT)
    matcher.bind(Pattern("+/a", MQTT), 1)
    assert matcher.match("$SYS/a") == ()
    assert matcher.match("other/a") == (1,)
    assert matcher.match("$else/a") == ()


@pytest.mark.parametrize("length", range(6, 13))
def test_patterns_and_keys_of_each_length_meet(length: int) -> None:
    """Also where the index for one length ends and that for all longer keys begins."""
    for text in ("*." * (length - 1) + "z", "a.#.z", "a." * (length - 2) + "#.z", "a.*.#." + "z." * 3 + "z"):
        matcher: Matcher[str] = Matcher()
        pattern = Pattern(text)
        matcher.bind(pattern, text)
        for words in range(1, 14):
            key = ".".join(["a"] * (words - 1) + ["z"])
            assert bool(matcher.match(key)) == pattern.matches(key)


def test_the_head_and_the_tail_of_a_long_pattern_do_not_overlap() -> None:
    matcher: Matcher[int] = Matcher()
    matcher.bind(Pattern("a.a.a.a.a.a.#.a.a.a.a.a.a"), 1)
    assert [bool(matcher.match(".".join("a" * length))) for length in range(9, 14)] == [False] * 3 + [True] * 2


def test_a_word_that_several_patterns_name_is_kept_until_the_last_one_is_removed() -> None:
    matcher: Matcher[int] = Matcher()
    patterns = [Pattern(f"*.word.{n}.#") for n in range(4)]
    for n, pattern in enumerate(patterns):
        matcher.bind(pattern, n)
    for n, pattern in enumerate(patterns):
        matcher.unbind(pattern, n)
        for other in range(4):
            assert matcher.match(f"x.word.{other}") == ((other,) if other > n else ())
            assert matcher.match(f"x.else.{other}") == ()


def test_a_value_under_a_literal_and_a_wildcard_pattern_comes_once() -> None:
    for cache in (0, 100):
        matcher: Matcher[int] = Matcher(cache=cache)
        for pattern in ("a.b", "a.*", "#"):
            matcher.bind(Pattern(pattern), 1)
        assert matcher.match("a.b") == (1,)


def test_every_cache_is_bounded() -> None:
    """Keys, signatures and answers, of the matcher and of its indexes."""
    matcher: Matcher[int] = Matcher(cache=5)
    for n in range(8):
        matcher.bind(Pattern(f"*.{n}"), n)
    for n in range(200):
        matcher.match(f"{n}.{n % 9}")
        matcher.match(f"{n % 9}.{n}")
        matcher.match(f"{n % 8}.no." + ".".join([str(n % 7)] * 8))  # longer keys are searched by signatures
    assert 0 < len(matcher._local.own) <= 5
    narrow = matcher._narrow[2]
    assert narrow is not None
    assert 0 < len(narrow.answers) <= 5
    assert 0 < len(matcher._signatures) <= 5
    assert 0 < len(matcher._answers) <= 5
    for index in matcher._indexes.values():
        assert len(index._conjunctions._answers) <= 5


def test_caches_of_conjunctions_are_bounded_and_cleared_by_changes() -> None:
    conjunctions: Conjunctions[int] = Conjunctions(answers=4)
    for n in range(20):
        conjunctions.add(((str(n), 1),), n)
    for n in range(20):
        assert conjunctions.search(n, [(str(n), 1)]) == (n,)
    assert 0 < len(conjunctions._answers) <= 4
    assert conjunctions.search(19, [("19", 1)]) == (19,)
    conjunctions.remove((("19", 1),), 19)
    assert conjunctions.search(19, [("19", 1)]) == ()
    conjunctions.add((("18", 1),), 180)
    assert conjunctions.search(18, [("18", 1)]) == (18, 180)
    conjunctions.remove((("18", 1),), 18)
    assert conjunctions.search(18, [("18", 1)]) == (180,)
    for shape in range(600):
        conjunctions.search(("shape", shape), [("1", 1)])
    assert 0 < len(blocks(conjunctions._root)[0]._lacking) <= 256


def test_slots_of_removed_conjunctions_are_reused_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    conjunctions: Conjunctions[int] = Conjunctions()
    conjunctions.add((("kept", 1),), -1)
    for n in range(300):
        conjunctions.add((("a", n),), n)
        conjunctions.remove((("a", n),), n)
    [block] = blocks(conjunctions._root)
    assert len(block.values) == 2
    monkeypatch.setattr(conjunctions_module, "WIDTH", 4)
    monkeypatch.setattr(conjunctions_module, "MASKS", 8)
    conjunctions = Conjunctions()
    for n in range(100):
        conjunctions.add((("a", n),), n)
    assert len(blocks(conjunctions._root)) > 10
    for n in range(100):
        conjunctions.remove((("a", n),), n)
    [block] = blocks(conjunctions._root)
    assert block is conjunctions._root


def test_a_block_of_few_masks_is_split_before_it_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many conjunctions of few words: memory is no reason to split them, the width of their integers is."""
    monkeypatch.setattr(conjunctions_module, "WIDTH", 4)
    monkeypatch.setattr(conjunctions_module, "WIDEST", 64)
    conjunctions: Conjunctions[int] = Conjunctions()
    triples = ((("a", a), ("b", b), ("c", c)) for a in range(8) for b in range(8) for c in range(4))
    numbered = list(zip(triples, range(256), strict=True))
    for conditions, number in numbered:
        conjunctions.add(conditions, number)
    assert max(len(block.slots) for block in blocks(conjunctions._root)) <= 64
    for conditions, number in numbered:
        assert conjunctions.search(None, conditions) == (number,)


def test_a_conjunction_without_conditions_is_found_among_many_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conjunctions_module, "WIDTH", 4)
    monkeypatch.setattr(conjunctions_module, "MASKS", 8)
    conjunctions: Conjunctions[int] = Conjunctions()
    conjunctions.add((), -1)
    for n in range(200):
        conjunctions.add(((f"name{n}", PRESENT),), n)
    assert len(blocks(conjunctions._root)) > 1
    assert sorted(conjunctions.search("one", [("name7", 1)])) == [-1, 7]
    assert conjunctions.search("none", []) == (-1,)


def test_words_of_compared_patterns_are_forgotten_with_the_patterns() -> None:
    """Patterns that can be placed in so many ways that they are compared and not listed."""
    matcher: Matcher[int] = Matcher()
    key = ".".join(["x"] * 8)
    assert matcher.match(key) == ()
    for n in range(50):
        pattern = Pattern(f"#.w{n}.#.v{n}.#")
        matcher.bind(pattern, n)
        assert matcher.match(f"x.x.x.w{n}.x.x.v{n}.x") == (n,)
        matcher.unbind(pattern, n)
        assert matcher.match(f"x.x.x.w{n}.x.x.v{n}.x") == ()
    assert len(matcher._indexes) == 1
    for index in matcher._indexes.values():
        assert index._compared == {}
        assert index._under == {}


def blocks(node: Any) -> list[Any]:
    """Return all leaves of a tree of conjunctions."""
    return (
        [block for child in node.children.values() for block in blocks(child)] if hasattr(node, "children") else [node]
    )
