"""Fingerprints of topologies that route differently differ; errors of summaries add."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.counts.sketch import FREQUENT, Frequent, FrequentItem, merge_summaries
from bindings.counts.tally import Tally, compute_fingerprint
from exchange import Binding, Exchange, InputError, Policy, Queue, Topology

A = Binding.to_queue


def ring(*queues: str, delayed: bool = False) -> Topology:
    """Return a hash exchange with these queues, bound in this order."""
    kind, arguments = ("x-delayed-message", {"x-delayed-type": "x-consistent-hash"}) if delayed else (
        "x-consistent-hash", {}
    )  # fmt: skip
    return Topology(
        [Exchange("h", kind, arguments=arguments)], [Queue(n) for n in "abc"], [A("h", queue, "1") for queue in queues]
    )


def plain(priority: int = 0, *, internal: bool = False, alternate: str = "a", pattern: str = "^x") -> Topology:
    exchanges = [Exchange("x", "topic", internal=internal), Exchange("a", "fanout"), Exchange("b", "fanout")]
    definition = {"alternate-exchange": alternate}
    return Topology(exchanges, [Queue("q")], [], [Policy("p", pattern, definition, "exchanges", priority)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ring("a", "b", "c"), ring("b", "a", "c")),
        (ring("a", "b", delayed=True), ring("b", "a", delayed=True)),
        (plain(0), plain(1)),
        (plain(), plain(internal=True)),
        (plain(), plain(alternate="b")),
        (plain(), plain(pattern="^y")),
    ],
    ids=["ring", "delayed ring", "priority", "internal", "alternate", "pattern"],
)
def test_topologies_that_route_otherwise_have_different_fingerprints(one: Topology, other: Topology) -> None:
    """Their tallies do not add, since the sum would be of neither topology."""
    assert compute_fingerprint(one) != compute_fingerprint(other)
    with pytest.raises(InputError, match="different topologies"):
        Tally(compute_fingerprint(one)) + Tally(compute_fingerprint(other))


@pytest.mark.parametrize(
    ("release", "saved"),
    [
        ("3.10", "49df55341519db11"),
        ("3.12", "2b632430ed6e87b4"),
        ("3.13", "4b18e8c2eb1c3ba3"),
        ("4.0", "5d750cb070703124"),
        ("4.0.0", "5d750cb070703124"),
        ("4.1", "5d750cb070703124"),
        ("4.3", "c3e21324f688aafd"),
        ("4.4", "c3e21324f688aafd"),
    ],
)
def test_counts_that_were_saved_still_add(release: str, saved: str) -> None:
    """A fingerprint has the representation of a profile, in which a field may be neither added, removed nor changed."""
    assert compute_fingerprint(Topology(profile=release)).startswith(saved)


def test_the_order_of_bindings_changes_only_the_fingerprints_of_rings() -> None:
    one, other = (
        Topology([Exchange("x", "topic")], [Queue("a"), Queue("b")], [A("x", queue, "k") for queue in order])
        for order in ("ab", "ba")
    )
    assert compute_fingerprint(one) == compute_fingerprint(other)


MANY = st.dictionaries(st.integers(0, 400).map(str), st.integers(1, 50), min_size=FREQUENT + 1, max_size=120)


def summary_of(counts: dict[str, int]) -> Frequent:
    """Return the summary of counts, merged from summaries of one item each."""
    return merge_summaries(*[Frequent((FrequentItem(text, count),)) for text, count in counts.items()])


@given(st.lists(MANY, min_size=1, max_size=4))
def test_counts_stay_within_the_error_where_items_are_dropped(parts: list[dict[str, int]]) -> None:
    """With more items than are kept, merged several times."""
    summary = merge_summaries(*map(summary_of, parts))
    counted = {item.text: item.count for item in summary.items}
    assert len(counted) <= FREQUENT
    assert summary.error > 0
    for text in {text for part in parts for text in part}:
        true = sum(part.get(text, 0) for part in parts)
        assert counted.get(text, 0) <= true <= counted.get(text, 0) + summary.error


def test_errors_of_summaries_add() -> None:
    one = Frequent((FrequentItem("a", 5),), 3)
    assert merge_summaries(one, Frequent((FrequentItem("a", 2), FrequentItem("b", 1)), 4)) == Frequent(
        (FrequentItem("a", 7), FrequentItem("b", 1)), 7
    )
