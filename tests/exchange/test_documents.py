"""Values as JSON documents: what is written is what the schema of their class has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.values.documents import As, document, encode_as, list_fields, write_as
from exchange.values.json_schema import build_schema
from tests.support.schemas import validator_class
from tests.support.tiers import examples


class Colour(Enum):
    """An Enum."""

    RED = "red"
    BLUE = "blue"


@document("InnerJson")
class Inner(NamedTuple):
    """An inner value."""

    name: str
    """Its name."""
    amount: int | None
    """None if nobody counts."""


class Odd:
    """A value that is written by a function."""

    number: int

    def __init__(self, number: int) -> None:
        self.number = number


write_as(Odd, lambda odd: f"odd {odd.number}", str)


def _twice(outer: Outer) -> int:
    """Return twice the number."""
    return 2 * outer.number


@document(
    "OuterJson",
    "number, title = inner.name, *inner, reason if any, blank or null, colour, days, tags, pairs, inners, odd, share, "
    "half, twice, state, version = 1, format = 'outer', how_many = #days, number_of_odd = odd?.number, "
    "parts = PartsJson(half, twice, name = inner.name)",
    twice=_twice,
)
@dataclass(frozen=True, slots=True)
class Outer:
    """An outer value."""

    number: int
    inner: Inner
    reason: str | None
    """Why; None if there is no reason."""
    blank: str
    """A text; "" for nothing."""
    colour: Colour
    days: tuple[date, ...]
    tags: frozenset[str]
    pairs: dict[Colour, tuple[int, Inner]]
    inners: list[Inner | None]
    odd: Odd | None
    share: Annotated[float, As(lambda share: round(share, 2), float)]
    hidden: object = None

    @property
    def half(self) -> float:
        """Half of the number."""
        return self.number / 2

    @property
    def state(self) -> Literal["even", "odd"]:
        """Whether it is even."""
        return "odd" if self.number % 2 else "even"


class Wrapped(TypedDict):
    """A TypedDict that holds values."""

    outers: list[Outer]
    inner: NotRequired[Inner]
    time: datetime


INNERS = st.builds(Inner, st.text(max_size=3), st.none() | st.integers())
OUTERS = st.builds(
    Outer,
    st.integers(-9, 9),
    INNERS,
    st.none() | st.text(max_size=2),
    st.text(max_size=1),
    st.sampled_from(Colour),
    st.lists(st.dates(), max_size=2).map(tuple),
    st.frozensets(st.text(max_size=2), max_size=3),
    st.dictionaries(st.sampled_from(Colour), st.tuples(st.integers(), INNERS)),
    st.lists(st.none() | INNERS, max_size=2),
    st.none() | st.builds(Odd, st.integers()),
    st.floats(0, 1),
)


def write_inner(inner: Inner | None) -> Any:
    return None if inner is None else {"name": inner.name, "amount": inner.amount}


def write_outer(outer: Outer) -> dict[str, Any]:
    """Return the document of an outer value, field by field."""
    reason = {} if outer.reason is None else {"reason": outer.reason}
    return {
        "number": outer.number,
        "title": outer.inner.name,
        "name": outer.inner.name,
        "amount": outer.inner.amount,
        **reason,
        "blank": outer.blank or None,
        "colour": outer.colour.value,
        "days": [day.isoformat() for day in outer.days],
        "tags": sorted(outer.tags),
        "pairs": {colour.value: [number, write_inner(inner)] for colour, (number, inner) in outer.pairs.items()},
        "inners": [write_inner(inner) for inner in outer.inners],
        "odd": None if outer.odd is None else f"odd {outer.odd.number}",
        "share": round(outer.share, 2),
        "half": outer.number / 2,
        "twice": 2 * outer.number,
        "state": "odd" if outer.number % 2 else "even",
        "version": 1,
        "format": "outer",
        "how_many": len(outer.days),
        "number_of_odd": None if outer.odd is None else outer.odd.number,
        "parts": {"half": outer.number / 2, "twice": 2 * outer.number, "name": outer.inner.name},
    }


SCHEMA = build_schema([Outer], "outer", "An outer value")


@examples(200)
@given(OUTERS)
def test_a_value_is_written_field_by_field_as_its_schema_has_it(outer: Outer) -> None:
    written = encode_as(Outer, outer)
    assert list(written.items()) == list(write_outer(outer).items())
    assert [each.message for each in validator_class()(SCHEMA).iter_errors(written)] == []


@given(st.lists(OUTERS, max_size=2), INNERS)
def test_values_in_a_typeddict_are_written_and_the_rest_stays(outers: list[Outer], inner: Inner) -> None:
    time = datetime(2026, 1, 31, tzinfo=UTC)
    value: Wrapped = {"outers": outers, "time": time}
    written = {"outers": [write_outer(outer) for outer in outers], "time": "2026-01-31T00:00:00+00:00"}
    assert encode_as(Wrapped, value) == written
    assert encode_as(Wrapped, {**value, "inner": inner}) == {**written, "inner": write_inner(inner)}
    assert value == {"outers": outers, "time": time}


def test_descriptions_are_docstrings_with_null_and_absent_for_none() -> None:
    properties = SCHEMA["properties"]
    assert properties["amount"]["description"] == "Null if nobody counts."
    assert properties["reason"] == {"description": "Why; absent if there is no reason.", "type": "string"}
    assert properties["blank"] == {"description": "A text; null for nothing.", "type": ["string", "null"]}
    assert properties["half"]["description"] == "Half of the number."
    assert "hidden" not in properties
    assert "reason" not in SCHEMA["required"]
    assert {field.name for field in list_fields(Outer)} - {"inner"} | {"name", "amount"} == {*properties}


class Plain(NamedTuple):
    """No document."""

    number: int


@document("WrongJson", "number, nothing")
class Wrong(NamedTuple):
    """A document of a field that it lacks."""

    number: int


@document("OpenJson")
class Open(NamedTuple):
    """A document of a value without a type."""

    value: object


@pytest.mark.parametrize("kind", [Plain, Wrong, Open, bytes, list[Plain], dict[str, bytes], complex | None])
def test_what_is_not_known_raises_a_type_error(kind: Any) -> None:
    value = kind(1) if kind in (Plain, Wrong, Open) else None
    with pytest.raises(TypeError):
        encode_as(kind, value)
    with pytest.raises(TypeError):
        build_schema([kind], "x", "x")
