"""JSON numbers on their way through Go, where the operator and the Terraform provider hold all of them as ``float64``.

So an integer beyond 2**53 arrives rounded, and ``2.0`` arrives as the integer ``2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["altered_numbers", "as_go_sends"]

EXPONENT_FROM: Final = 1e21
"""The least number that Go writes with an exponent, so that RabbitMQ reads a float."""


def as_go_sends(value: Any) -> Any:
    """Return a JSON value as RabbitMQ gets it from a program in Go that has parsed and written it."""
    if isinstance(value, dict):
        return {key: as_go_sends(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_go_sends(item) for item in value]
    return _number(value) if type(value) in (int, float) else value


def altered_numbers(value: Any, place: str) -> Iterator[str]:
    """Yield a sentence for each number of a JSON value that arrives as another one: ``x.y is 2.0 and arrives as 2``."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from altered_numbers(item, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from altered_numbers(item, f"{place}[{index}]")
    elif type(value) in (int, float):
        sent = _number(value)
        if (type(sent), sent) != (type(value), value):
            yield f"{place} is {value!r} and arrives as {sent!r}"


def _number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        return value  # beyond any float: Go refuses the document
    return int(number) if number.is_integer() and abs(number) < EXPONENT_FROM else number
