"""Sum the counts of bindings by the line of the ``.bindings`` file that makes them.

A line makes several bindings if it has several destinations or keys, or is repeated by a ``for``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from bindings.report.model import BindingRow, LineRow, LineState, State

__all__ = ["sum_lines"]

HIT: Final[Collection[State]] = ("hit", "possible", "stale")
"""States of bindings that messages took, or may have taken."""


def sum_lines(rows: Iterable[BindingRow]) -> tuple[LineRow, ...]:
    """Return one row for each line that makes bindings, in the order of the lines; rows without a line are left out."""
    by_line: dict[int, list[BindingRow]] = {}
    for row in rows:
        if row.line is not None:
            by_line.setdefault(row.line, []).append(row)
    return tuple([_line_row(line, made) for line, made in sorted(by_line.items())])


def _line_row(line: int, rows: Collection[BindingRow]) -> LineRow:
    return LineRow(
        line,
        tuple([row.use.number for row in rows]),
        sum([row.use.messages for row in rows]),
        sum([row.use.possible for row in rows]),
        sum([row.state in HIT for row in rows]),
        _state_of_line(rows),
    )


def _state_of_line(rows: Collection[BindingRow]) -> LineState:
    """Return the state of a line. Bindings that do not count for coverage decide only where there are no others."""
    states = {row.state for row in rows}
    hit = not states.isdisjoint(HIT)
    if "dead" in states:
        if hit:
            return "partial"
        return "never" if any(row.use.exposure for row in rows if row.state == "dead") else "unreached"
    if hit:
        return "hit"
    others: tuple[LineState, ...] = ("dead letters only", "not eligible")
    return next((state for state in others if state in states), "ignored")
