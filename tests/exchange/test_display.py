"""What is printed for people: nothing from outside moves a cursor, forges a line or hides what it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import NotFound, TextError
from exchange.text.display import (
    clip_line,
    count_noun,
    dump_json,
    escape_line,
    escape_lines,
    list_some,
    write_milliseconds,
)

TEXTS = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x1b\n\r\x9b\u202e\u2066\ud800\ufffe\x7f"))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("orders", "orders"),
        ("日本 é", "日本 é"),
        ("a\x1b[2Kb", r"a\x1b[2Kb"),
        ("x\n::error::pwned", r"x\n::error::pwned"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("\x9b31m\x07\x7f", r"\x9b31m\x07\x7f"),
        ("\ud800\udcff", r"\ud800\udcff"),
        ("a\u2028b\x85c\u00a0", r"a\u2028b\x85c\xa0"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_characters_that_cannot_be_printed_are_escaped(name: str, line: str) -> None:
    assert escape_line(name) == line


@given(TEXTS)
def test_a_line_is_one_printable_line(text: str) -> None:
    assert escape_line(text).isprintable()
    assert all(line.isprintable() for line in escape_lines(text).split("\n"))
    assert len(clip_line(text, 10)) <= max(10, len(text) if text.isprintable() and len(text) <= 10 else 10)


@given(TEXTS)
def test_json_for_people_is_the_same_json_in_one_printable_line(text: str) -> None:
    line = dump_json({text: [text, 1.5, None]})
    assert line.isprintable()
    # A pair of escaped surrogates is one character to JSON, as it is to every reader.
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(line) == json.loads(json.dumps({joined: [joined, 1.5, None]}))


def test_errors_escape_what_they_quote() -> None:
    assert "\n" not in str(NotFound("no queue 'x\n::error::y'"))
    lines = str(TextError("no such word: a\nb", "x\ny", (0, 1))).split("\n")
    assert lines == [r"no such word: a\nb", r"    x\ny", "    ^"]


def test_count_noun_chooses_singular_or_plural() -> None:
    assert [count_noun(n, "queue") for n in (0, 1, 2000)] == ["0 queues", "1 queue", "2,000 queues"]
    assert count_noun(2, "copy", "copies") == "2 copies"


def test_list_some_names_some_texts_and_counts_the_others() -> None:
    assert list_some([], 2) == ""
    assert list_some(["a", "b"], 2) == "a, b"
    assert list_some(["a", "b", "c"], 2) == "a, b and 1 more"
    assert list_some(["a", "b", "c"], 3, "or") == "a, b or c"
    assert list_some(["a"], 3, "or") == "a"


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0 ms"), (1500, "1,500 ms"), (90_000, "90 s"), (7_200_000, "2 h")]
)
def test_durations_are_in_the_largest_whole_unit(milliseconds: int, text: str) -> None:
    assert write_milliseconds(milliseconds) == text
