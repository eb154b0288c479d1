"""Columns of texts, in chunks that fit a processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from exchange.errors import InputError
from exchange.partition.batch.columns import Column, build_column, split_column

__all__ = ["CHUNK", "chunks", "column_of_bytes", "decode_dictionary"]

CHUNK: Final = 16_384
"""Number of keys in a chunk."""


def decode_dictionary(keys: Any) -> pa.Array:
    """Return a column of texts as a plain array, decoded if it is dictionary-encoded."""
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def chunks(keys: pa.Array) -> Iterator[Column]:
    """Yield chunks of at most ``CHUNK`` keys. Raises InputError for an Arrow array of a type other than text."""
    for piece in split_column(keys):
        if not isinstance(piece, Column) or not piece.text:
            raise InputError(f"keys of Arrow type {keys.type}: they are texts")
        for low in range(0, piece.size, CHUNK):
            yield Column(piece.data, piece.offsets[low : low + CHUNK + 1])


def column_of_bytes(texts: Sequence[bytes]) -> Column:
    """Return a column of these texts, given as bytes. Raises InputError for an element that is not bytes."""
    column = build_column(texts)
    if column is None:
        raise InputError("a column of bytes has something else in it")
    return column
