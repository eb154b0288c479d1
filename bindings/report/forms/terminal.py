"""A report for people at a terminal: first the two totals, then what is wrong, last the verdict.

Lists are bounded, with the number of rows that are left out and the option that shows them. Names and keys are never
read as markup and never break a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import StringIO
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from bindings.archive.figures import format_minute, format_share, to_percent
from bindings.checking.rules.table import SEVERITIES
from bindings.counts.changes import summarize_changes
from bindings.counts.sketch import ERROR
from bindings.report.forms.cells import (
    LONGEST,
    draw_bar,
    indent,
    make_heading,
    make_pairs,
    make_table,
    show_binding,
    show_coverage,
    show_finding,
    show_key,
    show_name,
    show_partitions,
    show_shape,
    show_top_share,
)
from bindings.report.inspection import draw_bad
from bindings.report.model import STATES, ExchangeRow, QueueRow, Report, UnroutableRow
from bindings.report.words import (
    NO_HEADERS,
    describe_change,
    describe_difference,
    describe_gates,
    describe_records,
    describe_topology,
    describe_traffic,
    describe_window,
    list_unexplained_exchanges,
    name_exchange,
    summarize,
)
from exchange.text.display import clip_line, count_noun, list_some
from exchange.values.forms import Screen

__all__ = ["MAX_LISTED_ROWS", "to_screen", "to_text"]

MAX_LISTED_ROWS: Final = 10
"""Maximum number of rows of a list, without ``--all``."""
ALL_HINT: Final = "--all shows them"
"""The end of a line about rows that are left out."""

WIDE: Final = 100
"""Minimum width of a terminal, in characters, at which tables have all columns."""
WIDEST: Final = 140
"""Maximum width of a report, in characters, however wide the terminal is."""


def to_text(report: Report, *, width: int = 100, colour: bool = False, listed: int = MAX_LISTED_ROWS) -> str:
    """Return the lines of a report; none is wider than ``width``, except the last, the verdict, which is not broken."""
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, color_system="standard" if colour else None,
        highlight=False, markup=False, emoji=False, legacy_windows=False, _environ={},
    )  # fmt: skip
    for part in _Writer(report, listed, wide=width >= WIDE).parts():
        console.print(part)
    console.print(Text(summarize(report), style="bold green" if report.passed else "bold red"), soft_wrap=True)
    return "".join([f"{line.rstrip()}\n" for line in out.getvalue().splitlines()])


def to_screen(report: Report, screen: Screen) -> str:
    """Return the lines of a report as they are shown where they are printed."""
    width, listed = min(screen.width, WIDEST), sys.maxsize if screen.whole else MAX_LISTED_ROWS
    return to_text(report, width=width, colour=screen.colour, listed=listed)


class _Writer:
    """The sections of one report, as rich renders them."""

    def __init__(self, report: Report, listed: int, *, wide: bool) -> None:
        self._report: Final = report
        self._wide: Final = wide
        self._listed: Final = listed
        self._digits: Final = report.precision
        self._unexplained: Final = list_unexplained_exchanges(report)

    def parts(self) -> Iterator[RenderableType]:
        """Yield all sections that have something to show."""
        yield from self._head()
        yield from self._totals()
        yield from self._exchanges()
        yield from self._dead()
        yield from self._stale()
        yield from self._unroutable()
        yield from self._alternates()
        yield from self._queues()
        yield from self._partitions()
        yield from self._verification()
        yield from self._comparison()
        yield from self._findings()
        yield from self._ignored()
        yield from self._gates()
        yield Text()

    def _head(self) -> Iterator[RenderableType]:
        report = self._report
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row("topology", Text(describe_topology(report.audited), style="bold"))
        grid.add_row("traffic", Text(describe_traffic(report.audited)))
        grid.add_row("window", Text(describe_window(report.audited)))
        grid.add_row("records", Text(describe_records(report.audited.records)))
        yield grid
        unread = report.audited.records.unread
        for reason, count in sorted(unread.bad.items(), key=lambda item: (-item[1], item[0]))[: self._listed]:
            yield indent(Text(f"bad: {count:,}: {clip_line(reason, LONGEST)}"), 2)
            for bad in unread.samples.get(reason, ())[:1]:
                drawing = draw_bad(bad)
                sample = drawing or f": {clip_line(bad.sample.decode('utf-8', 'replace'), LONGEST)}"
                yield indent(Text(f"{clip_line(bad.source, LONGEST)} at {bad.offset}{sample}", style="dim"), 4)
        yield from self._more(len(unread.bad))
        for caveat in report.caveats:
            grid = Table.grid(padding=(0, 1))
            grid.add_row(Text("!", style="yellow"), Text(caveat))
            yield grid

    def _totals(self) -> Iterator[RenderableType]:
        totals, states = self._report.summary.totals, self._report.summary.states
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
            cover = f"{to_percent(part, whole, self._digits)} %" if whole else "none"
            grid.add_row(Text(what, style="bold"), draw_bar(part, whole), Text(cover, style="bold"), Text(text))
        yield Text()
        yield grid
        avoided = f", {count_noun(totals.duplicates_avoided, 'duplicate')} avoided" if totals.duplicates_avoided else ""
        yield Text(f"queues got {count_noun(totals.copies, 'message')}{avoided}", style="dim")

    def _exchanges(self) -> Iterator[RenderableType]:
        rows = [
            row for row in self._report.exchanges if row.use.messages or row.use.published or sum(row.states.values())
        ]
        rows.sort(key=lambda row: (-row.use.messages, -row.use.published, row.use.exchange))
        if not rows:
            return
        yield make_heading("Exchanges", f"{len(rows):,} with bindings or messages")
        table = make_table(
            "exchange", "type", ">bindings hit", ">coverage", ">published", ">through", ">routed", ">keys"
        )
        for row in rows[: self._listed]:
            self._add_exchange(table, row)
        yield table
        yield from self._more(len(rows))
        yield indent(
            Text(f"~: different keys, approximately; the standard error is {100 * ERROR:.1f} %", style="dim"), 2
        )

    def _add_exchange(self, table: Table, row: ExchangeRow) -> None:
        use = row.use
        table.add_row(
            show_name(name_exchange(use.exchange)),
            Text(row.type or "missing", style="" if row.type else "red"),
            f"{row.hit:,} of {row.eligible:,}" if row.eligible else "",
            show_coverage(row.hit, row.eligible, self._digits),
            f"{use.published:,}",
            f"{use.messages:,}",
            show_coverage(row.routed, use.published, self._digits),
            f"~{use.distinct_keys:,}" if use.distinct_keys else "",
        )

    def _dead(self) -> Iterator[RenderableType]:
        rows = [row for row in self._report.bindings if row.state == "dead"]
        rows.sort(key=lambda row: (-row.use.exposure, row.use.number))
        if not rows:
            return
        yield make_heading(
            "Dead bindings", f"{len(rows):,}; at most the given share of messages matches, with 95 % confidence"
        )
        table = make_table(">matched", ">at most", "binding")
        for row in rows[: self._listed]:
            use = row.use
            chance = format_share(use.bound) if use.bound is not None and use.exposure else "no chance"
            table.add_row(f"0 of {use.exposure:,}", chance, show_binding(row))
        yield table
        yield from self._more(len(rows))

    def _stale(self) -> Iterator[RenderableType]:
        rows = [row for row in self._report.bindings if row.state == "stale"]
        rows.sort(key=lambda row: (row.use.last or 0, row.use.number))
        if not rows:
            return
        days = count_noun(self._report.stale_days, "day")
        yield make_heading("Stale bindings", f"{len(rows):,} that nothing matched in the last {days} of the window")
        table = make_table(">messages", ">last seen", "binding")
        for row in rows[: self._listed]:
            last = "" if row.use.last is None else format_minute(row.use.last)[:10]
            table.add_row(f"{row.use.messages:,}", last, show_binding(row))
        yield table
        yield from self._more(len(rows))

    def _unroutable(self) -> Iterator[RenderableType]:
        rows = self._report.unroutable
        if not rows:
            return
        total = self._report.summary.totals.messages
        lost = sum([row.messages for row in rows])
        part = f"{to_percent(lost, total, self._digits)} %" if total else ""
        refused = sum([row.messages for row in rows if row.refused])
        among = f", {refused:,} of them refused" if refused else ""
        yield make_heading(
            "Unroutable",
            f"{count_noun(lost, 'message')}, {part} of all{among}; * stands for words that no binding names",
        )
        for row in rows[: self._listed]:
            yield from self._unroutable_row(row)
        yield from self._more(len(rows))

    def _unroutable_row(self, row: UnroutableRow) -> Iterator[RenderableType]:
        text = Text(f"published to {clip_line(name_exchange(row.exchange), LONGEST)}: ")
        text.append(count_noun(row.messages, "message"))
        if row.first is not None and row.last is not None:
            text.append(f", {format_minute(row.first)} to {format_minute(row.last)}")
        if row.refused:
            text.append(f"\nrefused: {clip_line(row.refused, 2 * LONGEST)}", style="red")
        yield indent(text, 2)
        grid = make_pairs()
        for shape in row.shapes[: self._listed]:
            grid.add_row(f"{shape.messages:,}{'+' if row.error else ''}", show_shape(shape, wide=self._wide))
        yield indent(grid, 4)
        yield from self._more(len(row.shapes), "shapes", 4)
        if row.exchange in self._unexplained and not any(each.nearest for each in row.shapes):
            yield indent(Text(f"nearest: {NO_HEADERS}", style="dim"), 4)
        if row.error:
            yield indent(Text(f"counts of shapes are approximate: up to {row.error:,} more each", style="dim"), 4)

    def _alternates(self) -> Iterator[RenderableType]:
        rows = sorted(self._report.alternates, key=lambda row: (-row.messages, row.exchange))
        if not rows:
            return
        yield make_heading("Alternate exchanges taken", "")
        table = make_table("exchange", "alternate", ">messages", "most often")
        for row in rows[: self._listed]:
            often = show_key(row.shapes.items[0].text) if row.shapes.items else ""
            table.add_row(
                show_name(name_exchange(row.exchange)), show_name(row.alternate), f"{row.messages:,}", Text(often)
            )
        yield table
        yield from self._more(len(rows))

    def _queues(self) -> Iterator[RenderableType]:
        rows = sorted(self._report.queues, key=lambda row: (-row.use.messages, -row.use.possible, row.use.queue))
        got = [row for row in rows if row.use.messages or row.use.possible]
        if not rows:
            return
        none = f"; {len(rows) - len(got):,} got nothing" if len(got) < len(rows) else ""
        yield make_heading("Queues", f"{len(got):,} of {len(rows):,} got messages{none}")
        if got:
            wide = (">avoided", ">last") if self._wide else ()
            table = make_table("queue", ">messages", ">of all", ">keys", *wide, ">hottest", "key")
            for row in got[: self._listed]:
                self._add_queue(table, row)
            yield table
            yield from self._more(len(got))
        silent = sorted([row.use.queue for row in rows[len(got) :]])
        if silent:
            names = list_some([clip_line(name, LONGEST // 2) for name in silent], self._listed)
            way = f" ({ALL_HINT})" if len(silent) > self._listed else ""
            yield indent(Text(f"got nothing: {names}{way}"), 2)

    def _add_queue(self, table: Table, row: QueueRow) -> None:
        use = row.use
        possible = f" (+{use.possible:,}?)" if use.possible else ""
        often = show_top_share(row) if row.hot and use.messages else ""
        hot = Text(show_key(row.hot[0].text) if row.hot else "", overflow="fold")
        avoided = f"{use.duplicates_avoided:,}" if use.duplicates_avoided else ""
        wide = (avoided, "" if use.last is None else format_minute(use.last)[:10]) if self._wide else ()
        part = format_share(row.share) if row.share else ""
        table.add_row(
            show_name(use.queue), f"{use.messages:,}{possible}", part, f"~{use.distinct_keys:,}", *wide, often, hot
        )

    def _partitions(self) -> Iterator[RenderableType]:
        rows = [row for row in self._report.queues if row.partitioning is not None]
        rows.sort(key=lambda row: -(row.skew.max_to_mean if row.skew is not None else 0))
        if not rows:
            return
        yield make_heading("Partitions", "the fullest against the mean: 1 is even")
        for row in rows[: self._listed]:
            yield indent(show_partitions(row), 2)
        yield from self._more(len(rows))

    def _verification(self) -> Iterator[RenderableType]:
        verification = self._report.verification
        if verification is None:
            return
        yield make_heading(
            "What the broker did", f"{count_noun(verification.compared, 'message')} compared with the prediction"
        )
        rest = {
            "in queues that chance may have picked": verification.possible,
            "through exchanges of unknown type": verification.undecided,
            "whose routing the archive has not recorded": verification.unknown,
        }
        others = "".join([f"; {count:,} {what}" for what, count in rest.items() if count])
        agreed = Text(f"{verification.agreed:,} went where they should, {verification.different:,} elsewhere{others}")
        yield indent(agreed, 2)
        rows = sorted(verification.differences.items(), key=lambda row: (row[0].only_unknown, -row[1].messages, row[0]))
        grid = make_pairs()
        for difference, evidence in rows[: self._listed]:
            text = Text(clip_line(describe_difference(difference), 3 * LONGEST))
            for witness in evidence.witnesses[:1]:
                key = clip_line(witness.message.routing_key, LONGEST)
                position = f"{clip_line(witness.source, LONGEST)} at {witness.offset}" if witness.source else ""
                text.append(f"\nas '{key}' {position}", style="dim")
            grid.add_row(f"{evidence.messages:,}", text)
        yield indent(grid, 2)
        yield from self._more(verification.sorts, "sorts of difference", held=len(rows))
        strangers = verification.strangers.items[: self._listed // 2]
        if strangers:
            listed = ", ".join([f"{clip_line(item.text, LONGEST)} {item.count:,}" for item in strangers])
            yield indent(Text(f"queues that the topology does not have: {listed}", style="dim"), 2)

    def _comparison(self) -> Iterator[RenderableType]:
        compared = self._report.comparison
        if compared is None:
            return
        changes = compared.changes
        yield make_heading(f"With {clip_line(compared.topology, LONGEST)} instead", summarize_changes(changes.totals))
        grid = make_pairs()
        for row in changes.rerouted[: self._listed]:
            text = Text(clip_line(describe_change(row.change), 3 * LONGEST))
            if row.shapes.items:
                text.append(f"\nas '{clip_line(row.shapes.items[0].example, LONGEST)}'", style="dim")
            grid.add_row(f"{row.messages:,}", text)
        yield indent(grid, 2)
        yield from self._more(len(changes.rerouted))
        grid = make_pairs()
        for moves in [each for each in changes.partitions if each.moved][: self._listed]:
            part = f", {format_share(moves.share)} of those whose key decides it" if moves.share else ""
            text = Text(f"move to another partition of {clip_line(moves.queue, LONGEST)}{part}")
            grid.add_row(f"{moves.moved:,}", text)
        yield indent(grid, 2)

    def _findings(self) -> Iterator[RenderableType]:
        rows = sorted(
            self._report.findings, key=lambda row: (-SEVERITIES.index(row.finding.rule.severity), row.evidence == "")
        )
        if not rows:
            return
        yield make_heading("Findings of hashstar check, with the evidence of the traffic", "")
        grid = make_pairs(justify="left")
        for row in rows[: self._listed]:
            grid.add_row(Text(row.finding.code, style="bold"), show_finding(row))
        yield indent(grid, 2)
        yield from self._more(len(rows))

    def _ignored(self) -> Iterator[RenderableType]:
        rows = self._report.ignored
        if not rows:
            return
        yield make_heading("Ignored bindings", "")
        grid = make_pairs()
        for use in rows[: self._listed]:
            entry = use.entry
            text = Text(f"{clip_line(str(entry), LONGEST)}: {clip_line(entry.reason, LONGEST)}, until {entry.until}")
            if use.expired:
                text.append("; expired, so that it ignores nothing", style="red")
            elif not use.bindings:
                text.append("; no binding is like that: remove it", style="yellow")
            elif use.hit:
                text.append(f"; {use.hit:,} of them matched something: look whether it still holds", style="yellow")
            grid.add_row(f"{use.bindings:,}", text)
        yield indent(grid, 2)
        yield from self._more(len(rows))

    def _gates(self) -> Iterator[RenderableType]:
        gates = sorted(self._report.gates, key=lambda gate: gate.passed)
        if not gates:
            return
        yield make_heading("Gates", describe_gates(self._report))
        grid = make_pairs(justify="left")
        for gate in gates[: self._listed]:
            word = Text("passed", style="green") if gate.passed else Text("FAILED", style="bold red")
            scope = f"{gate.of} '{clip_line(gate.scope, LONGEST)}': " if gate.of else ""
            grid.add_row(word, Text(f"{scope}{clip_line(gate.message, 4 * LONGEST)}"))
        yield indent(grid, 2)
        yield from self._more(len(gates))

    def _more(self, count: int, what: str = "", by: int = 2, held: int | None = None) -> Iterator[RenderableType]:
        """Yield a line with the number of rows, of ``count``, that are not shown; the report holds ``held`` of them."""
        held = count if held is None else held
        if count > (shown := min(held, self._listed)):
            what = f" {what}" if what else ""
            way = f"; {ALL_HINT}" if held > shown else ""
            yield indent(Text(f"and {count - shown:,} more{what}{way}", style="dim"), by)
