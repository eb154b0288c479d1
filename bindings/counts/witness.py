"""Witnesses: a few messages that show a claim. Which ones are kept does not depend on order or splits of the archive.

Of messages with different keys, those with the smallest hashes are kept, so a frequent key does not crowd the others
out. Of messages with one key, the one with the smallest ``tie``, a hash of its other content and its source, is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from bindings.counts.sketch import Hash
from exchange.values.documents import document
from exchange.values.message import Message

MAX_WITNESSES: Final = 3
"""Maximum number of witnesses that are kept."""


@document("WitnessJson", "message, source, offset, routed_queues")
class Witness(NamedTuple):
    """A message that shows a claim, and where the archive has it."""

    hash: Hash
    """Hash of its routing key, by `bindings.counts.sketch.hash_of`."""
    tie: Hash
    message: Message
    """Only the parts that decide its route, and never its body."""
    source: str = ""
    offset: int | None = None
    routed_queues: tuple[str, ...] | None = None
    """Queues in which the broker put it; None if the archive was read without them."""


def keep_witnesses(witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
    """Return the ``MAX_WITNESSES`` witnesses to keep: the smallest hashes, each with its smallest tie."""
    by_key: dict[int, Witness] = {}
    for witness in sorted(witnesses, key=lambda witness: (witness.hash, witness.tie)):
        by_key.setdefault(witness.hash, witness)
    return tuple(islice(by_key.values(), MAX_WITNESSES))
