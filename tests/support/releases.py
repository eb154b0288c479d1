"""Releases of RabbitMQ that are not known here, made of the table of those that are: a new row changes no test."""

from __future__ import annotations

from typing import Final

from exchange.entities.releases import ROWS, SERIES


def newest_of(series: str) -> str:
    """Return the newest patch release of a series that is known here."""
    return f"{series}.{SERIES[series].newest_patch}"


NEWEST_SERIES: Final = ROWS[-1].series
NEWEST_KNOWN: Final = newest_of(NEWEST_SERIES)
NEXT_PATCH: Final = f"{NEWEST_SERIES}.{ROWS[-1].newest_patch + 1}"
"""The first patch release that is newer than all of the newest series."""
NEXT_SERIES: Final = f"{ROWS[-1].since[0]}.{ROWS[-1].since[1] + 1}"
"""The first series that is newer than all."""
