"""Facts in columns are those of Python objects added one after the other, bit for bit."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.archive.record import Record, build_batch
from bindings.archive.sums import Span
from bindings.counts.adding import sum_by_key
from bindings.counts.columnar.arrays import ranges
from bindings.counts.columnar.counting import Tallier
from bindings.counts.columnar.fact_columns import FactColumns, add_facts, list_table
from bindings.counts.columnar.sketches import bottom_k, hyperloglog
from bindings.counts.coverage import coverage
from bindings.counts.groups import find_sole_bindings
from bindings.counts.outcome import Facts, Outcome, sort_bindings
from bindings.counts.sketch import (
    Frequent,
    FrequentItem,
    SampledKey,
    compute_registers,
    count_distinct,
    hash_of,
    keep_sample,
    merge_summaries,
)
from bindings.counts.tally import Tally
from exchange import LATEST_PROFILE, Binding, Message, Topology
from exchange.entities.entities import Destination
from tests.support import topologies
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
KEYS = ("a", "b.c", "\ud800", "\udcff.x", "\0", "日本", "z" * 20)


def random_facts(rng: Random) -> Facts:
    """Return facts of few or many keys, without times or with, with summaries at their limit or not."""
    names = [f"{rng.choice(KEYS)}.{rng.randrange(400)}" for _ in range(rng.choice((1, 3, 90, 200)))]
    hashes = [hash_of(name.encode("utf-8", "surrogatepass")) for name in names]
    first = rng.randrange(-1000, 1000)
    span = Span(len(names), first, first + rng.randrange(9)) if rng.random() < 0.7 else Span(len(names))

    def summary(*, shapes: bool) -> Frequent:
        items = [
            FrequentItem(name, rng.randint(1, 9), rng.choice(names) if shapes else "") for name in dict.fromkeys(names)
        ]
        return merge_summaries(Frequent(tuple(items), rng.randrange(3)))

    shapes = summary(shapes=True) if rng.random() < 0.5 else Frequent()
    sample = keep_sample(map(SampledKey, hashes, names))
    return Facts(span, compute_registers(hashes), sample, summary(shapes=False), shapes)


def slow_sum(facts: list[Facts]) -> Facts:
    """Return the sum of facts, added one after the other; summaries at once, which states the smallest error."""
    total = sum(facts, Facts())
    return total._replace(
        hot=merge_summaries(*[each.hot for each in facts]), shapes=merge_summaries(*[each.shapes for each in facts])
    )


@examples(60)
@given(SEED, st.sampled_from([0, 3, 64, 10**6]), st.sampled_from([1, 50, 1 << 21]))
def test_columns_of_facts_add_as_facts_do(seed: int, few: int, most: int) -> None:
    """However many registers are kept as codes, and however many elements are looked at together."""
    rng = Random(seed)
    facts = [random_facts(rng) for _ in range(rng.randrange(8))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hyperloglog, "MAX_CODED_REGISTERS", few)
        patch.setattr(ranges, "MAX_ELEMENTS", most)
        columns = FactColumns.from_values(facts)
        assert [columns.get_group(number) for number in range(len(facts))] == facts
        number = rng.randint(1, 4)
        rows = [rng.randrange(len(facts)) for _ in range(12)] if facts else []
        groups = [rng.randrange(number) for _ in rows]
        merged = columns.merge(_numbers(rows), _numbers(groups), number)
        for group in range(number):
            wanted = [facts[row] for row, other in zip(rows, groups, strict=True) if other == group]
            assert merged.get_group(group) == slow_sum(wanted)


def _numbers(values: list[int]) -> Any:
    return np.array(values, np.int64)


@examples(40)
@given(SEED)
def test_columns_of_outcomes_add_as_mappings_do(seed: int) -> None:
    rng = Random(seed)
    names = [Outcome(name) for name in "abcde"]
    one, other = ({name: random_facts(rng) for name in rng.sample(names, rng.randrange(6))} for _ in range(2))
    assert dict(add_facts(one, list_table(other))) == sum_by_key(one, other)


def slow_sole_bindings(outcome: Outcome, bindings: tuple[Binding, ...]) -> list[int]:
    ways = Counter([bindings[number].destination for number in (*outcome.bindings, *outcome.possible_bindings)])
    ways[Destination("exchange", outcome.exchange)] += 1
    for _, alternate in (*outcome.alternates, *outcome.possible_alternates):
        ways[Destination("exchange", alternate)] += 1
    for queue in () if outcome.exchange else outcome.queues:
        ways[Destination("queue", queue)] += 1
    reached = {*(Destination("queue", name) for name in outcome.queues)}
    reached |= {Destination("exchange", name) for name in outcome.exchanges}
    ends = [(number, bindings[number].destination) for number in outcome.bindings]
    return [number for number, end in ends if ways[end] == 1 and end in reached]


def slow_queue(tally: Tally, name: str, bindings: tuple[Binding, ...]) -> tuple[Any, ...]:
    """Return what a row of a queue says, added outcome by outcome."""
    got = slow_sum([facts for outcome, facts in tally.facts.items() if name in outcome.queues])
    avoided = 0
    for outcome, facts in tally.facts.items():
        copies = sum(bindings[number].destination == Destination("queue", name) for number in outcome.bindings)
        avoided += max(copies - 1, 0) * facts.messages
    possible = sum(facts.messages for outcome, facts in tally.facts.items() if name in outcome.possible_queues)
    return got.messages, possible, avoided, got.span.first, got.span.last, count_distinct(got.keys), got.hot


@examples(60)
@given(SEED)
def test_uses_are_those_of_outcomes_added_one_after_the_other(seed: int) -> None:
    rng = Random(seed)
    topology: Topology = topologies.topology(rng, LATEST_PROFILE)
    messages = [topologies.message(rng, topology) for _ in range(30)] + [Message("nowhere", "a")]
    counter = Tallier(topology)
    counter.add(build_batch([Record(message, rng.choice((None, rng.randrange(9)))) for message in messages]))
    tally, bindings = counter.result(), sort_bindings(topology)
    uses = coverage(tally, topology)
    sole = find_sole_bindings(tally.facts, bindings)
    for row, outcome in enumerate(tally.facts):
        assert sole.values[sole.rows == row].tolist() == slow_sole_bindings(outcome, bindings)
    for use in uses.queues:
        assert use[1:-1] == slow_queue(tally, use.queue, bindings)
    for each in uses.bindings:
        took = slow_sum([facts for outcome, facts in tally.facts.items() if each.number in outcome.bindings])
        assert (each.messages, each.first, each.last) == took.span
        assert each.distinct_keys == count_distinct(took.keys)
    for to in uses.exchanges:
        published = slow_sum([facts for outcome, facts in tally.facts.items() if outcome.exchange == to.exchange])
        assert (to.published, to.distinct_keys, to.hot) == (
            published.messages, count_distinct(published.keys), published.hot,
        )  # fmt: skip
    for lost in uses.unroutable:
        of = [
            facts
            for outcome, facts in tally.facts.items()
            if outcome.routed is False and (outcome.exchange, outcome.refused) == lost[:2]
        ]
        total = slow_sum(of)
        assert lost[2:] == (total.messages, total.shapes, tuple(each.key for each in total.sample), *total.span[1:])
    assert uses.totals.duplicates_avoided == sum(use.duplicates_avoided for use in uses.queues)


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=30)


def take_texts(texts: list[str], at: npt.NDArray[np.intp]) -> pa.Array:
    return pa.array([texts[each] for each in at], pa.string())


@examples(200)
@given(st.lists(ROWS, max_size=5), st.sampled_from([1, 8, bottom_k.SLOTS]))
@example([[(0, number) for number in (1, 2, 9)], [(0, 5)]], 8)
@example([[(0, 5)], [(1, 5)]], 1)
def test_the_sample_of_a_group_is_that_of_all_its_keys_however_they_come(
    batches: list[list[tuple[int, int]]], slots: int
) -> None:
    """The keys with the smallest hashes, here three; a key has one hash, which is its number scaled up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bottom_k, "SAMPLE", 3)
        patch.setattr(bottom_k, "SLOTS", slots)
        samples = bottom_k.Samples()
        for rows in batches:
            groups = np.array([group for group, _ in rows], np.int32)
            hashes = np.array([number << 58 for _, number in rows], np.uint64)
            samples.add(groups, hashes, partial(take_texts, [str(number) for _, number in rows]), 3)
        found = samples.all()
        for group in range(3):
            known = sorted({number for rows in batches for other, number in rows if other == group})
            assert [int(each) >> 58 for each in found.hashes[found.groups == group]] == known[:3]
