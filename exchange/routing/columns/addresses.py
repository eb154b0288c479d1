"""Find the addresses of a batch: its distinct pairs of exchange and routing key, so that each is studied only once.

This is decided per batch. Where keys hardly repeat, each row is an address of its own and no keys are compared; results
are the same either way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from exchange.arrays.table import IntArray
from exchange.errors import InputError

__all__ = ["Addresses", "addresses_of", "decode_dictionary", "group_keys"]

A = TypeVar("A", bound=npt.NDArray[Any])

LOOK: Final = 1 << 12
MOST_LOOK: Final = 1 << 16
"""Number of keys in the sample that decides whether keys repeat: a sixteenth of all, within these bounds."""

WORTH: Final = 0.8
"""Maximum share of distinct keys at which grouping rows by key costs less than it saves."""

SPARSE: Final = 8
"""Maximum number of possible codes per row for which codes are marked in an array; with more, codes are sorted."""


class Addresses(NamedTuple):
    """The addresses of the rows of a batch."""

    names: list[str]
    """Names of exchanges, escaped as in columns."""
    exchanges: IntArray
    """Address -> index of its exchange in ``names``."""
    keys: pa.Array
    """Address -> routing key; not dictionary-encoded."""
    of: IntArray | None
    """Row -> its address; None if each row is an address."""

    def spread(self, values: A) -> A:
        """Return the value of each row, given the value of each address, as a new array."""
        return cast("A", values.copy() if self.of is None else values[self.of])


def addresses_of(batch: pa.RecordBatch) -> Addresses:
    """Return the addresses of the rows, in any order. Raises InputError for a null exchange or routing key."""
    exchanges, keys = (_column_without_nulls(batch, name) for name in ("exchange", "routing_key"))
    if not isinstance(exchanges, pa.DictionaryArray):
        exchanges = exchanges.dictionary_encode()
    names, codes = exchanges.dictionary.to_pylist(), np.asarray(exchanges.indices)
    grouped = group_keys(keys, codes, len(names))
    if grouped is None:
        return Addresses(names, codes.astype(np.int32, copy=False), decode_dictionary(keys), None)
    distinct, exchange, of = grouped
    return Addresses(names, exchange, distinct, of)


def group_keys(
    keys: pa.Array, exchanges: npt.NDArray[Any] | None, number: int
) -> tuple[pa.Array, IntArray, IntArray] | None:
    """Return the distinct pairs of key and exchange, as two columns, and the pair of each row.

    None if most pairs are distinct. ``exchanges`` are codes below ``number``, None if all are 0. No key may be null.
    """
    if not isinstance(keys, pa.DictionaryArray):
        if not _repeat(keys):
            return None
        keys = keys.dictionary_encode()
    size = len(keys.dictionary)
    codes = np.asarray(keys.indices).astype(np.int64)
    if exchanges is not None and number > 1:
        codes += exchanges.astype(np.int64) * size
    distinct = _distinct(codes, number * size)
    if distinct is None:
        return None
    pairs, of = distinct
    exchange, key = np.divmod(pairs, max(size, 1))
    return keys.dictionary.take(pa.array(key)), exchange.astype(np.int32), of


def decode_dictionary(keys: pa.Array) -> pa.Array:
    """Return a column as a plain array, decoded if it is dictionary-encoded."""
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def _column_without_nulls(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if column.null_count:
        raise InputError(f"a message without {name.replace('_', ' ')} cannot be routed")
    return column


def _repeat(keys: pa.Array) -> bool:
    sample = keys.slice(len(keys) // 2, min(max(len(keys) >> 4, LOOK), MOST_LOOK))
    return len(sample.dictionary_encode().dictionary) <= WORTH * len(sample)


def _distinct(codes: npt.NDArray[np.int64], limit: int) -> tuple[npt.NDArray[np.int64], IntArray] | None:
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
    return None if len(distinct) > WORTH * len(codes) else (distinct, of)
