"""Count distinct keys per group of rows: the HyperLogLog registers of `bindings.counts.sketch`, vectorised.

A group of few keys has few registers that are not zero: only these are kept, as sorted codes. A group of more has all
its registers in an array. So a hundred thousand groups of some keys each take as little memory as their keys.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.ranges import expand_ranges
from bindings.counts.sketch import RANK_BITS, REGISTER_BITS, REGISTERS
from exchange.arrays.table import KeyArray

MAX_CODED_REGISTERS: Final = 64
"""Maximum number of registers of a group that are kept as codes; all of more take less memory as an array."""

RANKS: Final = 6
"""Number of bits of a rank."""

PENDING: Final = 1 << 18
"""Minimum number of codes that wait to be sorted."""

ROWS: Final = 1 << 14
"""Maximum number of arrays of registers that are copied at a time."""

Indices = npt.NDArray[np.int64]


class Registers:
    """The registers of groups; groups are numbered from 0."""

    def __init__(self) -> None:
        self._places: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """Group -> index of its array, or -1 if it has codes."""
        self._arrays: npt.NDArray[np.uint8] = np.zeros((0, REGISTERS), np.uint8)
        self._codes: Indices = np.zeros(0, np.int64)
        """Sorted: group, number of a register, and its rank, from the highest bits to the lowest."""
        self._pending: list[Indices] = []
        self._waiting = 0

    def add(self, groups: npt.NDArray[Any], hashes: KeyArray) -> None:
        """Add the hash of each row's key to the registers of its group; repeated keys change nothing."""
        if not len(groups):
            return
        rest = (hashes & np.uint64((1 << RANK_BITS) - 1)).astype(np.float64)  # exact, as a float64 has 53 bits
        ranks = RANK_BITS + 1 - np.frexp(rest)[1].astype(np.int64)
        self._put(groups.astype(np.int64), (hashes >> np.uint64(64 - REGISTER_BITS)).view(np.int64), ranks)

    def get_group(self, group: int) -> bytes:
        """Return a group's registers, as `bindings.counts.sketch.compute_registers` of its hashes; empty if none."""
        self._settle()
        if group >= len(self._places):
            return b""
        if self._places[group] >= 0:
            data: bytes = self._arrays[self._places[group]].tobytes()
            return data
        low, high = np.searchsorted(
            self._codes, [group << (REGISTER_BITS + RANKS), (group + 1) << (REGISTER_BITS + RANKS)]
        )
        if low == high:
            return b""
        registers = np.zeros(REGISTERS, np.uint8)
        codes = self._codes[low:high]
        registers[(codes >> RANKS) & (REGISTERS - 1)] = codes & ((1 << RANKS) - 1)
        return registers.tobytes()

    def put_bytes(self, group: int, registers: bytes) -> None:
        """Join registers, as `bindings.counts.sketch` has them, to those of a group."""
        ranks = np.frombuffer(registers, np.uint8)
        numbers = np.flatnonzero(ranks)
        if len(numbers):
            self._put(np.full(len(numbers), group), numbers, ranks[numbers].astype(np.int64))

    def merge(self, rows: Indices, groups: Indices) -> Registers:
        """Return the registers of new groups: ``groups[n]``, which ascend, joins the registers of ``rows[n]``."""
        self._settle()
        merged = Registers()
        inside = rows < len(self._places)
        rows, groups = rows[inside], groups[inside]
        if not len(rows):
            return merged
        offsets = np.searchsorted(self._codes, np.arange(len(self._places) + 1) << (REGISTER_BITS + RANKS))
        for which, at in expand_ranges(offsets, rows):
            codes = self._codes[at]
            merged._put(groups[which], (codes >> RANKS) & (REGISTERS - 1), codes & ((1 << RANKS) - 1))
        places = self._places[rows]
        dense = places >= 0
        places, groups = places[dense], groups[dense]
        for low in range(0, len(places), ROWS):
            some = groups[low : low + ROWS]
            starts = np.flatnonzero(np.diff(some, prepend=-1))
            joined = np.maximum.reduceat(self._arrays[places[low : low + ROWS]], starts, axis=0)
            merged._join(some[starts], joined)
        return merged

    def join(self, other: Registers, number: int) -> Registers:
        """Return these registers of ``number`` groups, and those of more groups, numbered after them."""
        self._settle()
        other._settle()
        joined = Registers()
        joined._reserve(number + len(other._places))
        joined._places[: len(self._places)] = self._places
        places = np.where(other._places < 0, -1, other._places + len(self._arrays))
        joined._places[number : number + len(places)] = places
        joined._arrays = np.concatenate([self._arrays, other._arrays])
        joined._codes = np.append(self._codes, other._codes + (number << (REGISTER_BITS + RANKS)))
        return joined

    def _join(self, groups: Indices, arrays: npt.NDArray[np.uint8]) -> None:
        """Join an array of registers to each of these groups, none of which occurs twice."""
        self._settle()
        self._reserve(int(groups.max()) + 1)
        self._make_arrays(groups[self._places[groups] < 0])
        places = self._places[groups]
        self._arrays[places] = np.maximum(self._arrays[places], arrays)

    def _reserve(self, number: int) -> None:
        more = number - len(self._places)
        if more > 0:
            self._places = np.append(self._places, np.full(more, -1))

    def _put(self, groups: Indices, numbers: Indices, ranks: Indices) -> None:
        if not len(groups):
            return
        self._reserve(int(groups.max()) + 1)
        places = self._places.take(groups)
        dense = places >= 0
        if not dense.all():
            sparse = np.flatnonzero(~dense)
            codes = ((groups[sparse] << REGISTER_BITS | numbers[sparse]) << RANKS) | ranks[sparse]
            self._pending.append(codes)
            self._waiting += len(codes)
            places, numbers, ranks = places[dense], numbers[dense], ranks[dense]
        # np.maximum.at is slow, so it gets only the few rows whose rank is higher than the register.
        flat = self._arrays.reshape(-1)
        indices = (places << REGISTER_BITS) + numbers
        higher = np.flatnonzero(flat.take(indices) < ranks)
        np.maximum.at(flat, indices[higher], ranks[higher].astype(np.uint8))
        if self._waiting > max(PENDING, len(self._codes)):
            self._settle()

    def _settle(self) -> None:
        """Sort the waiting codes into the others, and give an array to each group that has too many."""
        if not self._pending:
            return
        codes = np.sort(np.concatenate([self._codes, *self._pending]))
        self._pending, self._waiting = [], 0
        last = np.ones(len(codes), np.bool_)  # of the codes of one register, the highest rank is the last
        last[:-1] = np.diff(codes >> RANKS) != 0
        self._codes = codes[last]
        sizes = np.bincount(self._codes >> (REGISTER_BITS + RANKS), minlength=len(self._places))
        if sizes.max(initial=0) > MAX_CODED_REGISTERS:
            self._make_arrays(np.flatnonzero(sizes > MAX_CODED_REGISTERS))

    def _make_arrays(self, groups: Indices) -> None:
        """Move the codes of these groups, which have no arrays yet, into arrays."""
        self._places[groups] = np.arange(len(self._arrays), len(self._arrays) + len(groups))
        self._arrays = np.concatenate([self._arrays, np.zeros((len(groups), REGISTERS), np.uint8)])
        places = self._places[self._codes >> (REGISTER_BITS + RANKS)]
        moved = self._codes[places >= 0]
        numbers = (moved >> RANKS) & (REGISTERS - 1)
        self._arrays[places[places >= 0], numbers] = moved & ((1 << RANKS) - 1)
        self._codes = self._codes[places < 0]
