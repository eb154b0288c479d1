"""Parse times as archives write them, into microseconds since 1970, UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from exchange.errors import InputError

__all__ = ["parse_time", "parse_time_text"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
FRACTION: Final = re.compile(r"(\.[0-9]{6})[0-9]+")
TOO_GREAT: Final = 1e30
UNITS: Final = ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1))
"""Bound of a number -> its unit in microseconds: seconds up to the year 5138, then milliseconds, microseconds."""


def parse_time(value: Any) -> int | None:
    """Return the time in a JSON number or text; None for null. Raises InputError for any other value."""
    if value is None:
        return None
    if type(value) is int or type(value) is float:
        size = abs(value)
        if not size < TOO_GREAT:  # infinite and NaN too; an integer need not fit in a double
            raise InputError("timestamp is not a time")
        for limit, unit in UNITS:
            if size < limit:
                return round(value * unit)
        return round(value / 1_000)
    if type(value) is str:
        return parse_time_text(value)
    raise InputError("timestamp is not a time")


def parse_time_text(text: str) -> int:
    """Return the time in an ISO 8601 text, UTC by default; digits beyond microseconds are cut off.

    Raises InputError for any other text.
    """
    try:
        moment = datetime.fromisoformat(FRACTION.sub(r"\1", text))
    except ValueError:
        raise InputError("timestamp is not a time of ISO 8601") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MICROSECOND
