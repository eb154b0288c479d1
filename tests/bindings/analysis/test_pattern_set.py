"""Sets of patterns: what the few patterns that join a search prove is what all of them prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.analysis.pattern_set import Cover, PatternSet, find_redundant
from exchange import Pattern
from exchange.patterns.pattern import ExactKey
from tests.support.algebra import covers, empty
from tests.support.patterns import in_a_dialect, patterns
from tests.support.tiers import examples

SETTINGS = examples(200)
MANY = in_a_dialect(lambda name: st.tuples(patterns(name), st.lists(patterns(name), max_size=8)))


def set_of(others: list[Pattern], pattern: Pattern) -> PatternSet:
    return PatternSet(others, pattern.dialect)


@SETTINGS
@given(MANY)
def test_a_set_covers_what_its_patterns_together_cover(case: tuple[Pattern, list[Pattern]]) -> None:
    """The same answers as of all patterns at once, and witnesses as short."""
    pattern, others = case
    split = pattern.dialect.split
    patterns = set_of(others, pattern)
    for answer, expected in [
        (patterns.covers(pattern), covers(others, pattern)),
        (patterns.covers(), empty((), others or [Pattern("a", pattern.dialect)])),
    ]:
        assert answer.holds is expected.holds
        if answer.witness is not None and expected.witness is not None and others:
            assert len(split(answer.witness)) == len(split(expected.witness))
            assert not any(other.matches(answer.witness) for other in others)


@SETTINGS
@given(MANY)
def test_a_cover_consists_of_other_patterns_that_are_all_needed(case: tuple[Pattern, list[Pattern]]) -> None:
    """There is one exactly if all others together cover the pattern, and it is a single one where a single one can."""
    pattern, given_patterns = case
    others = [other for other in given_patterns if other != pattern]
    cover = set_of([pattern, *others], pattern).cover(pattern)
    assert cover.holds is covers(others, pattern).holds
    assert set(cover.by) <= set(others)
    if cover.holds:
        assert covers(cover.by, pattern).holds
        for one in cover.by:
            assert covers([other for other in cover.by if other is not one], pattern).holds is False
        assert (len(cover.by) == 1) is any(covers(other, pattern).holds for other in others)


@SETTINGS
@given(MANY)
def test_all_redundant_patterns_can_be_removed_and_no_other_one(case: tuple[Pattern, list[Pattern]]) -> None:
    """Each is named once, with patterns that do cover it; a pattern given twice is no reason."""
    pattern, others = case
    given_patterns = [pattern, *others, pattern]
    found = list(find_redundant(given_patterns, pattern.dialect))
    assert len({one for one, _ in found}) == len(found)
    for one, cover in found:
        assert one not in cover.by
        assert set(cover.by) <= set(given_patterns)
        assert covers(cover.by, one).holds
    kept = set(given_patterns) - {one for one, _ in found}
    for one in given_patterns:
        assert covers(kept, one).holds
        assert covers(kept - {one}, one).holds is (one not in kept)


def test_a_set_changes() -> None:
    """Adding twice is adding once; what is removed covers nothing any more."""
    patterns = PatternSet([Pattern("a.*"), Pattern("a.*"), ExactKey("a")])
    assert len(patterns) == 2
    assert set(patterns) == {Pattern("a.*"), ExactKey("a")}
    assert Pattern("a.*") in patterns
    assert Pattern("a") not in patterns
    assert patterns.covers(Pattern("a.#")) == (False, "a.x.x")
    patterns.add(Pattern("a.*.*.#"))
    assert patterns.covers(Pattern("a.#")).holds
    assert set(patterns.cover(Pattern("a.#")).by) == set(patterns)
    patterns.remove(Pattern("a.*"))
    assert patterns.covers(Pattern("a.#")) == (False, "a.x")
    with pytest.raises(ValueError, match="a pattern in mqtt for keys in amqp"):
        patterns.add(Pattern("a/+", "mqtt"))


def test_many_literal_keys_do_not_join_a_search() -> None:
    """Fresh words are fresh to the whole set: none of its keys is tried one after the other."""
    keys = [ExactKey(word) for word in ("", "x", "y", "z", *(f"x{number}" for number in range(5_000)))]
    assert PatternSet(keys, steps=20).covers() == (False, "a")


def test_a_set_without_steps_leaves_its_questions_undecided() -> None:
    """An undecided pattern is named, and stays."""
    patterns = [Pattern("a"), Pattern("a.*.#"), Pattern("a.#"), Pattern("b")]
    few = PatternSet(patterns[:2], steps=2)
    assert few.covers(patterns[2]) == (None, None)
    assert few.cover(patterns[2]) == Cover(None)
    assert dict(find_redundant([Pattern("#.b.#"), Pattern("#.b.c")], steps=1)) == {Pattern("#.b.c"): Cover(None)}
