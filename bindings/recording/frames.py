"""Frames of AMQP 0-9-1 from a stream of bytes, however it is cut.

Invariant: what `FrameReader.feed` yields does not depend on the pieces in which the bytes come. It keeps the rest of
one method at most, of `RECORDED_METHOD_BYTES`: bodies of messages are counted, and never kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from exchange.amqp.methods import BODY, END, HEAD, HEADER, HEARTBEAT, METHOD, PROTOCOL
from exchange.errors import HashstarError
from exchange.limits import RECORDED_METHOD_BYTES

HEADER_BYTES: Final = 12
"""Bytes of a content header that are kept: class, weight, and the size of the body."""


class Frame(NamedTuple):
    """A frame."""

    kind: int
    channel: int
    size: int
    """Bytes of its payload."""
    payload: bytes
    """The payload of a method; the first `HEADER_BYTES` bytes of a content header's; nothing of other frames."""


class FrameFault(HashstarError):
    """Bytes that are no frame of AMQP 0-9-1."""


class FrameReader:
    """Splits the bytes of one side of a connection into frames."""

    def __init__(self, *, of_client: bool) -> None:
        self._rest = b""
        self._skip = 0
        """Bytes of the present frame that are not kept, its end excluded."""
        self._at_end = False
        """Whether the next byte after these is the end of a frame whose beginning was yielded."""
        self._wants_protocol = of_client

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that begin or become complete with more bytes. Raises FrameFault; no call may follow that.

        A method is yielded when it is complete, any other frame as soon as what is kept of it is there.
        """
        if self._skip >= len(data) and not self._rest:
            self._skip -= len(data)
            return
        data, at = self._rest + data if self._rest else data, 0
        if self._wants_protocol:
            if len(data) < len(PROTOCOL) and PROTOCOL.startswith(data):
                self._rest = data
                return
            if not data.startswith(PROTOCOL):
                raise FrameFault(_describe_other(data))
            self._wants_protocol = False
            at = len(PROTOCOL)
        size = len(data)
        while True:
            if self._skip or self._at_end:
                step = min(self._skip, size - at)
                at, self._skip = at + step, self._skip - step
                if at == size:
                    break
                _check_end(data[at])
                self._at_end = False
                at += 1
            if size - at < HEAD.size:
                if at < size and data[at] not in (METHOD, HEADER, BODY, HEARTBEAT):
                    raise FrameFault(_describe_other(data[at:]))
                break
            kind, channel, length = HEAD.unpack_from(data, at)
            start = at + HEAD.size
            if kind == METHOD:
                if length > RECORDED_METHOD_BYTES:
                    raise FrameFault(f"a method of more than {RECORDED_METHOD_BYTES >> 20} MiB")
                if size - start <= length:
                    break
                _check_end(data[start + length])
                at = start + length + 1
                yield Frame(METHOD, channel, length, data[start : start + length])
                continue
            kept = HEADER_BYTES if kind == HEADER else 0
            if kind not in (HEADER, BODY, HEARTBEAT):
                raise FrameFault(_describe_other(data[at:]))
            if length < kept:
                raise FrameFault("a content header without the size of its body")
            if size - start < kept:
                break
            at = start + kept
            self._skip, self._at_end = length - kept, True
            yield Frame(kind, channel, length, data[start:at])
        self._rest = data[at:]


def _check_end(byte: int) -> None:
    if byte != END:
        raise FrameFault("a frame without its end")


def _describe_other(data: bytes) -> str:
    """Return the reason for bytes that begin no frame; by the first one only, as the others may come later."""
    return {ord("A"): "another version of AMQP", 0x16: "TLS"}.get(data[0], "no frame of AMQP 0-9-1")
