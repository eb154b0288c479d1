"""Columns of texts, a chunk at a time: as many as can be worked on at once in a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from exchange.errors import InputError
from exchange.partition.batch.columns import Column, build_column, split_column

__all__ = ["CHUNK", "chunks", "column_of_bytes", "plain"]

CHUNK: Final = 16_384
"""Keys of a chunk."""


def plain(keys: Any) -> pa.Array:
    """A column of texts that says each of them itself, and not by a dictionary."""
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def chunks(keys: pa.Array) -> Iterator[Column]:
    """The column, bit by bit and in its order. Raises InputError for Arrow arrays that are none of texts."""
    for piece in split_column(keys):
        if not isinstance(piece, Column) or not piece.text:
            raise InputError(f"keys of Arrow type {keys.type}: they are texts")
        for low in range(0, piece.size, CHUNK):
            yield Column(piece.data, piece.offsets[low : low + CHUNK + 1])


def column_of_bytes(texts: Sequence[bytes]) -> Column:
    """Bytes as a column."""
    column = build_column(texts)
    if column is None:
        raise InputError("a column of bytes has something else in it")
    return column
