"""Messages of records whose content header is made only when it is needed: neither a route by key nor Kafka needs it.

The router asks every message whether it has headers, and CC or BCC among them. The message of a record answers both
without a content header: it always has headers, and never one of `BROKER_HEADERS`, since the mapping renames these.
"""

from __future__ import annotations

from typing import ClassVar, Final

from bridge.interop import Record
from bridge.interop.kafka_guest import BROKER_HEADERS, build_header
from bridge.interop.record import build_routing_key
from exchange.amqp import ContentHeader, LazyHeaders, Properties
from exchange.values.message import Message, assemble_message


class RecordHeaders(LazyHeaders):
    """The headers of a record's message: it always has some, and never one of `BROKER_HEADERS` or a bridge's mark."""

    __slots__ = ("made", "record")

    has_one_key: ClassVar = True
    may_have_marks: ClassVar = False

    def __init__(self, record: Record) -> None:
        self.record: Final = record
        self.made: ContentHeader | None = None
        """Content header of the message, once it was asked for."""
        self._decoded = None

    @property
    def content(self) -> ContentHeader:  # type: ignore[override]  # read only, as it should be
        """Content header of the message, made when it is first asked for."""
        if self.made is None:
            self.made = ContentHeader(build_header(self.record))
        return self.made

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
        return self.headers.made or self.headers.content


def convert_record(record: Record) -> Message:
    """Return the message that `bridge.interop.to_amqp` makes of a record that a producer of Kafka wrote, no bridge."""
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
