"""What the parts of a report's JSON share: times in ISO 8601, shares with few digits, bindings with their parts."""

from __future__ import annotations

from typing import Any, Final

from bindings.report.figures import moment
from exchange.entities.entities import Binding
from exchange.field_json import encode_table

__all__ = ["parts_json", "share_json", "time_json"]

DIGITS: Final = 6
"""Of a share, behind the point."""


def parts_json(binding: Binding) -> dict[str, Any]:
    """What names a binding."""
    return {
        "source": binding.source,
        "destination_type": binding.destination.kind,
        "destination": binding.destination.name,
        "routing_key": binding.routing_key,
        "arguments": encode_table(binding.arguments),
    }


def time_json(time: int | None) -> str | None:
    """Microseconds since 1970 in ISO 8601."""
    return None if time is None else moment(time)


def share_json(share: float | None) -> float | None:
    """A part of 1, rounded."""
    return None if share is None else round(share, DIGITS)
