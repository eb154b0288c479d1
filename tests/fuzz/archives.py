"""Targets: formats of archives, read whole and in splits, and what is kept beside archives.

Reading never raises for what a file holds, so these targets allow no error, not even the project's own.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c
import pyarrow as pa

import bindings.report.inspection_json  # noqa: F401  it says what the JSON of a folder is
from bindings.archive.avro.records import Avro
from bindings.archive.fields import decode_field
from bindings.archive.formats.connect import Connect
from bindings.archive.formats.delimited import Delimited
from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import JsonLines, add_line, encode_line, read_lines
from bindings.archive.formats.mapped_lines import KafkaLines, MappedLines
from bindings.archive.formats.parquet import Parquet
from bindings.archive.inspection import inspect_splits
from bindings.archive.kafka.folder import FolderInspection, inspect_folder
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.rabbitmq.fetched import Fetched
from bindings.archive.rabbitmq.queue_dump import SUFFIX, QueueDump
from bindings.archive.rabbitmq.rabtap import Rabtap
from bindings.archive.rabbitmq.tracing import TracingJson, TracingText
from bindings.archive.reading import SPLIT_BYTES, Bad, Format, Item, Skipped, Split
from bindings.archive.record import SCHEMA, Record, build_batch, to_records
from bindings.archive.rocketmq.find import find_by_id, find_by_key
from bindings.archive.rocketmq.inspection import inspect_store
from bindings.archive.rocketmq.log import RocketmqLog
from bindings.archive.rocketmq.store import open_store
from bindings.archive.times import parse_time, parse_time_text
from bindings.report.kafka import format_kafka
from bridge.endpoints.archive.rows import restore_message
from exchange.errors import HashstarError, InputError
from exchange.values.documents import encode_as
from exchange.values.erlang_parser import parse
from exchange.values.field_values import FieldTable
from tests.fuzz.target import cut, folder, is_same, text_of, write

RECORDS_CAP: Final = 2_000
"""Maximum number of records that are compared one by one."""
TARGETED: Final[set[type[Format]]] = set()
"""Formats of archives that have a target of their own."""


class Read(NamedTuple):
    """The items that were read of a file."""

    records: list[Record]
    bad: list[Bad]
    skipped: Counter[str]


def read(form: Format, splits: list[Split]) -> Read:
    """Return all of a file, split by split."""
    return _gather(item for split in splits for item in form.read(split))


def _gather(items: Iterator[Item]) -> Read:
    found = Read([], [], Counter())
    for item in items:
        if isinstance(item, Bad):
            found.bad.append(item)
        elif isinstance(item, Skipped):
            found.skipped[item.reason] += item.records
        else:
            assert item.schema == SCHEMA
            item.validate(full=True)
            if len(found.records) < RECORDS_CAP:
                found.records.extend(to_records(item))
                del found.records[RECORDS_CAP:]  # wherever a batch ends
    return found


def facts(record: Record) -> tuple[Any, ...]:
    """Return what is compared of a record: types of headers too, their order not."""
    message = record.message
    tables = (repr(FieldTable(message.headers).identity), repr(FieldTable(message.properties).identity))
    return (message.exchange, message.routing_key, *tables, message.body, *record[1:])


def check_same(one: Read, other: Read, *, places: bool = True) -> None:
    """Raise AssertionError if readings of one file differ.

    Without ``places``, what is bad may be told in other pieces: of a damaged binary file, a split may begin where only
    a damaged length says that a record does.
    """
    assert [facts(record) for record in one.records] == [facts(record) for record in other.records]
    assert one.skipped == other.skipped
    assert bool(one.bad) == bool(other.bad)
    if places:
        assert [(bad.offset, bad.reason) for bad in one.bad] == [(bad.offset, bad.reason) for bad in other.bad]


def lines(form: Format, name: str) -> Callable[[bytes], None]:
    """Return a target: a file whose splits together give what the whole gives."""
    TARGETED.add(type(form))

    def run(data: bytes) -> None:
        path = str(write(name, data))
        form.recognises(data[: 1 << 16], Path(path))
        whole = read(form, [Split(path)])
        for size in {97, max(len(data) // 3, 50)} if len(data) < 20_000 else {len(data) // 3}:
            parts = read(form, form.plan(path, size))
            check_same(whole, parts, places=not isinstance(form, RocketmqLog))
        _check_complete_part(form, path, whole)
        _check_written(whole)

    return run


def make_sealed(form: Format, name: str, seal: Callable[[bytearray], None]) -> Callable[[bytes], None]:
    """Return a target as `lines`, whose inputs get the right checksums first: what is behind those is reached."""
    run = lines(form, name)

    def run_sealed(data: bytes) -> None:
        whole = bytearray(data)
        seal(whole)
        run(bytes(whole))

    return run_sealed


def seal_batches(data: bytearray) -> None:
    """Give record batches of Kafka their CRC-32C, up to one whose length cannot be."""
    at = 0
    while at + 61 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        if not 61 <= size <= len(data) - at:
            size = len(data) - at
            data[at + 8 : at + 12] = (size - 12).to_bytes(4, "big")
        data[at + 16] = 2
        data[at + 17 : at + 21] = google_crc32c.value(bytes(data[at + 21 : at + size])).to_bytes(4, "big")
        at += size


def seal_old_messages(data: bytearray) -> None:
    """Give messages of Kafka's formats 0 and 1 their CRC-32, up to one whose length cannot be."""
    at = 0
    while at + 26 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        if not 26 <= size <= len(data) - at:
            size = len(data) - at
            data[at + 8 : at + 12] = (size - 12).to_bytes(4, "big")
        data[at + 16] &= 1
        data[at + 12 : at + 16] = zlib.crc32(data[at + 16 : at + size]).to_bytes(4, "big")
        at += size


