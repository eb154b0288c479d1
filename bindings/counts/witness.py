"""Messages that show something: a few of many, the same few in whatever order and parts the many came.

Of messages with different keys, those with the smallest hashes are kept, so a frequent key does not crowd the others
out. Of messages with one key, the one with the smallest ``tie``, a hash of its other content and its source, is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from bindings.counts.sketch import Hash
from exchange.message import Message

__all__ = ["MOST", "Witness", "keep_witnesses"]

MOST: Final = 3
"""Maximum number of witnesses that are kept."""


class Witness(NamedTuple):
    """A message, and where it was found."""

    hash: Hash
    """Hash of its routing key, by `bindings.counts.sketch.hash_of`."""
    tie: Hash
    message: Message
    """As much of it as decides where it goes, and never its body."""
    source: str = ""
    offset: int = 0
    routed_queues: tuple[str, ...] | None = None
    """Queues in which the broker put it; None where that is not asked."""


def keep_witnesses(witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
    """Return the few witnesses that are kept of all of these."""
    by_key: dict[int, Witness] = {}
    for witness in sorted(witnesses, key=lambda witness: (witness.hash, witness.tie)):
        by_key.setdefault(witness.hash, witness)
    return tuple(islice(by_key.values(), MOST))
