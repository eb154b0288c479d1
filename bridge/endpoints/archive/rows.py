"""From a batch of a spool to rows of the archive's schema.

What `bindings.archive.record.Rows` makes of a message one by one is made here column by column, and of the content
header's bytes at once, without the values in between; the rows are the same.

A message whose headers the schema cannot hold, as they are malformed, or its CC is no array, is kept too: its content
header is there as the bytes that it came as, and `restored` makes the message of them that it was.

Those bytes decide all headers and properties of what is replayed, also ``user_id``, which a broker has verified. So
they stand where no publisher can put any: in the column of properties, under a name that is no property of AMQP. A
publisher sets properties by the flags of a content header, of which each stands for one of thirteen names; only
headers have names of his own. In archives of before the bytes were in a header of this name. That is not trusted: such
a message is replayed with the headers that the archive shows, ``hashstar-reason`` and ``hashstar-content-header``,
which has the bytes for those who know where the archive comes from.

Who can write the files of an archive can put any message into it, and needs no forgery.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import FIELD, TABLE, encode_field
from bindings.archive.names import to_text_array, unescape
from bindings.archive.record import EARLIEST, LATEST, SCHEMA
from bridge.interop import IDENTITY
from exchange.amqp import ContentHeader, message_of
from exchange.amqp.content import WIDTHS
from exchange.amqp.fields import decode_value
from exchange.field_values import Typed
from exchange.message import Message

__all__ = ["RAW_HEADER", "rows_of", "restored"]

RAW_HEADER: Final = "hashstar-content-header"
"""In the column of properties."""
REASON: Final = "hashstar-reason"
LONGSTR: Final = 83
"""The tag of the values that most are."""


def rows_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, in their order."""
    contents, identities = batch.column("content").to_pylist(), batch.column("identity").to_pylist()
    headers, properties = _Tables(), _Tables()
    cc: list[list[str]] = []
    bcc: list[list[str]] = []
    for raw, identity in zip(contents, identities, strict=True):
        try:
            content = ContentHeader(raw)
            copies = _copies(content) if b"CC" in raw else NO_COPIES
            fields = _headers(content)
            rest = _properties(content)
        except MemoryError:  # no fault of the message's
            raise
        except Exception as error:  # noqa: BLE001  publishers choose the bytes, so there is no list of what they raise
            copies, rest = NO_COPIES, [(RAW_HEADER, "binary", b64encode(raw).decode())]
            fields = [(REASON, "longstr", str(error) or type(error).__name__)]
        if identity is not None and all(name != IDENTITY for name, _, _ in fields):
            fields.append((IDENTITY, "longstr", unescape(identity)))
        headers.add(fields)
        properties.add(rest)
        cc.append(copies[0])
        bcc.append(copies[1])
    count, times, bodies = batch.num_rows, batch.column("time"), batch.column("body")
    known = pc.and_(pc.greater_equal(times, EARLIEST), pc.less_equal(times, LATEST))
    columns = {
        "time": pc.if_else(known, times, None).cast(SCHEMA.field("time").type),
        "vhost": pa.nulls(count, pa.string()),
        "exchange": batch.column("exchange"),
        "routing_key": batch.column("routing_key"),
        "cc": _lists(cc),
        "bcc": _lists(bcc),
        "headers": headers.array(),
        "properties": properties.array(),
        "body": bodies,
        "body_size": pc.binary_length(bodies).cast(pa.int64()),
        "routed_queues": pa.nulls(count, SCHEMA.field("routed_queues").type),
        "source": batch.column("source"),
        "offset": batch.column("offset"),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def restored(message: Message) -> Message:
    """The message of a row as it can be sent: headers that the schema could not hold are as they were, and properties
    that are not UTF-8 are texts as `ContentHeader.properties` gives them. Raises MalformedHeader for bytes that are no
    header at all.
    """
    raw = message.properties.get(RAW_HEADER)
    if isinstance(raw, bytes):
        return message_of(message.exchange, message.routing_key, ContentHeader(raw), message.body)
    if Typed in map(type, message.properties.values()):
        texts = {
            name: value.value.decode("utf-8", "surrogateescape")
            for name, value in message.properties.items()
            if isinstance(value, Typed) and isinstance(value.value, bytes)
        }
        return replace(message, properties={**message.properties, **texts}) if texts else message
    return message


NO_COPIES: Final[tuple[list[str], list[str]]] = ([], [])


def _copies(content: ContentHeader) -> tuple[list[str], list[str]]:
    """What is in the headers CC and BCC. Raises PreconditionFailed, as a broker answers."""
    message = message_of("", "", content, b"")
    return message.keys_in("CC"), message.keys_in("BCC")


def _headers(content: ContentHeader) -> list[tuple[str, str, str | None]]:
    found = []
    for name, raw in content.fields():
        if raw[0] == LONGSTR:
            kind, text = "longstr", raw[5:].decode("utf-8", "surrogateescape")
        else:
            kind, text = _rare(raw)  # type: ignore[assignment]  # a void has no text
        found.append((name.decode("utf-8", "surrogateescape"), kind, text))
    if len({name for name, _, _ in found}) < len(found):  # the first one counts
        first = {field[0]: field for field in reversed(found)}
        found = [field for field in found if first[field[0]] is field]
    return found  # type: ignore[return-value]  # as above


@lru_cache(1 << 14)
def _rare(raw: bytes) -> tuple[str, str | None]:
    return encode_field(decode_value(raw)[0])


def _properties(content: ContentHeader) -> list[tuple[str, str, str | None]]:
    return [
        (name, kind, raw.decode("utf-8", "surrogateescape") if not width else str(int.from_bytes(raw)))
        for name, raw in content.parts()
        for width in (WIDTHS[name],)
        for kind in (KINDS[width],)
    ]


KINDS: Final = {0: "longstr", 1: "long", 8: "timestamp"}
"""The bytes of a property -> the type of its value."""


class _Tables:
    """A column of tables in the making."""

    def __init__(self) -> None:
        self._ends = [0]
        self._fields: list[tuple[str, str, str | None]] = []

    def add(self, fields: list[tuple[str, str, str | None]]) -> None:
        self._fields += fields
        self._ends.append(len(self._fields))

    def array(self) -> pa.MapArray:
        fields = self._fields
        kinds = pa.array([kind for _, kind, _ in fields], pa.string())
        values = pa.StructArray.from_arrays([kinds, to_text_array([text for _, _, text in fields])], fields=list(FIELD))
        keys = to_text_array([name for name, _, _ in fields])
        return pa.MapArray.from_arrays(pa.array(self._ends, pa.int32()), keys, values, TABLE)


def _lists(lists: list[list[str]]) -> pa.ListArray:
    if not any(lists):
        return pa.ListArray.from_arrays(pa.array([0] * (len(lists) + 1), pa.int32()), pa.array([], pa.string()))
    ends = [0]
    for each in lists:
        ends.append(ends[-1] + len(each))
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), to_text_array([text for each in lists for text in each])
    )
