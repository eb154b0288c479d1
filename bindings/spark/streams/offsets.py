"""Offsets of streams as they are in a checkpoint of Spark, and how far a micro-batch reads.

An offset of Spark is a JSON object, of which `Reached` is the value for each stream::

    {"orders-0": {"next": 1200, "seen": "b1946ac92492d2347c6235b4d2611184"}, "orders-1": {"next": 0, "seen": ""}}

``seen`` is the fingerprint of the message before ``next``: a stream that is deleted and declared again counts from 0
again, and would be read from the old offset on. ``from`` is there where a stream began anew: a micro-batch that ends
there begins at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from bindings.spark.streams.log import OffsetRange
from exchange.errors import InputError


class Reached(NamedTuple):
    """How far a stream was read."""

    next: int = 0
    """Offset of the next message."""
    seen: str = ""
    """Fingerprint of the message before it; empty if there is none, or it is not known."""
    begun: int | None = None
    """Offset at which the last micro-batch began, if it did not begin where the one before ended."""


Offsets: TypeAlias = Mapping[str, Reached]
"""Stream -> how far it was read."""

FRESH: Final = Reached()


def encode_offsets(offsets: Offsets) -> dict[str, dict[str, Any]]:
    """Return offsets as Spark keeps them; equal ones are equal texts, as Spark compares these."""
    return {
        name: {"next": at.next, "seen": at.seen, **({} if at.begun is None else {"from": at.begun})}
        for name, at in sorted(offsets.items())
    }


def decode_offsets(kept: Mapping[str, Any]) -> dict[str, Reached]:
    """Return the offsets of a checkpoint. Raises InputError if they are of another source."""
    try:
        return {
            name: Reached(int(at["next"]), str(at["seen"]), None if "from" not in at else int(at["from"]))
            for name, at in kept.items()
        }
    except (TypeError, KeyError, ValueError):
        raise InputError("the checkpoint is of another source: its offsets are none of streams") from None


def plan_ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return the ranges between two offsets, in the order of the streams' names; of each stream at most one."""
    ranges = []
    for name, at in sorted(end.items()):
        before = start.get(name, FRESH)
        begun = before.next if at.begun is None or at == before else at.begun
        if begun < at.next:
            ranges.append(OffsetRange(name, begun, at.next))
    return ranges


def limit_ends(starts: Mapping[str, int], ends: Mapping[str, int], most: int | None) -> dict[str, int]:
    """Return the ends of ranges with ``most`` offsets at most in all; each stream gets its share of what is there.

    What division leaves goes to the streams with the largest remainders, so that the limit is used in full.
    """
    waiting = {name: max(0, end - starts[name]) for name, end in ends.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(ends)
    shares = {name: divmod(count * most, total) for name, count in waiting.items()}
    left = most - sum(share for share, _ in shares.values())
    first = sorted(shares, key=lambda name: (-shares[name][1], name))[:left]
    return {name: starts[name] + share + (name in first) for name, (share, _) in shares.items()}
