"""Find queues whose partitioning differs, and for each a message that goes to another partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from exchange.entities.entities import Destination
from exchange.kinds import KeyUse, find_kind
from exchange.partition.partitioning.specification import Partitioning
from exchange.patterns.pattern import MANY, Pattern
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.message import Message

PATTERNS: Final = 20
SAMPLES: Final = 50
"""Maximum number of messages tried for each of at most `PATTERNS` binding keys of a queue."""


@document("PartitionChangeJson", "queue, before, after, witness, moved")
class PartitionChange(NamedTuple):
    """A queue whose partitioning differs."""

    queue: str
    before: Partitioning | None
    after: Partitioning | None
    parts: tuple[str, ...]
    """Those of ``strategy``, ``partitions`` and ``key`` that differ; empty if only one side has a partitioning."""
    witness: Message | None
    """A message that goes to another partition, or whose key decides one on one side only; None if none was found."""
    moved: tuple[str | None, str | None]
    """The names of the witness's partitions, None where its key decides none."""

    @property
    def certain(self) -> bool:
        """Whether a message shows a difference, or only one side has partitions."""
        return self.before is None or self.after is None or self.witness is not None


def find_partition_changes(before: Topology, after: Topology) -> Iterator[PartitionChange]:
    """Yield the changes of queues that both topologies have, by name."""
    for name in sorted(before.queues.keys() & after.queues.keys()):
        old, new = before.queues[name].partitioning, after.queues[name].partitioning
        if old == new:
            continue
        if old is None or new is None:
            yield PartitionChange(name, old, new, (), None, (None, None))
            continue
        differ = tuple(part for part in ("strategy", "partitions", "key") if getattr(old, part) != getattr(new, part))
        witness: Message | None = None
        moved: tuple[str | None, str | None] = (None, None)
        for message in _samples(after, name, (old, new)):
            chosen = _partition(old, message), _partition(new, message)
            if chosen[0] != chosen[1]:
                witness, moved = message, chosen
                break
        yield PartitionChange(name, old, new, differ, witness, moved)


def _partition(partitioning: Partitioning, message: Message) -> str | None:
    partition = partitioning.partition_of(message)
    return None if partition is None else partitioning.partitions[partition].name


def _samples(topology: Topology, queue: str, both: tuple[Partitioning, Partitioning]) -> Iterator[Message]:
    """Yield messages that get to a queue, or may: each value of the keys by each binding and the default exchange."""
    bindings = islice(topology.bindings_to(Destination("queue", queue)), PATTERNS)
    ways = [(binding.source, binding.routing_key) for binding in bindings]
    for number in range(SAMPLES):
        text = f"k{number}"
        sources = [partitioning.key for partitioning in both]
        headers: dict[str, Any] = {source.name: text for source in sources if source.part == "header"}
        properties: dict[str, Any] = {source.name: text for source in sources if source.part == "property"}
        body = b""
        for source in sources:
            if source.part == "body":
                body = _body(source.name, text)
        for exchange, key in ways:
            use = find_kind(topology.exchanges[exchange]).key_use if exchange in topology.exchanges else KeyUse.NONE
            if use is KeyUse.PATTERN:  # a MANY stands for no word in the first sample, for one in the others
                words = Pattern.of_binding_key(key).words
                filled = ".".join(
                    [word if isinstance(word, str) else text for word in words if word is not MANY or number]
                )
            else:
                filled = key if use is KeyUse.LITERAL else text
            yield Message(exchange, filled, headers, properties, body)
        yield Message("", queue, headers, properties, body)


def _body(pointer: str, text: str) -> bytes:
    """Return a JSON document that has the text at this JSON pointer (RFC 6901)."""
    value: Any = text
    for step in reversed(pointer.split("/")[1:]):
        value = {step.replace("~1", "/").replace("~0", "~"): value}
    return json.dumps(value).encode()
