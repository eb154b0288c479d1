"""Parse times as archives write them, into microseconds since 1970, UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from exchange.errors import InputError
from exchange.text.numbers import is_digits

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
FRACTION: Final = re.compile(r"(\.[0-9]{6})[0-9]+")
MAX_TIME_NUMBER: Final = 1e30
DIGITS: Final = re.compile(r"-?(?:[0-9]{9,10}(?:\.[0-9]+)?|[0-9]{13}(?:\.[0-9]+)?|[0-9]{16}|[0-9]{19})")
"""A number of seconds, milli-, micro- or nanoseconds as a text; of other lengths it could be a date without signs."""
DATE: Final = len("20261101")
"""Number of digits of a date without signs; more are no text of ISO 8601."""
UNITS: Final = ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1))
"""Bound of a number -> its unit in microseconds: seconds up to the year 5138, then milliseconds, microseconds."""


def parse_time(value: Any) -> int | None:
    """Return the time in a number or a text; None for null. Raises InputError for any other value."""
    if value is None:
        return None
    if type(value) is int or type(value) is float or type(value) is Decimal:
        return _from_number(value)
    if type(value) is str:
        return parse_time_text(value)
    raise InputError("timestamp is not a time")


def parse_time_text(text: str) -> int:
    """Return the time in an ISO 8601 text, UTC by default; digits beyond microseconds are cut off.

    A text that is a number is a time as the number is. Raises InputError for any other text.
    """
    if DIGITS.fullmatch(text):
        return _from_number(Decimal(text))
    try:
        # Python takes any character between date and hour, so digits alone could be a time of another century.
        moment = datetime.fromisoformat("" if is_digits(text) and len(text) > DATE else FRACTION.sub(r"\1", text))
    except ValueError:
        raise InputError("timestamp is not a time of ISO 8601") from None
    return to_microseconds(moment)


def to_microseconds(moment: datetime) -> int:
    """Return a moment as microseconds since 1970; it is in UTC unless it has a zone."""
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def _from_number(value: float | Decimal) -> int:
    size: Any = abs(value)
    if not size < MAX_TIME_NUMBER:  # infinite and NaN too; an integer need not fit in a double
        raise InputError("timestamp is not a time")
    for limit, unit in UNITS:
        if size < limit:
            return round(value * unit)
    return round(value / 1_000)
