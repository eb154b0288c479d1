"""The hashes for which no package that programs load anyway has a function in C: in Python, or compiled by numba.

A loop over the bytes of a key takes 2 to 20 us in Python, about 0.3 us compiled. Numba is large, and compiling takes
seconds the first time on a machine, so nothing is compiled unless a program calls `compile_hashes`. Otherwise the
hashes of short keys are kept for when these come again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.hashing import erlang, guava
from exchange.partition.hashing.hashes import KEYS, STREAM_SEED, murmur3, remember
from exchange.partition.hashing.java import string_hash
from exchange.text.site import build_install_command


class Hashes(NamedTuple):
    """Functions of a key's bytes, or of a hash and a number of buckets, at least 1."""

    murmur3: Callable[[bytes], int]
    """The hash of RabbitMQ's stream clients, unsigned, 32 bits."""
    phash2: Callable[[bytes], int]
    """``erlang:phash2`` of a binary."""
    phash2_of_list: Callable[[bytes], int]
    """``erlang:phash2`` of a list with one binary."""
    jump: Callable[[int, int], int]
    """RabbitMQ's bucket of a key, which `exchange.partition.hashing.erlang.jump_key` returns."""
    sip_hash_24: Callable[[bytes], int]
    """Guava's hash of bytes, signed, 64 bits."""
    consistent_hash: Callable[[int, int], int]
    """Guava's bucket of an integer with 64 bits."""
    string_hash: Callable[[str], int]
    """Java's hash of a text, signed, 32 bits."""


PYTHON: Final = Hashes(
    remember(lambda data: murmur3(data, STREAM_SEED)),
    remember(erlang.phash2),
    remember(lambda data: erlang.phash2([data])),
    lru_cache(KEYS)(erlang.jump),
    remember(guava.sip_hash_24),
    lru_cache(KEYS)(guava.consistent_hash),
    remember(string_hash),
)
"""The hashes in Python, and what others are compared with."""

_hashes = PYTHON


def get_hashes() -> Hashes:
    """Return the hashes in use."""
    return _hashes


def compile_hashes() -> None:
    """Compile these hashes for the rest of this process, so that a new key costs less than a microsecond.

    It takes seconds once on a machine, then half a second, and some 100 MB of memory. All partitioners and routers of
    the process use them at once. Raises InputError without numba, of the extra ``native``.
    """
    global _hashes  # noqa: PLW0603  it is set once
    try:
        from exchange.partition.hashing import kernels
    except ImportError as error:
        raise InputError(f"compiled hashes need numba ({error}): {build_install_command('native')}") from None
    found = Hashes(
        lambda data: kernels.murmur3(data, STREAM_SEED),
        kernels.phash2,
        kernels.phash2_of_list,
        _jump(kernels.jump),
        kernels.sip_hash_24,
        kernels.consistent_hash,
        lambda text: (
            kernels.string_hash(text.encode(), 1)
            if text.isascii()
            else kernels.string_hash(text.encode("utf-16-le", "surrogatepass"), 2)
        ),
    )
    _compile(found)
    _hashes = found


def _jump(compiled: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Return a function that jumps in Python for a key of more than 63 bits, which an integer in a header may have."""

    def jump(key: int, buckets: int) -> int:
        return compiled(key, buckets) if 0 <= key < 1 << 63 else erlang.jump(key, buckets)

    return jump


def _compile(found: Hashes) -> None:
    """Call each function once, which compiles it."""
    for function in (found.murmur3, found.phash2, found.phash2_of_list, found.sip_hash_24):
        function(b"order-1234567")
    found.jump(1234567, 12)
    found.consistent_hash(-1234567, 12)
    found.string_hash("order-1234567")
