"""The frequent frames of AMQP 0-9-1, decoded and encoded without objects in between: deliveries, publishes,
acknowledgements in both directions, returns.

Content headers stay bytes. All here are pure functions of bytes, except for one state machine, `Contents`, which joins
the frames of a content: method, header, bodies. Any other order ends the connection: a delivery that was left out would
be acknowledged with those after it, and lost.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from bridge.endpoint import Disconnected
from exchange.amqp.methods import BODY, HEAD, HEADER, METHOD
from exchange.amqp.methods import END as END_OCTET
from exchange.limits import MESSAGE_BYTES

END: Final = bytes((END_OCTET,))

OVERHEAD: Final = 8
"""Number of bytes of a frame besides its payload."""

METHOD_HEAD: Final = Struct(">I")
DELIVER: Final = 60 << 16 | 60
GET: Final = 60 << 16 | 70
GET_OK: Final = 60 << 16 | 71
GET_EMPTY: Final = 60 << 16 | 72
RETURN: Final = 60 << 16 | 50
CANCEL: Final = 60 << 16 | 30
PUBLISH: Final = 60 << 16 | 40
ACK: Final = 60 << 16 | 80
NACK: Final = 60 << 16 | 120

DELIVER_ID: Final = METHOD_HEAD.pack(DELIVER)
TAG: Final = Struct(">QB")
CONTENT: Final = Struct(">HHQ")
"""Class, weight and body size of a content header; the properties follow."""

ACK_FRAME: Final = Struct(">BHIIQBB")
PUBLISH_HEAD: Final = Struct(">BHIIH")
HEADER_HEAD: Final = Struct(">BHIHHQ")
HEADER_BYTES: Final = HEADER_HEAD.size
# Bound here once, as they are called for each delivery.
_next_header: Final = Struct(">BBHIHHQ").unpack_from
"""Decodes the end of a frame and the head of the content header after it."""
_next_head: Final = Struct(">BBHI").unpack_from
"""Decodes the end of a frame and the head of the frame after it."""
_tag_and_length: Final = Struct(">QBB").unpack_from
"""Decodes what follows the consumer in a delivery: tag, redelivered, length of the exchange."""


class Arrived(NamedTuple):
    """basic.deliver or basic.get-ok with its content."""

    tag: int
    redelivered: bool
    exchange: bytes
    routing_key: bytes
    properties: bytes
    """The content header after the body size: property flags, then the properties."""
    body: bytes


class Returned(NamedTuple):
    """basic.return with its content."""

    code: int
    text: bytes
    exchange: bytes
    routing_key: bytes
    properties: bytes
    body: bytes


class Acked(NamedTuple):
    """basic.ack or basic.nack from the broker, for the publish with this number or for all up to it."""

    number: int
    multiple: bool
    nack: bool


class NothingLeft(NamedTuple):
    """basic.get-empty."""


_new_tuple: Final = tuple.__new__
"""Makes a named tuple without its own ``__new__``, which is written in Python and slower."""

Event: TypeAlias = Arrived | Returned | Acked | NothingLeft


class Contents:
    """Decodes the frames of one channel, and appends complete events to ``events``."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._begun: tuple[int, int, bytes, bytes, bytes] | None = (
            None  # the fields of a deliver or return whose content is not complete
        )
        self._returned = False
        self._properties = b""
        self._missing: int | None = None
        """Number of bytes of the body that have not come; None before the content header."""
        self._pieces: list[bytes] = []

    def delivery(self, data: bytes, at: int, header: int, end: int, channel: int) -> int:
        """Decode a delivery with all its frames at once, if one begins at ``at`` and its body has at most one frame.

        ``header`` is the end of its method frame, where the frame of its content header begins. Return the end of its
        last frame; or 0, with nothing changed, if there is no such delivery that is complete before ``end``: then the
        caller gives its frames to `feed`, one by one.
        """
        if header + HEADER_BYTES > end or data[at + 7 : at + 11] != DELIVER_ID or self._begun is not None:
            return 0
        # Frames of other channels may come between those of a content, so each frame's channel is compared.
        ended, kind, other, size, _, _, body_size = _next_header(data, header - 1)
        if ended != END_OCTET or kind != HEADER or other != channel or size < 12:
            return 0
        # From here on, `body` is where the body's frame begins, and `stop` the end of the last frame.
        body = stop = header + OVERHEAD + size
        if body_size:
            stop += OVERHEAD + body_size
            if stop > end:
                return 0
            ended, kind, other, size = _next_head(data, body - 1)
            if size != body_size or kind != BODY or other != channel or ended != END_OCTET:
                return 0
        if stop > end or data[stop - 1] != END_OCTET:
            return 0
        at += 12 + data[at + 11]  # frame head (7), class and method (4), the consumer tag with its length (1 + length)
        tag, redelivered, size = _tag_and_length(data, at)
        at += 10
        key = at + size + 1
        if key + data[key - 1] != header - 1:
            return 0
        self.events.append(
            _new_tuple(Arrived, (
                tag, redelivered != 0, data[at : key - 1], data[key : header - 1],
                data[header + 19 : body - 1], data[body + 7 : stop - 1] if body_size else b"",
            ))
        )  # fmt: skip
        return int(stop)

    def feed(self, kind: int, data: bytes, start: int, stop: int) -> bool:
        """Decode a frame's payload, ``data[start:stop]``; return False if the frame is for pika.

        Raises Disconnected for a wrong frame, IndexError or struct.error for one that ends too early.
        """
        if kind == METHOD:
            return self._method(data, start, stop)
        if kind not in (HEADER, BODY):
            return False
        if self._begun is None:
            raise Disconnected("the broker sent a content without its method")
        if kind == HEADER:
            if self._missing is not None:
                raise Disconnected("the broker sent a second content header instead of a body")
            if stop - start < CONTENT.size:
                raise Disconnected("the broker sent a content header that is too short")
            _, _, self._missing = CONTENT.unpack_from(data, start)
            if self._missing > MESSAGE_BYTES:
                raise Disconnected(f"the broker announced a body of {self._missing:,} bytes; {MESSAGE_BYTES:,} at most")
            self._properties = data[start + 12 : stop]
            if not self._missing:
                self._complete(b"")
            return True
        if self._missing is None:
            raise Disconnected("the broker sent a body without its content header")
        piece = data[start:stop]
        self._missing -= len(piece)
        if self._missing < 0:
            raise Disconnected("the broker sent more of a body than it had announced")
        if self._missing:
            self._pieces.append(piece)
        elif self._pieces:
            body = b"".join([*self._pieces, piece])
            self._pieces.clear()
            self._complete(body)
        else:
            self._complete(piece)
        return True

    def _method(self, data: bytes, start: int, stop: int) -> bool:
        (method,) = METHOD_HEAD.unpack_from(data, start)
        at = start + 4
        if self._begun is not None and method in (DELIVER, GET_OK, RETURN):
            raise Disconnected("the broker sent a delivery or return without its whole content")
        if method in (DELIVER, GET_OK):
            if method == DELIVER:
                at += 1 + data[at]
            else:
                stop -= 4  # the number of messages that are left
            tag, redelivered = TAG.unpack_from(data, at)
            at += 9
            exchange, key, at = data[at + 1 : (end := at + 1 + data[at])], data[end + 1 : end + 1 + data[end]], end
            self._begun, self._returned = (tag, redelivered, exchange, key, b""), False
        elif method in (ACK, NACK):
            number, bits = TAG.unpack_from(data, at)
            self.events.append(Acked(number, bool(bits & 1), method == NACK))
            return True
        elif method == GET_EMPTY:
            self.events.append(NothingLeft())
            return True
        elif method == RETURN:
            code = int.from_bytes(data[at : at + 2], "big")
            at += 2
            text, at = data[at + 1 : (end := at + 1 + data[at])], end
            exchange, at = data[at + 1 : (end := at + 1 + data[at])], end
            self._begun, self._returned = (code, 0, exchange, data[at + 1 : at + 1 + data[at]], text), True
        else:
            return False
        if at + 1 + data[at] != stop:  # the end of the routing key, which is last
            raise Disconnected("the broker sent a method whose names do not fit in its frame")
        return True

    def _complete(self, body: bytes) -> None:
        assert self._begun is not None  # noqa: S101  the callers have checked it
        number, redelivered, exchange, key, text = self._begun
        self._begun = self._missing = None
        if self._returned:
            self.events.append(Returned(number, text, exchange, key, self._properties, body))
        else:
            self.events.append(Arrived(number, bool(redelivered), exchange, key, self._properties, body))


