"""The nearest key is a key of the patterns, and no other one takes fewer changes."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from bindings.analysis.crawl import Budget
from bindings.serve.nearest import ADD, RECASE, REMOVE, REPLACE, find_nearest_key
from exchange import Pattern
from exchange.patterns.pattern import AMQP
from tests.support.patterns import all_keys, matched, patterns
from tests.support.tiers import examples

STEPS = 1_000_000


@cache
def distance(before: tuple[str, ...], after: tuple[str, ...]) -> int:
    """Return the smallest cost of changing the words of one key into those of another, by its definition."""
    if not before or not after:
        return REMOVE * len(before) + ADD * len(after)
    (word, *rest), (other, *others) = before, after
    replaced = 0 if word == other else RECASE if word.lower() == other.lower() else REPLACE
    return min(
        replaced + distance(tuple(rest), tuple(others)),
        REMOVE + distance(tuple(rest), after),
        ADD + distance(before, tuple(others)),
    )


@given(
    st.sampled_from([key for key in all_keys("amqp") if key.count(".") < 3]),
    st.lists(patterns("amqp"), max_size=2),
    st.lists(patterns("amqp"), max_size=2),
)
@examples(150)
def test_no_key_of_the_patterns_is_nearer(key: str, all_of: list[Pattern], none_of: list[Pattern]) -> None:
    found = find_nearest_key(key, all_of, none_of, Budget(STEPS))
    fitting = set(all_keys("amqp")).intersection(*map(matched, all_of)).difference(*map(matched, none_of))
    words = tuple(AMQP.split(key))
    least = min((distance(words, tuple(AMQP.split(other))) for other in fitting), default=None)
    if found is None:
        assert least is None
    else:
        assert all(pattern.matches(found.key) for pattern in all_of)
        assert not any(pattern.matches(found.key) for pattern in none_of)
        assert found.cost == distance(words, tuple(AMQP.split(found.key)))
        assert least is None or found.cost <= least  # a nearest key may have more words than those that were tried


def near(key: str, *wanted: str, but: str = "") -> str | None:
    """Return the nearest key of these patterns, and not of ``but``."""
    all_of = [Pattern.of_binding_key(text) for text in wanted]
    none_of = [Pattern.of_binding_key(but)] if but else []
    found = find_nearest_key(key, all_of, none_of, Budget(STEPS))
    return None if found is None else found.key


def test_what_a_publisher_most_likely_meant_is_nearest() -> None:
    assert near("order.eu.creatd", "order.*.created") == "order.eu.created"
    assert near("order.eu", "order.*.created") == "order.eu.created"
    assert near("order.eu.de.created", "order.*.created") == "order.eu.created"
    assert near("Order.eu.created", "order.#", "#.created") == "order.eu.created"
    assert near("", "order.*.created") == "order.x.created"
    assert near("a.b", "#", but="#.b") == "a.x"
    assert near("a", "a", but="#") is None
    assert near("x.b", "*.c", but="x.*") == "y.c"


def test_a_key_that_would_be_too_long_is_none() -> None:
    word = "a" * 120
    assert near("k", f"{word}.{word}") == f"{word}.{word}"
    assert near("k", f"{word}.{word}.#", f"#.{'b' * 120}") is None
