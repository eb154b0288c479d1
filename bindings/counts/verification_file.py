"""Encode verifications as tables: one row per difference with its evidence, and rows for totals and unknown queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from bindings.counts.codec import FieldCodec, TableFormat, build_column, build_schema, spread
from bindings.counts.sketch import Frequent
from bindings.counts.verification import Evidence, PlacementDifference, Verification

NAME: Final = build_column("name", str)
DIFFERENCE: Final = spread(PlacementDifference)
EVIDENCE: Final = spread(Evidence)
STRANGERS: Final = build_column("strangers", Frequent)
NO_KEY: Final = FieldCodec((), lambda key: {}, lambda row: None)

SCHEMA: Final = build_schema(NAME, DIFFERENCE, EVIDENCE, STRANGERS)

FORM: Final = TableFormat(
    "verification",
    b"1",
    SCHEMA,
    {
        "total": (NAME, build_column("messages", int)),
        "strangers": (NO_KEY, STRANGERS),
        "difference": (DIFFERENCE, EVIDENCE),
    },
)

TOTALS: Final = ("agreed", "possible", "undecided", "unknown", "more")


def build_table(verification: Verification) -> pa.Table:
    """Return a verification as a table, with its topology's fingerprint in the schema's metadata."""
    counts: dict[str, Mapping[Any, Any]] = {
        "total": {name: getattr(verification, name) for name in TOTALS},
        "strangers": {None: verification.strangers},
        "difference": verification.differences,
    }
    return FORM.table(counts, {"topology": verification.topology})


def read_verification_table(table: pa.Table, source: str = "a table") -> Verification:
    """Return the verification in a table. Raises InputError, naming the source, if it holds none of this version."""
    metadata = FORM.metadata(table, ("topology",), source)
    counts = FORM.counts(table, source)
    wrong = counts["total"].keys() - set(TOTALS)
    if wrong:
        raise FORM.damage(source, f"a total called {min(wrong)!r}")
    strangers = counts["strangers"].get(None, Frequent())
    return Verification(metadata["topology"], differences=counts["difference"], strangers=strangers, **counts["total"])
