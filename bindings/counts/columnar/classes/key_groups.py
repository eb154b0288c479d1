"""The addresses of a batch: its different pairs of exchange and routing key, so that work is done once for each.

Whether that pays is told by the batch itself. Where keys hardly repeat, each row counts as an address of its own and
nothing is compared; what is found in the end is the same either way, and so this is asked anew for each batch.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.counts.columnar.arrays.keys import plain
from bindings.counts.columnar.arrays.table import IntArray
from exchange.errors import InputError

__all__ = ["Addresses", "addresses_of"]

A = TypeVar("A", bound=npt.NDArray[Any])

LOOK: Final = 1 << 12
"""So many keys of a batch tell whether they repeat."""

WORTH: Final = 0.8
"""The greatest share of different ones for which comparing keys costs less than it saves."""

SPARSE: Final = 8
"""Codes are counted in an array as long as it has no more than so many places for each row; else they are sorted."""


class Addresses(NamedTuple):
    """Of the rows of a batch."""

    names: list[str]
    """Exchanges, as columns hold them."""
    exchanges: IntArray
    """Of each address, which of the names."""
    keys: pa.Array
    """Of each address; texts that stand for themselves."""
    of: IntArray | None
    """Of each row its address; None if each row is one."""

    def spread(self, values: A) -> A:
        """From one value for each address to one for each row; an array of its own."""
        return cast("A", values.copy() if self.of is None else values[self.of])


def addresses_of(batch: pa.RecordBatch) -> Addresses:
    """The addresses of the rows, in some order. Raises InputError for keys that are null."""
    exchanges, keys = (_complete(batch, name) for name in ("exchange", "routing_key"))
    if not isinstance(exchanges, pa.DictionaryArray):
        exchanges = exchanges.dictionary_encode()
    names, codes = exchanges.dictionary.to_pylist(), np.asarray(exchanges.indices)
    if not isinstance(keys, pa.DictionaryArray) and _repeat(keys):
        keys = keys.dictionary_encode()
    if isinstance(keys, pa.DictionaryArray):
        size = len(keys.dictionary)
        found = _distinct(codes.astype(np.int64) * size + np.asarray(keys.indices), len(names) * size)
        if found is not None:
            pairs, of = found
            exchange, key = np.divmod(pairs, max(size, 1))
            return Addresses(names, exchange.astype(np.int32), keys.dictionary.take(pa.array(key)), of)
    return Addresses(names, codes.astype(np.int32, copy=False), plain(keys), None)


def _complete(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if column.null_count:
        raise InputError(f"a message without {name.replace('_', ' ')} cannot be routed")
    return column


def _repeat(keys: pa.Array) -> bool:
    some = keys.slice(len(keys) // 2, LOOK)
    return len(some.dictionary_encode().dictionary) <= WORTH * len(some)


def _distinct(codes: npt.NDArray[np.int64], limit: int) -> tuple[npt.NDArray[np.int64], IntArray] | None:
    """The different codes, which are below a limit, and which one each row has; None if hardly any repeats."""
    if limit <= SPARSE * len(codes):
        there = np.zeros(limit, np.bool_)
        there[codes] = True
        found = np.flatnonzero(there)
        places = np.empty(limit, np.int32)
        places[found] = np.arange(len(found), dtype=np.int32)
        of = places.take(codes)
    else:
        found, inverse = np.unique(codes, return_inverse=True)
        of = inverse.astype(np.int32)
    return None if len(found) > WORTH * len(codes) else (found, of)
