"""The sections of a report at the terminal that count messages: at exchanges, bindings and queues, and those lost."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bindings.archive.figures import format_minute, format_share, to_percent
from bindings.counts.sketch import ERROR
from bindings.report.forms.terminal.cells import (
    LONGEST,
    indent,
    make_heading,
    make_pairs,
    make_table,
    show_binding,
    show_coverage,
    show_key,
    show_name,
    show_partitions,
    show_shape,
    show_top_share,
)
from bindings.report.forms.terminal.view import ALL_HINT, ReportView
from bindings.report.rows import ExchangeRow, QueueRow, UnroutableRow
from bindings.report.words import NO_HEADERS, list_unexplained_exchanges, name_exchange
from exchange.text.display import clip_line, count_noun, list_some


def show_exchanges(view: ReportView) -> Iterator[RenderableType]:
    """Yield exchanges with bindings or messages, the busiest first."""
    rows = [row for row in view.report.exchanges if row.use.messages or row.use.published or sum(row.states.values())]
    rows.sort(key=lambda row: (-row.use.messages, -row.use.published, row.use.exchange))
    if not rows:
        return
    yield make_heading("Exchanges", f"{len(rows):,} with bindings or messages")
    table = make_table("exchange", "type", ">bindings hit", ">coverage", ">published", ">through", ">routed", ">keys")
    for row in rows[: view.listed]:
        _add_exchange(view, table, row)
    yield table
    yield from view.more(len(rows))
    yield indent(Text(f"~: different keys, approximately; the standard error is {100 * ERROR:.1f} %", style="dim"), 2)


def _add_exchange(view: ReportView, table: Table, row: ExchangeRow) -> None:
    use = row.use
    table.add_row(
        show_name(name_exchange(use.exchange)),
        Text(row.type or "missing", style="" if row.type else "red"),
        f"{row.hit:,} of {row.eligible:,}" if row.eligible else "",
        show_coverage(row.hit, row.eligible, view.report.precision),
        f"{use.published:,}",
        f"{use.messages:,}",
        show_coverage(row.routed, use.published, view.report.precision),
        f"~{use.distinct_keys:,}" if use.distinct_keys else "",
    )


def show_dead(view: ReportView) -> Iterator[RenderableType]:
    """Yield bindings that no message matched, those that had the most chances first."""
    rows = [row for row in view.report.bindings if row.state == "dead"]
    rows.sort(key=lambda row: (-row.use.exposure, row.use.number))
    if not rows:
        return
    yield make_heading(
        "Dead bindings", f"{len(rows):,}; at most the given share of messages matches, with 95 % confidence"
    )
    table = make_table(">matched", ">at most", "binding")
    for row in rows[: view.listed]:
        use = row.use
        chance = format_share(use.bound) if use.bound is not None and use.exposure else "no chance"
        table.add_row(f"0 of {use.exposure:,}", chance, show_binding(row))
    yield table
    yield from view.more(len(rows))


def show_stale(view: ReportView) -> Iterator[RenderableType]:
    """Yield bindings that nothing matched lately."""
    rows = [row for row in view.report.bindings if row.state == "stale"]
    rows.sort(key=lambda row: (row.use.last or 0, row.use.number))
    if not rows:
        return
    days = count_noun(view.report.stale_days, "day")
    yield make_heading("Stale bindings", f"{len(rows):,} that nothing matched in the last {days} of the window")
    table = make_table(">messages", ">last seen", "binding")
    for row in rows[: view.listed]:
        last = "" if row.use.last is None else format_minute(row.use.last)[:10]
        table.add_row(f"{row.use.messages:,}", last, show_binding(row))
    yield table
    yield from view.more(len(rows))


def show_unroutable(view: ReportView) -> Iterator[RenderableType]:
    """Yield messages that no queue got."""
    rows = view.report.unroutable
    if not rows:
        return
    total = view.report.summary.totals.messages
    lost = sum([row.messages for row in rows])
    part = f"{to_percent(lost, total, view.report.precision)} %" if total else ""
    refused = sum([row.messages for row in rows if row.refused])
    among = f", {refused:,} of them refused" if refused else ""
    yield make_heading(
        "Unroutable", f"{count_noun(lost, 'message')}, {part} of all{among}; * stands for words that no binding names"
    )
    unexplained = list_unexplained_exchanges(view.report)
    for row in rows[: view.listed]:
        yield from _unroutable_row(view, row, row.exchange in unexplained)
    yield from view.more(len(rows))


def _unroutable_row(view: ReportView, row: UnroutableRow, unexplained: bool) -> Iterator[RenderableType]:
    text = Text(f"published to {clip_line(name_exchange(row.exchange), LONGEST)}: ")
    text.append(count_noun(row.messages, "message"))
    if row.first is not None and row.last is not None:
        text.append(f", {format_minute(row.first)} to {format_minute(row.last)}")
    if row.refused:
        text.append(f"\nrefused: {clip_line(row.refused, 2 * LONGEST)}", style="red")
    yield indent(text, 2)
    grid = make_pairs()
    for shape in row.shapes[: view.listed]:
        grid.add_row(f"{shape.messages:,}{'+' if row.error else ''}", show_shape(shape, wide=view.wide))
    yield indent(grid, 4)
    yield from view.more(len(row.shapes), "shapes", 4)
    if unexplained and not any(each.nearest for each in row.shapes):
        yield indent(Text(f"nearest: {NO_HEADERS}", style="dim"), 4)
    if row.error:
        yield indent(Text(f"counts of shapes are approximate: up to {row.error:,} more each", style="dim"), 4)


def show_alternates(view: ReportView) -> Iterator[RenderableType]:
    """Yield alternate exchanges that messages took."""
    rows = sorted(view.report.alternates, key=lambda row: (-row.messages, row.exchange))
    if not rows:
        return
    yield make_heading("Alternate exchanges taken", "")
    table = make_table("exchange", "alternate", ">messages", "most often")
    for row in rows[: view.listed]:
        often = show_key(row.shapes.items[0].text) if row.shapes.items else ""
        table.add_row(
            show_name(name_exchange(row.exchange)), show_name(row.alternate), f"{row.messages:,}", Text(often)
        )
    yield table
    yield from view.more(len(rows))


def show_queues(view: ReportView) -> Iterator[RenderableType]:
    """Yield queues, the fullest first, and those that got nothing."""
    rows = sorted(view.report.queues, key=lambda row: (-row.use.messages, -row.use.possible, row.use.queue))
    got = [row for row in rows if row.use.messages or row.use.possible]
    if not rows:
        return
    none = f"; {len(rows) - len(got):,} got nothing" if len(got) < len(rows) else ""
    yield make_heading("Queues", f"{len(got):,} of {len(rows):,} got messages{none}")
    if got:
        wide = (">avoided", ">last") if view.wide else ()
        table = make_table("queue", ">messages", ">of all", ">keys", *wide, ">hottest", "key")
        for row in got[: view.listed]:
            _add_queue(view, table, row)
        yield table
        yield from view.more(len(got))
    silent = sorted([row.use.queue for row in rows[len(got) :]])
    if silent:
        names = list_some([clip_line(name, LONGEST // 2) for name in silent], view.listed)
        way = f" ({ALL_HINT})" if len(silent) > view.listed else ""
        yield indent(Text(f"got nothing: {names}{way}"), 2)


def _add_queue(view: ReportView, table: Table, row: QueueRow) -> None:
    use = row.use
    possible = f" (+{use.possible:,}?)" if use.possible else ""
    often = show_top_share(row) if row.hot and use.messages else ""
    hot = Text(show_key(row.hot[0].text) if row.hot else "", overflow="fold")
    avoided = f"{use.duplicates_avoided:,}" if use.duplicates_avoided else ""
    wide = (avoided, "" if use.last is None else format_minute(use.last)[:10]) if view.wide else ()
    part = format_share(row.share) if row.share else ""
    table.add_row(
        show_name(use.queue), f"{use.messages:,}{possible}", part, f"~{use.distinct_keys:,}", *wide, often, hot
    )


def show_partition_skew(view: ReportView) -> Iterator[RenderableType]:
    """Yield partitioned queues, the most uneven first."""
    rows = [row for row in view.report.queues if row.partitioning is not None]
    rows.sort(key=lambda row: -(row.skew.max_to_mean if row.skew is not None else 0))
    if not rows:
        return
    yield make_heading("Partitions", "the fullest against the mean: 1 is even")
    for row in rows[: view.listed]:
        yield indent(show_partitions(row), 2)
    yield from view.more(len(rows))
