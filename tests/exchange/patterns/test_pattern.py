"""Patterns: what each dialect means, what it refuses, and that the short way to load AMQP's equals the grammar."""

from __future__ import annotations

import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Pattern, PatternError
from exchange.patterns.pattern import AMQP, MANY, MQTT, NATS, ONE, ONE_PLAIN, Word, _matches, normalise_wildcards
from tests.support.cases import with_each

ANY_TEXT = st.text(st.one_of(st.sampled_from(".*#ab\n\0"), st.characters()), max_size=60)

# (pattern, keys it matches, keys it does not); test_live_differential.py puts such patterns and keys to live brokers.
AMQP_TRUTHS = [
    ("", [""], [".", "a"]),
    ("#", ["", "a", "a.b", ".", "#"], []),
    ("*", ["a", "*", "#"], ["", "a.b", "."]),
    ("*.*", [".", "a.", ".a", "a.b"], ["", "a", ".."]),
    ("a.#", ["a", "a.", "a.b.c"], ["", "b.a", "ab"]),
    ("a.#.b", ["a.b", "a..b", "a.x.y.b"], ["ab", "a", "b", "a.b.c"]),
    ("#.a", ["a", "a.b.a", ".a"], ["a.b", "", "a."]),
    ("a.*", ["a.", "a.b"], ["a", "a.b.c"]),
    ("a..b", ["a..b"], ["a.b", "a.x.b"]),
    (".", ["."], ["", "a", ".."]),
    ("a#b", ["a#b"], ["ab", "axb", "a.b"]),
    ("##", ["##"], ["", "a", "#"]),
    ("*.b", [".b", "a.b", "*.b"], ["b", "B.B"]),
    ("é.日本", ["é.日本"], ["e\u0301.日本", "e.日本"]),
    ("#.*", ["a", "a.b", "."], [""]),
    ("#.*.#.*.#", ["a.b", ".", "a.b.c"], ["", "a"]),
]


@with_each(("pattern", "matched", "others"), AMQP_TRUTHS)
def test_amqp_patterns_mean_what_rabbitmq_means(pattern: str, matched: list[str], others: list[str]) -> None:
    """Words split at dots, empty ones count, "" has none, and a wildcard is a whole word."""
    for key in matched:
        assert Pattern(pattern).matches(key), key
    for key in others:
        assert not Pattern(pattern).matches(key), key


@given(ANY_TEXT)
def test_every_string_is_an_amqp_pattern_and_the_split_equals_the_grammar(text: str) -> None:
    """For any string, Pattern.of_binding_key has the words that the Lark grammar reads."""
    parsed, short = Pattern(text), Pattern.of_binding_key(text)
    assert parsed == short
    assert parsed.words == short.words


@with_each("words", list(product(["a", "", "*", "#", "a*"], repeat=3)))
def test_the_grammar_reads_every_arrangement_of_words(words: tuple[str, ...]) -> None:
    """The words of the grammar are those of a split at dots, wildcards only where they stand alone."""
    wild = {"*": ONE, "#": MANY}
    assert Pattern(".".join(words)).words == tuple(wild.get(word, word) for word in words)


@pytest.mark.parametrize("text", ["a" * 256, "é" * 128, ".".join("#" * 129)])
def test_an_amqp_pattern_has_at_most_255_bytes(text: str) -> None:
    """Bytes are counted, not characters."""
    for make in (Pattern, Pattern.of_binding_key):
        with pytest.raises(PatternError, match="amqp allows 255"):
            make(text)
    assert Pattern(".".join("#" * 128)).matches("")
    assert Pattern("é" * 127).matches("é" * 127)


MQTT_TRUTHS = [
    ("sport/tennis/+", ["sport/tennis/player1", "sport/tennis/"], ["sport/tennis", "sport/tennis/a/b"]),
    ("sport/#", ["sport", "sport/a/b", "sport/"], ["sports"]),
    ("#", ["a", "/a", "/"], ["$SYS/x", "$SYS", ""]),
    ("+", ["a"], ["", "/", "a/"]),
    ("+/monitor", ["a/monitor", "/monitor"], ["$SYS/monitor"]),
    ("$SYS/#", ["$SYS", "$SYS/a"], ["a"]),
    ("a/+/$x", ["a/$b/$x"], []),
    ("/+", ["/finance", "/$finance"], ["finance"]),
    ("+/+", ["/finance"], ["finance"]),
]


@pytest.mark.parametrize(("pattern", "matched", "others"), MQTT_TRUTHS)
def test_mqtt_filters_mean_what_the_standard_says(pattern: str, matched: list[str], others: list[str]) -> None:
    """MQTT 5.0, section 4.7: "#" also matches the parent, wildcards do not see first levels that start with "$".

    A topic has at least one character: nothing matches the empty one.
    """
    for key in matched:
        assert Pattern(pattern, "mqtt").matches(key), key
    for key in others:
        assert not Pattern(pattern, "mqtt").matches(key), key


