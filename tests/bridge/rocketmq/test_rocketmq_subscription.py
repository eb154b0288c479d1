"""What a consumer subscribes to is read by the parsers of `exchange.selector`, and refused before anything is sent."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.subscription import Subscription
from exchange.errors import InputError
from exchange.selector import RELEASES, Selector, SelectorError, Tags
from tests.recorders.rocketmq_filter import EXPRESSIONS

texts = st.text(st.sampled_from("|* aAB\t\u00a0"), max_size=9)


def takes(condition: str, release: str) -> bool:
    try:
        Selector.parse(condition, release, exact=True)
    except SelectorError:
        return False
    return True


@given(texts, texts | st.none())
def test_the_client_keeps_what_the_selector_of_tags_keeps(expression: str, tag: str | None) -> None:
    try:
        tags = Tags.parse(expression, exact=True)
    except SelectorError:
        with pytest.raises(InputError, match="there is no tag in it"):
            Subscription.to_tags("orders", expression)
        return
    wanted = Subscription.to_tags("orders", expression)
    assert (wanted.tags, wanted.codes) == (tags.tags, tags.codes)
    for each in {tag, None, "aA", *tags.tags}:
        assert wanted.accepts(each) == tags.keeps(each)


def test_the_error_for_bars_without_tags_shows_them() -> None:
    with pytest.raises(InputError, match=re.escape("there is no tag in it; * is every message\n    ||\n    ^^")):
        Subscription.to_tags("orders", "||")


def test_a_blank_expression_selects_neither_a_tag_nor_all_messages() -> None:
    wanted = Subscription.to_tags("orders", " || ")
    assert wanted.names_tags
    assert not wanted.accepts(None)
    assert not wanted.accepts("a")


def test_a_condition_that_all_releases_refuse_is_refused() -> None:
    refused = 0
    for text in EXPRESSIONS[:60]:
        if any(takes(text, release) for release in RELEASES):
            assert Subscription.to_sql("orders", text).expression == text
        else:
            refused += 1
            with pytest.raises(InputError):
                Subscription.to_sql("orders", text)
    assert refused > 3


@pytest.mark.parametrize("text", ["contains = 1", "a CONTAINS 'x'"])
def test_a_condition_that_some_release_takes_is_accepted(text: str) -> None:
    assert [takes(text, release) for release in RELEASES].count(True) >= 1
    assert Subscription.to_sql("orders", text).expression == text


def test_the_part_of_a_condition_that_brokers_ignore_is_not_checked() -> None:
    assert Subscription.to_sql("orders", "a LIKE 'x%'").expression == "a LIKE 'x%'"


def test_the_error_for_a_condition_shows_the_position() -> None:
    with pytest.raises(InputError, match=re.escape("more is expected here\n    n >\n       ^")):
        Subscription.to_sql("orders", "n >")
    with pytest.raises(InputError, match="a condition in SQL92 cannot be empty; write TRUE for all messages"):
        Subscription.to_sql("orders", "")
