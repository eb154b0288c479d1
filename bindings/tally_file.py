"""Tallies at rest: a Parquet file that says all of one, and of which topology and in which version of this format.

A row of kind ``outcome`` is an outcome with its facts; the other kinds are counts under a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindings.archive.names import escaped, unescaped
from bindings.outcome import Outcome
from bindings.sketch import Frequent, Item
from bindings.tally import Facts, Tally
from exchange.errors import InputError

__all__ = ["VERSION", "load_tally", "save_tally", "table_of", "tally_of"]

VERSION: Final = b"1"
VERSION_KEY: Final = b"hashstar.tally"
TOPOLOGY_KEY: Final = b"hashstar.topology"

TEXTS: Final = pa.list_(pa.string())
NUMBERS: Final = pa.list_(pa.int32())
LINKS: Final = pa.list_(pa.struct([("exchange", pa.string()), ("alternate", pa.string())]))
FREQUENT: Final = pa.struct([
    ("items", pa.list_(pa.struct([("text", pa.string()), ("count", pa.int64()), ("example", pa.string())]))),
    ("error", pa.int64()),
])  # fmt: skip

SCHEMA: Final = pa.schema([
    ("kind", pa.string()),
    ("exchange", pa.string()),
    ("queues", TEXTS),
    ("bindings", NUMBERS),
    ("exchanges", TEXTS),
    ("alternates", LINKS),
    ("routed", pa.bool_()),
    ("undecided", TEXTS),
    ("refused", pa.string()),
    ("possible_queues", TEXTS),
    ("possible_bindings", NUMBERS),
    ("possible_exchanges", TEXTS),
    ("possible_alternates", LINKS),
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
"""``name`` is a partitioned queue or a reason, ``number`` a partition or an hour since 1970."""


def table_of(tally: Tally) -> pa.Table:
    """A tally as a table, with its topology's fingerprint in the schema's metadata."""
    rows = [_row_of(outcome, facts) for outcome, facts in tally.facts.items()]
    rows += [
        {"kind": "partition", "name": escaped(queue), "number": partition, "messages": count}
        for (queue, partition), count in tally.partitions.items()
    ]
    rows += [
        {"kind": "hour", "exchange": escaped(exchange), "number": hour, "routed": routed, "messages": count}
        for (hour, exchange, routed), count in tally.timeline.items()
    ]
    for kind, reasons in (("skipped", tally.skipped), ("bad", tally.bad)):
        rows += [{"kind": kind, "name": escaped(reason), "messages": count} for reason, count in reasons.items()]
    metadata = {VERSION_KEY: VERSION, TOPOLOGY_KEY: tally.topology.encode()}
    return pa.Table.from_pylist(rows, SCHEMA.with_metadata(metadata))


def tally_of(table: pa.Table, source: str = "a table") -> Tally:
    """The tally that a table holds. Raises InputError, which names the source, when it holds none of this version."""
    metadata = table.schema.metadata or {}
    version = metadata.get(VERSION_KEY)
    if version is None or TOPOLOGY_KEY not in metadata:
        raise InputError(f"{source}: not a tally of hashstar")
    if version != VERSION:
        raise InputError(
            f"{source}: a tally of version {version.decode()}; this hashstar reads version {VERSION.decode()}"
        )
    if not table.schema.equals(SCHEMA):
        raise InputError(f"{source}: a damaged tally: its columns are not those of version {VERSION.decode()}")

    facts: dict[Outcome, Facts] = {}
    partitions: dict[tuple[str, int | None], int] = {}
    timeline: dict[tuple[int, str, bool | None], int] = {}
    reasons: dict[str, dict[str, int]] = {"skipped": {}, "bad": {}}
    for row in table.to_pylist():
        kind = row["kind"]
        if kind == "outcome":
            outcome, of_it = _read(row)
            facts[outcome] = of_it
        elif kind == "partition":
            partitions[unescaped(row["name"]), row["number"]] = row["messages"]
        elif kind == "hour":
            timeline[row["number"], unescaped(row["exchange"]), row["routed"]] = row["messages"]
        elif kind in reasons:
            reasons[kind][unescaped(row["name"])] = row["messages"]
        else:
            raise InputError(f"{source}: a damaged tally: a row of kind {kind!r}")
    return Tally(metadata[TOPOLOGY_KEY].decode(), facts, partitions, timeline, reasons["skipped"], reasons["bad"])


def save_tally(tally: Tally, path: Path) -> None:
    """Write a tally. Raises InputError when the file cannot be written."""
    try:
        pq.write_table(table_of(tally), path, compression="zstd", write_page_checksum=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def load_tally(path: Path) -> Tally:
    """Read a tally. Raises InputError when the file cannot be read or holds none."""
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as a tally: {error}") from None
    return tally_of(table, str(path))


def _row_of(outcome: Outcome, facts: Facts) -> dict[str, Any]:
    return {
        "kind": "outcome",
        "exchange": escaped(outcome.exchange),
        "queues": _texts(outcome.queues),
        "bindings": outcome.bindings,
        "exchanges": _texts(outcome.exchanges),
        "alternates": _links(outcome.alternates),
        "routed": outcome.routed,
        "undecided": _texts(outcome.undecided),
        "refused": escaped(outcome.refused),
        "possible_queues": _texts(outcome.possible_queues),
        "possible_bindings": outcome.possible_bindings,
        "possible_exchanges": _texts(outcome.possible_exchanges),
        "possible_alternates": _links(outcome.possible_alternates),
        "messages": facts.messages,
        "first": facts.first,
        "last": facts.last,
        "keys": facts.keys,
        "sample": [{"hash": value, "key": escaped(key)} for value, key in facts.sample],
        "hot": _frequent(facts.hot),
        "shapes": _frequent(facts.shapes),
    }


def _read(row: dict[str, Any]) -> tuple[Outcome, Facts]:
    outcome = Outcome(
        unescaped(row["exchange"]),
        _read_texts(row["queues"]),
        tuple(row["bindings"]),
        _read_texts(row["exchanges"]),
        _read_links(row["alternates"]),
        row["routed"],
        _read_texts(row["undecided"]),
        unescaped(row["refused"]),
        _read_texts(row["possible_queues"]),
        tuple(row["possible_bindings"]),
        _read_texts(row["possible_exchanges"]),
        _read_links(row["possible_alternates"]),
    )
    sample = tuple([(each["hash"], unescaped(each["key"])) for each in row["sample"]])
    times = (row["messages"], row["first"], row["last"])
    return outcome, Facts(*times, row["keys"], sample, _read_frequent(row["hot"]), _read_frequent(row["shapes"]))


def _texts(texts: Iterable[str]) -> list[str]:
    return [escaped(text) for text in texts]


def _read_texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple([unescaped(text) for text in texts])


def _links(links: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"exchange": escaped(exchange), "alternate": escaped(alternate)} for exchange, alternate in links]


def _read_links(links: Iterable[dict[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple([(unescaped(link["exchange"]), unescaped(link["alternate"])) for link in links])


def _frequent(found: Frequent) -> dict[str, Any]:
    items = [{"text": escaped(i.text), "count": i.count, "example": escaped(i.example)} for i in found.items]
    return {"items": items, "error": found.error}


def _read_frequent(found: dict[str, Any]) -> Frequent:
    items = [Item(unescaped(i["text"]), i["count"], unescaped(i["example"])) for i in found["items"]]
    return Frequent(tuple(items), found["error"])
