"""Columns of keys are matched as their keys are one by one."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import InputError, Matcher, Pattern
from exchange.patterns import shapes as shapes_module
from exchange.patterns.columns import column_matcher, pattern_sets
from tests.support import topologies
from tests.support.tiers import examples


def keys_for(rng: Random, number: int) -> list[str]:
    return [topologies.words(rng, topologies.WORDS, 30) for _ in range(number)]


@examples(150)
@given(
    st.integers(0, 2**32), st.sampled_from([0, 20, 4096]), st.sampled_from([0, 3, 1 << 19]), st.sampled_from([2, 1024])
)
def test_a_column_has_the_matches_of_its_keys(seed: int, conjunctions: int, sets: int, large: int) -> None:
    """By bit planes or an automaton, with many sets allowed or few, before and after patterns change."""
    rng = Random(seed)
    matcher: Matcher[int] = Matcher()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_sets, "MAX_CONJUNCTIONS", conjunctions)
        patch.setattr(column_matcher, "SETS", sets)
        patch.setattr(shapes_module, "LARGE_SHAPE_PATTERNS", large)
        for _ in range(3):
            for _ in range(8):
                pattern = Pattern.of_binding_key(topologies.words(rng, topologies.PATTERN_WORDS))
                if rng.random() < 0.8:
                    matcher.bind(pattern, rng.randrange(5))
                else:
                    matcher.unbind(pattern, rng.randrange(5))
            keys = keys_for(rng, 40)
            keys += rng.choices(keys, k=rng.choice((0, 100)))
            found = matcher.match_many(keys)
            assert [set(values) for values in found] == [set(matcher.match(key)) for key in keys]
            assert [found[row] for row in range(len(found))] == list(found)
            assert len(found.answers) == len(set(found.index.tolist()))


def test_matches_have_each_answer_once() -> None:
    matcher: Matcher[str] = Matcher()
    matcher.bind(Pattern("order.*"), "a")
    matcher.bind(Pattern("order.eu"), "b")
    found = matcher.match_many(pa.array(["order.eu", "order.us", "order.eu", "x"]).dictionary_encode())
    assert [set(values) for values in found] == [{"a", "b"}, {"a"}, {"a", "b"}, set()]
    assert len(found.answers) == 3
    assert repr(found) == "<Matches of 4 keys: 3 answers>"
    assert len(matcher.match_many([])) == 0


def test_columns_are_matched_in_amqp_only() -> None:
    with pytest.raises(InputError, match="not by mqtt"):
        Matcher(Pattern("a", "mqtt").dialect).match_many(["a"])
    with pytest.raises(InputError, match="row 1 has no key"):
        Matcher().match_many(["a", None])


def test_a_hundred_thousand_dense_keys_have_the_sets_of_the_matcher() -> None:
    """Signatures are hashes where groups share planes: none may stand for two sets."""
    rng = Random(7)
    words = [f"w{number}" for number in range(12)]
    matcher: Matcher[int] = Matcher()
    for number in range(300):
        drawn = [rng.choice((*words, "*", "*", "#")) for _ in range(rng.randint(2, 5))]
        matcher.bind(Pattern.of_binding_key(".".join(drawn)), number)
    keys = list(dict.fromkeys(".".join(rng.choices(words, k=rng.randint(2, 5))) for _ in range(100_000)))
    found = matcher.match_many(keys)
    assert len(found.answers) > 1_000
    assert all(set(ours) == set(matcher.match(key)) for ours, key in zip(found, keys, strict=True))
