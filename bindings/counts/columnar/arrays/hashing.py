"""Hash a whole column of keys as `bindings.counts.sketch.hash_of` hashes one key: eight bytes of every key per step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bindings.counts.sketch import M1, M2
from exchange.arrays.columns import Column, count_items, split_column
from exchange.arrays.table import KeyArray
from exchange.errors import InputError

LOW_BYTES: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""Number of bytes (0 to 8) -> mask of that many low bytes."""
CHUNK: Final = 16_384
"""Number of keys in a chunk."""


def hash_column(keys: Any) -> KeyArray:
    """Return the hash of each key of an Arrow column of texts."""
    result = np.empty(count_items(keys), np.uint64)
    start = 0
    for part in split_chunks(keys):
        result[start : start + part.size] = _hash(part)
        start += part.size
    return result


def _hash(column: Column) -> KeyArray:
    # Each read takes eight bytes, so eight zero bytes follow the last key; bytes after the end of a key are masked.
    begin, end = int(column.offsets[0]), int(column.offsets[-1])
    data = np.zeros(end - begin + 8, np.uint8)
    data[: end - begin] = column.data[begin:end]
    windows = np.ndarray((len(data) - 7,), "V8", data, strides=(1,))
    # Sorted by length, longest first: the keys with a block at offset ``done`` are the first ``size`` keys, a slice.
    lengths = column.lengths
    order = np.argsort(lengths.astype(np.min_scalar_type(int(lengths.max(initial=0)))), kind="stable")[::-1]
    ascending, starts = lengths[order[::-1]], column.offsets[order] - begin
    descending = ascending[::-1]
    hashes = np.zeros(column.size, np.uint64)
    for done in range(0, int(ascending[-1]) if column.size else 0, 8):
        size = column.size - int(np.searchsorted(ascending, done, "right"))
        block = windows[starts[:size] + done].view("<u8")
        block &= LOW_BYTES[np.minimum(descending[:size] - done, 8)]
        part = hashes[:size]
        part ^= block
        part *= np.uint64(M1)
        part ^= part >> np.uint64(32)
    hashes ^= descending.astype(np.uint64)
    hashes *= np.uint64(M2)
    hashes ^= hashes >> np.uint64(29)
    result = np.empty(column.size, np.uint64)
    result[order] = hashes
    return result


def split_chunks(keys: pa.Array) -> Iterator[Column]:
    """Yield chunks of at most ``CHUNK`` keys. Raises InputError for an Arrow array of a type other than text."""
    for piece in split_column(keys):
        if not isinstance(piece, Column) or not piece.text:
            raise InputError(f"keys of Arrow type {keys.type}: they are texts")
        for low in range(0, piece.size, CHUNK):
            yield Column(piece.data, piece.offsets[low : low + CHUNK + 1])
