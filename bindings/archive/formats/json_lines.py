"""Read and write JSON lines, one message each: as `exchange.values.field_json` writes, or others with the same fields.

``exchange`` and ``routing_key`` are required: without them a line cannot be routed. ``headers``, ``properties`` and
``body`` are as in `exchange.values.field_json.decode_message`. The other fields of a record are

``timestamp``      seconds since 1970, or ISO 8601 (UTC by default); numbers too great for seconds are milli-, micro- or
                   nanoseconds
``vhost``          the virtual host
``size``           bytes of the body; without a body, 0 means that it is empty, otherwise it is unknown; if ``body`` is
                   null, 0 means the null value of a record of Kafka
``body_truncated`` true where the body is missing, or only its beginning is there
``routed_queues``  names of the queues that the broker routed it to
``origin``         ``{"source": file, "offset": place}``, without an offset that is unknown; by default this file and
                   the byte at which the line begins

Unknown fields are ignored. Names and keys have at most 255 bytes, as in AMQP, except in lines with an ``origin``: names
that were copied from an archive of Kafka or RocketMQ may be longer. A line with the firehose's exchange is unwrapped:
see `bindings.archive.rabbitmq.firehose`. Rows of columns, as Spark writes them, are records, too: see
`bindings.archive.formats.row_lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from bindings.archive.formats.record_line import OriginJson, Recorded, RecordLine
from bindings.archive.formats.row_lines import DOUBT, Origin, is_doubtful, is_row, read_row
from bindings.archive.names import escape, has_nul
from bindings.archive.nesting import LINE_FEED, is_flat, parse_json, split_joined
from bindings.archive.places import AnyPath, Place
from bindings.archive.rabbitmq import firehose
from bindings.archive.reading import (
    SPLIT_BYTES,
    Bad,
    CompletePart,
    Format,
    Item,
    LineBlock,
    Skipped,
    Split,
    plan_complete_lines,
    plan_ranges,
    read_blocks,
    take_sample,
)  # fmt: skip
from bindings.archive.record import SCHEMA, Record, Rows, make_empty_column
from bindings.archive.times import EPOCH, MICROSECOND, parse_time
from bindings.archive.unpacking import read_head
from exchange.errors import InputError
from exchange.limits import SHORTSTR_BYTES
from exchange.values.field_json import decode_message, encode_fields, encode_message

KNOWN: Final = pa.schema([
    pa.field("exchange", pa.string()),
    pa.field("routing_key", pa.string()),
    pa.field("timestamp", pa.float64()),
    pa.field("vhost", pa.string()),
    pa.field("body", pa.string()),
    pa.field("headers", pa.struct([])),
    pa.field("properties", pa.struct([])),
])  # fmt: skip
"""Fields that Arrow reads exactly as `add_line` does; headers must be empty, since Arrow would guess types."""

SLOW_FIELDS: Final = frozenset({"size", "routed_queues", "origin", "body_truncated", "cc", "bcc", "body_size"})
"""Fields that only `add_line` reads."""
LINES: Final = 20
"""Number of lines whose fields are looked at."""
SURE_SECONDS: Final = 9e9
"""Seconds less than this have exact microseconds as a double."""

Add = Callable[[Rows, Any, int], Skipped | None]
"""Adds the record of a parsed line, given the byte at which the line begins; raises InputError if it is no record."""


class JsonLines(Format):
    """The format of JSON lines with ``exchange`` and ``routing_key``."""

    name: ClassVar[str] = "JSON lines"
    grows: ClassVar[bool] = True

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the first JSON object in the first lines has an exchange or a routing key."""
        first = next(parse_objects(head.split(b"\n", LINES)[:LINES]), {})
        return "exchange" in first or "routing_key" in first

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return any("exchange" in value and "routing_key" in value for value in parse_objects(head.split(b"\n")))

    def note_of(self, path: Place) -> str:
        return self.note or note_doubt(read_head(path))

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return plan_ranges(path, split_bytes)

    def plan_complete(self, path: Place, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        return plan_complete_lines(path, start, split_bytes)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_lines(split, columns, add_line, _read_by_arrow)


def read_lines(
    split: Split,
    columns: Sequence[str] | None,
    add: Add,
    fast: Callable[[LineBlock, str, Sequence[str] | None], pa.RecordBatch | None] | None = None,
) -> Iterator[Item]:
    """Yield the records of a file, one a line.

    ``add`` adds the record of a line. ``fast`` reads a block of lines at once, or returns None if it cannot.
    """
    rows = Rows(split.source, columns)
    for block in read_blocks(split):
        if block.problem is not None:
            yield Bad(split.source, block.offset, block.problem, records=block.records)
        batch = fast(block, split.source, columns) if fast is not None and block.data else None
        if batch is not None:
            if len(rows):
                yield rows.batch()
            yield batch
            continue
        place = block.offset
        for line in block.data.splitlines(keepends=True) if b"\r" not in block.data else _split_lines(block.data):
            if not line.isspace():
                yield from _read_line(line, split.source, place, rows, add)
            place += len(line)
            if rows.is_full:
                yield rows.batch()
    if len(rows):
        yield rows.batch()


def _read_line(line: bytes, path: str, place: int, rows: Rows, add: Add, *, last: bool = True) -> Iterator[Item]:
    """Add the records of a line, one or several; yield what is on it and is no record.

    ``last``: it is the end of a line, which a file may lack.
    """
    try:
        value = parse_json(line)
    except InputError as error:
        joined = False
        for start, each in split_joined(line):
            joined, is_last = True, last and start + len(each) == len(line)
            yield from _read_line(each, path, place + start, rows, add, last=is_last)
            if rows.is_full:
                yield rows.batch()
        if not joined:
            torn = "" if line.endswith(b"\n") or not last else "the file ends in the middle of a line: "
            yield Bad(path, place, torn + str(error), take_sample(line))
        return
    try:
        skipped = add(rows, value, place)
    except InputError as error:
        yield Bad(path, place, str(error), take_sample(line))
        return
    if skipped is not None:
        yield skipped


def parse_objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Parse lines, and yield those that are JSON objects."""
    for line in lines:
        try:
            value = parse_json(line)
        except InputError:
            yield from parse_objects(each for _, each in split_joined(line))
            continue
        if isinstance(value, dict):
            yield value


def note_doubt(head: bytes) -> str:
    """Return the note of a file in whose first lines are records that may be rows of our schema; "" without such."""
    return DOUBT if any(is_doubtful(each) for each in parse_objects(head.split(b"\n", LINES)[:LINES])) else ""


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split_lines(data: bytes) -> list[bytes]:
    """Split lines at line feeds only; ``bytes.splitlines`` would also split at carriage returns."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def add_line(rows: Rows, value: Any, place: int) -> Skipped | None:
    """Add the record of a parsed line that begins at byte ``place``. Raises InputError if it is no record."""
    if type(value) is not dict:
        raise InputError("not an object")
    for name in ("exchange", "routing_key"):
        if value.get(name) is None:
            raise InputError(f"no {name}")
    origin = value.get("origin")
    if origin is None and is_row(value):
        rows.add_record(read_row(value, Origin(rows.source, place)))
        return None
    is_copied = (
        type(origin) is dict and type(origin.get("source")) is str and type(origin.get("offset")) in (int, type(None))
    )
    message = decode_message(value, any_length=is_copied)
    time = parse_time(value.get("timestamp"))
    if message.exchange == firehose.EXCHANGE:
        published = firehose.unwrap(message)
        if isinstance(published, Skipped):
            return published
        rows.add(
            published.message, time, published.vhost, published.size, published.has_body, published.routed_queues, place
        )
        return None
    vhost, size, routed = value.get("vhost"), value.get("size"), value.get("routed_queues")
    if vhost is not None and type(vhost) is not str:
        raise InputError("vhost is not a string")
    if routed is not None and (type(routed) is not list or not all(type(queue) is str for queue in routed)):
        raise InputError("routed_queues is not a list of names")
    if size is not None and (type(size) is not int or not 0 <= size < 2**63):
        raise InputError("size is not a number of bytes")
    is_empty = size == 0 and "body" not in value  # null is no empty body
    has_body = value.get("body_truncated") is not True and (value.get("body") is not None or is_empty)
    queues = None if routed is None else tuple(routed)
    if type(origin) is dict and is_copied:
        rows.add_record(Record(message, time, vhost, size, has_body, queues, origin["source"], origin.get("offset")))
    else:
        rows.add(message, time, vhost, size, has_body, queues, place)
    return None


def encode_line(record: Record) -> bytes:
    """Return the line that `JsonLines` reads as this record. Raises as `exchange.values.field_json.encode_message`."""
    message, time, vhost, size, has_body, routed, source, offset = record
    fields = cast(Recorded, encode_message(message))
    if time is not None:
        seconds, rest = divmod(time, 1_000_000)
        if abs(seconds) < SURE_SECONDS:
            fields["timestamp"] = time / 1_000_000 if rest else seconds
        else:  # a number would lose digits, or be read as milliseconds
            fields["timestamp"] = (EPOCH + time * MICROSECOND).isoformat()
    if vhost is not None:
        fields["vhost"] = vhost
    if record.lacks_body:
        fields["size"] = size
        fields["body_truncated"] = True
    elif not has_body:
        fields["body"] = None
        fields["size"] = 0
    elif not message.body:
        fields["size"] = 0
    if routed is not None:
        fields["routed_queues"] = list(routed)
    origin: OriginJson = {"source": source}
    if offset is not None:
        origin["offset"] = offset
    line: RecordLine = {**fields, "origin": origin}
    return encode_fields(line)


def _read_by_arrow(block: LineBlock, path: str, columns: Sequence[str] | None) -> pa.RecordBatch | None:
    """Return the records of a block; None if Arrow may not read each line exactly as `add_line` does."""
    data = block.data
    count = data.count(b"\n")
    # Arrow skips empty lines, and accepts "Infinity" and "NaN" as numbers, which are not JSON.
    if (
        data.count(b"\n{") + data.startswith(b"{") != count
        or not data.endswith(b"\n")
        or b"Inf" in data
        or b"NaN" in data
    ):
        return None
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_FEED)
    if not is_flat(data, ends) or not _is_utf8(data):
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pj.ParseOptions(explicit_schema=KNOWN, newlines_in_values=False, unexpected_field_behavior="infer"),
        )
        table.validate(full=True)
    except pa.ArrowException:
        return None
    if table.num_rows != count or not SLOW_FIELDS.isdisjoint(table.column_names):
        return None
    (read,) = table.select(KNOWN.names).combine_chunks().to_batches()
    exchange, key, vhost, body = (read.column(name) for name in ("exchange", "routing_key", "vhost", "body"))
    seconds = np.asarray(pc.fill_null(read.column("timestamp"), 0.0))
    if (
        read.schema != KNOWN
        or exchange.null_count
        or key.null_count
        or any(has_nul(texts) for texts in (exchange, key, vhost))
        or any(pc.max(pc.binary_length(texts)).as_py() > SHORTSTR_BYTES for texts in (exchange, key))
        or pc.any(pc.equal(exchange, firehose.EXCHANGE)).as_py()
        or (np.abs(seconds) >= SURE_SECONDS).any()
    ):
        return None
    times = pa.array(np.rint(seconds * 1e6).astype(np.int64)).view(SCHEMA.field("time").type)
    bodies = body.cast(pa.binary())
    built = {
        "time": pc.if_else(read.column("timestamp").is_valid(), times, pa.scalar(None, times.type)),
        "vhost": vhost,
        "exchange": exchange,
        "routing_key": key,
        "body": bodies,
        "body_size": pc.binary_length(bodies).cast(pa.int64()),
        "source": pa.array([escape(path)], pa.string()).take(pa.array(np.zeros(count, np.int32))),
        "offset": pa.array(block.offset + np.concatenate([[0], ends[:-1] + 1])),
    }
    names = SCHEMA.names if columns is None else columns
    arrays = [built[name] if name in built else make_empty_column(name, count) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))
