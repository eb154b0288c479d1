"""Encode comparisons as tables: each row has a sum, a change or a move, with its counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from bindings.counts.codec import TableFormat, build_column, build_schema, spread
from bindings.counts.comparison import ChangeFacts, Comparison, MessageSum, OutcomeChange, PartitionMove

SUM: Final = spread(MessageSum)
CHANGE: Final = build_column("change", OutcomeChange)
FACTS: Final = spread(ChangeFacts)
MOVE: Final = spread(PartitionMove)
MESSAGES: Final = build_column("messages", int)

SCHEMA: Final = build_schema(SUM, CHANGE, FACTS, MOVE)

FORM: Final = TableFormat(
    "comparison", b"2", SCHEMA, {"sum": (SUM, MESSAGES), "change": (CHANGE, FACTS), "move": (MOVE, MESSAGES)}
)


def build_table(comparison: Comparison) -> pa.Table:
    """Return a comparison as a table, with the topologies' fingerprints in the schema's metadata."""
    counts: dict[str, Mapping[Any, Any]] = {
        "sum": comparison.sums,
        "change": comparison.changes,
        "move": comparison.moves,
    }
    return FORM.table(counts, {"before": comparison.before, "after": comparison.after, "many": comparison.many})


def read_comparison_table(table: pa.Table, source: str = "a table") -> Comparison:
    """Return the comparison in a table. Raises InputError, naming the source, if it holds none of this version."""
    metadata = FORM.metadata(table, ("before", "after", "many"), source)
    counts = FORM.counts(table, source)
    return Comparison(
        metadata["before"], metadata["after"], counts["sum"], counts["change"], counts["move"], metadata["many"]
    )
