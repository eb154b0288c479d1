"""Small summaries of many keys that add up: how many are different, a fair sample of them, and the most frequent.

The first two are exact about addition: in whatever order and parts keys come, the summary is the same. The third,
a Misra-Gries summary, says instead how far its counts may be too low.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Final, NamedTuple

__all__ = ["ERROR", "REGISTER_BITS", "SAMPLE", "Frequent", "Item", "distinct", "hash_of", "joined", "merged", "sampled"]

MASK: Final = (1 << 64) - 1
M1: Final = 0x9E3779B97F4A7C15
M2: Final = 0xC2B2AE3D27D4EB4F

REGISTER_BITS: Final = 10
REGISTERS: Final = 1 << REGISTER_BITS
RANK_BITS: Final = 52
"""Of a hash, those whose leading zeros count."""

HIGH_BITS: Final = int.from_bytes(b"\x80" * REGISTERS, "little")
"""The bit of each register that no rank has."""

ERROR: Final = 1.04 / REGISTERS**0.5
"""The relative standard error of `distinct`."""

SAMPLE: Final = 5
"""So many keys are sampled."""

FREQUENT: Final = 64
"""So many of the most frequent are kept."""


def hash_of(data: bytes) -> int:
    """64 bits, the same in every process; what `bindings.counts.columnar.arrays.hashing` finds for whole columns."""
    value = 0
    for start in range(0, len(data), 8):
        value = ((value ^ int.from_bytes(data[start : start + 8], "little")) * M1) & MASK
        value ^= value >> 32
    value = ((value ^ len(data)) * M2) & MASK
    return value ^ (value >> 29)


def registers_of(hashes: Iterable[int]) -> bytes:
    """The HyperLogLog registers of some hashes."""
    registers = bytearray(REGISTERS)
    for value in hashes:
        place, rest = value >> (64 - REGISTER_BITS), value & ((1 << RANK_BITS) - 1)
        registers[place] = max(registers[place], RANK_BITS + 1 - rest.bit_length())
    return bytes(registers)


def joined(left: bytes, right: bytes) -> bytes:
    """The registers of both; none stand for no keys."""
    if not left or not right or left == right:
        return left or right
    # The greater of each two registers, of which none has its high bit, all of them at once in one long number.
    a, b = int.from_bytes(left, "little"), int.from_bytes(right, "little")
    greater = ((a | HIGH_BITS) - b) & HIGH_BITS
    chosen = (greater - (greater >> 7)) | greater
    return (b ^ ((a ^ b) & chosen)).to_bytes(REGISTERS, "little")


def distinct(registers: bytes) -> int:
    """About how many keys (HyperLogLog; Flajolet, Fusy, Gandouet and Meunier, 2007); few are counted nearly exactly."""
    if not registers:
        return 0
    count = len(registers)
    estimate = 0.7213 / (1 + 1.079 / count) * count**2 / sum([2.0**-rank for rank in registers])
    zeros = registers.count(0)
    if estimate <= 2.5 * count and zeros:
        estimate = count * log(count / zeros)
    return round(estimate)


def sampled(keys: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Of hashes and their keys the few with the least hashes: all keys have the same chance, however frequent."""
    return tuple(sorted(set(keys))[:SAMPLE])


class Item(NamedTuple):
    """Something frequent."""

    text: str
    count: int  # type: ignore[assignment]  # a tuple's own count is of no use here
    example: str = ""


class Frequent(NamedTuple):
    """The most frequent first. A true count is ``count`` to ``count + error``; of what is not here, 0 to ``error``."""

    items: tuple[Item, ...] = ()
    error: int = 0


def merged(*summaries: Frequent) -> Frequent:
    """The summary of all (Agarwal and others, Mergeable Summaries, 2012); their order matters, within the error."""
    found: dict[str, Item] = {}
    for summary in summaries:
        for item in summary.items:
            known = found.get(item.text)
            example = item.example if known is None else min(known.example, item.example)
            found[item.text] = Item(item.text, item.count + (known.count if known is not None else 0), example)
    items = sorted(found.values(), key=lambda item: (-item.count, item.text))
    error = sum(summary.error for summary in summaries)
    if len(items) > FREQUENT:
        least = items[FREQUENT].count
        items = [item._replace(count=item.count - least) for item in items[:FREQUENT] if item.count > least]
        error += least
    return Frequent(tuple(items), error)
