"""Comparisons at rest: a table that says all of one, of which topologies and in which version of this format.

A row of kind ``pair`` is a pair of outcomes and how many messages have it, one of kind ``change`` a change with its
facts, and one of kind ``move`` has the messages of a queue that go from a partition to another.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from bindings.archive.names import escape, unescape
from bindings.counts.columns import (
    FREQUENT,
    OUTCOME,
    TEXTS,
    checked,
    frequent_of,
    frequent_row,
    outcome_of,
    outcome_row,
    read_texts,
    refuse_damage,
    texts,
)
from bindings.counts.comparison import Change, ChangeFacts, Comparison, Move, Pair
from bindings.counts.witness import WITNESSES, witness_rows, witnesses_of
from exchange.errors import InputError

__all__ = ["VERSION", "comparison_of", "table_of"]

VERSION: Final = b"1"
VERSION_KEY: Final = b"hashstar.comparison"
BEFORE_KEY: Final = b"hashstar.before"
AFTER_KEY: Final = b"hashstar.after"

CHANGE: Final = pa.struct([
    ("exchange", pa.string()),
    ("lost", TEXTS),
    ("gained", TEXTS),
    ("unsure", TEXTS),
    ("before", pa.string()),
    ("after", pa.string()),
    ("refused_before", pa.string()),
    ("refused_after", pa.string()),
])  # fmt: skip

SCHEMA: Final = pa.schema([
    ("kind", pa.string()),
    ("before", OUTCOME),
    ("after", OUTCOME),
    ("change", CHANGE),
    ("messages", pa.int64()),
    ("first", pa.int64()),
    ("last", pa.int64()),
    ("keys", pa.binary()),
    ("witnesses", WITNESSES),
    ("shapes", FREQUENT),
    ("queue", pa.string()),
    ("partition_before", pa.int64()),
    ("partition_after", pa.int64()),
])  # fmt: skip


def table_of(comparison: Comparison) -> pa.Table:
    """A comparison as a table, with the topologies' fingerprints in the schema's metadata."""
    rows: list[dict[str, Any]] = [
        {"kind": "pair", "before": outcome_row(before), "after": outcome_row(after), "messages": count}
        for (before, after), count in comparison.pairs.items()
    ]
    rows += [_row_of(change, facts) for change, facts in comparison.changes.items()]
    rows += [
        {
            "kind": "move", "queue": escape(queue), "partition_before": before, "partition_after": after,
            "messages": count,
        }
        for (queue, before, after), count in comparison.moves.items()
    ]  # fmt: skip
    metadata = {VERSION_KEY: VERSION, BEFORE_KEY: comparison.before.encode(), AFTER_KEY: comparison.after.encode()}
    return pa.Table.from_pylist(rows, SCHEMA.with_metadata(metadata))


def comparison_of(table: pa.Table, source: str = "a table") -> Comparison:
    """The comparison that a table holds. Raises InputError, naming the source, when it is none of this version."""
    metadata = checked(table, SCHEMA, "comparison", VERSION_KEY, VERSION, source)
    pairs: dict[Pair, int] = {}
    changes: dict[Change, ChangeFacts] = {}
    moves: dict[Move, int] = {}
    with refuse_damage("comparison", source):
        for row in table.to_pylist():
            if row["kind"] == "pair":
                pairs[outcome_of(row["before"]), outcome_of(row["after"])] = row["messages"]
            elif row["kind"] == "change":
                changes[_change_of(row["change"])] = ChangeFacts(
                    row["messages"], row["first"], row["last"], row["keys"], witnesses_of(row["witnesses"]),
                    frequent_of(row["shapes"]),
                )  # fmt: skip
            elif row["kind"] == "move":
                moves[unescape(row["queue"]), row["partition_before"], row["partition_after"]] = row["messages"]
            else:
                raise InputError(f"{source}: a damaged comparison: a row of kind {row['kind']!r}")
        return Comparison(metadata[BEFORE_KEY.decode()], metadata[AFTER_KEY.decode()], pairs, changes, moves)


def _row_of(change: Change, facts: ChangeFacts) -> dict[str, Any]:
    return {
        "kind": "change",
        "change": {
            "exchange": escape(change.exchange),
            "lost": texts(change.lost),
            "gained": texts(change.gained),
            "unsure": texts(change.unsure),
            "before": change.before,
            "after": change.after,
            "refused_before": escape(change.refused_before),
            "refused_after": escape(change.refused_after),
        },
        "messages": facts.messages,
        "first": facts.first,
        "last": facts.last,
        "keys": facts.keys,
        "witnesses": witness_rows(facts.witnesses),
        "shapes": frequent_row(facts.shapes),
    }


def _change_of(row: dict[str, Any]) -> Change:
    return Change(
        unescape(row["exchange"]),
        read_texts(row["lost"]),
        read_texts(row["gained"]),
        read_texts(row["unsure"]),
        row["before"],
        row["after"],
        unescape(row["refused_before"]),
        unescape(row["refused_after"]),
    )
