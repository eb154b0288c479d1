"""Records of messages in archives: as values, and as rows of Arrow, Parquet and Spark.

=================  ==========================  =============================================================
column             type                        meaning
=================  ==========================  =============================================================
time               timestamp in µs, UTC        when it was published or, if unknown, seen; null: neither is known
vhost              string                      null: unknown
exchange           string                      ``""`` is the default exchange
routing_key        string
cc, bcc            list<string>                those in the headers CC and BCC: see `bindings.archive.routing_keys`
headers            map<string, (type, value)>  all headers, CC and BCC too: see `bindings.archive.fields`
properties         map<string, (type, value)>  the other basic properties, under their AMQP names
body               binary                      null: the archive has none, or only its beginning; with a size of 0 it
                                               is the null value of a record of Kafka, which differs from an empty one
body_size          int64                       bytes; null: unknown
routed_queues      list<string>                where the broker routed it; null: unknown, empty: nowhere
source             string                      the file it was read from
offset             int64                       where in the file: byte, line or offset, as the format counts; null:
                                               unknown
=================  ==========================  =============================================================

Bytes that are not UTF-8 are escaped in strings: see `bindings.archive.names`. To route through a topic, direct or
fanout exchange, routing_key, cc and bcc are enough; only headers exchanges need the headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import TABLE, TableBuilder, decode_tables, find_wrong_rows
from bindings.archive.names import to_text_array, unescape
from bindings.archive.properties import find_wrong_properties
from bindings.archive.reading import BATCH_BYTES, BATCH_ROWS, Bad
from bindings.archive.routing_keys import give_keys
from exchange.amqp.content import check_properties
from exchange.errors import BrokerError, InputError
from exchange.values.message import Message

SCHEMA: Final = pa.schema([
    pa.field("time", pa.timestamp("us", "UTC")),
    pa.field("vhost", pa.string()),
    pa.field("exchange", pa.string(), nullable=False),
    pa.field("routing_key", pa.string(), nullable=False),
    pa.field("cc", pa.list_(pa.string()), nullable=False),
    pa.field("bcc", pa.list_(pa.string()), nullable=False),
    pa.field("headers", TABLE, nullable=False),
    pa.field("properties", TABLE, nullable=False),
    pa.field("body", pa.binary()),
    pa.field("body_size", pa.int64()),
    pa.field("routed_queues", pa.list_(pa.string())),
    pa.field("source", pa.string(), nullable=False),
    pa.field("offset", pa.int64()),
])  # fmt: skip
"""The schema of the rows that every format reads."""

UNHELD: Final = (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""Exceptions that building a column of tables raises for values that AMQP cannot hold."""
NOT_A_RECORD: Final = (*UNHELD, InputError, LookupError, pa.ArrowException)
"""Exceptions that building a record raises for a row that hashstar never writes."""
TOMBSTONE: Final = "x-kafka-tombstone"
"""Header of a message whose record of Kafka has no value, which a bridge and the readers of Kafka's files set."""
EARLIEST_TIME: Final = -62_135_596_800_000_000
LATEST_TIME: Final = 253_402_300_799_999_999
"""Bounds of times, in microseconds since 1970: the years 1 to 9999, which Spark and Python can show."""


class Record(NamedTuple):
    """A published message, and what the archive records about it."""

    message: Message
    """The message; its body is empty if the archive has no body."""
    time: int | None = None
    """Microseconds since 1970, UTC."""
    vhost: str | None = None
    size: int | None = None
    """Size of the published body in bytes."""
    has_body: bool = True
    """Whether the archive has the whole published body. False with a size of 0 for a null value, which has none."""
    routed_queues: tuple[str, ...] | None = None
    """Queues that the broker routed it to; None if the archive does not record them."""
    source: str = ""
    offset: int | None = None

    @property
    def lacks_body(self) -> bool:
        """Whether a published body is not in the archive, or only its beginning."""
        return not self.has_body and self.size != 0


