"""A report for people at a terminal: first the two totals, then what is wrong, last the verdict.

Lists are bounded, with the number of rows that are left out and the option that shows them. Names and keys are never
read as markup and never break a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from bindings.archive.figures import format_position, to_percent
from bindings.report.forms.terminal import traffic, verdicts
from bindings.report.forms.terminal.cells import LONGEST, draw_bar, indent
from bindings.report.forms.terminal.view import ReportView
from bindings.report.inspection import draw_bad
from bindings.report.model import Report
from bindings.report.rows import STATES
from bindings.report.words import describe_records, describe_topology, describe_traffic, describe_window, summarize
from exchange.text.display import clip_line, count_noun
from exchange.values.forms import Screen

MAX_LISTED_ROWS: Final = 10
"""Maximum number of rows of a list, without ``--all``."""

WIDE: Final = 100
"""Minimum width of a terminal, in characters, at which tables have all columns."""
WIDEST: Final = 140
"""Maximum width of a report, in characters, however wide the terminal is."""


def show_head(view: ReportView) -> Iterator[RenderableType]:
    """Yield what was read, and what a reader must know before the numbers."""
    report = view.report
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("topology", Text(describe_topology(report.audited), style="bold"))
    grid.add_row("traffic", Text(describe_traffic(report.audited)))
    grid.add_row("window", Text(describe_window(report.audited)))
    grid.add_row("records", Text(describe_records(report.audited.records)))
    yield grid
    unread = report.audited.records.unread
    for reason, count in sorted(unread.bad.items(), key=lambda item: (-item[1], item[0]))[: view.listed]:
        yield indent(Text(f"bad: {count:,}: {clip_line(unread.explain(reason), LONGEST)}"), 2)
        for bad in unread.samples.get(reason, ())[:1]:
            drawing = draw_bad(bad)
            sample = drawing or f": {clip_line(bad.sample.decode('utf-8', 'replace'), LONGEST)}"
            position = format_position(clip_line(bad.source, LONGEST), bad.offset)
            yield indent(Text(f"{position}{sample}", style="dim"), 4)
    yield from view.more(len(unread.bad))
    for caveat in report.caveats:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("!", style="yellow"), Text(caveat))
        yield grid


def show_totals(view: ReportView) -> Iterator[RenderableType]:
    """Yield the two coverages, and what queues got."""
    totals, states = view.report.summary.totals, view.report.summary.states
    bindings = "".join([f", {states[state]:,} {state}" for state in STATES if states[state] and state != "hit"])
    fates = {"unroutable": totals.unroutable, "refused": totals.refused, "undecided": totals.undecided}
    messages = "".join([f", {count:,} {fate}" for fate, count in fates.items() if count])
    grid = Table.grid(padding=(0, 2))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(overflow="fold")
    hit = f"{totals.hit:,} of {totals.eligible:,} hit{bindings}"
    routed = f"{totals.routed:,} of {totals.messages:,} routed{messages}"
    for what, part, whole, text in (
        ("binding coverage", totals.hit, totals.eligible, hit),
        ("message coverage", totals.routed, totals.messages, routed),
    ):
        cover = f"{to_percent(part, whole, view.report.precision)} %" if whole else "none"
        grid.add_row(Text(what, style="bold"), draw_bar(part, whole), Text(cover, style="bold"), Text(text))
    yield Text()
    yield grid
    avoided = f", {count_noun(totals.duplicates_avoided, 'duplicate')} avoided" if totals.duplicates_avoided else ""
    yield Text(f"queues got {count_noun(totals.copies, 'message')}{avoided}", style="dim")


SECTIONS: Final[tuple[Callable[[ReportView], Iterable[RenderableType]], ...]] = (
    show_head, show_totals, traffic.show_exchanges, traffic.show_dead, traffic.show_stale,
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
