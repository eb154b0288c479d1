"""Verifications at rest: a table that says all of one, and of which topology and in which version of this format.

A row of kind ``difference`` is a difference with its evidence; those of kind ``total`` are counts under a name, and the
one of kind ``strangers`` is the summary of unknown queues.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from bindings.archive.names import escape, unescape
from bindings.counts.columns import (
    FREQUENT,
    TEXTS,
    checked,
    frequent_of,
    frequent_row,
    read_texts,
    refuse_damage,
    texts,
)
from bindings.counts.sketch import Frequent
from bindings.counts.verification import Difference, Evidence, Verification
from bindings.counts.witness import WITNESSES, witness_rows, witnesses_of
from exchange.errors import InputError

__all__ = ["VERSION", "table_of", "verification_of"]

VERSION: Final = b"1"
VERSION_KEY: Final = b"hashstar.verification"
TOPOLOGY_KEY: Final = b"hashstar.topology"

SCHEMA: Final = pa.schema([
    ("kind", pa.string()),
    ("name", pa.string()),
    ("exchange", pa.string()),
    ("missing", TEXTS),
    ("extra", TEXTS),
    ("unknown", TEXTS),
    ("none_of", TEXTS),
    ("refused", pa.string()),
    ("messages", pa.int64()),
    ("first", pa.int64()),
    ("last", pa.int64()),
    ("witnesses", WITNESSES),
    ("strangers", FREQUENT),
])  # fmt: skip

TOTALS: Final = ("agreed", "possible", "undecided", "unknown", "more")


def table_of(verification: Verification) -> pa.Table:
    """A verification as a table, with its topology's fingerprint in the schema's metadata."""
    rows = [{"kind": "total", "name": name, "messages": getattr(verification, name)} for name in TOTALS]
    rows.append({"kind": "strangers", "strangers": frequent_row(verification.strangers)})
    rows += [_row_of(difference, evidence) for difference, evidence in verification.differences.items()]
    metadata = {VERSION_KEY: VERSION, TOPOLOGY_KEY: verification.topology.encode()}
    return pa.Table.from_pylist(rows, SCHEMA.with_metadata(metadata))


def verification_of(table: pa.Table, source: str = "a table") -> Verification:
    """The verification that a table holds. Raises InputError, naming the source, when it is none of this version."""
    metadata = checked(table, SCHEMA, "verification", VERSION_KEY, VERSION, source)
    totals: dict[str, int] = {}
    strangers = Frequent()
    differences: dict[Difference, Evidence] = {}
    with refuse_damage("verification", source):
        for row in table.to_pylist():
            kind = row["kind"]
            if kind == "total" and row["name"] in TOTALS:
                totals[row["name"]] = row["messages"]
            elif kind == "strangers":
                strangers = frequent_of(row["strangers"])
            elif kind == "difference":
                queues = [read_texts(row[name]) for name in ("missing", "extra", "unknown", "none_of")]
                difference = Difference._make([unescape(row["exchange"]), *queues, unescape(row["refused"])])
                witnesses = witnesses_of(row["witnesses"])
                differences[difference] = Evidence(row["messages"], row["first"], row["last"], witnesses)
            else:
                raise InputError(f"{source}: a damaged verification: a row of kind {kind!r}")
        return Verification(metadata[TOPOLOGY_KEY.decode()], differences=differences, strangers=strangers, **totals)


def _row_of(difference: Difference, evidence: Evidence) -> dict[str, Any]:
    return {
        "kind": "difference",
        "exchange": escape(difference.exchange),
        "missing": texts(difference.missing),
        "extra": texts(difference.extra),
        "unknown": texts(difference.unknown),
        "none_of": texts(difference.none_of),
        "refused": escape(difference.refused),
        "messages": evidence.messages,
        "first": evidence.first,
        "last": evidence.last,
        "witnesses": witness_rows(evidence.witnesses),
    }
