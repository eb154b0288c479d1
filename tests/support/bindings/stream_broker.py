"""A broker with streams in memory, as `bindings.spark.streams.log` asks one: chunks, retention, what AMQP cannot read.

It is slow and obvious: a stream is a list of chunks, each of which has an entry for each of its offsets. The entry is a
body, or None for an offset without a message, as tracking data and compressed batches have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import Final

from bindings.applying.amqp import Lost, OperationRefused
from bindings.spark.streams.log import Position, StreamMessage
from exchange.amqp import ContentHeader

HEADER: Final = ContentHeader.encode()


def message_at(offset: int, body: bytes) -> StreamMessage:
    return StreamMessage(offset, "orders", f"order.{offset}", HEADER, body)


class MemoryStream:
    """A stream."""

    def __init__(self, chunks: Sequence[Sequence[bytes | None]] = (), first: int = 0) -> None:
        self.chunks: list[tuple[int, list[bytes | None]]] = []
        """Offset of the first entry, and the entries."""
        self.end = first
        for entries in chunks:
            self.append(entries)

    def append(self, entries: Sequence[bytes | None]) -> None:
        self.chunks.append((self.end, [*entries]))
        self.end += len(entries)

    def retain(self, chunks: int) -> None:
        """Remove all but the last chunks, as retention does; one stays."""
        self.chunks = self.chunks[-max(1, chunks) :]

    @property
    def messages(self) -> list[StreamMessage]:
        return [
            message_at(start + number, body)
            for start, entries in self.chunks
            for number, body in enumerate(entries)
            if body is not None
        ]

    def find_chunk(self, position: Position) -> int:
        """Return the offset of the first entry that is delivered from a position on."""
        if position == "first":
            return self.chunks[0][0] if self.chunks else self.end
        if position == "last":
            return self.chunks[-1][0] if self.chunks else self.end
        if isinstance(position, int) and position < self.end:
            return max((start for start, _ in self.chunks if start <= position), default=self.chunks[0][0])
        assert isinstance(position, int | datetime | str)
        return self.end


class MemoryBroker:
    """Streams by their names; a connection that a seed may lose at any call."""

    def __init__(self, streams: dict[str, MemoryStream], *, random: Random | None = None, losses: int = 0) -> None:
        self.streams = streams
        self.random = random
        self.losses = losses
        self.connections = self.asked = 0
        self.waited: list[float] = []
        """Seconds that were waited in vain."""

    @contextmanager
    def connect(self) -> Iterator[MemoryBroker]:
        self.connections += 1
        self.may_lose()
        yield self

    def may_lose(self) -> None:
        if self.random is not None and self.losses and self.random.random() < 0.2:
            self.losses -= 1
            raise Lost("the connection is gone")

    def count(self, stream: str) -> int:
        self.may_lose()
        self.asked += 1
        if stream not in self.streams:
            raise OperationRefused(404, f"NOT_FOUND - no queue '{stream}'")
        found = self.streams[stream]
        return found.end - found.chunks[0][0] if found.chunks else 0

    def subscribe(self, stream: str, position: Position, *, prefetch: int | None = None) -> MemorySubscription:
        self.count(stream)
        return MemorySubscription(self, self.streams[stream], position)


class MemorySubscription:
    """A consumer, which delivers some messages at a time."""

    def __init__(self, broker: MemoryBroker, stream: MemoryStream, position: Position) -> None:
        self.broker, self.stream = broker, stream
        self.at = stream.find_chunk(position)

    def receive(self, seconds: float) -> Sequence[StreamMessage]:
        self.broker.may_lose()
        left = [each for each in self.stream.messages if each.offset >= self.at]
        if not left:
            self.broker.waited.append(seconds)
            return ()
        some = left[: self.broker.random.randint(1, 4) if self.broker.random else 3]
        self.at = some[-1].offset + 1
        return some

    def catch_up(self) -> Sequence[StreamMessage]:
        self.broker.may_lose()
        return self.receive(0) if any(each.offset >= self.at for each in self.stream.messages) else ()

    def close(self) -> None:
        self.at = self.stream.end
