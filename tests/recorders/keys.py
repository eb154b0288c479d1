"""The keys that every client is asked about: the same list each time, with the cases on which clients differ."""

from __future__ import annotations

from random import Random
from typing import Final

COUNTS: Final = (1, 2, 3, 7, 12, 16, 100)
"""The numbers of partitions."""

LEAST_HASH: Final = ("polygenelubricants", "GydZG_", "DESIGNING WORKHOUSES")
"""Strings whose Java hashCode is Integer.MIN_VALUE."""

ALPHABETS: Final = (
    "abcdefghijklmnopqrstuvwxyz0123456789.-_",
    "äöüßéèñçøåλжщאبक中文字한글",
    "😀🚀🇪🇺𝒜𝔘𐍈👩‍🚀",
    "\x00\x01\n\t \x7f\x80\xff\uffff\ud7ff\ue000",
)
"""Words as people use them, other scripts, characters outside the BMP, and what programs trip over."""


def _keys(count: int = 1200) -> tuple[str, ...]:
    random = Random(0)
    keys = dict.fromkeys(["", " ", "0", "-1", "a", "\x00", *LEAST_HASH])
    keys |= dict.fromkeys(["x" * length for length in (31, 32, 33, 255, 256, 1000, 5000)])
    keys |= dict.fromkeys([f"order-{number}" for number in range(200)])
    while len(keys) < count:
        alphabet = random.choice(ALPHABETS[:1] * 3 + ALPHABETS)
        keys["".join(random.choices(alphabet, k=random.choice((*range(1, 40), 100))))] = None
    return tuple(keys)


KEYS: Final = _keys()
"""1,200 different strings."""