class Rows:
    """Collects records in columns until `batch` takes them.

    Only the given ``columns`` are built, by default all. Properties are checked whether they are built or not, unless
    ``is_received``: those that a broker delivered are right, and decoding them costs time.
    """

    def __init__(self, source: str, columns: Sequence[str] | None = None, *, is_received: bool = False) -> None:
        self.source = source
        self._checks_properties = not is_received
        self._wanted = SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
        self._with_headers, self._with_properties, self._with_body = (
            name in self._wanted.names for name in ("headers", "properties", "body")
        )
        self._clear()

    def _clear(self) -> None:
        self._times: list[int | None] = []
        self._vhosts: list[str | None] = []
        self._exchanges: list[str] = []
        self._keys: list[str] = []
        self._cc = ListBuilder()
        self._bcc = ListBuilder()
        self._headers = TableBuilder()
        self._properties = TableBuilder()
        self._bodies: list[bytes | None] = []
        self._sizes: list[int | None] = []
        self._routed = ListBuilder()
        self._sources: list[str] | None = None
        self._offsets: list[int | None] = []
        self._bytes = 0
        """Total size of the bodies, in bytes."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows, or bytes of bodies, for a batch."""
        return len(self._offsets) >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def add(
        self,
        message: Message,
        time: int | None = None,
        vhost: str | None = None,
        size: int | None = None,
        has_body: bool = True,
        routed_queues: Sequence[str] | None = None,
        offset: int | None = None,
    ) -> None:
        """Add a record from ``source``. The body of a message with the header `TOMBSTONE` is null if it is empty.

        Raises InputError, and adds nothing, for a message that AMQP cannot hold (a property that it does not have), or
        that a broker refuses because its CC or BCC is not an array.
        """
        headers = message.headers
        cc: Sequence[str] = ()
        bcc: Sequence[str] = ()
        if self._checks_properties and message.properties:
            check_properties(message.properties)
        try:
            if headers and ("CC" in headers or "BCC" in headers):
                cc, bcc = message.keys_in("CC"), message.keys_in("BCC")
            if self._with_properties:
                self._properties.add(message.properties)
        except BrokerError as error:
            raise InputError(error.text) from None
        except UNHELD as error:
            raise InputError(str(error)) from None
        try:
            if self._with_headers:
                self._headers.add(headers)
        except UNHELD as error:
            if self._with_properties:
                self._properties.undo()
            raise InputError(str(error)) from None
        self._cc.add(cc)
        self._bcc.add(bcc)
        self._times.append(time if time is None or EARLIEST_TIME <= time <= LATEST_TIME else None)
        self._vhosts.append(vhost)
        self._exchanges.append(message.exchange)
        self._keys.append(message.routing_key)
        body = message.body
        if headers and not body and headers.get(TOMBSTONE) is True:
            size, has_body = 0, False
        if self._with_body:
            self._bodies.append(body if has_body else None)
            self._bytes += len(body)
        self._sizes.append(len(body) if has_body else size)
        self._routed.add(routed_queues)
        self._offsets.append(offset)
        if self._sources is not None:
            self._sources.append(self.source)

    def add_record(self, record: Record) -> None:
        """Add a record with its own source. Raises as `add`."""
        message, time, vhost, size, has_body, routed_queues, source, offset = record
        self.add(message, time, vhost, size, has_body, routed_queues, offset)
        if self._sources is None:
            self._sources = [self.source] * len(self)
        self._sources[-1] = source

    def batch(self) -> pa.RecordBatch:
        """Return the rows collected so far, and begin again with none."""
        columns = [_MAKERS[name](self) for name in self._wanted.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._wanted)
        self._clear()
        return batch


_MAKERS: Final[dict[str, Any]] = {
    "time": lambda rows: pa.array(rows._times, SCHEMA.field("time").type),
    "vhost": lambda rows: to_text_array(rows._vhosts),
    "exchange": lambda rows: to_text_array(rows._exchanges),
    "routing_key": lambda rows: to_text_array(rows._keys),
    "cc": lambda rows: rows._cc.array(),
    "bcc": lambda rows: rows._bcc.array(),
    "headers": lambda rows: rows._headers.array(),
    "properties": lambda rows: rows._properties.array(),
    "body": lambda rows: pa.array(rows._bodies, pa.binary()),
    "body_size": lambda rows: pa.array(rows._sizes, pa.int64()),
    "routed_queues": lambda rows: rows._routed.array(),
    "source": lambda rows: to_text_array([rows.source] * len(rows) if rows._sources is None else rows._sources),
    "offset": lambda rows: pa.array(rows._offsets, pa.int64()),
}
"""Column -> function that builds it from rows."""


class ListBuilder:
    """Builds a column of lists of texts, row by row."""

    def __init__(self) -> None:
        self._starts: list[int | None] = []
        self._texts: list[str] = []

    def add(self, texts: Sequence[str] | None) -> None:
        """Add a row."""
        self._starts.append(None if texts is None else len(self._texts))
        if texts:
            self._texts += texts

    def array(self) -> pa.ListArray:
        """Return the column."""
        ends = pa.array([*self._starts, len(self._texts)], pa.int32())
        return pa.ListArray.from_arrays(ends, to_text_array(self._texts))


