"""Tallies at rest: a Parquet file that says all of one, and of which topology and in which version of this format.

A row of kind ``outcome`` is an outcome with its facts; the other kinds are counts under a name. Version 1 had slots of
an hour (kind ``hour``); since version 2 the metadata has their width (kind ``slot``). Both are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindings.archive.names import escape, unescape
from bindings.counts.columns import (
    FREQUENT,
    OUTCOME,
    checked,
    frequent_of,
    frequent_row,
    outcome_of,
    outcome_row,
    refuse_damage,
)
from bindings.counts.outcome import Outcome
from bindings.counts.slots import HOUR, LAST_TIME, WIDTHS, SlotCounts
from bindings.counts.tally import Facts, Tally
from bindings.sources.files import make_folders, open_file, replacing
from exchange.errors import InputError

__all__ = ["VERSION", "load_tally", "save_tally", "table_of", "tally_of"]

VERSION: Final = b"2"
HOURLY: Final = b"1"
"""The version whose slots are hours."""
VERSION_KEY: Final = b"hashstar.tally"
TOPOLOGY_KEY: Final = b"hashstar.topology"
SLOT_KEY: Final = b"hashstar.slot"
"""The width of a slot in microseconds."""

SCHEMA: Final = pa.schema([
    ("kind", pa.string()),
    *OUTCOME.fields,
    ("messages", pa.int64()),
    ("first", pa.int64()),
    ("last", pa.int64()),
    ("keys", pa.binary()),
    ("sample", pa.list_(pa.struct([("hash", pa.uint64()), ("key", pa.string())]))),
    ("hot", FREQUENT),
    ("shapes", FREQUENT),
    ("name", pa.string()),
    ("number", pa.int64()),
])  # fmt: skip
"""``name`` is a partitioned queue or a reason, ``number`` a partition or a slot since 1970."""


def table_of(tally: Tally) -> pa.Table:
    """A tally as a table, with its topology's fingerprint in the schema's metadata."""
    rows = [_row_of(outcome, facts) for outcome, facts in tally.facts.items()]
    rows += [
        {"kind": "partition", "name": escape(queue), "number": partition, "messages": count}
        for (queue, partition), count in tally.partitions.items()
    ]
    for kind, reasons in (("skipped", tally.skipped), ("bad", tally.bad)):
        rows += [{"kind": kind, "name": escape(reason), "messages": count} for reason, count in reasons.items()]
    width = str(tally.timeline.width).encode()
    metadata = {VERSION_KEY: VERSION, TOPOLOGY_KEY: tally.topology.encode(), SLOT_KEY: width}
    table = pa.concat_tables([pa.Table.from_pylist(rows, SCHEMA), _slots(tally.timeline)])
    return table.combine_chunks().replace_schema_metadata(metadata)


def tally_of(table: pa.Table, source: str = "a table") -> Tally:
    """The tally that a table holds. Raises InputError, which names the source, when it holds none of this version."""
    is_hourly = (table.schema.metadata or {}).get(VERSION_KEY) == HOURLY
    metadata = checked(table, SCHEMA, "tally", VERSION_KEY, HOURLY if is_hourly else VERSION, source)
    topology = metadata.get(TOPOLOGY_KEY.decode())
    if topology is None:
        raise InputError(f"{source}: not a tally of hashstar")

    facts: dict[Outcome, Facts] = {}
    partitions: dict[tuple[str, int | None], int] = {}
    reasons: dict[str, dict[str, int]] = {"skipped": {}, "bad": {}}
    text = str(HOUR) if is_hourly else metadata.get(SLOT_KEY.decode())
    width = {str(each): each for each in WIDTHS}.get(text or "")
    if width is None:
        raise InputError(f"{source}: a damaged tally: the width of its slots is {text!r}")
    with refuse_damage("tally", source):
        is_slot = pc.fill_null(pc.equal(table.column("kind"), "hour" if is_hourly else "slot"), False)
        timeline = _read_slots(table.filter(is_slot), width, source)
        for row in table.filter(pc.invert(is_slot)).to_pylist():
            kind = row["kind"]
            if kind == "outcome":
                outcome, of_it = _read(row)
                facts[outcome] = of_it
            elif kind == "partition":
                partitions[unescape(row["name"]), row["number"]] = row["messages"]
            elif kind in reasons:
                reasons[kind][unescape(row["name"])] = row["messages"]
            else:
                raise InputError(f"{source}: a damaged tally: a row of kind {kind!r}")
    return Tally(topology, facts, partitions, timeline, reasons["skipped"], reasons["bad"])


def save_tally(tally: Tally, path: Path) -> None:
    """Write a tally, in a folder that is made if it is missing. Raises InputError when that fails."""
    try:
        make_folders(path.parent)
        with replacing(path) as file:
            pq.write_table(table_of(tally), file, compression="zstd", write_page_checksum=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def load_tally(path: Path) -> Tally:
    """Read a tally. Raises InputError when the file cannot be read or holds none."""
    try:
        with open_file(path) as file:  # pyarrow takes a name for a URI, and only one in UTF-8
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names of columns that are not UTF-8
        raise InputError(f"{path}: cannot be read as a tally: {error}") from None
    return tally_of(table, str(path))


def _row_of(outcome: Outcome, facts: Facts) -> dict[str, Any]:
    return {
        "kind": "outcome",
        **outcome_row(outcome),
        "messages": facts.messages,
        "first": facts.first,
        "last": facts.last,
        "keys": facts.keys,
        "sample": [{"hash": value, "key": escape(key)} for value, key in facts.sample],
        "hot": frequent_row(facts.hot),
        "shapes": frequent_row(facts.shapes),
    }


def _slots(timeline: SlotCounts) -> pa.Table:
    """Return the rows of a timeline, by columns: they can be thousands, with nothing in most columns."""
    number = len(timeline.counts)
    columns = {
        "kind": ["slot"] * number,
        "exchange": [escape(exchange) for _, exchange, _ in timeline.counts],
        "number": [slot for slot, _, _ in timeline.counts],
        "routed": [routed for _, _, routed in timeline.counts],
        "messages": list(timeline.counts.values()),
    }
    arrays = [
        pa.array(columns[column.name], column.type) if column.name in columns else pa.nulls(number, column.type)
        for column in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _read_slots(table: pa.Table, width: int, source: str) -> SlotCounts:
    """Return the timeline of such rows. Raises InputError where they are no slots of times."""
    needed = table.select(["number", "exchange", "messages"])
    if any(column.null_count for column in needed.columns):
        raise InputError(f"{source}: a damaged tally: a slot without number, exchange or messages")
    numbers, exchanges, fates, counts = (
        table.column(name).to_pylist() for name in ("number", "exchange", "routed", "messages")
    )
    if any(abs(number) * width > LAST_TIME for number in numbers):
        raise InputError(f"{source}: a damaged tally: a slot at no time")
    if sum(map(abs, counts)) >= 1 << 63:  # a sum of two slots would not fit into a file again
        raise InputError(f"{source}: a damaged tally: more messages in slots than can be counted")
    cells = zip(numbers, map(unescape, exchanges), fates, strict=True)
    return SlotCounts.of(width, dict(zip(cells, counts, strict=True)))


def _read(row: dict[str, Any]) -> tuple[Outcome, Facts]:
    sample = tuple([(each["hash"], unescape(each["key"])) for each in row["sample"]])
    times = (row["messages"], row["first"], row["last"])
    return outcome_of(row), Facts(*times, row["keys"], sample, frequent_of(row["hot"]), frequent_of(row["shapes"]))
