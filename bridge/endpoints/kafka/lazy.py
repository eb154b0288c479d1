"""Messages of records that are put into AMQP when somebody looks: a route by key, and a target in Kafka, need not.

What the router asks of every message, whether it has headers and CC or BCC is among them, is known of a record without.
"""

from __future__ import annotations

from typing import Final

from bridge.interop import Record
from bridge.interop.kafka_guest import header_of
from bridge.interop.record import routing_key_for
from exchange.amqp import ContentHeader, Headers, Properties, assembled
from exchange.message import Message

__all__ = ["RecordHeaders", "message_of_record", "record_of"]

CODES: Final = frozenset({"CC", "BCC"})


class RecordHeaders(Headers):
    """The headers of a record's message: there are some always, and those that the router asks for never are."""

    __slots__ = ("_made", "record")

    def __init__(self, record: Record) -> None:
        self.record: Final = record
        self._made: ContentHeader | None = None
        self._decoded = None

    @property
    def content(self) -> ContentHeader:  # type: ignore[override]  # read only, as it should be
        """The content header of the message, made when it is asked for."""
        if self._made is None:
            self._made = ContentHeader(header_of(self.record))
        return self._made

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return key not in CODES and super().__contains__(key)


class RecordProperties(Properties):
    """The other properties of a record's message."""

    __slots__ = ("headers",)

    def __init__(self, headers: RecordHeaders) -> None:
        self.headers: Final = headers
        self._decoded = None

    @property
    def content(self) -> ContentHeader:  # type: ignore[override]  # as above
        """That of the headers."""
        return self.headers.content


def message_of_record(record: Record) -> Message:
    """As `bridge.interop.to_amqp` of a record that is a guest in AMQP."""
    headers = RecordHeaders(record)
    return assembled(record.topic, routing_key_for(record.key), headers, RecordProperties(headers), record.value or b"")


def record_of(message: Message) -> Record | None:
    """The record that a message of `message_of_record` is of; None for other messages."""
    headers, properties = message.headers, message.properties
    if type(headers) is RecordHeaders and type(properties) is RecordProperties and properties.headers is headers:
        return headers.record
    return None
