"""JSON values on their way through Go, where the operator and the Terraform provider parse and write them anew.

All numbers are ``float64`` there: an integer beyond 2**53 arrives rounded, and ``2.0`` arrives as the integer ``2``.
The names of an object arrive sorted, and RabbitMQ distinguishes tables in arguments by the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

EXPONENT_FROM: Final = 1e21
"""The least number that Go writes with an exponent, so that RabbitMQ reads a float."""


def encode_as_go(value: Any) -> Any:
    """Return a JSON value as RabbitMQ gets it from a program in Go that has parsed and written it."""
    if isinstance(value, dict):
        return {key: encode_as_go(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [encode_as_go(item) for item in value]
    return _number(value) if type(value) in (int, float) else value


def find_alterations(value: Any, place: str, *, is_table: bool = True) -> Iterator[str]:
    """Yield a sentence for each change on the way: ``arguments.x is 2.0 and arrives as 2``.

    The order of the names in the outermost object has no meaning.
    """
    if isinstance(value, dict):
        if not is_table and list(value) != sorted(value):
            yield f"the names in {place} arrive sorted"
        for key, item in value.items():
            yield from find_alterations(item, f"{place}.{key}", is_table=False)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_alterations(item, f"{place}[{index}]", is_table=False)
    elif type(value) in (int, float):
        sent = _number(value)
        if (type(sent), sent) != (type(value), value):
            yield f"{place} is {value!r} and arrives as {sent!r}"


def has_overflow(value: Any) -> bool:
    """Return whether an integer of a JSON value is rounded to one that does not fit in AMQP's 64 bits."""
    if isinstance(value, dict):
        return any(map(has_overflow, value.values()))
    if isinstance(value, list):
        return any(map(has_overflow, value))
    if type(value) not in (int, float):
        return False
    sent = _number(value)
    return type(sent) is int and not -(2**63) <= sent < 2**63


def _number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        return value  # beyond any float: Go refuses the document
    return int(number) if number.is_integer() and abs(number) < EXPONENT_FROM else number
