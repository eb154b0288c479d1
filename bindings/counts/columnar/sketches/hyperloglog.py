"""Count distinct keys per group of rows: the HyperLogLog registers of `bindings.counts.sketch`, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bindings.counts.sketch import RANK_BITS, REGISTER_BITS, REGISTERS
from exchange.arrays.table import IntArray, KeyArray

__all__ = ["Registers"]


class Registers:
    """The registers of groups; groups are numbered from 0."""

    def __init__(self) -> None:
        self._registers: npt.NDArray[np.uint8] = np.zeros((0, REGISTERS), np.uint8)

    def add(self, groups: IntArray, hashes: KeyArray) -> None:
        """Add the hash of each row's key to the registers of its group; repeated keys change nothing."""
        if not len(groups):
            return
        more = int(groups.max()) + 1 - len(self._registers)
        if more > 0:
            self._registers = np.concatenate([self._registers, np.zeros((more, REGISTERS), np.uint8)])
        indices = (groups.astype(np.int64) << REGISTER_BITS) + (hashes >> np.uint64(64 - REGISTER_BITS)).view(np.int64)
        rest = (hashes & np.uint64((1 << RANK_BITS) - 1)).astype(np.float64)  # exact, as a float64 has 53 bits
        ranks = (RANK_BITS + 1 - np.frexp(rest)[1]).astype(np.uint8)
        # np.maximum.at is slow, so it gets only the few rows whose rank is higher than the register.
        flat = self._registers.reshape(-1)
        higher = np.flatnonzero(flat.take(indices) < ranks)
        np.maximum.at(flat, indices[higher], ranks[higher])

    def of(self, group: int) -> bytes:
        """Return a group's registers, equal to `bindings.counts.sketch.registers_of` of its hashes."""
        registers: bytes = self._registers[group].tobytes()
        return registers
