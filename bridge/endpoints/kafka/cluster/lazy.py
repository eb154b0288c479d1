"""Messages of records whose content header is made only when it is needed: neither a route by key nor Kafka needs it.

The router asks every message whether it has headers, and CC or BCC among them. The message of a record answers both
without a content header: it always has headers, and never one of `BROKER_HEADERS`, since the mapping renames these.
"""

from __future__ import annotations

from typing import Final

from bridge.interop import Record
from bridge.interop.kafka_guest import BROKER_HEADERS, build_header
from bridge.interop.record import build_routing_key
from exchange.amqp import ContentHeader, LazyHeaders, Properties
from exchange.values.message import Message, assemble_message

__all__ = ["RecordHeaders", "convert_record", "record_of"]


class RecordHeaders(LazyHeaders):
    """The headers of a record's message: it always has some, and never one of `BROKER_HEADERS`."""

    __slots__ = ("_made", "record")

    def __init__(self, record: Record) -> None:
        self.record: Final = record
        self._made: ContentHeader | None = None
        self._decoded = None

    @property
    def content(self) -> ContentHeader:  # type: ignore[override]  # read only, as it should be
        """Content header of the message, made when it is first asked for."""
        if self._made is None:
            self._made = ContentHeader(build_header(self.record))
        return self._made

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return key not in BROKER_HEADERS and super().__contains__(key)


class RecordProperties(Properties):
    """The other properties of a record's message."""

    __slots__ = ("headers",)

    def __init__(self, headers: RecordHeaders) -> None:
        self.headers: Final = headers
        self._decoded = None

    @property
    def content(self) -> ContentHeader:  # type: ignore[override]  # as above
        """Content header of the message, as its headers have it."""
        return self.headers.content


def convert_record(record: Record) -> Message:
    """Return the message that `bridge.interop.to_amqp` makes of a record that Kafka's own producers wrote."""
    headers = RecordHeaders(record)
    return assemble_message(
        record.topic, build_routing_key(record.key), headers, RecordProperties(headers), record.value or b""
    )


def record_of(message: Message) -> Record | None:
    """Return the record of a message that `convert_record` made; None for all other messages."""
    headers, properties = message.headers, message.properties
    if type(headers) is RecordHeaders and type(properties) is RecordProperties and properties.headers is headers:
        return headers.record
    return None
