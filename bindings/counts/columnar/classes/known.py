"""Number the addresses of batches: one that was in an earlier batch is found again, and not studied anew.

The hash of an address finds its number, and its exchange and key are compared, so that no two addresses get one number.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.counts.columnar.arrays.hashing import hash_column
from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.routing.columns.addresses import RowAddresses

MAX_ADDRESSES: Final = 1 << 20
"""Number of addresses beyond which no more are taken; they and their counts take some 100 MB."""

MAX_BYTES: Final = 128 << 20
"""Size of keys beyond which no more are taken, in bytes."""

MIX: Final = np.uint64(0xC2B2AE3D27D4EB4F)


class KnownAddresses:
    """The addresses of batches, numbered from 0; of two with one hash, the second has another number each time."""

    def __init__(self) -> None:
        self.age = 0
        """How often all were forgotten, and numbers begin at 0 again."""
        self._begin()

    def _begin(self) -> None:
        self._keys: pa.Array | None = None
        self._names: dict[str, int] = {}
        self._exchanges: IntArray = np.zeros(0, np.int32)
        self._numbers = IntTable()

    def __len__(self) -> int:
        return len(self._exchanges)

    def number(self, addresses: RowAddresses) -> tuple[IntArray, npt.NDArray[np.intp], KeyArray]:
        """Return the number of each address, the addresses that are new, by their numbers, and the hashes of all keys.

        Forgets all others before if they are too many.
        """
        keys = addresses.keys
        if not self._has_room(keys):
            self.age += 1
            self._begin()
        of = np.array([self._names.setdefault(name, len(self._names)) for name in addresses.names], np.int32)
        exchanges = of.take(addresses.exchanges) if len(of) else addresses.exchanges
        key_hashes = hash_column(keys)
        hashes = key_hashes ^ exchanges.astype(np.uint64) * MIX
        hashes[hashes == 0] = 1  # no key of a table is 0
        numbers = self._numbers.find(hashes) - np.int32(1)
        found = np.flatnonzero(numbers >= 0)
        if len(found) and self._keys is not None:
            at = numbers[found]
            same = np.asarray(pc.equal(keys.take(pa.array(found)), self._keys.take(pa.array(at))))
            numbers[found[~(same & (exchanges[found] == self._exchanges[at]))]] = -1
        new = np.flatnonzero(numbers < 0)
        if len(new):
            numbers[new] = np.arange(len(self), len(self) + len(new), dtype=np.int32)
            self._put(hashes[new], numbers[new])
            added = keys if len(new) == len(keys) else keys.take(pa.array(new))
            self._keys = added if self._keys is None else pa.concat_arrays([self._keys, added])
            self._exchanges = np.append(self._exchanges, exchanges[new])
        return numbers, new, key_hashes

    def _has_room(self, keys: pa.Array) -> bool:
        known = self._keys
        if known is None:
            return True
        is_small = max(len(self), len(self._names)) <= MAX_ADDRESSES and known.nbytes + keys.nbytes <= MAX_BYTES
        return is_small and known.type == keys.type

    def _put(self, hashes: KeyArray, numbers: IntArray) -> None:
        distinct, first = np.unique(hashes, return_index=True)
        free = self._numbers.find(distinct) == 0
        self._numbers.put(distinct[free], numbers[first[free]] + np.int32(1))
