"""The search for keys against the slow matcher: it holds for all short keys, and no key is shorter than a witness."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.analysis.pattern_set import Answer
from exchange import Pattern, PatternError
from exchange.patterns.pattern import AMQP, ExactKey
from tests.support.algebra import covers, empty, overlap
from tests.support.patterns import all_keys, in_a_dialect, matched, patterns, words_in
from tests.support.tiers import examples

SETTINGS = examples(200)
TWO = in_a_dialect(lambda name: st.tuples(patterns(name), patterns(name)))
MANY = in_a_dialect(lambda name: st.tuples(patterns(name), st.lists(patterns(name), max_size=6)))


def is_shown(witness: str | None, shown_by: Collection[str], dialect: str) -> bool:
    """Return whether the witness is no longer than the keys that show the same; None if there is no such key."""
    lengths = [words_in(dialect, key) for key in shown_by]
    return not lengths if witness is None else words_in(dialect, witness) <= min(lengths, default=1_000)


@SETTINGS
@given(TWO)
def test_patterns_overlap_where_a_key_matches_both(pair: tuple[Pattern, Pattern]) -> None:
    """The answer is that of all short keys, the witness a shortest; and it does not matter which comes first."""
    one, other = pair
    answer = overlap(one, other)
    assert is_shown(answer.witness, matched(one) & matched(other), one.dialect.name)
    assert answer.holds is (answer.witness is not None)
    if answer.witness is not None:
        assert one.matches(answer.witness)
        assert other.matches(answer.witness)
    assert overlap(other, one).holds is answer.holds


@SETTINGS
@given(MANY)
def test_patterns_cover_another_where_they_match_all_its_keys(case: tuple[Pattern, list[Pattern]]) -> None:
    """Alone or together; else the witness is a shortest key of it that none of them matches."""
    pattern, others = case
    missing = matched(pattern).difference(*map(matched, others))
    answer = covers(others, pattern)
    assert is_shown(answer.witness, missing, pattern.dialect.name)
    assert answer.holds is (answer.witness is None)
    if answer.witness is not None:
        assert pattern.matches(answer.witness)
        assert not any(other.matches(answer.witness) for other in others)


@SETTINGS
@given(MANY)
def test_patterns_are_exhaustive_where_every_key_is_one_of_theirs(case: tuple[Pattern, list[Pattern]]) -> None:
    """Else the witness is a shortest that is not, and it is a key: NATS has none without a token."""
    others = [case[0], *case[1]]
    name = others[0].dialect.name
    answer = empty((), others)
    assert is_shown(answer.witness, frozenset(all_keys(name)).difference(*map(matched, others)), name)
    assert answer.holds is (answer.witness is None)
    if answer.witness is not None:
        assert not any(other.matches(answer.witness) for other in others)


@SETTINGS
@given(in_a_dialect(lambda name: st.tuples(*[st.lists(patterns(name), max_size=3)] * 2)))
def test_any_patterns_and_no_others_are_empty_or_have_a_key(case: tuple[list[Pattern], list[Pattern]]) -> None:
    """The question under all others, for any number of patterns on either side."""
    all_of, none_of = case
    dialect = [*all_of, *none_of, Pattern("a")][0].dialect.name
    keys = frozenset(all_keys(dialect)).intersection(*map(matched, all_of)).difference(*map(matched, none_of))
    answer = empty(all_of, none_of)
    assert is_shown(answer.witness, keys, dialect)
    assert answer.holds is (answer.witness is None)
    if answer.witness is not None:
        assert all(pattern.matches(answer.witness) for pattern in all_of)
        assert not any(pattern.matches(answer.witness) for pattern in none_of)


@contextmanager
def keys_of_at_most(max_bytes: int) -> Iterator[None]:
    """Use a dialect like AMQP with a low limit, so that all keys can be tried."""
    usual = AMQP.max_bytes
    object.__setattr__(AMQP, "max_bytes", max_bytes)
    try:
        yield
    finally:
        object.__setattr__(AMQP, "max_bytes", usual)


TIGHT = 7
ALL_TIGHT = ["".join(text) for size in range(TIGHT + 1) for text in product("ax.", repeat=size)]
TIGHT_PATTERNS = (
    st.lists(st.sampled_from(["a", "aa", "aaa", "aaaaa", "", "*", "#", "#"]), max_size=6)
    .map(".".join)
    .filter(lambda text: len(text) <= TIGHT)
    .map(Pattern.of_binding_key)
)


@cache
def matched_tightly(pattern: Pattern) -> frozenset[str]:
    """Return the keys that the slow matcher matches, of all keys."""
    return frozenset(filter(pattern.matches, ALL_TIGHT))


@examples(300)
@given(st.lists(TIGHT_PATTERNS, max_size=2), st.lists(TIGHT_PATTERNS, max_size=5))
def test_a_key_that_is_too_long_does_not_count(all_of: list[Pattern], none_of: list[Pattern]) -> None:
    """With room for seven bytes all keys can be tried: the answer is theirs, the witness is one of them."""
    keys = frozenset(ALL_TIGHT).intersection(*map(matched_tightly, all_of)).difference(*map(matched_tightly, none_of))
    with keys_of_at_most(TIGHT):
        answer = empty(all_of, none_of)
    assert answer.holds is not bool(keys)
    assert answer.witness in keys if keys else answer.witness is None


def test_patterns_whose_keys_exceed_255_bytes_match_nothing() -> None:
    """Keys of both would be too long; and what only longer keys would show does not count against a cover."""
    head, tail = "h" * 127, "t" * 127
    assert overlap(Pattern(f"{head}.#"), Pattern(f"#.{tail}")) == (True, f"{head}.{tail}")
    assert overlap(Pattern(f"{head}h.#"), Pattern(f"#.{tail}")) == (False, None)
    assert overlap(Pattern(f"{head}h.#"), Pattern(f"#.{tail}"), steps=1) == (None, None)
    # Three words are all that fit; the empty ones are the shortest.
    long = "z" * 253
    assert covers([Pattern(long), Pattern(f"{long}.*")], Pattern(f"{long}.#")) == (False, f"{long}..")
    assert covers([Pattern(p) for p in (long, f"{long}.*", f"{long}..")], Pattern(f"{long}.#")).holds
    # One pattern can cover another although it matches no key of it with three more words.
    last = "z" * 245
    wide, narrow = Pattern("a.#.a.*.*.*"), Pattern(f"a.a.a.a.#.{last}")
    assert covers(wide, Pattern("a.a.a.a.#.z")) == (False, "a.a.a.a.x.x.x.z")
    assert covers(wide, narrow).holds
    assert not wide.matches(f"a.a.a.a....{last}")


def test_witnesses_are_short_and_readable() -> None:
    """A word that does not matter is x, or a letter that no pattern names; an empty word is only where it must be."""
    assert covers(Pattern("order.*"), Pattern("order.#")) == (False, "order")
    assert covers([Pattern("order"), Pattern("order.*")], Pattern("order.#")) == (False, "order.x.x")
    assert covers([Pattern("order"), Pattern("order.x")], Pattern("order.#")) == (False, "order.y")
    assert overlap(Pattern("*.eu.#"), Pattern("order.*.created")) == (True, "order.eu.created")
    assert empty((), [Pattern("*.*.#"), Pattern("")]) == (False, "x")
    assert empty((), [Pattern("+/#", "mqtt")]) == (False, "$x")
    assert empty([Pattern("#.a.#"), Pattern("#.b.#"), Pattern("#.c.#")], [Pattern("a.#")]) == (False, "b.a.c")


def test_a_key_of_a_direct_exchange_has_no_wildcards() -> None:
    """It is equal to no pattern, covers only itself, and is covered by patterns as other keys are."""
    key = ExactKey("order.*.#")
    assert key.literal
    assert key.matches("order.*.#")
    assert not key.matches("order.eu")
    assert key != Pattern("order.*.#")
    assert covers(Pattern("order.*.#"), key).holds
    assert covers(key, Pattern("order.*.#")) == (False, "order.x")
    assert covers([ExactKey("a"), Pattern("b")], Pattern("a")).holds
    assert pickle.loads(pickle.dumps(key)) == key  # noqa: S301
    with pytest.raises(PatternError, match="256 bytes"):
        ExactKey("k" * 256)


def test_many_words_in_any_order_are_decided_in_few_steps() -> None:
    """``#.wN.#`` for 14 words are 2**14 states to an eager automaton."""
    traps = [Pattern(f"#.w{number}.#") for number in range(14)]
    assert empty((), traps) == (False, "")
    assert covers(traps, Pattern("*.#")) == (False, "x")
    assert covers(traps, Pattern("#.w13.*.#")).holds
    found = empty(traps[:5])
    assert found.holds is False
    assert sorted((found.witness or "").split(".")) == [f"w{number}" for number in range(5)]


def test_what_costs_too_much_is_undecided() -> None:
    """All orders of 14 words with gaps are too many ways to hold apart."""
    traps = [Pattern(f"#.w{number}.#") for number in range(14)]
    assert empty(traps, steps=2_000) == (None, None)
    assert overlap(Pattern("a.#"), Pattern("#.b"), steps=2) == (None, None)
    assert overlap(Pattern("a.#"), Pattern("#.b"), steps=50) == (True, "a.b")
    with pytest.raises(TypeError, match="undecided"):
        assert Answer(None)


@SETTINGS
@given(MANY, st.integers(0, 60))
def test_fewer_steps_only_turn_answers_into_undecided(case: tuple[Pattern, list[Pattern]], steps: int) -> None:
    """Never a guess."""
    pattern, others = case
    answer = covers(others, pattern, steps=steps)
    assert answer.holds is None or answer == covers(others, pattern)
