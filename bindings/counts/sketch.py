"""Sketches of many keys that add up: number of distinct keys (HyperLogLog), sample (bottom-k), heavy hitters.

The first two add exactly: the result does not depend on the order of the keys, nor on how they were split into parts.
The third, a Misra-Gries summary, states by how much its counts may be too low.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Annotated, Final, NamedTuple, TypeAlias

from exchange.values.documents import document

Hash: TypeAlias = Annotated[int, "uint64"]
"""A hash by `hash_of`; in a table, of this Arrow type."""

MASK: Final = (1 << 64) - 1
M1: Final = 0x9E3779B97F4A7C15
M2: Final = 0xC2B2AE3D27D4EB4F

REGISTER_BITS: Final = 10
REGISTERS: Final = 1 << REGISTER_BITS
RANK_BITS: Final = 52
"""Number of a hash's low bits whose leading zeros make the rank; a register holds at most RANK_BITS + 1 < 128."""

HIGH_BITS: Final = int.from_bytes(b"\x80" * REGISTERS, "little")
"""The high bit of every register as one long number; no rank sets it."""

INVERSES: Final = tuple([2.0**-rank for rank in range(RANK_BITS + 2)])
"""Rank -> 2 to the power of minus it."""

ERROR: Final = 1.04 / REGISTERS**0.5
"""Relative standard error of `count_distinct`."""

SAMPLE: Final = 5
"""Number of keys in a sample."""

FREQUENT: Final = 64
"""Maximum number of items in a summary of heavy hitters."""


def hash_of(data: bytes) -> int:
    """Return a 64-bit hash, the same in every process; for columns see `bindings.counts.columnar.arrays.hashing`."""
    value = 0
    for start in range(0, len(data), 8):
        value = ((value ^ int.from_bytes(data[start : start + 8], "little")) * M1) & MASK
        value ^= value >> 32
    value = ((value ^ len(data)) * M2) & MASK
    return value ^ (value >> 29)


def compute_registers(hashes: Iterable[int]) -> bytes:
    """Return the HyperLogLog registers of hashes."""
    registers = bytearray(REGISTERS)
    for value in hashes:
        number, rest = value >> (64 - REGISTER_BITS), value & ((1 << RANK_BITS) - 1)
        registers[number] = max(registers[number], RANK_BITS + 1 - rest.bit_length())
    return bytes(registers)


def join_registers(left: bytes, right: bytes) -> bytes:
    """Return the maximum of each pair of registers; empty bytes stand for no keys."""
    if not left or not right or left == right:
        return left or right
    # Compare all registers at once, as the bytes of one long number. No register uses its high bit. With that bit set
    # in a, no byte of the difference a - b borrows from the next byte, and the bit stays set exactly where a >= b.
    # Spread over its byte (0x80 - 0x01 | 0x80 = 0xFF), it selects the byte of a; elsewhere b is selected.
    a, b = int.from_bytes(left, "little"), int.from_bytes(right, "little")
    greater = ((a | HIGH_BITS) - b) & HIGH_BITS
    chosen = (greater - (greater >> 7)) | greater
    return (b ^ ((a ^ b) & chosen)).to_bytes(REGISTERS, "little")


def are_registers(data: bytes) -> bool:
    """Return whether these bytes are HyperLogLog registers, or none."""
    return not data or (len(data) == REGISTERS and max(data) <= RANK_BITS + 1)


def count_distinct(registers: bytes) -> int:
    """Estimate the number of distinct keys; a small number is nearly exact.

    HyperLogLog: Flajolet, Fusy, Gandouet and Meunier, 2007.
    """
    if not registers:
        return 0
    count = len(registers)
    estimate = 0.7213 / (1 + 1.079 / count) * count**2 / sum(map(INVERSES.__getitem__, registers))
    zeros = registers.count(0)
    if estimate <= 2.5 * count and zeros:
        estimate = count * log(count / zeros)
    return round(estimate)


class SampledKey(NamedTuple):
    """A key and its hash."""

    hash: Hash
    key: str


def keep_sample(keys: Iterable[SampledKey]) -> tuple[SampledKey, ...]:
    """Return the ``SAMPLE`` keys with the smallest hashes (bottom-k): frequent and rare keys have the same chance."""
    return tuple(sorted(set(keys))[:SAMPLE])


@document("ShapeJson", "shape = text, messages = count, example")
class FrequentItem(NamedTuple):
    """A frequent key, or a frequent shape of keys, with its count."""

    text: str
    count: int  # type: ignore[assignment]  # a tuple's own count is of no use here
    example: str = ""
    """For a shape, the smallest of its keys that were counted; "" for a key."""


class Frequent(NamedTuple):
    """Heavy hitters, the most frequent first (Misra-Gries).

    The true count of an item is ``count`` to ``count + error``; that of any other text, 0 to ``error``.
    """

    items: tuple[FrequentItem, ...] = ()
    error: int = 0

    def is_sound(self) -> bool:
        """Return whether each item was counted."""
        return all(item.count > 0 for item in self.items)

    def __add__(self, other: object) -> Frequent:
        return merge_summaries(self, other) if isinstance(other, Frequent) else NotImplemented


def merge_summaries(*summaries: Frequent) -> Frequent:
    """Return the sum of summaries; it may depend on their order, within the error that it states.

    Agarwal and others, Mergeable Summaries, 2012.
    """
    totals: dict[str, FrequentItem] = {}
    for summary in summaries:
        for item in summary.items:
            known = totals.get(item.text)
            example = item.example if known is None else min(known.example, item.example)
            totals[item.text] = FrequentItem(item.text, item.count + (known.count if known is not None else 0), example)
    items = sorted(totals.values(), key=lambda item: (-item.count, item.text))
    error = sum(summary.error for summary in summaries)
    if len(items) > FREQUENT:
        # The count of the first item that does not fit is subtracted from all items. So each dropped item had at most
        # this count, and each kept item loses exactly it: adding it to the error covers both.
        dropped = items[FREQUENT].count
        items = [item._replace(count=item.count - dropped) for item in items[:FREQUENT] if item.count > dropped]
        error += dropped
    return Frequent(tuple(items), error)
