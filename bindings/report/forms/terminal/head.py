"""What a report at the terminal begins with: what was read, what a reader must know, and the two totals."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bindings.archive.figures import to_percent
from bindings.report.forms.terminal.cells import LONGEST, draw_bar, indent
from bindings.report.forms.terminal.view import ReportView
from bindings.report.inspection import draw_bad
from bindings.report.rows import STATES
from bindings.report.words import describe_records, describe_topology, describe_traffic, describe_window
from exchange.text.display import clip_line, count_noun

__all__ = ["show_head", "show_totals"]


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
        yield indent(Text(f"bad: {count:,}: {clip_line(reason, LONGEST)}"), 2)
        for bad in unread.samples.get(reason, ())[:1]:
            drawing = draw_bad(bad)
            sample = drawing or f": {clip_line(bad.sample.decode('utf-8', 'replace'), LONGEST)}"
            yield indent(Text(f"{clip_line(bad.source, LONGEST)} at {bad.offset}{sample}", style="dim"), 4)
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
