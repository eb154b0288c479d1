"""What could not be read, or does not fit, as lines and as JSON: reasons, how often, and some places of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from exchange.display import escape_line

if TYPE_CHECKING:
    from bindings.archive.inspection import Inspection

__all__ = ["bad_json", "bad_lines"]

LISTED: Final = 20
"""Reasons that are told in lines."""


def bad_lines(found: Inspection) -> Iterator[str]:
    """For people."""
    for reason, count in found.bad.most_common(LISTED):
        yield f"bad: {count:,}: {escape_line(reason)}"
        for bad in found.samples[reason]:
            sample = f": {escape_line(bad.sample.decode('utf-8', 'replace'))}" if bad.sample else ""
            yield f"  {escape_line(bad.source)} at {bad.offset}{sample}"
    if len(found.bad) > LISTED:
        yield f"bad: and {len(found.bad) - LISTED} more reasons"


def bad_json(found: Inspection) -> list[dict[str, Any]]:
    """All of it."""
    return [
        {
            "reason": reason,
            "records": count,
            "samples": [
                {"source": bad.source, "offset": bad.offset, "sample": bad.sample.decode("utf-8", "replace")}
                for bad in found.samples[reason]
            ],
        }
        for reason, count in found.bad.most_common()
    ]