def seal_messages(data: bytearray) -> None:
    """Give records of RocketMQ whose hosts are IPv4 the CRC of their body, up to one whose lengths cannot be."""
    at = 0
    while at + 91 <= len(data):
        size, body = (int.from_bytes(data[place : place + 4], "big") for place in (at, at + 84))
        if not 91 <= size <= len(data) - at or body > size - 91:
            return
        data[at + 8 : at + 12] = (zlib.crc32(data[at + 88 : at + 88 + body]) & 0x7FFFFFFF).to_bytes(4, "big")
        at += size


def _check_complete_part(form: Format, path: str, whole: Read) -> None:
    """Check that the complete part of a growing file has a beginning of the records of the whole file."""
    found = form.plan_complete(path, 0, SPLIT_BYTES)
    count = len(read(form, found.splits).records)
    assert count <= len(whole.records)


def _check_written(whole: Read) -> None:
    """Each record that was read is a line of ours, and reads the same from it."""
    for record in whole.records[:20]:
        with suppress(HashstarError):
            restore_message(record.message)
        line = encode_line(record)
        again = read(JsonLines(), [Split(str(write("again.jsonl", line)))])
        assert not again.bad, (record, again.bad)
        (other,) = again.records
        if record.has_body:  # others do not always tell its size
            record = record._replace(size=len(record.message.body))  # noqa: PLW2901
        assert is_same(facts(other), facts(record)), (other, record)


def json_lines(data: bytes) -> None:
    """Lines are read the same by Arrow and by ourselves."""
    path = str(write("lines.jsonl", data))
    check_same(read(JsonLines(), [Split(path)]), _gather(read_lines(Split(path), None, add_line)))


def whole(form: Format, name: str, beside: str = "") -> Callable[[bytes], None]:
    """Return a target: a file that is read as a whole; with ``beside``, a part of the input is a file of that name."""
    TARGETED.add(type(form))

    def run(data: bytes) -> None:
        main, more = cut(data, 2)
        path = str(write(name, main))
        if beside:
            write(beside, more)
        form.recognises(main[: 1 << 16], Path(path))
        found = read(form, [Split(path)])
        form.plan_complete(path)
        _check_written(found)

    return run


def detected(data: bytes) -> None:
    """Find the format of a file by what is in it, and inspect it as the command does."""
    name, content = cut(data, 2)
    suffix = text_of(name[:20]).encode("ascii", "ignore").decode().replace("/", "").replace("\0", "")
    path = write(f"found-0/0{suffix}", content)
    try:
        archive = detect(str(path))
        inspect_splits(archive.plan(1 << 18))
    except InputError:  # it is no archive
        pass
    finally:
        path.unlink()


STORE: Final = (
    "commitlog/00000000000000000000", "consumequeue/a/0/00000000000000000000", "index/20260101000000000", "checkpoint",
    "config/topics.json", "config/consumerOffset.json", "config/delayOffset.json", "config/timercheck",
    "consumequeue/SCHEDULE_TOPIC_XXXX/2/00000000000000000000", "timerwheel", "timerlog/00000000000000000000",
)  # fmt: skip
"""Files of a store, in the order of the parts of the input."""


def rocketmq_store(data: bytes) -> None:
    """Open the store of a broker, inspect it, and look for messages by key and by id."""
    for name, content in zip(STORE, cut(data, len(STORE)), strict=True):
        write(f"store/{name}", content)
    with suppress(InputError):
        store = open_store(str(folder() / "store"))
        inspect_store(store)
        find_by_key(store, "k1")
        for stored in list(store.log.records())[:3]:
            if not isinstance(stored, Bad):
                find_by_id(store, stored.message_id)
                _ = stored.parts


