"""The search for a key, where no other word is left than a long one."""

from __future__ import annotations

from string import ascii_letters

import pytest

from bindings.analysis.crawl import Budget, OutOfBudget, find_fresh_word, find_shortest_key
from exchange import Pattern
from exchange.patterns.pattern import AMQP

LONG = "h" * 253


def test_where_a_word_of_one_byte_might_do_and_none_is_left_the_question_is_undecided() -> None:
    """A key has 255 bytes: behind these 253 and a dot there is room for one, and the empty word is excluded."""
    one, empty = Pattern(f"{LONG}.*"), Pattern(f"{LONG}.")
    assert find_shortest_key(AMQP, [one], [empty], Budget(10_000)) == f"{LONG}.x"
    assert find_shortest_key(AMQP, [one], [], Budget(10_000), taken=set(ascii_letters)) is not None
    with pytest.raises(OutOfBudget):
        find_shortest_key(AMQP, [one], [empty], Budget(10_000), taken=set(ascii_letters))


def test_a_fresh_word_is_in_no_pattern_even_with_a_dollar() -> None:
    assert find_fresh_word() == "x"
    assert find_fresh_word({"x"}, {"y"}) == "z"
    assert find_fresh_word({"$x"}) == "y"
    assert find_fresh_word(set(ascii_letters)) == "x1"
    assert find_fresh_word(set(ascii_letters), {"$x1"}) == "x2"
