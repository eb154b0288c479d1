"""Results of slow hashes, kept for keys that come again: most streams have far fewer keys than messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

__all__ = ["KEYS", "remember"]

KEYS: Final = 16_384
"""Maximum number of keys whose hash is kept; the one that was not used for longest is forgotten first."""
KEY_SIZE: Final = 128
"""Maximum number of bytes or characters of a key whose hash is kept, so that the keys of a hash take a few MiB."""


Data = TypeVar("Data", str, bytes)


def remember(function: Callable[[Data], int]) -> Callable[[Data], int]:
    """Return the function with its results for short keys kept."""
    kept = lru_cache(KEYS)(function)

    @wraps(function)
    def call(data: Data) -> int:
        return kept(data) if len(data) <= KEY_SIZE else function(data)

    return call
