"""Find the addresses of a batch: its distinct pairs of exchange and routing key, so that each is studied only once.

This is decided per batch. Where keys hardly repeat, each row is an address of its own and no keys are compared; results
are the same either way.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from exchange.arrays.grouping import decode_dictionary, group_keys
from exchange.arrays.table import IntArray
from exchange.errors import InputError

A = TypeVar("A", bound=npt.NDArray[Any])


class RowAddresses(NamedTuple):
    """The addresses of the rows of a batch."""

    names: list[str]
    """Names of exchanges, escaped as in columns."""
    exchanges: IntArray
    """Address -> index of its exchange in ``names``."""
    keys: pa.Array
    """Address -> routing key; not dictionary-encoded."""
    address_of_row: IntArray | None
    """Row -> its address; None if each row is an address."""

    def spread(self, values: A) -> A:
        """Return the value of each row, given the value of each address, as a new array."""
        return cast("A", values.copy() if self.address_of_row is None else values[self.address_of_row])

    def begin(self, rows: int) -> RowAddresses:
        """Return the addresses of the first rows, which are not grouped again."""
        if self.address_of_row is None:
            return RowAddresses(self.names, self.exchanges[:rows], self.keys[:rows], None)
        met, of = np.unique(self.address_of_row[:rows], return_inverse=True)
        return RowAddresses(self.names, self.exchanges[met], self.keys.take(pa.array(met)), of.astype(np.int32))


def find_addresses(batch: pa.RecordBatch, worth: float | None = None) -> RowAddresses:
    """Return the addresses of the rows, in any order; ``worth`` is for `group_keys`.

    Raises InputError for a null exchange or routing key.
    """
    exchanges, keys = (_column_without_nulls(batch, name) for name in ("exchange", "routing_key"))
    if not isinstance(exchanges, pa.DictionaryArray):
        exchanges = exchanges.dictionary_encode()
    names, codes = exchanges.dictionary.to_pylist(), np.asarray(exchanges.indices)
    grouped = group_keys(keys, codes, len(names), worth)
    if grouped is None:
        return RowAddresses(names, codes.astype(np.int32, copy=False), decode_dictionary(keys), None)
    distinct, exchange, of = grouped
    return RowAddresses(names, exchange, distinct, of)


def _column_without_nulls(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if column.null_count:
        raise InputError(f"a message without {name.replace('_', ' ')} cannot be routed")
    return column
