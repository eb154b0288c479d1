"""Loops: a bridge that writes to what it reads itself, so that one message goes round for ever.

What endpoints read and write is `Endpoint.places`; which targets a source's messages can get to is in the topology. It
is followed from exchange to exchange whatever the keys are, so a CC header, which only adds keys, changes nothing.
Loops through other programs cannot be seen here: `Policy.max_hops` ends those.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bridge.endpoint import Place, Target
from bridge.pump.inlet import Inlet
from bridge.pump.reach import reachable_queues
from exchange.topology.topology import Topology

__all__ = ["DeadLetterLoop", "Feedback", "dead_letter_loop", "feedback", "near_exchange"]

ARCHIVE: Final = "archive"
RABBITMQ: Final = "rabbitmq"
EXCHANGE: Final = "exchange "
EXPRESSION: Final = "topic ^"
"""How the place of a Kafka source begins that reads all topics whose names match an expression."""


class Feedback(NamedTuple):
    """A target that writes to what a source of the same bridge reads, and gets that source's own messages."""

    target: Target
    source: str
    where: str
    """The place, ``queue orders``."""
    way: str
    """The sources on the way round, ``a -> b -> a``."""
    certain: bool
    """Whether a message that takes this way comes round, whatever it is; else a filter or a key may end it."""
    unless: str


class DeadLetterLoop(NamedTuple):
    """Dead letters that are written to what a source reads."""

    source: str
    where: str


def dead_letter_loop(inlets: Iterable[Inlet], dead_letters: Target) -> DeadLetterLoop | None:
    """Return the source that reads the dead letters of its own bridge, None if none does."""
    for inlet in inlets:
        shared = _shared(inlet.source.places, dead_letters.places)
        if shared is not None:
            return DeadLetterLoop(inlet.source.name, shared.name)
    return None


def feedback(inlets: Iterable[Inlet], targets: Mapping[str, Target], topology: Topology) -> Sequence[Feedback]:
    """Return the loops within a bridge, one for each target and source that it feeds; ``targets`` are by queue.

    A way from a source through a target to another source and on to a third place is no loop.
    """
    sources = list(inlets)
    edges = [edge for inlet in sources for edge in _edges(inlet, sources, targets, topology)]
    certain = [edge for edge in edges if edge.certain]
    found = []
    for edge in edges:
        for is_certain, others in ((True, certain), (False, edges)):
            way = None if is_certain and not edge.certain else _way(edge.reader, edge.writer, others)
            if way is not None:
                names = [edge.writer.source.name, *[inlet.source.name for inlet in way]]
                reader = edge.reader.source.name
                found.append(
                    Feedback(edge.target, reader, edge.place.name, " -> ".join(names), is_certain, edge.unless)
                )
                break
    return found


def near_exchange(inlets: Iterable[Inlet], target: Target) -> tuple[Place, str] | None:
    """Return an exchange that a target publishes to in a RabbitMQ that a source reads from, and the source's name.

    Only the broker knows which of its queues the exchange leads to.
    """
    for place in sorted(target.places):
        if place.system == RABBITMQ and place.name.startswith(EXCHANGE):
            for inlet in inlets:
                if any(each.cluster == place.cluster for each in inlet.source.places if each.system == RABBITMQ):
                    return place, inlet.source.name
    return None


class _Edge(NamedTuple):
    """Messages of ``writer`` that come in again as those of ``reader``."""

    writer: Inlet
    reader: Inlet
    target: Target
    place: Place
    certain: bool
    unless: str


def _edges(
    inlet: Inlet, sources: Sequence[Inlet], targets: Mapping[str, Target], topology: Topology
) -> Iterator[_Edge]:
    reached = reachable_queues(topology, inlet.exchange)
    for target in dict.fromkeys(targets.values()):
        queues = {queue for queue, each in targets.items() if each is target}
        if not queues & reached:
            continue
        for reader in sources:
            place = _shared(reader.source.places, target.places)
            if place is not None:
                # Which of its queues leads to the place only the target knows.
                certain = queues <= reached and inlet.filter is None
                unless = "its filter leaves them out" if inlet.filter is not None else "another queue leads there"
                yield _Edge(inlet, reader, target, place, certain, unless)


def _way(start: Inlet, end: Inlet, edges: Sequence[_Edge]) -> list[Inlet] | None:
    """Return the shortest way from an inlet to another, both included; None if there is none."""
    ways, seen = deque([[start]]), {id(start)}
    while ways:
        way = ways.popleft()
        if way[-1] is end:
            return way
        for edge in edges:
            if edge.writer is way[-1] and id(edge.reader) not in seen:
                seen.add(id(edge.reader))
                ways.append([*way, edge.reader])
    return None


def _shared(read: Iterable[Place], written: Iterable[Place]) -> Place | None:
    """Return a place that is both read and written, None if there is none."""
    return next((place for place in sorted(written) if any(_covers(each, place) for each in read)), None)


def _covers(read: Place, written: Place) -> bool:
    """Whether who reads the one reads what is written to the other."""
    if read.system != written.system:
        return False
    if read.system == ARCHIVE:  # folders within a folder are read with it
        ours, theirs = (Path(each.cluster).absolute() for each in (read, written))
        return ours == theirs or ours in theirs.parents
    if read.cluster != written.cluster:
        return False
    if read.name.startswith(EXPRESSION):
        topic = written.name.removeprefix("topic ")
        try:
            return re.match(read.name.removeprefix("topic "), topic) is not None
        except re.error:  # librdkafka's expressions are not Python's
            return False
    return read.name == written.name
