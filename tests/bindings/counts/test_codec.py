"""The tables of saved counts follow from annotations; files that were written before stay readable."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest

from bindings.archive.sums import Span
from bindings.counts import comparison_file, tally_file, verification_file
from bindings.counts.comparison import Comparison, PartitionMove
from bindings.counts.verification import Evidence, PlacementDifference, Verification
from exchange import InputError

TEXTS: Final = "list<item: string>"
LINKS: Final = "list<item: struct<exchange: string, alternate: string>>"
FREQUENT: Final = "struct<items: list<item: struct<text: string, count: int64, example: string>>, error: int64>"
WITNESSES: Final = (
    "list<item: struct<hash: uint64, tie: uint64, message: string, source: string, offset: int64, "
    "routed_queues: list<item: string>>>"
)
OUTCOME: Final = (
    f"exchange: string, queues: {TEXTS}, bindings: list<item: int32>, exchanges: {TEXTS}, alternates: {LINKS}, "
    f"routed: bool, undecided: {TEXTS}, refused: string, possible_queues: {TEXTS}, "
    f"possible_bindings: list<item: int32>, possible_exchanges: {TEXTS}, possible_alternates: {LINKS}"
)
SPAN: Final = "messages: int64, first: int64, last: int64"


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (
            tally_file.SCHEMA,
            (
                f"kind: string, {OUTCOME}, {SPAN}, keys: binary, "
                f"sample: list<item: struct<hash: uint64, key: string>>, "
                f"hot: {FREQUENT}, shapes: {FREQUENT}, name: string, number: int64"
            ),
        ),
        (
            comparison_file.SCHEMA,
            (
                "kind: string, what: string, side: string, name: string, number: int64, "
                "change: struct<exchange: string, "
                f"lost: {TEXTS}, gained: {TEXTS}, unsure: {TEXTS}, before: string, after: string, "
                "refused_before: string, "
                f"refused_after: string>, {SPAN}, keys: binary, witnesses: {WITNESSES}, shapes: {FREQUENT}, "
                "queue: string, partition_before: int64, partition_after: int64"
            ),
        ),
        (
            verification_file.SCHEMA,
            (
                f"kind: string, name: string, exchange: string, missing: {TEXTS}, extra: {TEXTS}, unknown: {TEXTS}, "
                f"none_of: {TEXTS}, refused: string, {SPAN}, witnesses: {WITNESSES}, strangers: {FREQUENT}"
            ),
        ),
    ],
    ids=["tally", "comparison", "verification"],
)
def test_the_columns_of_saved_counts_do_not_change(schema: pa.Schema, columns: str) -> None:
    """A field that is renamed, moved or of another type would make all saved files unreadable."""
    assert ", ".join([f"{field.name}: {field.type}" for field in schema]) == columns


@pytest.mark.parametrize("column", ["queue", "messages"])
def test_a_row_without_a_required_value_is_damaged(column: str) -> None:
    table = comparison_file.build_table(Comparison("a", "b", moves={PartitionMove("q", None, 1): 2}))
    number = table.schema.get_field_index(column)
    table = table.set_column(number, table.schema.field(number), pa.nulls(1, table.schema.field(number).type))
    with pytest.raises(InputError, match="a table: a damaged comparison"):
        comparison_file.read_comparison_table(table)


def test_an_unknown_total_is_damage() -> None:
    table = verification_file.build_table(Verification("a", differences={PlacementDifference("x"): Evidence(Span(1))}))
    names = pa.array(
        [name and name.replace("agreed", "topology") for name in table.column("name").to_pylist()], pa.string()
    )
    table = table.set_column(1, "name", names)
    with pytest.raises(InputError, match="a damaged verification: a total called 'topology'"):
        verification_file.read_verification_table(table)
