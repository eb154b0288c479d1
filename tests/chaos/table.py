"""The results of runs and trials, as a table and a list of problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tests.chaos.plan import Kind
from tests.chaos.run import Outcome
from tests.chaos.trial import TrialResult

HEAD: Final = (
    "pair", "messages", *[f"{kind.value}s" for kind in Kind], "lost", "out of order", "duplicates", "per fault",
    "bound", "in flight", "began (UTC)", "seconds",
)  # fmt: skip


TRIAL_HEAD: Final = (
    "scenario", "brokers", "messages", "lost", "out of order", "duplicates", "dead letters", "recovered", "seen in log",
    "in a metric", "at /ready",
)  # fmt: skip


def outcome_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of a table, then the problems. ``in flight``: median of the messages that faults met."""
    yield from _table([HEAD, *[_row(outcome) for outcome in outcomes]])
    for outcome in outcomes:
        for problem in outcome.problems:
            yield f"{outcome.pair}: {problem}"
        if outcome.problems:
            yield f"{outcome.pair}: the bridge's logs and the list of faults are in {outcome.folder}"


def trial_lines(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the lines of a table of scenarios, then further measurements and the problems.

    ``recovered``: seconds from the end of a fault until messages moved again and the bridge was ready; ``seen``:
    seconds from the beginning of the fault until a log line, a metric and ``/ready`` showed it.
    """
    yield from _table([TRIAL_HEAD, *[_trial_row(result) for result in results]], left=2)
    for result in results:
        for line in (*result.notes, *result.problems):
            yield f"{result.scenario}: {line}"
        if result.problems:
            yield f"{result.scenario}: the bridges' logs are in {result.folder}"


def _table(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield rows as Markdown, the first as the head; the first ``left`` columns are aligned to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for n, row in enumerate(rows):
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"| {' | '.join(cells)} |"
        if not n:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def _trial_row(result: TrialResult) -> Sequence[str]:
    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f} s"

    counts = (result.messages, result.lost, result.out_of_order, result.duplicates, result.dead_letters)
    seen = (None, None, None) if result.visibility is None else result.visibility
    return (
        result.scenario, result.versions, *["?" if count is None else f"{count:,}" for count in counts],
        seconds(result.recovered), *[seconds(each) for each in seen],
    )  # fmt: skip


def _row(outcome: Outcome) -> Sequence[str]:
    account, faults = outcome.account, outcome.faults.total()
    in_flight = sorted(outcome.in_flight)
    results: Sequence[str] = ("?",) * 4
    if account is not None:
        results = (
            f"{len(account.lost):,}" if outcome.finished else "?",
            f"{len(account.out_of_order):,}",
            f"{account.duplicates:,}",
            f"{account.duplicates / max(1, faults):,.0f}",
        )
    return (
        outcome.pair, f"{outcome.amount.messages:,}", *[f"{outcome.faults[kind]:,}" for kind in Kind], *results,
        f"{outcome.bound:,}", f"{in_flight[len(in_flight) // 2]:,}" if in_flight else "-",
        f"{outcome.began:%Y-%m-%d %H:%M}", f"{outcome.seconds:,.0f}",
    )  # fmt: skip
