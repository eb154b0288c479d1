"""Find the addresses of a batch: its distinct pairs of exchange and routing key, so that each is studied only once.

This is decided per batch. Where keys hardly repeat, each row is an address of its own and no keys are compared; results
are the same either way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.counts.columnar.arrays.keys import decode_dictionary
from exchange.arrays.table import IntArray
from exchange.errors import InputError

__all__ = ["Addresses", "addresses_of"]

A = TypeVar("A", bound=npt.NDArray[Any])

LOOK: Final = 1 << 12
"""Number of keys in the sample, from the middle of a batch, that decides whether its keys repeat."""

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
    if not isinstance(keys, pa.DictionaryArray) and _repeat(keys):
        keys = keys.dictionary_encode()
    if isinstance(keys, pa.DictionaryArray):
        size = len(keys.dictionary)
        distinct = _distinct(codes.astype(np.int64) * size + np.asarray(keys.indices), len(names) * size)
        if distinct is not None:
            pairs, of = distinct
            exchange, key = np.divmod(pairs, max(size, 1))
            return Addresses(names, exchange.astype(np.int32), keys.dictionary.take(pa.array(key)), of)
    return Addresses(names, codes.astype(np.int32, copy=False), decode_dictionary(keys), None)


def _column_without_nulls(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if column.null_count:
        raise InputError(f"a message without {name.replace('_', ' ')} cannot be routed")
    return column


def _repeat(keys: pa.Array) -> bool:
    sample = keys.slice(len(keys) // 2, LOOK)
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