def make_empty_column(name: str, count: int) -> pa.Array:
    """Return a column of unknown values: nulls, or empty lists or tables if the column allows no nulls."""
    field = SCHEMA.field(name)
    if field.nullable:
        return pa.nulls(count, field.type)
    offsets = pa.array(np.zeros(count + 1, np.int32))  # a list of empty lists would take a microsecond each
    if pa.types.is_map(field.type):
        none = pa.array([], field.type)
        return pa.MapArray.from_arrays(offsets, none.keys, none.items, field.type)
    return pa.ListArray.from_arrays(offsets, pa.array([], field.type.value_type), field.type)


def build_batch(records: Iterable[Record]) -> pa.RecordBatch:
    """Return records as rows. Raises InputError for a record that AMQP cannot hold."""
    rows = Rows("")
    for record in records:
        rows.add_record(record)
    return rows.batch()


def sift_rows(batch: pa.RecordBatch, path: str, row: int) -> Iterator[pa.RecordBatch | Bad]:
    """Yield the rows that hold valid records, and `Bad` for each other row.

    Parquet only guarantees the types of columns: the value of a header may be any text. ``row`` is the number of the
    first row in the file.
    """
    wrong: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_map(column.type):
            wrong |= find_wrong_rows(column)
            if name == "properties":
                wrong = find_wrong_properties(column) | wrong
        elif pa.types.is_list(column.type) and column.flatten().null_count:
            owners = pc.list_parent_indices(column).filter(column.flatten().is_null())
            wrong |= dict.fromkeys(owners.to_pylist(), f"{name} with a null in it")
        elif not SCHEMA.field(name).nullable and column.null_count:
            wrong |= dict.fromkeys(np.flatnonzero(np.asarray(column.is_null())).tolist(), f"no {name}")
    if "time" in batch.schema.names:
        batch = _drop_impossible_times(batch)
    if not wrong:
        yield batch
        return
    for place, reason in sorted(wrong.items()):
        yield Bad(path, row + place, reason)
    rows = np.ones(batch.num_rows, bool)
    rows[list(wrong)] = False
    if rows.any():
        yield batch.filter(pa.array(rows))


def _drop_impossible_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace times outside the years 1 to 9999 by nulls."""
    place = batch.schema.get_field_index("time")
    times = batch.column(place)
    numbers = times.cast(pa.int64())
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (ends["min"] >= EARLIEST_TIME and ends["max"] <= LATEST_TIME):
        return batch
    known = pc.and_(pc.greater_equal(numbers, EARLIEST_TIME), pc.less_equal(numbers, LATEST_TIME))
    return batch.set_column(place, batch.schema.field(place), pc.if_else(known, times, pa.scalar(None, times.type)))


def to_records_or_bad(batch: pa.RecordBatch) -> list[Record | Bad]:
    """Return rows, which must have all columns, as records, or as `Bad` for rows that are no records."""
    try:
        return list(to_records(batch))
    except NOT_A_RECORD:
        return [_to_record_or_bad(batch.slice(n, 1)) for n in range(batch.num_rows)]


def _to_record_or_bad(row: pa.RecordBatch) -> Record | Bad:
    try:
        return to_records(row)[0]
    except NOT_A_RECORD as error:
        reason = str(error) or type(error).__name__
        return Bad(str(row.column("source")[0].as_py()), row.column("offset")[0].as_py(), reason)


def to_records(batch: pa.RecordBatch) -> list[Record]:
    """Return rows, which must have all columns, as records.

    May raise InputError for rows that `build_batch` did not build.
    """
    columns = {name: batch.column(name) for name in SCHEMA.names}
    times = columns["time"].cast(pa.int64()).to_pylist()
    texts = {name: columns[name].to_pylist() for name in ("vhost", "exchange", "routing_key", "source")}
    tables = decode_tables(columns["headers"])
    give_keys(tables, batch)
    rows = zip(
        times, *texts.values(), tables, decode_tables(columns["properties"]),
        columns["body"].to_pylist(), columns["body_size"].to_pylist(), columns["routed_queues"].to_pylist(),
        columns["offset"].to_pylist(), strict=True,
    )  # fmt: skip
    return [
        Record(
            Message(unescape(exchange), unescape(key), headers, properties, body or b""),
            time,
            None if vhost is None else unescape(vhost),
            size,
            body is not None,
            None if routed is None else tuple([unescape(queue) for queue in routed]),
            unescape(source),
            offset,
        )
        for time, vhost, exchange, key, source, headers, properties, body, size, routed, offset in rows
    ]
