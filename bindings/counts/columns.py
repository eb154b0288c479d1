"""Values that tables of several sorts hold, as Arrow types and rows of them: names, summaries of keys, and outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from bindings.archive.names import escape, unescape
from bindings.counts.outcome import Outcome
from bindings.counts.sketch import Frequent, Item
from exchange.errors import InputError

__all__ = [
    "FREQUENT",
    "OUTCOME",
    "TEXTS",
    "checked",
    "frequent_of",
    "frequent_row",
    "outcome_of",
    "outcome_row",
    "read_texts",
    "refuse_damage",
    "texts",
]

TEXTS: Final = pa.list_(pa.string())
NUMBERS: Final = pa.list_(pa.int32())
LINKS: Final = pa.list_(pa.struct([("exchange", pa.string()), ("alternate", pa.string())]))
FREQUENT: Final = pa.struct([
    ("items", pa.list_(pa.struct([("text", pa.string()), ("count", pa.int64()), ("example", pa.string())]))),
    ("error", pa.int64()),
])  # fmt: skip
OUTCOME: Final = pa.struct([
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
])  # fmt: skip


def checked(table: pa.Table, schema: pa.Schema, what: str, key: bytes, version: bytes, source: str) -> dict[str, str]:
    """The metadata of a table that says to be ``what``, under ``key`` with its version. Raises InputError if not."""
    told = table.schema.metadata or {}
    metadata = {name.decode(errors="replace"): text.decode(errors="replace") for name, text in told.items()}
    found = metadata.get(key.decode())
    if found is None:
        raise InputError(f"{source}: not a {what} of hashstar")
    if found != version.decode():
        raise InputError(f"{source}: a {what} of version {found}; this hashstar reads version {version.decode()}")
    if not table.schema.equals(schema):
        raise InputError(f"{source}: a damaged {what}: its columns are not those of version {version.decode()}")
    return metadata


@contextmanager
def refuse_damage(what: str, source: str) -> Iterator[None]:
    """Raise InputError for rows that are of the schema, and no rows that were ever written."""
    try:
        yield
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{source}: a damaged {what}") from None


def texts(names: Iterable[str]) -> list[str]:
    """Names as columns hold them."""
    return [escape(name) for name in names]


def read_texts(names: Iterable[str]) -> tuple[str, ...]:
    """What `texts` was given."""
    return tuple([unescape(name) for name in names])


def frequent_row(found: Frequent) -> dict[str, Any]:
    """A summary as a value of the type `FREQUENT`."""
    items = [{"text": escape(i.text), "count": i.count, "example": escape(i.example)} for i in found.items]
    return {"items": items, "error": found.error}


def frequent_of(row: dict[str, Any]) -> Frequent:
    """The summary that such a value is."""
    items = [Item(unescape(i["text"]), i["count"], unescape(i["example"])) for i in row["items"]]
    return Frequent(tuple(items), row["error"])


def outcome_row(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a value of the type `OUTCOME`."""
    return {
        "exchange": escape(outcome.exchange),
        "queues": texts(outcome.queues),
        "bindings": outcome.bindings,
        "exchanges": texts(outcome.exchanges),
        "alternates": _links(outcome.alternates),
        "routed": outcome.routed,
        "undecided": texts(outcome.undecided),
        "refused": escape(outcome.refused),
        "possible_queues": texts(outcome.possible_queues),
        "possible_bindings": outcome.possible_bindings,
        "possible_exchanges": texts(outcome.possible_exchanges),
        "possible_alternates": _links(outcome.possible_alternates),
    }


def outcome_of(row: dict[str, Any]) -> Outcome:
    """The outcome that such a value is."""
    return Outcome(
        unescape(row["exchange"]),
        read_texts(row["queues"]),
        tuple(row["bindings"]),
        read_texts(row["exchanges"]),
        _read_links(row["alternates"]),
        row["routed"],
        read_texts(row["undecided"]),
        unescape(row["refused"]),
        read_texts(row["possible_queues"]),
        tuple(row["possible_bindings"]),
        read_texts(row["possible_exchanges"]),
        _read_links(row["possible_alternates"]),
    )


def _links(links: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"exchange": escape(exchange), "alternate": escape(alternate)} for exchange, alternate in links]


def _read_links(links: Iterable[dict[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple([(unescape(link["exchange"]), unescape(link["alternate"])) for link in links])
