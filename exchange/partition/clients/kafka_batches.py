"""The batches in which Kafka's Java producer collects records: the sizes of records in the message format 2.

Only sizes are kept. They are those before compression: with compression, the producer estimates the size of a batch by
the results of its earlier batches, which depend on the compressor's version, so that no sequence could be replayed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

BATCH_OVERHEAD: Final = 61
"""Bytes of a batch's header (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`)."""
RECORD_OVERHEAD: Final = 21
"""Maximum number of bytes of a record without its content (`DefaultRecord.MAX_RECORD_OVERHEAD`)."""


class BatchedRecord(NamedTuple):
    """What a record adds to a batch; the sizes are in bytes, None for null."""

    key: int | None
    value: int | None
    timestamp: int
    """Milliseconds; the producer's time if the program gives none."""
    headers: tuple[tuple[int, int | None], ...] = ()
    """Sizes of the name and of the value of each header."""

    @property
    def content_size(self) -> int:
        """Number of bytes of key, value and headers with their lengths (`DefaultRecord.sizeOf`)."""
        headers = sum([_data_size(name) + _data_size(value) for name, value in self.headers])
        return _data_size(self.key) + _data_size(self.value) + _varint_size(len(self.headers)) + headers

    def size_after(self, records: int, first_timestamp: int) -> int:
        """Return its number of bytes in a batch after ``records`` others (`DefaultRecord.sizeInBytes`)."""
        size = 1 + _varint_size(records) + _varint_size(self.timestamp - first_timestamp) + self.content_size
        return size + _varint_size(size)


class Batch(NamedTuple):
    """A batch of a partition (`ProducerBatch`, `MemoryRecordsBuilder`)."""

    limit: int
    """Number of bytes from which on it is full: ``batch.size``, or more for a record that is larger."""
    size: int
    """Number of bytes so far, with the header."""
    records: int
    created: int
    """Milliseconds."""
    first_timestamp: int
    closed: bool = False
    """Whether it had no room for a record: it takes no other, however small."""

    @classmethod
    def begin(cls, record: BatchedRecord, batch_size: int, now: int) -> Batch:
        """Return a new batch with its first record, which it takes whatever its size."""
        limit = max(batch_size, BATCH_OVERHEAD + RECORD_OVERHEAD + record.content_size)
        return cls(limit, BATCH_OVERHEAD + record.size_after(0, record.timestamp), 1, now, record.timestamp)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more records."""
        return self.closed or self.size >= self.limit

    def append(self, record: BatchedRecord) -> Batch | None:
        """Return the batch with one more record; None if it has no room."""
        if self.is_full:
            return None
        size = self.size + record.size_after(self.records, self.first_timestamp)
        if size > self.limit:
            return None
        return self._replace(size=size, records=self.records + 1)


def _varint_size(number: int) -> int:
    """Return the number of bytes of an integer as protocol buffers write it, zigzag, 7 bits in each."""
    return max(1, (((number << 1) ^ (number >> 63)).bit_length() + 6) // 7)


def _data_size(length: int | None) -> int:
    return 1 if length is None else _varint_size(length) + length
