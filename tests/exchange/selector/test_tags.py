"""Subscriptions by tags: what is in them, and what hashes that collide bring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.partition.hashing.java import string_hash
from exchange.selector import SelectorError, Tags, tag_code

BLANKS = "".join(map(chr, range(0x21)))


def java_tags(text: str) -> set[str] | None:
    """Split tags as ``FilterAPI.buildSubscriptionData`` does, step by step; None where it throws."""
    parts = text.split("||")
    while parts and not parts[-1]:  # String.split leaves empty texts at the end out
        parts.pop()
    return {trimmed for part in parts if (trimmed := part.strip(BLANKS))} if parts else None


@given(st.text(st.sampled_from("ab|*  \t\u00a0\u2003"), max_size=12))
def test_tags_are_those_that_java_splits(text: str) -> None:
    """Between two bars, trimmed as Java trims, empty ones left out; three bars are two and one of the tag."""
    wanted = java_tags(text)
    if text in ("", "*"):
        assert Tags.parse(text).everything
    elif wanted is None:
        with pytest.raises(SelectorError):
            Tags.parse(text, exact=True)
    else:
        tags = Tags.parse(text, exact=True)
        assert tags.tags == wanted
        assert not tags.everything


@pytest.mark.parametrize(
    ("text", "words", "caret"),
    [
        ("||", "no tag", "^^"),
        (" || ", "no tag", "^^^^"),
        ("a || *", "stands alone", "     ^"),
        (" *", "stands alone", " ^"),
    ],
)
def test_tags_that_no_message_can_match_are_an_error(text: str, words: str, caret: str) -> None:
    """The broker takes all but the first, and sends nothing or what is tagged with a star."""
    with pytest.raises(SelectorError, match=words) as caught:
        Tags.parse(text)
    assert str(caught.value).split("\n    ")[2] == caret


def test_only_a_star_alone_is_every_message() -> None:
    """Also messages without a tag."""
    assert Tags.parse("*")({})
    assert Tags.parse("")({"TAGS": "x"})
    star = Tags.parse("* || b", exact=True)
    assert star({"TAGS": "*"})
    assert not star({"TAGS": "a"})
    assert not star({})


def test_the_broker_sends_collisions_and_the_client_drops_them() -> None:
    """``Aa`` and ``BB`` have one hash."""
    tags = Tags.parse("Aa || paid")
    assert tags.codes == {2112, string_hash("paid")}
    assert tags.sends("BB")
    assert not tags.keeps("BB")
    assert not tags({"TAGS": "BB"})
    assert tags({"TAGS": "Aa"})
    assert tags.collisions(["Aa", "BB", "paid", "C#", "DD", None]) == ["BB", "C#"]


def test_a_tag_whose_hash_is_zero_brings_messages_without_one() -> None:
    """What has no tag has the code 0."""
    assert tag_code(None) == tag_code("") == 0
    zero = "f5a5a608"
    assert tag_code(zero) == 0
    tags = Tags.parse(zero)
    assert tags.sends(None)
    assert not tags.keeps(None)
    assert tags.collisions([None, zero]) == [None]


@given(st.sets(st.text(min_size=1, max_size=3), min_size=1), st.text(max_size=3))
def test_a_client_keeps_only_what_the_broker_sends(tags: set[str], tag: str) -> None:
    """The client only drops."""
    selector = Tags("", frozenset(tags))
    assert selector.sends(tag) or not selector.keeps(tag)
    assert selector.keeps(tag) == (tag in tags) == selector({"TAGS": tag})