DATA_FOLDER: Final = (
    "meta.properties", "replication-offset-checkpoint", "orders-0/00000000000000000000.log",
    "orders-0/leader-epoch-checkpoint", "orders-0/partition.metadata", "orders-0/00000000000000000000.txnindex",
    "orders-0/00000000000000000000.snapshot", "__consumer_offsets-0/00000000000000000000.log",
    "__transaction_state-0/00000000000000000000.log", "__cluster_metadata-0/00000000000000000000.log",
    "__cluster_metadata-0/00000000000000000001-0000000001.checkpoint",
)  # fmt: skip
"""Files of the data folder of a Kafka broker, in the order of the parts of the input."""


def kafka_folder(data: bytes) -> None:
    """Inspect the data folder of a broker, whose batches get the right checksums first, and write what is in it."""
    for name, content in zip(DATA_FOLDER, cut(data, len(DATA_FOLDER)), strict=True):
        whole = bytearray(content)
        if name.endswith((".log", ".checkpoint")):
            seal_batches(whole)
        if name.endswith(".snapshot") and len(whole) >= SNAPSHOT_HEAD:
            whole[2:6] = google_crc32c.value(bytes(whole[6:])).to_bytes(4, "big")
        write(f"kafka/{name}", bytes(whole))
    with suppress(InputError):
        found = inspect_folder(str(folder() / "kafka"))
        json.dumps(encode_as(FolderInspection, found))
        list(format_kafka(found))


SNAPSHOT_HEAD: Final = 10


def typed_texts(data: bytes) -> None:
    """Make a field value of the type and text that a column has."""
    kind, text = cut(data, 2)
    with suppress(InputError):
        FieldTable({"a": decode_field(text_of(kind), text_of(text))})


def table_rows(data: bytes) -> None:
    """Read rows that others wrote into a table of our schema; what is read makes the same rows again."""
    try:
        rows = json.loads(data)
        for row in rows:
            for name in ("headers", "properties"):
                row[name] = [(key, {"type": item[0], "value": item[1]}) for key, item in row[name].items()]
            row["body"] = None if row["body"] is None else row["body"].encode()
        batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
        batch.validate(full=True)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
        RecursionError,
        OverflowError,
        pa.ArrowException,
    ):
        return
    with suppress(InputError):
        records = to_records(batch)
        again = to_records(build_batch(records))
        assert [facts(record)[:5] for record in again] == [facts(record)[:5] for record in records]


def erlang_terms(data: bytes) -> None:
    """Parse a term as Erlang prints it."""
    parse(data.decode("latin-1"))


def times(data: bytes) -> None:
    """Read a time, of text or of any JSON value."""
    text = text_of(data)
    with suppress(InputError):
        parse_time_text(text)
    with suppress(ValueError, RecursionError):
        value = json.loads(data)
        with suppress(InputError):
            parse_time(value)


FORMATS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "kafka-segment": lines(KafkaSegment(), "orders-0/00000000000000000000.log"),
    "kafka-batches": make_sealed(KafkaSegment(), "orders-1/00000000000000000000.log", seal_batches),
    "kafka-messages": make_sealed(KafkaSegment(), "orders-2/00000000000000000000.log", seal_old_messages),
    "rocketmq-messages": make_sealed(RocketmqLog(), "commitlog/00000000000000000000", seal_messages),
    "rocketmq-log": lines(RocketmqLog(), "commitlog/00000000000000000000"),
    "json-lines-splits": lines(JsonLines(), "archive.jsonl"),
    "json-lines": json_lines,
    "tracing-json": lines(TracingJson(), "trace.json"),
    "tracing-text": lines(TracingText(), "trace.log"),
    "avro": whole(Avro(), "rows.avro"),
    "csv": whole(Delimited(), "rows.csv"),
    "rabtap": whole(Rabtap(), "rabtap-1.json"),
    "queue-dump": whole(QueueDump(), f"dump/msg-0000{SUFFIX}", beside="dump/msg-0000"),
    "connect": whole(Connect(), "t+0+0000000000.json", beside="t+0+0000000000.keys.json"),
    "fetched": whole(Fetched(), "got.json"),
    "kafka-lines": lines(KafkaLines(), "kcat.jsonl"),
    "mapped-lines": lines(MappedLines(), "theirs.jsonl"),
    "parquet": whole(Parquet(), "part-0.parquet"),
    "detect": detected,
    "rocketmq-store": rocketmq_store,
    "kafka-folder": kafka_folder,
    "typed-texts": typed_texts,
    "table-rows": table_rows,
    "times": times,
}
