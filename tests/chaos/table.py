"""What runs came to, as a table and as complaints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tests.chaos.plan import Kind
from tests.chaos.run import Outcome

__all__ = ["told"]

HEAD: Final = (
    "pair", "messages", *[f"{kind.value}s" for kind in Kind], "lost", "out of order", "duplicates", "per fault",
    "bound", "in flight", "began (UTC)", "seconds",
)  # fmt: skip


def told(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of a table, and behind it what is wrong. ``in flight``: messages that faults met, the middle one."""
    rows = [HEAD, *[_row(outcome) for outcome in outcomes]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for n, row in enumerate(rows):
        first, *rest = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield f"| {' | '.join([first.strip().ljust(widths[0]), *rest])} |"
        if not n:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    for outcome in outcomes:
        for problem in outcome.problems:
            yield f"{outcome.pair}: {problem}"
        if outcome.problems:
            yield f"{outcome.pair}: the bridge's logs and the list of faults are in {outcome.folder}"


def _row(outcome: Outcome) -> Sequence[str]:
    account, faults = outcome.account, outcome.faults.total()
    met = sorted(outcome.in_flight)
    found: Sequence[str] = ("?",) * 4
    if account is not None:
        found = (
            f"{len(account.lost):,}" if outcome.finished else "?",
            f"{len(account.out_of_order):,}",
            f"{account.duplicates:,}",
            f"{account.duplicates / max(1, faults):,.0f}",
        )
    return (
        outcome.pair, f"{outcome.amount.messages:,}", *[f"{outcome.faults[kind]:,}" for kind in Kind], *found,
        f"{outcome.bound:,}", f"{met[len(met) // 2]:,}" if met else "-", f"{outcome.began:%Y-%m-%d %H:%M}",
        f"{outcome.seconds:,.0f}",
    )  # fmt: skip
