"""Which exchanges must change with care, because a message can pass two of them and would see half a change.

Bindings only add up: with all that is new there before anything old goes, every key that was and will be routable stays
so, and no message goes where neither topology sends it, as long as no way through the exchanges meets both something
new and something old. A way that does, and an alternate exchange, which a new binding turns off, need a closer look.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Final

from bindings.analysis.graph import Graph

__all__ = ["Kind", "tangled"]


class Kind(Flag):
    """How an exchange changes."""

    NOTHING = 0
    GAINS = auto()
    """It has new bindings."""
    LOSES = auto()
    """Some of its bindings go."""
    SWITCHES = auto()
    """Messages turn to its alternate exchange, or away from it, or to another one."""
    FORKS = auto()
    """It switches, and a changed binding leads to an exchange, which may have no queue for the message."""


def tangled(graph: Graph, changes: Mapping[str, Kind]) -> set[str]:
    """The exchanges of ``changes`` whose changes must be looked at together; without them any order will do that has
    all new bindings there before an old one goes.
    """
    below = _changes_below(graph, changes)
    found = {
        name
        for name, kind in changes.items()
        if Kind.FORKS in kind or any(one & kind and other & below.get(name, Kind.NOTHING) for one, other in MEETING)
    }
    while True:
        more = {name for name in graph.upstream(found) | graph.downstream(found) if name in changes}
        if more <= found:
            return found
        found |= more


ANY: Final = Kind.GAINS | Kind.LOSES | Kind.SWITCHES
MEETING: Final = ((Kind.GAINS, Kind.LOSES), (Kind.LOSES, Kind.GAINS), (Kind.SWITCHES, ANY), (ANY, Kind.SWITCHES))
"""What must not be on one way."""


def _changes_below(graph: Graph, changes: Mapping[str, Kind]) -> dict[str, Kind]:
    """For each exchange how those change that get messages from it, itself among them if it is on a cycle."""
    below: dict[str, Kind] = {}
    pending = list(changes)
    while pending:
        name = pending.pop()
        told = changes.get(name, Kind.NOTHING) | below.get(name, Kind.NOTHING)
        for source in graph.previous.get(name, ()):
            known = below.get(source, Kind.NOTHING)
            if told | known != known:
                below[source] = told | known
                pending.append(source)
    return below