NATS_TRUTHS = [
    ("time.*.east", ["time.us.east"], ["time.us.east.x", "time.east"]),
    ("time.us.>", ["time.us.a", "time.us.a.b"], ["time.us"]),
    (">", ["a", "a.b"], ["", ".foo", "foo.", "a..b", "."]),
    ("*", ["a"], ["", "."]),
    ("*.*", ["a.b"], ["foo.", ".foo", "."]),
    ("foo.>", ["foo.a"], ["foo..", "foo."]),
    ("a.foo*", ["a.foo*"], ["a.food"]),
    ("a.#", ["a.#"], ["a", "a.b"]),
]


@pytest.mark.parametrize(("pattern", "matched", "others"), NATS_TRUTHS)
def test_nats_subjects_mean_what_its_documentation_says(pattern: str, matched: list[str], others: list[str]) -> None:
    """A final ">" is one token or more, "*" is one; both only as whole tokens. No subject has an empty token."""
    for key in matched:
        assert Pattern(pattern, "nats").matches(key), key
    for key in others:
        assert not Pattern(pattern, "nats").matches(key), key


@pytest.mark.parametrize(
    ("dialect", "text", "column", "message"),
    [
        ("mqtt", "a/#/b", 2, "'#' is a whole level and the last one"),
        ("mqtt", "a#", 1, "'#' is a whole level and the last one"),
        ("mqtt", "a+/b", 1, "'+' is a whole level"),
        ("mqtt", "+a", 0, "'+' is a whole level"),
        ("mqtt", "", 0, "at least one character"),
        ("mqtt", "a\0b", 1, "no U+0000"),
        ("nats", "a..b", 2, "no empty token"),
        ("nats", "a.", 2, "no empty token"),
        ("nats", ".a", 0, "no empty token"),
        ("nats", "", 0, "at least one token"),
        ("nats", "a.>.b", 2, "'>' is the last token"),
        ("nats", "a b", 1, "no white space"),
    ],
)
def test_a_wrong_pattern_has_a_caret_under_the_mistake(dialect: str, text: str, column: int, message: str) -> None:
    """The error has the rule of the dialect, and its caret is under the wrong character."""
    with pytest.raises(PatternError) as caught:
        Pattern(text, dialect)
    assert message in str(caught.value)
    assert caught.value.span[0] == column
    assert caught.value.source == text
    source, caret = str(caught.value).splitlines()[1:]
    assert caret.index("^") == 4 + column
    assert source.strip() or not text


def test_a_pattern_can_be_written_in_another_dialect() -> None:
    """As RabbitMQ's MQTT plugin does; what would mean something else there is refused, not changed."""
    assert Pattern("a/+/#", "mqtt").to("amqp") == Pattern("a.*.#")
    assert Pattern("a.*.#").to("mqtt") == Pattern("a/+/#", "mqtt")
    assert Pattern("a.>", "nats").to("amqp") == Pattern("a.*.#")
    assert Pattern("a.*.#").to("nats") == Pattern("a.>", "nats")
    with pytest.raises(PatternError, match="zero or more"):
        Pattern("a.#").to("nats")
    with pytest.raises(PatternError, match="would read otherwise"):
        Pattern("a.b/+", "mqtt").to("amqp")
    with pytest.raises(PatternError, match="no empty token"):
        Pattern("a..b").to("nats")
    with pytest.raises(ValueError, match="no dialect 'stomp'"):
        Pattern("a").to("stomp")


SOME_WORDS: list[Word] = ["a", "b", ONE, MANY]
FIRST: list[list[Word]] = [[], [ONE_PLAIN]]  # which stands nowhere else
WORDS: st.SearchStrategy[list[Word]] = st.builds(
    list.__add__, st.sampled_from(FIRST), st.lists(st.sampled_from(SOME_WORDS), max_size=7)
)
KEYS = st.lists(st.sampled_from(["a", "b", "c", "$"]), max_size=7)


@given(WORDS, KEYS)
def test_ordering_wildcards_changes_no_match(words: list[Word], key: list[str]) -> None:
    """A pattern and its ordered form match the same keys, and the form has a literal between any two MANY."""
    form = normalise_wildcards(words)
    assert _matches(form, key) == _matches(words, key)
    parts = "".join("#" if word is MANY else "*" if not isinstance(word, str) else "a" for word in form)
    assert "##" not in parts
    assert "#*" not in parts


def test_patterns_are_values() -> None:
    """Equal when written alike in the same dialect; hashable; pickled wildcards are the same objects again."""
    assert Pattern("a.*") == Pattern("a.*") != Pattern("a.*", "nats")
    assert len({Pattern("a"), Pattern("a"), Pattern("b")}) == 2
    copy = pickle.loads(pickle.dumps(Pattern("+/#", MQTT)))  # noqa: S301
    assert copy.words == (ONE_PLAIN, MANY)
    assert copy.dialect is MQTT
    assert str(Pattern("a.>", NATS)) == "a.>"
    assert Pattern("a").dialect is AMQP
