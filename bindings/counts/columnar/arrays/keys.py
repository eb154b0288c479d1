"""Columns of texts, in chunks that fit a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from exchange.arrays.columns import Column, split_column
from exchange.errors import InputError

__all__ = ["CHUNK", "chunks"]

CHUNK: Final = 16_384
"""Number of keys in a chunk."""


def chunks(keys: pa.Array) -> Iterator[Column]:
    """Yield chunks of at most ``CHUNK`` keys. Raises InputError for an Arrow array of a type other than text."""
    for piece in split_column(keys):
        if not isinstance(piece, Column) or not piece.text:
            raise InputError(f"keys of Arrow type {keys.type}: they are texts")
        for low in range(0, piece.size, CHUNK):
            yield Column(piece.data, piece.offsets[low : low + CHUNK + 1])
