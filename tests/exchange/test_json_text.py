"""JSON that parsers read differently is refused with its place; all other JSON is read as `json` reads it."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.values.json_text import (
    JsonFault,
    find_fault,
    find_scalar,
    is_deep,
    parse,
    parse_leniently,
    parse_line,
    scan_value,
)
from tests.support.waiting import stretch

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from([
    "a:b", '":', '\\":', "\\", '{"a": 1}', "\U0001f600", "\\ud800", "NaN", "é",
])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(
    VALUES, st.booleans(), st.sampled_from([None, (",", ":"), (" , ", " : ")]), st.sampled_from(["", " ", "\n", "\r\n"])
)
def test_a_text_without_a_fault_is_parsed_as_json_parses_it(
    value: Any, ascii_only: bool, separators: Any, blank: str
) -> None:
    """Whatever stands in its texts, which may look like names, brackets and numbers."""
    text = blank + json.dumps(value, ensure_ascii=ascii_only, separators=separators) + blank
    assert parse(text) == value == parse_line(text.encode())
    assert find_fault(text) is None


@given(VALUES, VALUES, st.dictionaries(TEXTS, VALUES, max_size=3), TEXTS, st.booleans())
def test_a_repeated_name_is_found_at_its_second_position(
    before: Any, value: Any, others: dict[str, Any], name: str, ascii_only: bool
) -> None:
    """At any depth, and whether or not it is escaped in the same way."""
    fields = {**others, name: value}
    inside = json.dumps(fields, ensure_ascii=ascii_only)
    start = f'{{"before": [{json.dumps(before)}], "x": [{inside[:-1]}, '
    text = f"{start}{json.dumps(name, ensure_ascii=not ascii_only)}: 1}}]}}"
    with pytest.raises(JsonFault) as caught:
        parse(text)
    assert caught.value.fault.place == len(start)
    assert caught.value.fault.reason == "a name that is twice in one object"


def measure_depth(value: Any) -> int:
    """Return how deeply arrays and objects nest in a value."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(measure_depth, items), default=0)


MEMBERS = st.lists(st.tuples(
    st.just("id") | TEXTS,
    (VALUES | st.just({"id": 1})).map(json.dumps) | st.sampled_from(["[" * 200 + "]" * 200, r'"\ud800"', r'{"\udfff": 1}']),
))  # fmt: skip


@given(MEMBERS, st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_a_scalar_is_found_as_a_parser_without_limits_finds_it(
    members: list[tuple[str, str]], escaped: bool, blank: str
) -> None:
    names = [r'"\u0069d"' if escaped and name == "id" else json.dumps(name) for name, _ in members]
    written = (f"{name}{blank}:{blank}{value}" for name, (_, value) in zip(names, members, strict=True))
    text = blank + "{" + ",".join(written) + "}"
    value = json.loads(text).get("id")
    assert find_scalar(text, "id") == (None if isinstance(value, list | dict) else value)
    assert find_scalar(f"[{text}]", "id") is None


LENIENT = MEMBERS.map(lambda members: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members) + "}")
NO_NUMBERS = ["NaN", "[1e999]", "-Infinity"]


@given(LENIENT | st.sampled_from([*NO_NUMBERS, "[1", "", "9" * 5000]), st.integers(0, 3))
def test_the_lenient_reader_is_that_of_python_within_bounds(text: str, outside: int) -> None:
    levels = 100 + outside
    text = "[" * (levels - 2) + text + "]" * (levels - 2)
    try:
        value = json.loads(text)
        parts = json.loads(
            text, object_pairs_hook=lambda pairs: [value for _, value in pairs]
        )  # also the repeated ones
    except ValueError:
        value = parts = None
    for finite in (False, True):
        is_read = value is not None and measure_depth(parts) <= levels and not (finite and find_number(parts))
        if not is_read:
            with pytest.raises(ValueError):  # noqa: PT011  any of them
                parse_leniently(text, levels, finite=finite)
            continue
        for written in (text, text.encode("utf-8", "surrogatepass"), text.encode("utf-16", "surrogatepass")):
            assert repr(parse_leniently(written, levels, finite=finite)) == repr(value)
        if levels == 100 and finite:
            assert scan_value(f"x{text}x", 1) == (value, len(text) + 1)


def find_number(value: Any) -> bool:
    """Return whether there is a number in a value that JSON does not have."""
    if isinstance(value, float):
        return not math.isfinite(value)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(find_number, inside))


BRACKETED = st.text('[]{}"\\n', max_size=8)
NESTED = st.recursive(
    BRACKETED, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(BRACKETED, inner, max_size=3)
)


@given(NESTED, st.integers(94, 100), st.booleans(), st.data())
def test_a_text_is_deep_if_its_value_is(value: Any, levels: int, in_objects: bool, data: st.DataObject) -> None:
    """Brackets in strings do not count. The beginning of a text is deep if it opens more than it closes."""
    for _ in range(levels):
        value = {"[": value, "]": [value][:0]} if in_objects else [[], value, "]"]
    text = json.dumps(value)
    assert is_deep(text) == (measure_depth(value) > 100)
    beginning = text[: data.draw(st.integers(0, len(text)))]
    assert not is_deep(beginning) or is_deep(text)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"a": NaN}', 6, "not JSON: a number that it does not have: NaN"),
        ('["NaN", -Infinity]', 8, "not JSON: a number that it does not have: -Infinity"),
        ("[1, " + "7" * 4_301 + "]", 4, "a number of more than 4300 digits; put it in quotes, or shorten it: 777"),
        ("[1, -" + "7" * 4_301 + "]", 4, "a number of more than 4300 digits"),
        ('{"a": ' + "[" * 100_000, 105, "nested too deeply, beyond 100 arrays and objects"),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", 105, "nested too deeply, beyond 100 arrays and objects"),
        ("[" * 200, 100, "nested too deeply, beyond 100 arrays and objects"),
        (
            r'["\\ud800", "\ud83d\ude00", "x\ud83dy"]',
            30,
            r"half of a surrogate pair, which no text in UTF-8 has: \ud83d",
        ),
        (r'["\udcff", "\uDE00"]', 12, r"half of a surrogate pair, which no text in UTF-8 has: \uDE00"),
    ],
)
def test_a_fault_has_its_place_and_what_is_at_fault(text: str, place: int, words: str) -> None:
    """The number or escape is shown in short."""
    with pytest.raises(InputError) as caught:
        parse(text)
    assert isinstance(caught.value, JsonFault)
    assert caught.value.fault.place == place
    assert str(caught.value).startswith(words)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    "text", ['"' * 999_999, "\\" * 10**6, '"\\' * 500_000, "[{" * 50 + '"a":' * 250_000, "-" * 10**6]
)
def test_the_search_for_a_fault_is_linear(text: str) -> None:
    """A million characters take seconds at most, where a quadratic search would take hours."""
    began = time.monotonic()
    find_fault(text)
    assert time.monotonic() - began < stretch(30)
