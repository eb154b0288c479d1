"""A small model of what brokers do for a share group of Kafka: records that are locked, come again, and are dropped.

Each record is available, acquired by a member until its lock ends, or done with. An acquisition costs one of the few
deliveries that a record has, however it ends: by a release, as its lock ends, or with the session of its member. After
the last of them it is dropped. Which records a member gets next, and of which partition, is in no order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Final, Literal, NamedTuple

from confluent_kafka import AcknowledgeType

Ending = Literal["lock", "session", "release", "reject"]
"""How an acquisition ends without the record being accepted."""

BATCH: Final = 3
"""Number of records in a batch of a producer, which a member gets as a whole."""


class Acquisition(NamedTuple):
    """A lock of a record."""

    member: object
    until: float


class SharedRecord:
    """A record, as its share group has it."""

    def __init__(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.deliveries = 0
        self.lock: Acquisition | None = None
        self.is_done = False
        """Whether it was accepted, rejected or dropped, and never comes again."""

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire it."""
        return self.lock is None and not self.is_done


class ModelShareGroup:
    """Partitions, and a share group that reads them; both outlive all members.

    ``ended`` is called with a record whose acquisition by a member has ended, and how, unless it was accepted.
    """

    def __init__(self, partitions: int = 2, lock_seconds: float = 5.0, limit: int = 10) -> None:
        self.lock_seconds = lock_seconds
        self.limit = limit
        self.partitions: list[list[SharedRecord]] = [[] for _ in range(partitions)]
        self.ended: Callable[[SharedRecord, object, Ending], None] = lambda *_: None
        self.dropped: list[SharedRecord] = []
        """Records that came as often as the limit says, and were not accepted."""
        self._waiting: list[Callable[[], None]] = []
        """Fetches that wait for records."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be delivered, or to be acknowledged."""
        return all(record.is_done for records in self.partitions for record in records)

    def put(self, partition: int, key: bytes, value: bytes) -> None:
        """Append a record."""
        records = self.partitions[partition]
        records.append(SharedRecord(partition, len(records), key, value))
        self._wake()

    def wait(self, fetch: Callable[[], None]) -> None:
        """Have a fetch called when there are records again."""
        self._waiting.append(fetch)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for fetch in waiting:
            asyncio.get_running_loop().call_soon(fetch)

    def acquire(self, member: object, most: int, random: Random, without: Collection[int] = ()) -> list[SharedRecord]:
        """Lock available records of one partition for a member: up to ``most``, and the rest of the last batch."""
        places = [
            number
            for number, records in enumerate(self.partitions)
            if number not in without and any(record.is_available for record in records)
        ]
        if not places:
            return []
        free = [record for record in self.partitions[random.choice(places)] if record.is_available]
        count = most
        while count < len(free) and free[count].offset // BATCH == free[count - 1].offset // BATCH:
            count += 1
        until = asyncio.get_running_loop().time() + self.lock_seconds
        for record in (taken := free[:count]):
            record.deliveries += 1
            record.lock = Acquisition(member, until)
        if taken:
            asyncio.get_running_loop().call_at(until, self._end_locks, taken, [record.lock for record in taken])
        return taken

    def _end_locks(self, records: list[SharedRecord], locks: list[Acquisition | None]) -> None:
        for record, lock in zip(records, locks, strict=True):
            if record.lock is lock:
                self._end(record, "lock")

    def acknowledge(self, member: object, partition: int, offset: int, how: AcknowledgeType) -> bool:
        """Take an acknowledgement; return False if the record is not locked for this member, or not any more."""
        record = self.partitions[partition][offset]
        if record.lock is None or record.lock.member is not member:
            return False
        if how == AcknowledgeType.ACCEPT:
            record.lock, record.is_done = None, True
        else:
            self._end(record, "release" if how == AcknowledgeType.RELEASE else "reject")
        return True

    def leave(self, member: object, partition: int | None = None) -> None:
        """End the session of a member, or take one partition from it: its locks end."""
        for number, records in enumerate(self.partitions):
            for record in records if partition in (None, number) else ():
                if record.lock is not None and record.lock.member is member:
                    self._end(record, "session")

    def _end(self, record: SharedRecord, how: Ending) -> None:
        assert record.lock is not None
        member, record.lock = record.lock.member, None
        if how == "reject":
            record.is_done = True
        elif record.deliveries >= self.limit:
            record.is_done = True
            self.dropped.append(record)
        self.ended(record, member, how)
        self._wake()
