"""Messages that rabtap saved (``tap`` or ``sub`` with ``--format json``): an object each, in files of their own or one
after another, and the pairs of ``.json`` and ``.dat`` that ``--format raw`` writes.

Types of headers that JSON does not have are lost: timestamps and bytes are texts. Messages of the firehose are
unwrapped.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from bindings.archive.places import AnyPath, Place, to_path
from bindings.archive.rabbitmq import firehose
from bindings.archive.rabbitmq.objects import is_whole, read_body_beside, read_messages, read_objects
from bindings.archive.reading import Bias, Format, Item, Skipped, Split
from bindings.archive.record import Rows
from bindings.archive.times import parse_time_text
from exchange.errors import InputError
from exchange.values.field_json import decode_table
from exchange.values.field_values import Typed
from exchange.values.message import Message

PROPERTIES: Final = {
    "ContentType": "content_type", "ContentEncoding": "content_encoding", "DeliveryMode": "delivery_mode",
    "Priority": "priority", "CorrelationID": "correlation_id", "ReplyTo": "reply_to", "Expiration": "expiration",
    "MessageID": "message_id", "Type": "type", "UserID": "user_id", "AppID": "app_id",
}  # fmt: skip
NO_TIME: Final = "0001-01-01T00:00:00Z"
BODY_SUFFIX: Final = ".dat"


class Rabtap(Format):
    """The format of rabtap's JSON."""

    name: ClassVar[str] = "rabtap JSON"
    bias: ClassVar[Bias] = Bias.UNKNOWN
    note: ClassVar[str] = "a tap holds what its binding key let through, a subscription what reached its queue"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file begins with an object that has rabtap's fields."""
        start = head.lstrip()[:4096]
        return start.startswith(b"{") and self.resembles(head, path)

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return b'"RoutingKey"' in head and b'"DeliveryTag"' in head

    def is_companion(self, name: str, folder: str, is_beside: Callable[[str], bool]) -> bool:
        return name.endswith(BODY_SUFFIX) and is_beside(f"{name.removesuffix(BODY_SUFFIX)}.json")

    def is_complete(self, path: Place) -> bool:
        """Return whether the file ends with a whole object."""
        return is_whole(path)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_messages(split, columns, read_objects(split.path), partial(_add_message, split.path))


def _add_message(file: Place, rows: Rows, value: Mapping[str, Any], place: int) -> Skipped | None:
    exchange, key = value.get("Exchange"), value.get("RoutingKey")
    if type(exchange) is not str or type(key) is not str:
        raise InputError("no Exchange or no RoutingKey")
    headers = decode_table(value.get("Headers") or {}, "Headers")
    properties = {name: value[field] for field, name in PROPERTIES.items() if value.get(field)}
    published = value.get("Timestamp", NO_TIME)
    if published != NO_TIME:
        properties["timestamp"] = Typed("timestamp", max(parse_time_text(_check_text(published)) // 1_000_000, 0))
    received = value.get("XRabtapReceivedTimestamp")
    time = None if received is None else parse_time_text(_check_text(received))
    body = _read_body(value.get("Body"), file)
    message = Message(exchange, key, headers, properties, body or b"")
    if exchange != firehose.EXCHANGE:
        rows.add(message, time, has_body=body is not None, offset=place)
        return None
    record = firehose.unwrap(message)
    if isinstance(record, Skipped):
        return record
    rows.add(record.message, time, record.vhost, routed_queues=record.routed_queues, offset=place)
    return None


def _read_body(value: Any, file: Place) -> bytes | None:
    if value is None:
        try:
            return read_body_beside(to_path(file).with_suffix(BODY_SUFFIX))
        except OSError as error:
            raise InputError(f"the body cannot be read: {error.strerror}") from None
    try:
        return b64decode(value, validate=True)
    except (ValueError, TypeError):
        raise InputError("Body is not base64") from None


def _check_text(value: Any) -> str:
    if type(value) is not str:
        raise InputError("a time that is no text")
    return value
