"""Format numbers for reports. Rounding never makes a percentage 0 or 100: 0 means none and 100 means all."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Final, TypeAlias

from bindings.archive.times import EPOCH
from exchange.values.documents import As

EARLIEST_TIME: Final = -62_135_596_800_000_000
"""Beginning of the year 1, in microseconds since 1970."""
LATEST_TIME: Final = 253_402_300_799_999_999
"""End of the year 9999, in microseconds since 1970."""


def format_time(time: int) -> str:
    """Return microseconds since 1970 as ISO 8601 in UTC: ``2026-01-31T12:00:00Z``.

    A time outside the years 1 to 9999, which only damage or a wrong clock produces, is given in microseconds.
    """
    if not EARLIEST_TIME <= time <= LATEST_TIME:
        return f"{time} microseconds since 1970"
    return f"{(EPOCH + timedelta(microseconds=time)).isoformat().removesuffix('+00:00')}Z"


def format_timestamp(milliseconds: int | None) -> str | None:
    """Return milliseconds since 1970 in ISO 8601; None for a time that is unknown, before 1970 or after 9999."""
    if milliseconds is None or not 0 <= milliseconds <= LATEST_TIME // 1000:
        return None
    return format_time(milliseconds * 1000)


Time: TypeAlias = Annotated[int, "int64", As(format_time, str)]
"""Microseconds since 1970, UTC, which may be before it; in a table, of this Arrow type; in JSON, ISO 8601."""
Milliseconds: TypeAlias = Annotated[int, As(lambda time: format_time(time * 1000), str)]
"""Milliseconds since 1970, UTC; in JSON, ISO 8601."""
Timestamp: TypeAlias = Annotated[int, As(format_timestamp, str | None)]
"""Milliseconds since 1970, UTC, negative if unknown; in JSON, ISO 8601, or null if unknown."""
Share: TypeAlias = Annotated[float, As(lambda share: round(share, 6), float)]
"""A part of 1; in JSON, rounded to six decimals."""


def to_percent(part: int, whole: int, precision: int) -> Decimal:
    """Return 100 * part / whole with ``precision`` decimals; halves are rounded to the even digit."""
    step = Fraction(1, 10**precision)
    rounded = round(Fraction(100 * part, whole) / step)
    if part < whole:
        rounded = min(rounded, 100 * 10**precision - 1)
    if part > 0:
        rounded = max(rounded, 1)
    return Decimal(rounded).scaleb(-precision)


def format_share(part: float, digits: int = 2) -> str:
    """Return a part of 1 as a percentage with this number of significant digits: ``0.41 %``, ``0.000030 %``."""
    return f"{Decimal(f'{100 * part:.{digits - 1}e}'):f} %"


def format_minute(time: int) -> str:
    """Return microseconds since 1970 as a day and a minute in UTC: ``2026-01-31 12:00``."""
    moment = EPOCH + timedelta(microseconds=min(max(time, EARLIEST_TIME), LATEST_TIME))
    # No strftime: where the C library does not, it pads no year before 1000.
    return moment.replace(tzinfo=None).isoformat(" ", "minutes")


def format_position(source: str, offset: int | None) -> str:
    """Return where a record is, for people."""
    return source if offset is None else f"{source} at {offset}"
