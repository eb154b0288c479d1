"""The two totals of a report as bare numbers, for scripts."""

from __future__ import annotations

from bindings.archive.figures import to_percent
from bindings.report.model import Report


def to_totals(report: Report) -> str:
    """Return both totals in per cent, a line each: ``bindings 71.4`` and ``messages 99.2``, or ``none`` of nothing."""
    totals = report.summary.totals
    rows = (("bindings", totals.hit, totals.eligible), ("messages", totals.routed, totals.messages))
    return "\n".join([
        f"{name} {to_percent(part, whole, report.precision) if whole else 'none'}" for name, part, whole in rows
    ])  # fmt: skip
