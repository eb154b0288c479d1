"""A report for people at a terminal: first the two totals, then what is wrong, last the verdict.

Lists are bounded, with the number of rows that are left out and the option that shows them. Names and keys are never
read as markup and never break a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from bindings.report.forms.terminal import head, traffic, verdicts
from bindings.report.forms.terminal.view import ReportView
from bindings.report.model import Report
from bindings.report.words import summarize
from exchange.values.forms import Screen

__all__ = ["MAX_LISTED_ROWS", "to_screen", "to_text"]

MAX_LISTED_ROWS: Final = 10
"""Maximum number of rows of a list, without ``--all``."""

WIDE: Final = 100
"""Minimum width of a terminal, in characters, at which tables have all columns."""
WIDEST: Final = 140
"""Maximum width of a report, in characters, however wide the terminal is."""

SECTIONS: Final[tuple[Callable[[ReportView], Iterable[RenderableType]], ...]] = (
    head.show_head, head.show_totals, traffic.show_exchanges, traffic.show_dead, traffic.show_stale,
    traffic.show_unroutable, traffic.show_alternates, traffic.show_queues, traffic.show_partition_skew,
    verdicts.show_verification, verdicts.show_comparison, verdicts.show_findings, verdicts.show_ignored,
    verdicts.show_gates,
)  # fmt: skip
"""The sections in their order; one that has nothing to show yields nothing."""


def to_text(report: Report, *, width: int = 100, colour: bool = False, listed: int = MAX_LISTED_ROWS) -> str:
    """Return the lines of a report; none is wider than ``width``, except the last, the verdict, which is not broken."""
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, color_system="standard" if colour else None,
        highlight=False, markup=False, emoji=False, legacy_windows=False, _environ={},
    )  # fmt: skip
    for show in SECTIONS:
        for part in show(ReportView(report, listed, wide=width >= WIDE)):
            console.print(part)
    console.print()
    console.print(Text(summarize(report), style="bold green" if report.passed else "bold red"), soft_wrap=True)
    return "".join([f"{line.rstrip()}\n" for line in out.getvalue().splitlines()])


def to_screen(report: Report, screen: Screen) -> str:
    """Return the lines of a report as they are shown where they are printed."""
    width, listed = min(screen.width, WIDEST), sys.maxsize if screen.whole else MAX_LISTED_ROWS
    return to_text(report, width=width, colour=screen.colour, listed=listed)
