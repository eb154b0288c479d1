"""Group the rows of a column by their keys where keys repeat, and read keys in pieces that fit a CPU cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from exchange.arrays.columns import Column, split_column
from exchange.arrays.table import IntArray

CHUNK: Final = 16_384
"""Number of keys in a piece."""

LOOK: Final = 1 << 12
MAX_SAMPLE_KEYS: Final = 1 << 16
"""Number of keys in the samples that decide whether keys repeat: a sixteenth of all, within these bounds."""

WORTH: Final = 0.8
"""Maximum share of distinct keys at which grouping rows by key costs less than it saves."""

SPARSE: Final = 8
"""Maximum number of possible codes per row for which codes are marked in an array; with more, codes are sorted."""


def group_keys(
    keys: pa.Array, exchanges: npt.NDArray[Any] | None, number: int, worth: float | None = None
) -> tuple[pa.Array, IntArray, IntArray] | None:
    """Return the distinct pairs of key and exchange, as two columns, and the pair of each row.

    None if a greater share of pairs than ``worth`` (`WORTH`) is distinct. ``exchanges`` are codes below ``number``,
    None if all are 0. No key may be null.
    """
    worth = WORTH if worth is None else worth
    exchanges = exchanges if number > 1 else None
    if not isinstance(keys, pa.DictionaryArray):
        if not _repeat(keys, exchanges, worth):
            return None
        keys = keys.dictionary_encode()
    size = len(keys.dictionary)
    codes = np.asarray(keys.indices).astype(np.int64)
    if exchanges is not None:
        codes += exchanges.astype(np.int64) * size
    distinct = _distinct(codes, number * size, worth)
    if distinct is None:
        return None
    pairs, of = distinct
    exchange, key = np.divmod(pairs, max(size, 1))
    return keys.dictionary.take(pa.array(key)), exchange.astype(np.int32), of


def decode_dictionary(keys: pa.Array) -> pa.Array:
    """Return a column as a plain array, decoded if it is dictionary-encoded."""
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def split_pieces(keys: pa.Array) -> Iterator[Column]:
    """Yield a plain column of texts or bytes in pieces of at most `CHUNK` keys."""
    for piece in split_column(keys):
        assert isinstance(piece, Column)  # noqa: S101  an Arrow array has nothing else
        for low in range(0, piece.size, CHUNK):
            yield Column(piece.data, piece.offsets[low : low + CHUNK + 1])


def _repeat(keys: pa.Array, exchanges: npt.NDArray[Any] | None, worth: float) -> bool:
    """Return whether grouping pairs of key and exchange is worth its cost, by two samples that lie apart.

    A pair of the one is in the other with the same chance for all pairs, if they are drawn from a number of pairs: so
    the common ones estimate this number (Lincoln and Petersen), and with it how often a pair occurs in all rows. Pairs
    that repeat only near to each other do not deceive it.
    """
    rows = len(keys)
    size = min(max(rows >> 4, LOOK), MAX_SAMPLE_KEYS, rows) // 2
    samples = pa.concat_arrays([keys.slice(0, size), keys.slice(rows - size, size)]).dictionary_encode()
    both, codes = len(samples.dictionary), np.asarray(samples.indices)
    if exchanges is not None:
        of = np.append(exchanges[:size], exchanges[rows - size :]).astype(np.int64) * both
        pairs, codes = np.unique(codes + of, return_inverse=True)
        both = len(pairs)
    if both <= worth * 2 * size:
        return True
    one, other = (int(np.count_nonzero(np.bincount(half))) for half in (codes[:size], codes[size:]))
    number = one * other / max(one + other - both, 1)
    drawn = rows * (one + other) / (2 * size)  # repetitions within a sample, which are near, are no draws
    return number * -math.expm1(-drawn / number) <= worth * rows


def _distinct(codes: npt.NDArray[np.int64], limit: int, worth: float) -> tuple[npt.NDArray[np.int64], IntArray] | None:
    """Return the distinct codes, all below ``limit``, and the index of each row's code; None if codes hardly repeat."""
    if limit <= SPARSE * len(codes):
        occurs = np.zeros(limit, np.bool_)
        occurs[codes] = True
        distinct = np.flatnonzero(occurs)
        indices = np.empty(limit, np.int32)
        indices[distinct] = np.arange(len(distinct), dtype=np.int32)
        of = indices.take(codes)
    else:
        distinct, inverse = np.unique(codes, return_inverse=True)
        of = inverse.astype(np.int32)
    return None if len(distinct) > worth * len(codes) else (distinct, of)
