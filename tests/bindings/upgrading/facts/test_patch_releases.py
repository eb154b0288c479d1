"""From which patch release on something is refused, as the broker's source has it."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Final

import pytest

from bindings.upgrading.facts.crossing import Crossing
from bindings.upgrading.facts.refused import FACTS
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.entities.releases import ROWS, SERIES, find_profile


def of_selector(text: str) -> Topology:
    """Build a topology whose only binding has this selector; nothing is checked yet."""
    binding = Binding.to_queue("j", "q", "k", {"rjms_erlang_selector": text})
    return Topology([Exchange("j", "x-jms-topic")], [Queue("q")], [binding])


LONG: Final = "a" * 1025
PATTERN: Final = f'{{like,{{ident,<<"s">>}},<<"{LONG}">>,no_escape}}.'
LIMITS: Final = {
    "a policy's pattern": (Topology(policies=[Policy("p", LONG, {"max-length": 5})]), "HSU004", "4.2.8", "4.3.2"),
    "a selector's pattern": (of_selector(PATTERN), "HSU003", "4.2.9", "4.3.3"),
    "a selector": (of_selector("{purge,1}."), "HSU003", "4.2.6", "4.3.0"),
}  # fmt: skip
"""What is refused -> a topology with it, the fact that says so, and the first release of each series to refuse it."""
PATCHES: Final = [f"{series}.{patch}" for series in ("4.2", "4.3") for patch in range(SERIES[series].newest_patch + 1)]


@pytest.mark.parametrize("what", LIMITS)
def test_what_is_refused_from_a_patch_release_on_is_named_where_an_upgrade_comes_to_it(what: str) -> None:
    topology, code, *first = LIMITS[what]
    begins = dict(zip(("4.2", "4.3"), first, strict=True))
    refuses = {release: release >= begins[release[:3]] for release in PATCHES}
    pairs = [(old, new) for old, new in combinations(PATCHES, 2) if find_profile(old) != find_profile(new)]
    for old, new in pairs:
        crossing = Crossing(topology.with_profile(find_profile(old)), find_profile(new))
        found = {fact.id for fact in FACTS if [*fact.find(crossing)]}
        expected = ("HSU055" if refuses[old] else code) if refuses[new] else None
        assert found == {expected} - {None}, (old, new)


def test_each_row_of_a_patch_release_differs_from_the_one_before_it() -> None:
    assert all(one.profile != other.profile for one, other in pairwise(ROWS) if other.since[2])
