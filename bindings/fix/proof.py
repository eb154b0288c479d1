"""Prove that a removal changes no route, by the comparison of `bindings.diff`: exact, for all keys and headers.

All fixes are compared at once first, since that takes little longer than the comparison of one fix. If that does not
prove that nothing changes, each half is tried by itself, so that fixes that cannot be proved are found and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bindings.analysis.crawl import Deadline
from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.meaning import Meaning
from bindings.diffing.forms.text import format_meaning
from bindings.fix.candidates import Fix
from exchange.entities.part import Part
from exchange.topology.topology import Topology
from exchange.topology.unread import format_not_proved

MAX_STEPS: Final = 50_000
"""Maximum cost of one question of a comparison: about a quarter of a second. What needs more is not fixed."""


class Proof(NamedTuple):
    """The fixes that together change no route, and those for which that is not proved, each with the reason."""

    proved: tuple[Fix, ...]
    unproved: tuple[tuple[Fix, str], ...] = ()


def prove(topology: Topology, fixes: Sequence[Fix], deadline: Deadline) -> Proof:
    """Return which fixes of a topology can be carried out together without changing a route."""
    _, proof = _prove(topology, fixes, deadline)
    return proof


def _prove(topology: Topology, fixes: Sequence[Fix], deadline: Deadline) -> tuple[Topology, Proof]:
    """Return the topology without what the proved fixes remove, which routes as the given one does, and the proof."""
    if not fixes:
        return topology, Proof(())
    fixed = without(topology, (part for fix in fixes for part in fix.parts))
    meaning = compare(topology, fixed, steps=MAX_STEPS, deadline=deadline)
    if meaning.verdict == "same":
        return fixed, Proof(tuple(fixes))
    if len(fixes) == 1:
        return topology, Proof((), ((fixes[0], _reason(meaning)),))
    middle = len(fixes) // 2
    between, first = _prove(topology, fixes[:middle], deadline)
    fixed, second = _prove(between, fixes[middle:], deadline)
    return fixed, Proof(first.proved + second.proved, first.unproved + second.unproved)


def _reason(meaning: Meaning) -> str:
    if meaning.unread:
        return format_not_proved(meaning.unread)
    if meaning.verdict == "undecided":
        why = meaning.undecided[0].reason if meaning.undecided else "not all messages could be compared"
        return f"whether a message would go elsewhere is undecided: {why}"
    return "a message would go elsewhere: " + " ".join(line.strip() for line in format_meaning(meaning))


def without(topology: Topology, parts: Iterable[Part]) -> Topology:
    """Return a topology without some of its parts."""
    gone = frozenset(parts)
    return topology.with_parts(
        exchanges=[exchange for exchange in topology.exchanges.values() if exchange not in gone],
        queues=[queue for queue in topology.queues.values() if queue not in gone],
        bindings=[binding for binding in topology.bindings if binding not in gone],
        policies=[policy for policy in topology.all_policies if policy not in gone],
    )
