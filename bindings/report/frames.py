"""Reports and differences as flat tables, for notebooks: Arrow's, and the data frames of pandas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from bindings.diffing.diff import Diff
from bindings.diffing.planning.step import describe_part
from bindings.diffing.words import describe_term, write_values
from bindings.report.forms import tables
from bindings.report.forms.tables import COUNT, TEXT, Rows, make_table
from bindings.report.model import Report
from exchange.errors import InputError
from exchange.text.display import suggest
from exchange.values.field_json import encode_message


def _steps(result: Diff) -> Rows:
    refused = {step: str(error) for step, error in result.plan.refused}
    for number, step in enumerate([*result.plan.steps, *refused]):
        kind = type(step.part).__name__.lower()
        yield number, step.verb, kind, describe_part(step.part), step.danger, refused.get(step)


def _effects(result: Diff) -> Rows:
    for effect in result.meaning.effects:
        messages = "; ".join([describe_term(term, gained=effect.gained) for term in effect.terms])
        yield (
            effect.exchange, effect.queue, "gained" if effect.gained else "lost", messages, effect.exact,
            effect.certain, effect.timing, effect.witness.routing_key, json.dumps(encode_message(effect.witness)),
        )  # fmt: skip


def _unroutable(result: Diff) -> Rows:
    for each in result.meaning.unroutable:
        yield each.exchange, each.now, each.witness.routing_key, json.dumps(encode_message(each.witness))


def _settings(result: Diff) -> Rows:
    for group in result.settings:
        for name in group.names:
            for change in group.changes:
                before, after = write_values(change.before), write_values(change.after)
                yield group.kind, name, change.name, before, after, change.loses, change.means


def _open_questions(result: Diff) -> Iterator[tuple[Any, ...]]:
    for question in result.meaning.undecided:
        end = question.destination
        yield question.exchange, None if end is None else str(end), question.reason, None
    for part in result.meaning.unread:
        yield None, part.where, part.text, part.kind


DIFF_TABLES: Final[Mapping[str, tuple[Mapping[str, pa.DataType], Callable[[Diff], Rows]]]] = {
    "steps": (
        {"number": COUNT, "verb": TEXT, "kind": TEXT, "part": TEXT, "danger": TEXT, "refused": TEXT},
        _steps,
    ),
    "effects": (
        {
            "exchange": TEXT, "queue": TEXT, "change": TEXT, "messages": TEXT, "exact": pa.bool_(),
            "certain": pa.bool_(), "timing": TEXT, "routing_key": TEXT, "witness": TEXT,
        },
        _effects,
    ),
    "unroutable": ({"exchange": TEXT, "now": pa.bool_(), "routing_key": TEXT, "witness": TEXT}, _unroutable),
    "settings": (
        {
            "kind": TEXT, "name": TEXT, "setting": TEXT, "before": TEXT, "after": TEXT, "loses": pa.bool_(),
            "means": TEXT,
        },
        _settings,
    ),
    "undecided": ({"exchange": TEXT, "about": TEXT, "reason": TEXT, "unread": TEXT}, _open_questions),
}  # fmt: skip
"""Name of a table of a comparison -> its columns, and the function that yields its rows."""


def to_arrow(result: Report | Diff, table: str) -> pa.Table:
    """Return a table of a report or a comparison, such as ``"bindings"`` or ``"effects"``, with one value in each cell.

    A report's tables are those that `hashstar audit --tables` writes; docs/audit.md lists all columns. A table has no
    rows where there is nothing to say. Raises InputError if there is no table of this name.

    >>> from bindings import diff
    >>> from exchange import Queue, Topology
    >>> to_arrow(diff(Topology(), Topology(queues=[Queue("billing")])), "effects")["queue"].to_pylist()
    ['billing']
    """
    known: Mapping[str, Any] = DIFF_TABLES if isinstance(result, Diff) else tables.TABLES
    if table not in known:
        what = "comparison" if isinstance(result, Diff) else "report"
        raise InputError(f"a {what} has no table {table!r}{suggest(table, known)}; there are {', '.join(known)}")
    columns, rows = known[table]
    return make_table(columns, rows(result))


def to_pandas(result: Report | Diff, table: str) -> Any:
    """Return the same table as a data frame of pandas. It needs pandas: ``pip install pandas``.

    >>> from bindings import diff
    >>> from exchange import Queue, Topology
    >>> to_pandas(diff(Topology(), Topology(queues=[Queue("billing")])), "steps")["verb"].tolist()
    ['declare']
    """
    return to_arrow(result, table).to_pandas()
