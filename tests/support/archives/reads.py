"""Reading archives in tests: all records of a file, in one split or in many, and what is compared of a record."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from bindings.archive.places import Place
from bindings.archive.reading import SPLIT_BYTES, Bad, Format, Skipped
from bindings.archive.record import SCHEMA, Record, to_records
from exchange.values.field_values import FieldTable, Typed
from exchange.values.message import BASIC_PROPERTIES, Message
from tests.exchange.test_field_json import KEYS, TEXT, VALUES
from tests.support.tiers import examples

FILES = examples(60)
"""Settings for properties of files, whose time depends on the disk."""


class Read(NamedTuple):
    """The items that were read of a file."""

    records: list[Record]
    bad: list[Bad]
    skipped: dict[str, int]


def read(form: Format, path: Path | Place, split_bytes: int = SPLIT_BYTES) -> Read:
    """All of a file, split by split; formats and splits go through pickle, as to workers."""
    records: list[Record] = []
    bad: list[Bad] = []
    skipped: dict[str, int] = {}
    for split in form.plan(str(path) if isinstance(path, Path) else path, split_bytes):
        worker: Format
        worker, split = pickle.loads(pickle.dumps((form, split)))  # noqa: PLW2901, S301  our own
        for item in worker.read(split):
            if isinstance(item, Bad):
                bad.append(item)
            elif isinstance(item, Skipped):
                skipped[item.reason] = skipped.get(item.reason, 0) + item.records
            else:
                assert isinstance(item, pa.RecordBatch)
                assert item.schema == SCHEMA
                item.validate(full=True)
                records += to_records(item)
    return Read(records, bad, skipped)


def facts(record: Record, *, origin: bool = True) -> tuple[Any, ...]:
    """Return what is compared of a record: types of headers too, but not their order."""
    message = record.message
    place = (record.source, record.offset) if origin else ()
    return (
        message.exchange, message.routing_key, table(message.headers), table(message.properties), message.body,
        record.time, record.vhost, record.size, record.has_body, record.routed_queues, *place,
    )  # fmt: skip


def table(fields: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal tables."""
    return repr(FieldTable(fields).identity)


NAMES = (
    TEXT
    | st.sampled_from(["", "\0", "a\0ff", "\udcff", "ordør"])
    | st.binary(max_size=5).map(lambda data: data.decode("utf-8", "surrogateescape"))
)
TIMES = st.none() | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
TABLES = st.dictionaries(KEYS.filter(lambda key: key not in {"CC", "BCC"}), VALUES, max_size=3)
STAMP = partial(Typed, "timestamp")
CARBON = st.fixed_dictionaries({}, optional={name: st.lists(TEXT, max_size=3) for name in ("CC", "BCC")})
OCTETS = st.integers(0, 255)
NUMBERS = {"delivery_mode": OCTETS, "priority": OCTETS, "timestamp": st.integers(0, 2**64 - 1).map(STAMP)}
SHORT = st.binary(max_size=8).map(lambda data: data.decode("utf-8", "surrogateescape")) | st.sampled_from(["", "ü€"])
PROPERTIES = st.fixed_dictionaries({}, optional={name: NUMBERS.get(name, SHORT) for name in BASIC_PROPERTIES})
MESSAGES = st.builds(
    Message, NAMES, NAMES, st.builds(lambda *parts: parts[0] | parts[1], TABLES, CARBON), PROPERTIES,
    st.binary(max_size=20),
)  # fmt: skip


def _record(message: Message, time: int | None, vhost: str | None, size: int | None, *rest: Any) -> Record:
    routed, source, offset = rest
    has_body = size is None
    body = message.body if has_body else b""
    kept = Message(message.exchange, message.routing_key, message.headers, message.properties, body)
    return Record(kept, time, vhost, len(body) if has_body else size, has_body, routed, source, offset)


RECORDS = st.builds(
    _record, MESSAGES, TIMES, st.none() | NAMES, st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.lists(NAMES, max_size=3).map(tuple), NAMES, st.none() | st.integers(0, 2**63 - 1),
)  # fmt: skip
