"""Names in patterns: they change nothing about what matches, and capture the words that their wildcards stand for."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange import Pattern, PatternError
from exchange.dispatch.captures import parse_named
from exchange.patterns.pattern import AMQP, MQTT, NATS

WORDS = st.sampled_from(["a", "b", ""])
KEYS = st.lists(WORDS, max_size=6).map(".".join)
PARTS = st.lists(st.sampled_from(["a", "b", "*", "#", "{one}", "{two}", "{all:#}", "{more:#}"]), min_size=1, max_size=6)


@given(PARTS, KEYS)
@example(["{all:#}", "a", "{more:#}"], "a.a.a")
@example(["#", "{one}", "#"], "a.b")
def test_named_words_put_back_into_the_pattern_give_a_pattern_that_matches(parts: list[str], key: str) -> None:
    """The oracle: each name replaced by what it captured, the rest must still match, by the definition."""
    named = [part for part in parts if part.startswith("{")]
    if len({part.strip("{}").partition(":")[0] for part in named}) < len(named):
        with pytest.raises(PatternError, match="two words are named"):
            parse_named(".".join(parts))
        return
    pattern = parse_named(".".join(parts))
    bare = ".".join("#" if part.endswith(":#}") else "*" if part.startswith("{") else part for part in parts)
    assert pattern.pattern == Pattern(bare)
    if not pattern.pattern.matches(key):
        return
    words = pattern.capture(key)
    assert list(words) == [part.strip("{}").partition(":")[0] for part in named]
    literal: list[str] = []
    for part in parts:
        if not part.startswith("{"):
            literal.append(part)
            continue
        name, _, wildcard = part.strip("{}").partition(":")
        if wildcard and not words[name]:  # no word, or one empty word: both are ""
            literal.append("#")
        else:
            literal.extend(words[name].split(".") if wildcard else [words[name]])
    assert Pattern(".".join(literal)).matches(key)


@pytest.mark.parametrize(
    ("text", "dialect", "key", "words"),
    [
        ("order.{region}.created", AMQP, "order.eu.created", {"region": "eu"}),
        ("{rest:#}", AMQP, "", {"rest": ""}),
        ("order.{rest:#}.created", AMQP, "order.created", {"rest": ""}),
        ("{first:#}.x.{second:#}.y", AMQP, "1.x.2.x.y", {"first": "1", "second": "2.x"}),
        ("{a:*}.{b}", AMQP, "1.2", {"a": "1", "b": "2"}),
        ("order/{region}/{rest:#}", MQTT, "order/eu/a/b", {"region": "eu", "rest": "a/b"}),
        ("order.{region}.{rest:>}", NATS, "order.eu.a.b", {"region": "eu", "rest": "a.b"}),
        ("größe.{zahl}", AMQP, "größe.7", {"zahl": "7"}),
    ],
)
def test_names_capture_in_every_dialect(text: str, dialect: object, key: str, words: dict[str, str]) -> None:
    assert parse_named(text, dialect).capture(key) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("order.{region", "a name is a whole word", "          ^^^^^^^"),
        ("order.x{region}.y", "a name is a whole word", "          ^^^^^^^^^"),
        ("{7}", "a name is a whole word", "    ^^^"),
        ("{}", "a name is a whole word", "    ^^"),
        ("{a}.{b:>}", "expected a wildcard after the colon: \\* or #", "        ^^^^^"),
        ("{a}.{a}", "two words are named 'a'", "        ^^^"),
    ],
)
def test_a_misspelt_name_is_refused_with_its_caret(text: str, message: str, caret: str) -> None:
    with pytest.raises(PatternError, match=message) as raised:
        parse_named(text)
    assert str(raised.value).splitlines()[-1] == caret


def test_a_key_of_255_bytes_is_captured_in_no_time() -> None:
    """Several `#` need no backtracking beyond the last one."""
    named = parse_named(".".join(["#.a"] * 40 + ["{last}"]))
    assert named.capture(".".join(["a"] * 128)) == {"last": "a"}
