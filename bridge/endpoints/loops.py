"""Loops: a bridge writes to a place, such as a queue or topic, that it reads, so that a message goes round for ever.

`Endpoint.places` names what endpoints read and write. The topology defines which targets the messages of a source can
reach: it is followed from exchange to exchange whatever the routing keys are. So a CC header, which only adds keys,
changes nothing. Loops through other programs cannot be found here: `Policy.max_hops` ends them.
"""

from __future__ import annotations

import functools
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bridge.endpoint import Place, Target
from bridge.pump.inlet import Inlet
from exchange.topology.reach import find_reachable_queues
from exchange.topology.topology import Topology

ARCHIVE: Final = "archive"
RABBITMQ: Final = "rabbitmq"
EXCHANGE: Final = "exchange "
EXPRESSION: Final = "topic ^"
"""Beginning of the place of a Kafka source that reads all topics whose names match an expression."""


class Feedback(NamedTuple):
    """A target that gets messages of a source of its bridge, and writes to a place that this source reads."""

    target: Target
    source: str
    where: str
    """The name of the place, ``queue orders``."""
    way: str
    """Sources through which a message goes round, ``a -> b -> a``."""
    certain: bool
    """Whether each message on this way comes back to its source; else a filter or a key may stop it."""
    unless: str
    """What may stop a message if the loop is not certain."""


class DeadLetterLoop(NamedTuple):
    """Dead letters that are written to a place that a source of the same bridge reads."""

    source: str
    where: str


def find_dead_letter_loop(inlets: Iterable[Inlet], dead_letters: Target) -> DeadLetterLoop | None:
    """Return the first source that reads the dead letters of its own bridge; None if there is none."""
    for inlet in inlets:
        shared = find_shared_place(inlet.source.places, dead_letters.places)
        if shared is not None:
            return DeadLetterLoop(inlet.source.name, shared.name)
    return None


def find_feedback(inlets: Iterable[Inlet], targets: Mapping[str, Target], topology: Topology) -> Sequence[Feedback]:
    """Return the loops within a bridge, one for each target and each source that reads from it.

    ``targets`` maps queues to targets. A way from a source through a target to another source, and from there to a
    third place, is no loop.
    """
    sources = list(inlets)
    edges = [edge for inlet in sources for edge in find_edges(inlet, sources, targets, topology)]
    certain = [edge for edge in edges if edge.certain]
    loops = []
    for edge in edges:
        for is_certain, others in ((True, certain), (False, edges)):  # a certain loop, else a possible one
            way = None if is_certain and not edge.certain else find_way(edge.reader, edge.writer, others)
            if way is not None:
                names = [edge.writer.source.name, *[inlet.source.name for inlet in way]]
                reader = edge.reader.source.name
                loops.append(
                    Feedback(edge.target, reader, edge.place.name, " -> ".join(names), is_certain, edge.unless)
                )
                break
    return loops


def find_near_exchange(inlets: Iterable[Inlet], target: Target) -> tuple[Place, str] | None:
    """Return an exchange that a target publishes to, and the name of a source that reads from the same RabbitMQ.

    Only the broker knows whether the exchange leads to the source's queue. None if there is no such exchange.
    """
    for place in sorted(target.places):
        if place.system == RABBITMQ and place.name.startswith(EXCHANGE):
            for inlet in inlets:
                if any(each.cluster == place.cluster for each in inlet.source.places if each.system == RABBITMQ):
                    return place, inlet.source.name
    return None


class Edge(NamedTuple):
    """A step of a message: read by ``writer``, written to ``place`` by ``target``, read again by ``reader``."""

    writer: Inlet
    reader: Inlet
    target: Target
    place: Place
    certain: bool
    """Whether each message takes it."""
    unless: str
    """What may stop a message if not."""


def find_edges(
    inlet: Inlet, sources: Sequence[Inlet], targets: Mapping[str, Target], topology: Topology
) -> Iterator[Edge]:
    """Yield the steps of an inlet's messages to sources that read what its targets write."""
    reached = find_reachable_queues(topology, inlet.exchange)
    for target in dict.fromkeys(targets.values()):
        queues = {queue for queue, each in targets.items() if each is target}
        if not queues & reached:
            continue
        for reader in sources:
            place = find_shared_place(reader.source.places, target.places)
            if place is not None:
                # Only the target knows which of its queues leads to the place.
                certain = queues <= reached and inlet.filter is None
                unless = "its filter leaves them out" if inlet.filter is not None else "another queue leads there"
                yield Edge(inlet, reader, target, place, certain, unless)


def find_way(start: Inlet, end: Inlet, edges: Sequence[Edge]) -> list[Inlet] | None:
    """Return the shortest way from one inlet to another, both included; None if there is none."""
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


def find_shared_place(read: Iterable[Place], written: Iterable[Place]) -> Place | None:
    """Return the first place that is both read and written; None if there is none."""
    return next((place for place in sorted(written) if any(covers(each, place) for each in read)), None)


@functools.lru_cache(maxsize=4_096)
def normalize_folder(path: str) -> str:
    """Return the absolute path of a folder. It is asked for each pair of a source and a folder that is written."""
    return os.path.abspath(path).rstrip(os.sep)  # noqa: PTH100  a text takes a fifth of the time of a path


def covers(read: Place, written: Place) -> bool:
    """Return whether a reader of the one place reads what is written to the other."""
    if read.system != written.system:
        return False
    if read.system == ARCHIVE:  # a folder is read with the folders in it
        ours, theirs = normalize_folder(read.cluster), normalize_folder(written.cluster)
        return ours == theirs or theirs.startswith(f"{ours}{os.sep}")
    if read.cluster != written.cluster:
        return False
    if read.name.startswith(EXPRESSION):
        topic = written.name.removeprefix("topic ")
        try:
            return re.match(read.name.removeprefix("topic "), topic) is not None
        except re.error:  # an expression of librdkafka that Python does not accept
            return False
    return read.name == written.name
