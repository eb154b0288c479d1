"""Read messages that RabbitMQ's management API returned (``POST /api/queues/VHOST/QUEUE/get``), as one JSON array.

``rabbitmqadmin get --format raw_json`` writes such a file. A payload that was truncated at the client's request does
not count as a body. Empty properties and headers are empty arrays. Messages of the firehose are unwrapped.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final

from bindings.archive.nesting import parse_json
from bindings.archive.places import AnyPath, Place
from bindings.archive.rabbitmq import firehose
from bindings.archive.rabbitmq.objects import ReadValue, read_messages
from bindings.archive.reading import Bias, Format, Item, Skipped, Split, take_sample
from bindings.archive.record import Rows
from bindings.archive.unpacking import read_pieces
from exchange.errors import InputError
from exchange.limits import RECORD_BYTES
from exchange.values.field_json import decode_table
from exchange.values.field_values import Typed
from exchange.values.message import Message

FIRST: Final = re.compile(
    rb'\{\s*+("(?:payload_bytes|redelivered|exchange|routing_key|message_count|properties|payload|payload_encoding)")'
)
"""The beginning of an element. It cannot occur inside a JSON string, where quotes are escaped."""


class Fetched(Format):
    """The format of an array of messages as the management API returns it."""

    name: ClassVar[str] = "RabbitMQ management API, messages"
    bias: ClassVar[Bias] = Bias.SURVIVORS

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file begins with an array of such messages."""
        return head.lstrip()[:1] == b"[" and self.resembles(head, path)

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return b'"payload_bytes"' in head and b'"routing_key"' in head and FIRST.search(head) is not None

    def is_complete(self, path: Place) -> bool:
        data, problem = _read_bytes(path)
        return not problem and data.rstrip().endswith(b"]")

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_messages(split, columns, _read_objects(split.path), _add_message)


def _read_bytes(path: Place) -> tuple[bytes, str]:
    """Return the content of a file, and the reason if that is not all. Raises InputError if it cannot be opened."""
    pieces: list[bytes] = []
    size = 0
    for piece in read_pieces(path, 0):
        if isinstance(piece, str):
            return b"".join(pieces), piece
        pieces.append(piece)
        size += len(piece)
        if size > RECORD_BYTES:
            return b"".join(pieces), f"an array of more than {RECORD_BYTES >> 20} MiB: fetch fewer messages at once"
    return b"".join(pieces), ""


def _read_objects(path: Place) -> Iterator[ReadValue]:
    for number, (value, sample) in enumerate(_read_elements(path)):
        yield ReadValue(number, value, sample)


def _read_elements(path: Place) -> Iterator[tuple[Any, bytes]]:
    """Yield each element of the array with its sample; for a bad element, yield the reason as a text instead."""
    data, problem = _read_bytes(path)
    matches = list(FIRST.finditer(data))
    # All messages begin with the same field; matches with another field begin objects inside messages.
    places = [match.start() for match in matches if match[1] == matches[0][1]]
    whole = _parse_array(data) if not problem else None
    if whole is not None:
        for value in whole:
            yield value if isinstance(value, dict) else "not an object", b""
        return
    # The array is damaged, or too large to parse at once: parse each element by itself.
    if data.strip() and data[: places[0] if places else None].strip() != b"[":
        yield "what stands before the first message is no array", take_sample(data)
    for start, end in pairwise([*places, len(data)]):
        text = data[start:end].rstrip(b", \r\n\t]")
        try:
            yield parse_json(text), take_sample(text)
        except InputError as error:
            yield str(error), take_sample(text)
    if problem or not data.rstrip().endswith(b"]"):
        yield problem or "the file ends in the middle of an array", b""


def _parse_array(data: bytes) -> list[Any] | None:
    try:
        value = parse_json(data)
    except InputError:
        return None
    return value if isinstance(value, list) else None


def _add_message(rows: Rows, value: dict[str, Any], number: int) -> Skipped | None:
    exchange, key, payload = value.get("exchange"), value.get("routing_key"), value.get("payload")
    if type(exchange) is not str or type(key) is not str or type(payload) is not str:
        raise InputError("no exchange, no routing_key or no payload")
    properties = decode_table(value.get("properties") or {}, "properties")
    headers = properties.pop("headers", None) or {}
    if type(headers) is not dict:
        raise InputError("headers are not an object")
    time = None
    if "timestamp" in properties:
        stamp = properties["timestamp"]
        if type(stamp) is not int or not 0 <= stamp < 2**63:
            raise InputError("timestamp is not a time")
        properties["timestamp"] = Typed("timestamp", stamp)
        time = stamp * 1_000_000
    if value.get("payload_encoding") == "base64":
        try:
            body = b64decode(payload, validate=True)
        except ValueError:
            raise InputError("payload is not base64") from None
    else:
        body = payload.encode("utf-8", "surrogatepass")
    size = value.get("payload_bytes")
    has_body = size == len(body)
    if type(size) is not int or not len(body) <= size < 2**63:
        raise InputError("payload_bytes is not the size of the payload")
    message = Message(exchange, key, headers, properties, body if has_body else b"")
    if exchange != firehose.EXCHANGE:
        rows.add(message, time, size=size, has_body=has_body, offset=number)
        return None
    record = firehose.unwrap(message)
    if isinstance(record, Skipped):
        return record
    rows.add(record.message, time, record.vhost, size, has_body, record.routed_queues, number)
    return None
