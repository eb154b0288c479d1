"""Which exchanges must change with care, because a message can pass two of them and would see half a change.

Bindings are additive. So if all new bindings are added before any old one is removed, every key that both topologies
route stays routable meanwhile. And no message goes where neither topology sends it, as long as no path through the
exchanges has both a new and an old binding. Two cases need a closer look: a path that has both, and an alternate
exchange, since a new binding keeps messages from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Final

from exchange.topology.graph import Graph


class Alteration(Flag):
    """How an exchange changes."""

    NOTHING = 0
    GAINS = auto()
    """It gets new bindings."""
    LOSES = auto()
    """Some of its bindings are removed."""
    SWITCHES = auto()
    """Some messages start or cease to go to its alternate exchange, or go to another one."""
    FORKS = auto()
    """It switches, and a changed binding leads to an exchange, which may have no queue for the message."""


def find_tangled(graph: Graph, changes: Mapping[str, Alteration]) -> set[str]:
    """Return the exchanges whose changes must be looked at together.

    For all others any order is safe that adds all new bindings before it removes an old one.
    """
    below = _changes_below(graph, changes)
    tangled = {
        name
        for name, kind in changes.items()
        if Alteration.FORKS in kind
        or any(one & kind and other & below.get(name, Alteration.NOTHING) for one, other in MEETING)
    }
    while True:
        more = {name for name in graph.upstream(tangled) | graph.downstream(tangled) if name in changes}
        if more <= tangled:
            return tangled
        tangled |= more


ANY: Final = Alteration.GAINS | Alteration.LOSES | Alteration.SWITCHES
MEETING: Final = (
    (Alteration.GAINS, Alteration.LOSES),
    (Alteration.LOSES, Alteration.GAINS),
    (Alteration.SWITCHES, ANY),
    (ANY, Alteration.SWITCHES),
)
"""Pairs of changes that must not be on one path: of an exchange, and of an exchange downstream of it."""


def _changes_below(graph: Graph, changes: Mapping[str, Alteration]) -> dict[str, Alteration]:
    """Return exchange -> how the exchanges downstream of it change, including itself if it is on a cycle."""
    below: dict[str, Alteration] = {}
    pending = list(changes)
    while pending:
        name = pending.pop()
        handed_up = changes.get(name, Alteration.NOTHING) | below.get(name, Alteration.NOTHING)
        for source in graph.previous.get(name, ()):
            known = below.get(source, Alteration.NOTHING)
            if handed_up | known != known:
                below[source] = handed_up | known
                pending.append(source)
    return below
