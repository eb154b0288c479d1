"""Number the addresses of batches: one that was in an earlier batch is found again, and not studied anew.

The hash of an address finds its number, and its exchange and key are compared, so that no two addresses get one number.
Where few addresses come again, to remember them costs more than it saves: then batches pass that are not numbered, and
after them it is tried again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.counts.columnar.arrays.growing import GrowingArray
from bindings.counts.columnar.arrays.hashing import hash_column, split_chunks
from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.routing.columns.addresses import RowAddresses

MAX_ADDRESSES: Final = 1 << 20
"""Number of addresses beyond which no more are taken; they and their counts take some 100 MB."""

MAX_BYTES: Final = 128 << 20
"""Maximum size of keys in bytes; all are forgotten before there are more. With their room to grow they take up to twice
as much of addresses, of which the system gives what is written to."""

TRIAL: Final = 1 << 18
"""Number of known addresses from which on the share of those that come again counts."""

FEW_KNOWN: Final = 1 / 8
"""Share of a batch's addresses that are known below which they are not worth their cost."""

MAX_PASSED: Final = 16
"""Maximum number of batches that are not numbered before it is tried again."""

MIX: Final = np.uint64(0xC2B2AE3D27D4EB4F)


class KnownAddresses:
    """The addresses of batches, numbered from 0; of two with one hash, the second has another number each time."""

    def __init__(self) -> None:
        self.age = 0
        """How often all were forgotten, and numbers begin at 0 again."""
        self._pass = 0
        """Number of batches that are not numbered from now on."""
        self._passed = 0
        """Number of batches that were not numbered the last time that few addresses came again."""
        self._begin()

    def _begin(self) -> None:
        self._data = GrowingArray(np.uint8)
        """The bytes of all keys, one after another."""
        self._ends = GrowingArray(np.int32)
        """Where each key ends in them, after a 0."""
        self._ends.append(np.zeros(1, np.int32))
        self._exchanges = GrowingArray(np.int32)
        self._names: dict[str, int] = {}
        self._numbers = IntTable()

    def _forget(self) -> None:
        self.age += 1
        self._begin()

    def __len__(self) -> int:
        return len(self._exchanges)

    def number(self, addresses: RowAddresses) -> tuple[IntArray, npt.NDArray[np.intp], KeyArray] | None:
        """Return the number of each address, the addresses that are new, by their numbers, and the hashes of all keys.

        Forgets all others before if they are too many. None if these addresses are not worth to be remembered.
        """
        keys = addresses.keys
        if self._pass or keys.nbytes > MAX_BYTES:
            self._pass = max(self._pass - 1, 0)
            return None
        if max(len(self), len(self._names)) > MAX_ADDRESSES or len(self._data) + keys.nbytes > MAX_BYTES:
            self._forget()
        of = np.array([self._names.setdefault(name, len(self._names)) for name in addresses.names], np.int32)
        exchanges = of.take(addresses.exchanges) if len(of) else addresses.exchanges
        key_hashes = hash_column(keys)
        hashes = key_hashes ^ exchanges.astype(np.uint64) * MIX
        hashes[hashes == 0] = 1  # no key of a table is 0
        numbers = self._numbers.find(hashes) - np.int32(1)
        found = np.flatnonzero(numbers >= 0)
        if len(found):
            at = numbers[found]
            same = self._have_keys(at, keys.take(pa.array(found)))
            numbers[found[~(same & (exchanges[found] == self._exchanges.items[at]))]] = -1
        new = np.flatnonzero(numbers < 0)
        if len(self) >= TRIAL:
            if len(keys) - len(new) < FEW_KNOWN * len(keys):
                self._forget()
                self._passed = self._pass = min(2 * self._passed + 1, MAX_PASSED)
                return None
            self._passed = 0
        if len(new):
            numbers[new] = np.arange(len(self), len(self) + len(new), dtype=np.int32)
            self._put(hashes[new], numbers[new])
            self._append(keys if len(new) == len(keys) else keys.take(pa.array(new)))
            self._exchanges.append(exchanges[new])
        return numbers, new, key_hashes

    def _have_keys(self, numbers: IntArray, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each number whether its key is the one at the same place of ``keys``."""
        buffers = [None, pa.py_buffer(self._ends.items), pa.py_buffer(self._data.items)]
        known = pa.Array.from_buffers(pa.string(), len(self), buffers).take(pa.array(numbers))
        return np.asarray(pc.equal(known, keys.cast(pa.string())))

    def _append(self, keys: pa.Array) -> None:
        for column in split_chunks(keys):
            begin = int(column.offsets[0])
            self._ends.append(column.offsets[1:] - (begin - len(self._data)))
            self._data.append(column.data[begin : column.offsets[-1]])

    def _put(self, hashes: KeyArray, numbers: IntArray) -> None:
        distinct, first = np.unique(hashes, return_index=True)
        free = self._numbers.find(distinct) == 0
        self._numbers.put(distinct[free], numbers[first[free]] + np.int32(1))
