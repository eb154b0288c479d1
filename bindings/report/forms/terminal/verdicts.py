"""The sections of a report at the terminal that judge: broker, other topology, findings, ignore list, gates."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from bindings.archive.figures import format_position, format_share
from bindings.checking.rules.table import SEVERITIES
from bindings.counts.changes import summarize_changes
from bindings.report.forms.terminal.cells import LONGEST, indent, make_heading, make_pairs, show_finding
from bindings.report.forms.terminal.view import ReportView
from bindings.report.words import describe_change, describe_difference, describe_gates
from exchange.text.display import clip_line, count_noun


def show_verification(view: ReportView) -> Iterator[RenderableType]:
    """Yield what the broker did, beside what was predicted."""
    verification = view.report.verification
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
    for difference, evidence in rows[: view.listed]:
        text = Text(clip_line(describe_difference(difference), 3 * LONGEST))
        for witness in evidence.witnesses[:1]:
            key = clip_line(witness.message.routing_key, LONGEST)
            position = format_position(clip_line(witness.source, LONGEST), witness.offset) if witness.source else ""
            text.append(f"\nas '{key}' {position}", style="dim")
        grid.add_row(f"{evidence.messages:,}", text)
    yield indent(grid, 2)
    yield from view.more(verification.sorts, "sorts of difference", held=len(rows))
    strangers = verification.strangers.items[: view.listed // 2]
    if strangers:
        listed = ", ".join([f"{clip_line(item.text, LONGEST)} {item.count:,}" for item in strangers])
        yield indent(Text(f"queues that the topology does not have: {listed}", style="dim"), 2)


def show_comparison(view: ReportView) -> Iterator[RenderableType]:
    """Yield what another topology does with the same messages."""
    compared = view.report.comparison
    if compared is None:
        return
    changes = compared.changes
    yield make_heading(f"With {clip_line(compared.topology, LONGEST)} instead", summarize_changes(changes.totals))
    grid = make_pairs()
    for row in changes.rerouted[: view.listed]:
        text = Text(clip_line(describe_change(row.change), 3 * LONGEST))
        if row.shapes.items:
            text.append(f"\nas '{clip_line(row.shapes.items[0].example, LONGEST)}'", style="dim")
        grid.add_row(f"{row.messages:,}", text)
    yield indent(grid, 2)
    yield from view.more(len(changes.rerouted))
    grid = make_pairs()
    for moves in [each for each in changes.partitions if each.moved][: view.listed]:
        part = f", {format_share(moves.share)} of those whose key decides it" if moves.share else ""
        text = Text(f"move to another partition of {clip_line(moves.queue, LONGEST)}{part}")
        grid.add_row(f"{moves.moved:,}", text)
    yield indent(grid, 2)


def show_findings(view: ReportView) -> Iterator[RenderableType]:
    """Yield findings, the most severe first."""
    rows = sorted(
        view.report.findings, key=lambda row: (-SEVERITIES.index(row.finding.rule.severity), row.evidence == "")
    )
    if not rows:
        return
    yield make_heading("Findings of hashstar check, with the evidence of the traffic", "")
    grid = make_pairs(justify="left")
    for row in rows[: view.listed]:
        grid.add_row(Text(row.finding.code, style="bold"), show_finding(row))
    yield indent(grid, 2)
    yield from view.more(len(rows))


def show_ignored(view: ReportView) -> Iterator[RenderableType]:
    """Yield entries of the ignore list."""
    rows = view.report.ignored
    if not rows:
        return
    yield make_heading("Ignored bindings", "")
    grid = make_pairs()
    for use in rows[: view.listed]:
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
    yield from view.more(len(rows))


def show_gates(view: ReportView) -> Iterator[RenderableType]:
    """Yield gates, those that failed first."""
    gates = sorted(view.report.gates, key=lambda gate: gate.passed)
    if not gates:
        return
    yield make_heading("Gates", describe_gates(view.report))
    grid = make_pairs(justify="left")
    for gate in gates[: view.listed]:
        word = Text("passed", style="green") if gate.passed else Text("FAILED", style="bold red")
        scope = f"{gate.of} '{clip_line(gate.scope, LONGEST)}': " if gate.of else ""
        grid.add_row(word, Text(f"{scope}{clip_line(gate.message, 4 * LONGEST)}"))
    yield indent(grid, 2)
    yield from view.more(len(gates))
