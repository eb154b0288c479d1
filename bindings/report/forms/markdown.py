"""A report as a comment on a pull request, in GitHub's Markdown: short, with long lists folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.archive.figures import format_share, to_percent
from bindings.report.model import Report
from bindings.report.rows import STATES
from bindings.report.words import (
    NO_HEADERS,
    describe_condition,
    describe_records,
    describe_topology,
    describe_traffic,
    describe_window,
    list_unexplained_exchanges,
    name_destination,
    name_exchange,
    summarize,
)
from exchange.text.display import count_noun
from exchange.text.markdown import escape_text, fold, quote_code, write_rows

MAX_LISTED_ROWS: Final = 20
"""Maximum number of rows of a list."""
LONGEST: Final = 120
"""Maximum number of characters of a name or key; a sentence may have four times as many."""


def to_markdown(report: Report) -> Iterator[str]:
    """Yield the lines of a report."""
    totals, states, digits = report.summary.totals, report.summary.states, report.precision
    failed = [gate for gate in report.gates if not gate.passed]
    yield f"### hashstar audit: {'**failed**' if failed else 'passed' if report.gates else 'no gates'}"
    yield ""
    others = "".join([f", {states[state]:,} {state}" for state in STATES if states[state] and state != "hit"])
    fates = {"unroutable": totals.unroutable, "refused": totals.refused, "undecided": totals.undecided}
    lost = "".join([f", {count:,} {fate}" for fate, count in fates.items() if count])
    yield from write_rows(
        ("", "coverage", ""),
        [
            (
                "bindings",
                _percent(totals.hit, totals.eligible, digits),
                f"{totals.hit:,} of {totals.eligible:,} hit{others}",
            ),
            (
                "messages",
                _percent(totals.routed, totals.messages, digits),
                f"{totals.routed:,} of {totals.messages:,} routed{lost}",
            ),
        ],
    )
    yield ""
    for gate in failed:
        scope = f"{gate.of} {quote_code(gate.scope, LONGEST, in_cell=False)}: " if gate.of else ""
        yield f"- **failed**: {scope}{_plain(gate.message)}"
    yield from [""] * bool(failed)
    yield from _dead(report)
    yield from _unroutable(report)
    yield from _exchanges(report)
    yield from _findings(report)
    audited = report.audited
    yield from fold("What was audited", [
        f"- topology: {_plain(describe_topology(audited))}",
        f"- traffic: {_plain(describe_traffic(audited))}",
        f"- window: {describe_window(audited)}",
        f"- records: {_plain(describe_records(audited.records))}",
        *[f"- {_plain(caveat)}" for caveat in report.caveats],
    ])  # fmt: skip
    yield _plain(summarize(report))


def _dead(report: Report) -> Iterator[str]:
    rows = [row for row in report.bindings if row.state == "dead"]
    rows.sort(key=lambda row: (-row.use.exposure, row.use.number))
    if rows:
        table = write_rows(
            ("exchange", "binding", "destination", "matched", "at most (95 %)"),
            [
                (
                    _code(name_exchange(row.use.binding.source)),
                    _code(describe_condition(row.use.binding)),
                    _code(name_destination(row.use.binding.destination)),
                    f"0 of {row.use.exposure:,}",
                    format_share(row.use.bound) if row.use.bound is not None and row.use.exposure else "no chance",
                )
                for row in rows[:MAX_LISTED_ROWS]
            ],
        )
        yield from fold(f"{count_noun(len(rows), 'dead binding')}", [*table, *_more(len(rows))])


def _unroutable(report: Report) -> Iterator[str]:
    shapes = [(row, shape) for row in report.unroutable for shape in row.shapes]
    unexplained = list_unexplained_exchanges(report)
    shapes.sort(key=lambda each: -each[1].messages)
    if report.unroutable:
        lost = sum([row.messages for row in report.unroutable])
        table = write_rows(
            ("published to", "keys like", "messages", "nearest"),
            [
                (
                    _code(name_exchange(row.exchange)),
                    _code(shape.example or '""'),
                    f"{shape.messages:,}{'+' if row.error else ''}",
                    NO_HEADERS * (row.exchange in unexplained) if (near := shape.nearest) is None
                    else f"{_code(describe_condition(near.binding)) + ' ' if near.binding is not None else ''}"
                    f"to {_code(name_destination(near.destination))}: {_plain(near.reason)}",
                )
                for row, shape in shapes[:MAX_LISTED_ROWS]
            ],
        )  # fmt: skip
        yield from fold(f"{count_noun(lost, 'message')} that no queue got", [*table, *_more(len(shapes))])


def _exchanges(report: Report) -> Iterator[str]:
    rows = [row for row in report.exchanges if row.use.messages or row.use.published or sum(row.states.values())]
    rows.sort(key=lambda row: (-row.use.messages, -row.use.published, row.use.exchange))
    if rows:
        digits = report.precision
        table = write_rows(
            ("exchange", "bindings hit", "coverage", "published", "routed"),
            [
                (
                    _code(name_exchange(row.use.exchange)),
                    f"{row.hit:,} of {row.eligible:,}",
                    _percent(row.hit, row.eligible, digits),
                    f"{row.use.published:,}",
                    _percent(row.routed, row.use.published, digits),
                )
                for row in rows[:MAX_LISTED_ROWS]
            ],
        )
        yield from fold(count_noun(len(rows), "exchange"), [*table, *_more(len(rows))])


def _findings(report: Report) -> Iterator[str]:
    rows = [row for row in report.findings if row.evidence in ("proved", "belied")]
    if rows:
        lines = [
            f"- {row.finding.code}: {_plain(row.finding.message)}: {row.evidence}, {_plain(row.sentence)}"
            for row in rows[:MAX_LISTED_ROWS]
        ]
        yield from fold(
            f"{count_noun(len(rows), 'finding')} that the traffic proves or belies", [*lines, *_more(len(rows))]
        )


def _more(count: int) -> list[str]:
    return ["", f"and {count - MAX_LISTED_ROWS:,} more"] if count > MAX_LISTED_ROWS else []


def _percent(part: int, whole: int, digits: int) -> str:
    return f"{to_percent(part, whole, digits)} %" if whole else "none"


def _code(text: str) -> str:
    return quote_code(text, LONGEST)


def _plain(text: str) -> str:
    return escape_text(text, 4 * LONGEST)
