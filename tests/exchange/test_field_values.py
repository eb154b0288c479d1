"""Field values: their types, what fits them, and when two tables are the same one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from exchange import FieldTable, Typed
from exchange.values.field_values import resolve_type
from tests.support.cases import with_each


@with_each(
    ("value", "expected"),
    [
        (None, ("void", None)),
        (True, ("bool", True)),
        (1, ("long", 1)),
        (1.5, ("double", 1.5)),
        ("é", ("longstr", "é".encode())),
        (b"\xff", ("binary", b"\xff")),
        (Decimal("1.50"), ("decimal", (2, 150))),
        (Decimal("2e3"), ("decimal", (0, 2000))),
        (Decimal("-0.1"), ("decimal", (1, 2**32 - 1))),
        (datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), ("timestamp", 5)),
        (datetime(1970, 1, 1, 1, 0, 5, tzinfo=timezone(timedelta(hours=1))), ("timestamp", 5)),
        ([1, "a"], ("array", (("long", 1), ("longstr", b"a")))),
        ({"a": {"b": None}}, ("table", (("a", "table", (("b", "void", None),)),))),
        (Typed("short", 1), ("short", 1)),
        (Typed("float", 0.1), ("float", 0.10000000149011612)),
        (Typed("double", 1), ("double", 1.0)),
        (Typed("longstr", b"\xff"), ("longstr", b"\xff")),
        (Typed("void", None), ("void", None)),
    ],
)
def test_python_values_have_the_amqp_type_the_table_says(value: Any, expected: tuple[str, Any]) -> None:
    """Each plain Python type means one AMQP type; Typed has all others."""
    assert resolve_type(value) == expected
    assert type(resolve_type(value)[1]) is type(expected[1])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", 1), ("byte", 128), ("unsignedbyte", -1), ("short", 1.0), ("long", 2**63), ("timestamp", True),
        ("bool", "x"), ("table", 5), ("double", "x"), ("void", 1), ("float", 1e300), ("array", "abc"),
        ("decimal", 1.5), ("longstr", 1),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_type_is_refused(kind: str, value: Any) -> None:
    """Typed raises at once, and not when the value is first compared or sent."""
    with pytest.raises(ValueError, match=kind):
        Typed(kind, value)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("1e20"), Decimal("1e-300")])
def test_a_decimal_that_amqp_cannot_hold_is_refused(value: Decimal) -> None:
    """32 bits and a scale of at most 255."""
    with pytest.raises(ValueError, match="decimal"):
        resolve_type(value)


def test_type_and_value_refuses_what_is_no_field_value() -> None:
    """There is no AMQP type for any object."""
    with pytest.raises(TypeError, match="no AMQP field type"):
        resolve_type(object())


def test_tables_are_equal_when_names_types_and_values_are() -> None:
    """Order does not count, types do: True, 1 and 1.0 are equal to Python and not to RabbitMQ."""
    assert FieldTable({"a": 1, "b": 2}) == FieldTable({"b": 2, "a": 1}) == {"a": 1, "b": 2}
    assert hash(FieldTable({"a": 1, "b": 2})) == hash(FieldTable({"b": 2, "a": 1}))
    different = [1, 1.0, True, "1", b"1", Typed("short", 1), [1], [1.0], [True], {"a": 1}, None, 0.0, -0.0]
    assert len({FieldTable({"a": value}) for value in different}) == len(different)
    assert FieldTable({"a": 1}) == FieldTable({"a": Typed("long", 1)})
    assert FieldTable({"a": b"x"}) != FieldTable({"a": "x"})