def encode_ack(channel: int, tag: int, *, multiple: bool) -> bytes:
    """Encode basic.ack for one delivery or for all up to it."""
    return ACK_FRAME.pack(METHOD, channel, 13, ACK, tag, multiple, 0xCE)


def encode_gets(channel: int, queue: bytes, count: int) -> bytes:
    """Encode basic.get of a queue, a number of times; each is answered with a message or `NothingLeft`."""
    payload = METHOD_HEAD.pack(GET) + b"\0\0%c%b\0" % (len(queue), queue)
    return (HEAD.pack(METHOD, channel, len(payload)) + payload + END) * count


def encode_cancel(channel: int, consumer: bytes) -> bytes:
    """Encode basic.cancel of a consumer, given by its tag; it is not answered."""
    payload = METHOD_HEAD.pack(CANCEL) + b"%c%b\1" % (len(consumer), consumer)
    return HEAD.pack(METHOD, channel, len(payload)) + payload + END


def encode_return_all(channel: int) -> bytes:
    """Encode basic.nack with requeue for all deliveries of a channel."""
    return ACK_FRAME.pack(METHOD, channel, 13, NACK, 0, 0b11, END_OCTET)


def encode_publish(
    channel: int,
    exchange: bytes,
    routing_key: bytes,
    properties: bytes,
    body: bytes,
    frame_max: int,
    *,
    mandatory: bool,
) -> bytes:
    """Encode basic.publish with its content. Names have at most 255 bytes, and ``properties`` fit in a frame."""
    pieces = [
        PUBLISH_HEAD.pack(METHOD, channel, 9 + len(exchange) + len(routing_key), PUBLISH, 0),
        b"%c%b%c%b%c\xce" % (len(exchange), exchange, len(routing_key), routing_key, mandatory),
        HEADER_HEAD.pack(HEADER, channel, 12 + len(properties), 60, 0, len(body)),
        properties,
        END,
    ]
    most = frame_max - OVERHEAD
    for start in range(0, len(body), most):
        piece = body if len(body) <= most else body[start : start + most]
        pieces += (HEAD.pack(BODY, channel, len(piece)), piece, END)
    return b"".join(pieces)
