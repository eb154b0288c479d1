"""What is wrong between sources, and between the pipelines of one process, each of which is right by itself.

They may share what they like: places that several write to, such as one for all dead letters, and topics that each
reads by a group of its own. Two that read the same queue, or keep in one place how far they have read, take messages
from each other, though; and what goes from one to the other and back goes round. It is a warning each time: only the
owner knows whether a queue is shared on purpose, and `Policy.max_hops` ends loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from bridge.endpoint import Place, Source, Target
from bridge.endpoints import has_groups
from bridge.endpoints.loops import Edge, covers, find_edges, find_shared_place, find_way
from bridge.pump.inlet import Inlet
from exchange.topology.topology import Topology


class PipelineFlow(NamedTuple):
    """What a pipeline reads and writes."""

    inlets: tuple[Inlet, ...]
    targets: Mapping[str, Target]
    """Queue of the topology -> the target of its messages."""
    topology: Topology
    dead_letters: Target | None = None


class Conflict(NamedTuple):
    """What is wrong between two pipelines, and the table of one of them that it is reported at."""

    table: str
    """``orders.sources.rabbit``."""
    key: str
    problem: str


def find_conflicts(flows: Mapping[str, PipelineFlow]) -> Iterator[Conflict]:
    """Yield what is wrong between pipelines, given by their names."""
    owned = [(name, inlet.source) for name, flow in flows.items() for inlet in flow.inlets]
    sources = [(f"{name}.sources.{source.name}", source) for name, source in owned]
    for first, second, rivalry in find_rivals(sources, "pipelines."):
        if owned[first][0] != owned[second][0]:
            yield Conflict(sources[second][0], *rivalry)
    targets = [(name, each) for name, flow in flows.items() for each in dict.fromkeys(flow.targets.values())]
    for (one, earlier), (other, later) in combinations(targets, 2):
        clusters = {(each.system, each.cluster) for each in earlier.places}
        is_near = any((each.system, each.cluster) in clusters for each in later.places)
        if one != other and later.sole_writer is not None and later.sole_writer == earlier.sole_writer and is_near:
            problem = f"[pipelines.{one}.targets.{earlier.name}] has it, too: each would put out the other, for ever"
            yield Conflict(f"{other}.targets.{later.name}", "transactional_id", f"{problem}; give each its own")
    yield from _find_loops(flows)


class _Reader(NamedTuple):
    """What a source reads, and what identifies where it keeps how far; asked for once, as there are many pairs."""

    table: str
    places: frozenset[Place]
    clusters: frozenset[tuple[str, str]]
    settled_in: str | None


def find_rivals(
    sources: Sequence[tuple[str, Source]], within: str = ""
) -> Iterator[tuple[int, int, tuple[str, str]]]:  # fmt: skip
    """Yield each two sources that disturb each other, by their numbers, with the key and the problem of the second one.

    A source comes with its table, which is shown after ``within``.
    """
    readers = [
        _Reader(f"[{within}{table}]", places, frozenset([(each.system, each.cluster) for each in places]), settled_in)
        for table, places, settled_in in ((table, each.places, each.settled_in) for table, each in sources)
    ]
    for (one, first), (other, second) in combinations(enumerate(readers), 2):
        if (found := _compare(first, second)) is not None:
            yield one, other, found


def _compare(first: _Reader, second: _Reader) -> tuple[str, str] | None:
    """Return the key and the problem of a source that disturbs another one; None if it does not."""
    shown, systems = first.table, {system for system, _ in second.clusters}
    kept = second.settled_in if first.settled_in == second.settled_in else None
    if not (kept or "rabbitmq" in systems) or systems.isdisjoint([system for system, _ in first.clusters]):
        return None
    system = min(systems)
    shared = _find_read_by_both(first, second)
    if has_groups(system):
        if not kept or not first.clusters & second.clusters:
            return None
        if shared is not None:
            problem = f"{shown} reads {shared.name} in group {kept!r}, too: each message goes to one of them"
        elif system == "kafka":
            problem = f"{shown} is in group {kept!r}, too, with other topics: whatever stops or starts one, stops both"
        else:
            problem = f"{shown} is in group {kept!r}, too, with other topics: the broker gives messages of each to both"
        return "group", f"{problem}; give each a group of its own"
    if kept:
        key = "state" if system == "archive" else "offsets"
        return key, f"{shown} keeps there how far it has read, too: each goes on where the other was; give each its own"
    if shared is not None and system == "rabbitmq":
        return "queue", (
            f"{shown} reads {shared.name}, too: each gets some of its messages, in no order, or none while the other "
            "is its only consumer"
        )
    return None


def _find_read_by_both(first: _Reader, second: _Reader) -> Place | None:
    both = [each for each in sorted(second.places) if any(covers(read, each) for read in first.places)]
    both += [each for each in sorted(first.places) if any(covers(read, each) for read in second.places)]
    return both[0] if both else None


def _find_loops(flows: Mapping[str, PipelineFlow]) -> Iterator[Conflict]:
    """Yield each loop through several pipelines once, at one of the targets in it."""
    owners: dict[int, str] = {}
    inlets = list[Inlet]()
    for name, flow in flows.items():
        own = [inlet for inlet in flow.inlets if inlet.replies_of is None]
        owners |= {id(inlet): name for inlet in own}
        inlets += own
    edges: list[Edge] = []
    for flow in flows.values():
        for inlet in flow.inlets:
            if inlet.replies_of is None:
                edges += find_edges(inlet, inlets, flow.targets, flow.topology)
                edges += _find_ways_of_dead_letters(inlet, inlets, flow.dead_letters)
    seen = set[frozenset[int]]()
    for edge in edges:
        writer, reader = owners[id(edge.writer)], owners[id(edge.reader)]
        way = None if writer == reader else find_way(edge.reader, edge.writer, edges)
        if way is None or (loop := frozenset(map(id, way))) in seen:
            continue
        seen.add(loop)
        names = [f"{owners[id(each)]}.{each.source.name}" for each in (edge.writer, *way)]
        is_dead = edge.target is flows[writer].dead_letters
        yield Conflict(
            writer if is_dead else f"{writer}.targets.{edge.target.name}",
            "dead_letters" if is_dead else "queues",
            f"its {edge.place.name} is what [pipelines.{reader}.sources.{edge.reader.source.name}] reads, and messages "
            f"come back from there ({' -> '.join(names)}){'' if edge.certain else f', unless {edge.unless}'}; "
            "[policy] max_hops ends such a loop",
        )


def _find_ways_of_dead_letters(inlet: Inlet, inlets: list[Inlet], dead_letters: Target | None) -> Iterator[Edge]:
    if dead_letters is None:
        return
    for reader in inlets:
        if (place := find_shared_place(reader.source.places, dead_letters.places)) is not None:
            yield Edge(inlet, reader, dead_letters, place, certain=False, unless="none becomes a dead letter")
