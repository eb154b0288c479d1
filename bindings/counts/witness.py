"""Messages that show something: a few of many, the same few in whatever order and parts the many came.

Of messages that differ in their keys those with the least hashes are kept, so that a frequent key does not crowd the
others out; of messages with one key the one with the least ``tie``, a hash of the rest of it and of its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from bindings.archive.names import escape, unescape
from exchange.field_json import message_from_line, message_to_json
from exchange.message import Message

__all__ = ["MOST", "WITNESSES", "Witness", "few", "witness_rows", "witnesses_of"]

MOST: Final = 3
"""So many are kept."""


class Witness(NamedTuple):
    """A message, and where it was found."""

    hash: int
    """Of its routing key: `bindings.counts.sketch.hash_of`."""
    tie: int
    message: Message
    """As much of it as decides where it goes, and never its body."""
    source: str = ""
    offset: int = 0
    routed_queues: tuple[str, ...] | None = None
    """Where the broker put it; None where that was not asked."""


def few(witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
    """Those that are kept of all of these."""
    found: dict[int, Witness] = {}
    for witness in sorted(witnesses, key=lambda witness: (witness.hash, witness.tie)):
        found.setdefault(witness.hash, witness)
    return tuple(islice(found.values(), MOST))


WITNESSES: Final = pa.list_(
    pa.struct(
        [
            ("hash", pa.uint64()),
            ("tie", pa.uint64()),
            ("message", pa.string()),
            ("source", pa.string()),
            ("offset", pa.int64()),
            ("routed_queues", pa.list_(pa.string())),
        ]
    )
)
"""Witnesses in a table; ``message`` is the JSON of `exchange.field_json`, as `hashstar explain` takes it."""


def witness_rows(witnesses: Iterable[Witness]) -> list[dict[str, Any]]:
    """Witnesses as values of the type `WITNESSES`."""
    return [
        {
            "hash": witness.hash,
            "tie": witness.tie,
            "message": json.dumps(message_to_json(witness.message)),
            "source": escape(witness.source),
            "offset": witness.offset,
            "routed_queues": None if (queues := witness.routed_queues) is None else [escape(name) for name in queues],
        }
        for witness in witnesses
    ]


def witnesses_of(rows: Iterable[dict[str, Any]]) -> tuple[Witness, ...]:
    """The witnesses that such values are. Raises InputError when a message is none."""
    return tuple([
        Witness(
            row["hash"], row["tie"], message_from_line(row["message"].encode(), any_length=True),
            unescape(row["source"]), row["offset"],
            None if (names := row["routed_queues"]) is None else tuple([unescape(name) for name in names]),
        )
        for row in rows
    ])  # fmt: skip
