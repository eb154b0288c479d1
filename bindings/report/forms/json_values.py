"""Values in the JSON of a report: times in ISO 8601, rounded shares, the fields that identify a binding."""

from __future__ import annotations

from typing import Final

from bindings.counts.sketch import Frequent
from bindings.report.figures import format_time
from bindings.report.forms.json_types import ShapeJson
from exchange.entities.entities import Binding
from exchange.values.field_json import encode_table
from exchange.values.json_types import BindingJson

__all__ = ["DIGITS", "encode_binding", "encode_shapes", "encode_share", "encode_time"]

DIGITS: Final = 6
"""Number of decimals of a share."""


def encode_binding(binding: Binding) -> BindingJson:
    """Return the fields that identify a binding."""
    return {
        "source": binding.source,
        "destination_type": binding.destination.kind,
        "destination": binding.destination.name,
        "routing_key": binding.routing_key,
        "arguments": encode_table(binding.arguments),
    }


def encode_shapes(shapes: Frequent) -> list[ShapeJson]:
    """Return the most frequent shapes of keys."""
    return [{"shape": item.text, "messages": item.count, "example": item.example} for item in shapes.items]


def encode_time(time: int | None) -> str | None:
    """Return microseconds since 1970 in ISO 8601, in UTC."""
    return None if time is None else format_time(time)


def encode_share(share: float | None) -> float | None:
    """Return a share, a part of 1, rounded to `DIGITS` decimals."""
    return None if share is None else round(share, DIGITS)
