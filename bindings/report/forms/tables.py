"""A report as Arrow tables, written as Parquet: everything in the report, for further queries.

Names and keys are escaped by `bindings.archive.names`, since a string column holds only valid Unicode. Times are
timestamps in UTC, shares are parts of 1, and an unknown value is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindings.archive.names import escape
from bindings.report.model import Report
from bindings.sources.files import make_folders
from exchange.entities.entities import Binding
from exchange.errors import name_os_errors
from exchange.files.replacing import replace_file
from exchange.values.field_json import encode_message, encode_table

TEXT: Final = pa.string()
COUNT: Final = pa.int64()
SHARE: Final = pa.float64()
TEXTS: Final = pa.list_(pa.string())
TIME: Final = pa.timestamp("us", "UTC")

Rows = Iterator[tuple[Any, ...]]

BINDING: Final = {
    "number": COUNT, "source": TEXT, "destination_type": TEXT, "destination": TEXT, "routing_key": TEXT,
    "arguments": TEXT,
}  # fmt: skip
"""The columns that identify a binding; its arguments are JSON."""


def _parts(number: int, binding: Binding) -> tuple[Any, ...]:
    arguments = json.dumps(encode_table(binding.arguments))
    return number, binding.source, *binding.destination, binding.routing_key, arguments


def _bindings(report: Report) -> Rows:
    for row in report.bindings:
        use = row.use
        entry = row.ignored.entry if row.ignored is not None else None
        yield (
            *_parts(use.number, use.binding), row.state, None if entry is None else entry.reason,
            None if entry is None else entry.until, use.messages, use.possible, use.only, use.share, use.distinct_keys,
            use.first, use.last, use.exposure, use.bound,
        )  # fmt: skip


def _queues(report: Report) -> Rows:
    for row in report.queues:
        use, skew = row.use, row.skew
        hot = row.hot[0] if row.hot else None
        yield (
            use.queue, row.type, use.messages, use.possible, row.share, use.duplicates_avoided, use.distinct_keys,
            use.first, use.last, None if hot is None else hot.text, None if hot is None else hot.messages,
            row.hot_error, row.partitioning, *(skew if skew is not None else (None,) * 5),
        )  # fmt: skip


def _exchanges(report: Report) -> Rows:
    for row in report.exchanges:
        use = row.use
        yield (
            use.exchange, row.type, use.published, use.messages, row.routed, use.unroutable, use.undecided, use.refused,
            row.message_coverage, sum(row.states.values()), row.eligible, row.hit, row.binding_coverage,
            use.distinct_keys,
        )  # fmt: skip


def _fan_out(report: Report) -> Rows:
    for row in report.exchanges:
        for queues, messages in row.use.fan_out.items():
            yield row.use.exchange, queues, messages


def _partitions(report: Report) -> Rows:
    for row in report.queues:
        for part in row.partitions:
            yield row.use.queue, *part


def _unroutable(report: Report) -> Rows:
    for row in report.unroutable:
        for shape in row.shapes:
            near = shape.nearest
            nearest: tuple[Any, ...] = (None,) * 5
            if near is not None:
                nearest = near.number, *near.destination, near.reason, near.distance
            yield row.exchange, row.refused or None, shape.shape, shape.messages, row.error, shape.example, *nearest


def _timeline(report: Report) -> Rows:
    timeline = report.timeline
    if timeline is not None:
        for exchange, counts in timeline.counts.items():
            for slot, *messages in counts:
                yield timeline.start_of(slot), exchange, *messages


def _flow(report: Report) -> Rows:
    for flow in report.flow:
        yield flow.source, *(flow.destination or (None, None)), flow.kind, flow.messages, flow.possible


def _findings(report: Report) -> Rows:
    for row in report.findings:
        finding = row.finding
        yield (
            finding.code, finding.rule.severity, finding.message, row.evidence or None, row.sentence or None,
            row.messages, list(row.bindings),
        )  # fmt: skip


def _gates(report: Report) -> Rows:
    for gate in report.gates:
        yield gate.name, gate.of or None, gate.scope or None, gate.limit, gate.actual, gate.passed, gate.message


def _changes(report: Report) -> Rows:
    if report.comparison is not None:
        for row in report.comparison.changes.shapes:
            change = row.change
            yield (
                change.exchange, row.shape, *map(_texts, (change.lost, change.gained, change.unsure)), change.before,
                change.after, row.messages, row.error, row.example,
            )  # fmt: skip


def _changed_queues(report: Report) -> Rows:
    yield from report.comparison.changes.queues if report.comparison is not None else ()


def _changed_bindings(report: Report) -> Rows:
    if report.comparison is not None:
        for row in report.comparison.changes.bindings:
            change = "added" if row.added else "removed"
            yield *_parts(row.number, row.binding), change, row.messages, row.possible, row.elsewhere


def _moves(report: Report) -> Rows:
    if report.comparison is not None:
        for row in report.comparison.changes.partitions:
            for (before, after), messages in row.flows.items():
                yield row.queue, before, after, messages


def _differences(report: Report) -> Rows:
    if report.verification is not None:
        for row, evidence in report.verification.differences.items():
            witness = json.dumps(encode_message(evidence.witnesses[0].message)) if evidence.witnesses else None
            yield (
                row.exchange, *map(_texts, (row.missing, row.extra, row.unknown, row.none_of)), row.refused or None,
                *evidence.span, witness,
            )  # fmt: skip


def _texts(texts: Iterable[str]) -> list[str]:
    return [escape(text) for text in texts]


TABLES: Final[Mapping[str, tuple[Mapping[str, pa.DataType], Callable[[Report], Rows]]]] = {
    "bindings": (
        BINDING | {
            "state": TEXT, "ignored_because": TEXT, "ignored_until": pa.date32(), "messages": COUNT, "possible": COUNT,
            "only": COUNT, "share": SHARE, "distinct_keys": COUNT, "first": TIME, "last": TIME, "exposure": COUNT,
            "bound": SHARE,
        },
        _bindings,
    ),
    "queues": (
        {
            "queue": TEXT, "type": TEXT, "messages": COUNT, "possible": COUNT, "share": SHARE,
            "duplicates_avoided": COUNT, "distinct_keys": COUNT, "first": TIME, "last": TIME, "hottest_key": TEXT,
            "hottest_key_messages": COUNT, "hottest_key_error": COUNT, "partitioning": TEXT, "partitions": COUNT,
            "max_to_mean": SHARE, "top_share": SHARE, "gini": SHARE, "variation": SHARE,
        },
        _queues,
    ),
    "exchanges": (
        {
            "exchange": TEXT, "type": TEXT, "published": COUNT, "through": COUNT, "routed": COUNT, "unroutable": COUNT,
            "undecided": COUNT, "refused": COUNT, "message_coverage": SHARE, "bindings": COUNT, "eligible": COUNT,
            "hit": COUNT, "binding_coverage": SHARE, "distinct_keys": COUNT,
        },
        _exchanges,
    ),
    "fan_out": ({"exchange": TEXT, "queues": COUNT, "messages": COUNT}, _fan_out),
    "partitions": ({"queue": TEXT, "partition": COUNT, "name": TEXT, "messages": COUNT}, _partitions),
    "unroutable": (
        {
            "exchange": TEXT, "refused": TEXT, "shape": TEXT, "messages": COUNT, "error": COUNT, "example": TEXT,
            "nearest_binding": COUNT, "nearest_type": TEXT, "nearest": TEXT, "reason": TEXT, "distance": SHARE,
        },
        _unroutable,
    ),
    "timeline": (
        {"time": TIME, "exchange": TEXT, "routed": COUNT, "unroutable": COUNT, "undecided": COUNT},
        _timeline,
    ),
    "flow": (
        {
            "source": TEXT, "destination_type": TEXT, "destination": TEXT, "kind": TEXT, "messages": COUNT,
            "possible": COUNT,
        },
        _flow,
    ),
    "findings": (
        {
            "code": TEXT, "severity": TEXT, "message": TEXT, "evidence": TEXT, "traffic": TEXT, "messages": COUNT,
            "bindings": pa.list_(COUNT),
        },
        _findings,
    ),
    "gates": (
        {
            "name": TEXT, "of": TEXT, "scope": TEXT, "limit": TEXT, "actual": TEXT, "passed": pa.bool_(),
            "message": TEXT,
        },
        _gates,
    ),
    "changes": (
        {
            "exchange": TEXT, "shape": TEXT, "lost": TEXTS, "gained": TEXTS, "unsure": TEXTS, "before": TEXT,
            "after": TEXT, "messages": COUNT, "error": COUNT, "example": TEXT,
        },
        _changes,
    ),
    "changed_queues": (
        {
            "queue": TEXT, "before": COUNT, "after": COUNT, "lost": COUNT, "gained": COUNT, "unsure": COUNT,
            "status": TEXT,
        },
        _changed_queues,
    ),
    "changed_bindings": (
        BINDING | {"change": TEXT, "messages": COUNT, "possible": COUNT, "elsewhere": COUNT},
        _changed_bindings,
    ),
    "moves": ({"queue": TEXT, "before": TEXT, "after": TEXT, "messages": COUNT}, _moves),
    "differences": (
        {
            "exchange": TEXT, "missing": TEXTS, "extra": TEXTS, "unknown": TEXTS, "none_of": TEXTS, "refused": TEXT,
            "messages": COUNT, "first": TIME, "last": TIME, "witness": TEXT,
        },
        _differences,
    ),
}  # fmt: skip
"""Name of a table -> its columns, and the function that yields its rows."""


def to_tables(report: Report) -> dict[str, pa.Table]:
    """Return all tables by name; where the report has nothing for a table, the table has no rows.

    The metadata of each have the caveats of the report, as a list in JSON.
    """
    caveats = {"hashstar.caveats": json.dumps(report.caveats)}
    tables = {name: make_table(columns, rows(report)) for name, (columns, rows) in TABLES.items()}
    return {name: table.replace_schema_metadata(caveats) for name, table in tables.items()}


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write all tables to a folder, NAME.parquet each, and return the paths. Raises InputError if that fails."""
    paths = []
    with name_os_errors(folder, "written"):
        make_folders(folder)
        for name, table in to_tables(report).items():
            path = folder / f"{name}.parquet"
            with replace_file(path) as file:
                pq.write_table(table, file)
            paths.append(path)
    return paths


def make_table(columns: Mapping[str, pa.DataType], rows: Rows) -> pa.Table:
    """Return a table of these columns; lone surrogates and controls of its texts are escaped."""
    listed = list(rows)
    arrays = []
    for position, kind in enumerate(columns.values()):
        values = [row[position] for row in listed]
        if kind == TEXT:
            values = [None if value is None else escape(value) for value in values]
        arrays.append(pa.array(values, kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(columns.items())))
