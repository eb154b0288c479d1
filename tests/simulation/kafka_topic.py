"""What a model of Kafka has behind its clients: a topic with a group's offsets, and calls that wait for brokers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from bridge.endpoints.kafka.consumer.topic_ids import MARK

T = TypeVar("T")


class Late(Exception):
    """A call fails with an error after a number of seconds."""

    def __init__(self, seconds: float, error: Exception) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.error = error


class Calls:
    """Takes the place of `bridge.endpoints.kafka.cluster.calls.Calls`: one call after another, without a thread."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append((function, future))
        if len(self._queue) == 1:
            self._call_soon()
        return future

    def _call_soon(self) -> None:
        loop: Any = asyncio.get_running_loop()
        loop.call_later(loop.random.random() * loop.calls, self._run)

    def _run(self) -> None:
        function, _ = self._queue[0]
        try:
            result = function()
        except Late as late:
            asyncio.get_running_loop().call_later(late.seconds, self._end, None, late.error)
        except Exception as error:  # noqa: BLE001  it is raised where it is awaited
            self._end(None, error)
        else:
            self._end(result, None)

    def _end(self, result: Any, error: Exception | None) -> None:
        _, future = self._queue.popleft()
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if self._queue:
            self._call_soon()

    def end(self) -> None:
        """Do nothing: what is queued is called."""


class ModelTopic:
    """A topic, and its group. ``committed`` has offsets, with metadata and epochs; both outlive all clients."""

    def __init__(self, partitions: int = 2) -> None:
        self.number = 1
        """Number of times that it was made."""
        self.exists = True
        self.unsent: list[tuple[bytes, bytes]] = []
        """Records that their producers hold until it exists again."""
        self.is_readable = True
        """Whether clients that know the topic before this one can read it: the epochs of its leaders are equal."""
        self.partitions: list[list[tuple[bytes, bytes] | None]] = [[] for _ in range(partitions)]
        """Partition -> records, and None for what nobody reads: what was aborted, and ends of transactions."""
        self.stable: list[int | None] = [None] * partitions
        """Partition -> first offset of the open transaction."""
        self.committed: dict[int, tuple[int, str, int]] = {}
        self.epochs: list[list[tuple[int, int]]] = [[(0, 0)] for _ in range(partitions)]
        """Partition -> first offsets, and epochs of the leaders that wrote the records from there on."""
        self.generation = 0
        self.assigned = 0
        """Number of times that a partition was assigned to a member."""
        self.pending: set[int] = set()
        """Partitions of which an open transaction has offsets: where to begin is not known before its end."""
        self.taken_until = 0.0
        """Time until which a member that died has the partitions."""
        self.away: dict[int, float] = {}
        """Partition -> time until which another member has it."""

    @property
    def id(self) -> str:
        """Its id."""
        return f"id-{self.number}"

    @property
    def member_epoch(self) -> int:
        """Generation of the group, with the number of its assignments, as its members of now have it."""
        return (self.generation << 8) + self.assigned % 256

    def put(self, partition: int, key: bytes, value: bytes, *, in_transaction: bool = False) -> None:
        """Append a record."""
        records = self.partitions[partition]
        if in_transaction and self.stable[partition] is None:
            self.stable[partition] = len(records)
        records.append((key, value))

    def end_transactions(self) -> None:
        """Commit all that are open."""
        for partition, first in enumerate(self.stable):
            if first is not None:
                self.partitions[partition].append(None)
                self.stable[partition] = None

    def abort(self) -> list[tuple[bytes, bytes]]:
        """Abort all that are open, and return their records."""
        aborted = []
        for partition, first in enumerate(self.stable):
            if first is not None:
                records = self.partitions[partition]
                aborted += [each for each in records[first:] if each is not None]
                records[first:] = [None] * (len(records) - first)
        self.end_transactions()
        return aborted

    def end_of(self, partition: int) -> int:
        """Return the offset before which records may be read."""
        stable = self.stable[partition]
        return len(self.partitions[partition]) if stable is None else stable

    def offset_of(self, partition: int) -> int:
        """Return the group's offset of this very topic and log."""
        offset, mark, epoch = self.committed.get(partition, (0, "", -1))
        return self.valid(partition, offset, epoch) if mark in ("", MARK + self.id) else 0

    def begin_of(self, partition: int) -> int:
        """Return the offset at which a client begins."""
        offset, _, _ = self.committed.get(partition, (0, "", -1))
        return offset if offset <= len(self.partitions[partition]) else 0

    def epoch_of(self, partition: int, offset: int) -> int:
        """Return the epoch of a record."""
        return next(epoch for first, epoch in reversed(self.epochs[partition]) if first <= offset)

    def valid(self, partition: int, offset: int, epoch: int) -> int:
        """Return where a client goes on that has read up to an offset, and a record of this epoch before it."""
        ends = [first for first, later in self.epochs[partition] if later > epoch >= 0]
        return min([offset, *ends[:1], len(self.partitions[partition])])

    def cut_off(self, partition: int, end: int) -> None:
        """Elect a leader that has no records from an offset on."""
        del self.partitions[partition][end:]
        epochs = self.epochs[partition]
        self.epochs[partition] = [*[each for each in epochs if each[0] < end], (end, epochs[-1][1] + 1)]

    def left(self) -> list[tuple[bytes, bytes]]:
        """Return the records that the group has not committed."""
        return [
            each
            for partition, records in enumerate(self.partitions)
            for each in records[self.offset_of(partition) :]
            if each is not None
        ]

    def remake(self, partitions: int, *, is_readable: bool) -> None:
        """Delete it and make it anew. The group's offsets may stay."""
        self.number += 1
        self.is_readable = is_readable
        self.partitions = [[] for _ in range(partitions)]
        self.stable = [None] * partitions
        self.epochs = [[(0, 0)] for _ in range(partitions)]
