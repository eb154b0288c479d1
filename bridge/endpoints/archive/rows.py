"""From a batch of a spool to rows of the archive's schema.

The rows are equal to those that `bindings.archive.record.Rows` makes of messages one by one; here they are made column
by column, from the bytes of the content headers, without decoding their values.

A message whose headers the schema cannot hold, because they are malformed or its CC is no array, is kept too: its row
has the bytes of its content header, and `restore_message` makes the original message from them.

Those bytes decide all headers and properties of the replayed message, even ``user_id``, which a broker has verified. So
they are kept where no publisher can write: in the column of properties, under a name that is no property of AMQP. A
publisher sets properties by the flags of a content header, each of which stands for one of thirteen names; only the
names of headers are free. Archives of earlier releases have the bytes in a header of this name, which is not trusted:
such a message is replayed with the headers that the archive shows, ``hashstar-reason`` and ``hashstar-content-header``.
The latter has the bytes, for readers who know where the archive comes from.

This protects against publishers only: anyone who can write the files of an archive can put any message into it.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import TableBuilder, encode_field
from bindings.archive.names import unescape
from bindings.archive.record import EARLIEST_TIME, LATEST_TIME, SCHEMA, TOMBSTONE, ListBuilder, make_empty_column
from bridge.interop import IDENTITY
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.amqp.content import RAW_HEADER, WIDTHS
from exchange.amqp.fields import decode_value
from exchange.values.field_values import Typed
from exchange.values.message import Message

REASON: Final = "hashstar-reason"
"""Header with the reason why the schema cannot hold it."""
NO_VALUE: Final = (TOMBSTONE, "bool")
"""Name and type of the header of a message whose record of Kafka has no value."""
LONGSTR: Final = 83
"""Tag of texts, which most values are."""


def to_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a spool's batch, in their order."""
    contents, identities = batch.column("content").to_pylist(), batch.column("identity").to_pylist()
    headers, properties = TableBuilder(), TableBuilder()
    cc, bcc = ListBuilder(), ListBuilder()
    has_value: list[bool] = []
    for raw, identity in zip(contents, identities, strict=True):
        try:
            content = ContentHeader(raw)
            copies = _read_copies(content) if b"CC" in raw else NO_COPIES
            fields = _encode_headers(content)
            rest = _encode_properties(content)
        except MemoryError:  # not caused by the message
            raise
        except Exception as error:  # noqa: BLE001  publishers choose the bytes, so there is no list of what they raise
            copies, rest = NO_COPIES, [(RAW_HEADER, "binary", b64encode(raw).decode())]
            fields = [(REASON, "longstr", str(error) or type(error).__name__)]
        fields = [field for field in fields if field[0] != IDENTITY]
        if identity is not None:
            fields.append((IDENTITY, "longstr", unescape(identity)))
        has_value.append(not any(field[:2] == NO_VALUE and field[2] == "true" for field in fields))
        headers.add_encoded(fields)
        properties.add_encoded(rest)
        cc.add(copies[0])
        bcc.add(copies[1])
    times, bodies = batch.column("time"), batch.column("body")
    sizes = pc.binary_length(bodies).cast(pa.int64())
    if not all(has_value):
        bodies = pc.if_else(pc.or_(pa.array(has_value, pa.bool_()), pc.greater(sizes, 0)), bodies, None)
    known = pc.and_(pc.greater_equal(times, EARLIEST_TIME), pc.less_equal(times, LATEST_TIME))
    columns = {
        "time": pc.if_else(known, times, None).cast(SCHEMA.field("time").type),
        "exchange": batch.column("exchange"),
        "routing_key": batch.column("routing_key"),
        "cc": cc.array(),
        "bcc": bcc.array(),
        "headers": headers.array(),
        "properties": properties.array(),
        "body": bodies,
        "body_size": sizes,
        "source": batch.column("source"),
        "offset": batch.column("offset"),
    }
    columns |= {name: make_empty_column(name, batch.num_rows) for name in ("vhost", "routed_queues")}
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def restore_message(message: Message) -> Message:
    """Return the message of a row as it can be sent again.

    Headers that the schema could not hold are as they were, and properties that are not UTF-8 are texts as in
    `ContentHeader.properties`. Raises MalformedHeader for bytes that are no header at all, and ValueError for what no
    target could send: a property that AMQP does not have, a name of more than 255 bytes.
    """
    raw = message.properties.get(RAW_HEADER)
    if isinstance(raw, bytes):
        return build_lazy_message(message.exchange, message.routing_key, ContentHeader(raw), message.body)
    if Typed in map(type, message.properties.values()):
        texts = {
            name: value.value.decode("utf-8", "surrogateescape")
            for name, value in message.properties.items()
            if isinstance(value, Typed) and isinstance(value.value, bytes)
        }
        message = replace(message, properties={**message.properties, **texts}) if texts else message
    if message.headers or message.properties:  # targets take the bytes that are made here
        return build_lazy_message(message.exchange, message.routing_key, get_content(message), message.body)
    return message


NO_COPIES: Final[tuple[list[str], list[str]]] = ([], [])
"""Routing keys in CC and BCC of a message without both."""


def _read_copies(content: ContentHeader) -> tuple[list[str], list[str]]:
    """Return the routing keys in CC and BCC. Raises PreconditionFailed, as a broker answers."""
    message = build_lazy_message("", "", content, b"")
    return message.keys_in("CC"), message.keys_in("BCC")


def _encode_headers(content: ContentHeader) -> list[tuple[str, str, str | None]]:
    fields = []
    for name, raw in content.fields():
        if raw[0] == LONGSTR:
            kind, text = "longstr", raw[5:].decode("utf-8", "surrogateescape")
        else:
            kind, text = _encode_rare(raw)  # type: ignore[assignment]  # a void has no text
        fields.append((name.decode("utf-8", "surrogateescape"), kind, text))
    if len({name for name, _, _ in fields}) < len(fields):  # a name twice: the first one counts
        first = {field[0]: field for field in reversed(fields)}
        fields = [field for field in fields if first[field[0]] is field]
    return fields  # type: ignore[return-value]  # as above


@lru_cache(1 << 14)
def _encode_rare(raw: bytes) -> tuple[str, str | None]:
    return encode_field(decode_value(raw)[0])


def _encode_properties(content: ContentHeader) -> list[tuple[str, str, str | None]]:
    return [
        (name, kind, raw.decode("utf-8", "surrogateescape") if not width else str(int.from_bytes(raw)))
        for name, raw in content.parts()
        for width in (WIDTHS[name],)
        for kind in (KINDS[width],)
    ]


KINDS: Final = {0: "longstr", 1: "long", 8: "timestamp"}
"""Width of a property, in bytes (0: a text) -> the type of its value."""
