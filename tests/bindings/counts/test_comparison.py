"""Two topologies over the same messages: each message is counted as two routers route it."""

from __future__ import annotations

from collections import Counter
from collections import Counter as Multiset
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bindings
from bindings.archive.names import escape
from bindings.archive.record import Record, build_batch
from bindings.archive.sums import Span, Unread
from bindings.counts import comparison as comparison_module
from bindings.counts.adding import sum_by_key
from bindings.counts.changes import Changes, list_changes, summarize_changes
from bindings.counts.columnar import comparing
from bindings.counts.columnar.comparing import Comparer
from bindings.counts.comparison import (
    SIDES,
    ChangeFacts,
    Comparison,
    MessageSum,
    OutcomeChange,
    Pair,
    PartitionMove,
    change_of,
    make_zero,
)
from bindings.counts.comparison_file import build_table, read_comparison_table
from bindings.counts.outcome import OutcomeExplorer, sort_bindings
from bindings.counts.sketch import compute_registers, hash_of
from bindings.counts.witness import MAX_WITNESSES
from bindings.report.caveats import list_caveats
from bindings.upgrading.forms.words import format_traffic
from bindings.upgrading.traffic import ReroutedTraffic
from exchange import (
    LATEST_PROFILE,
    PROFILES,
    Binding,
    BrokerError,
    Exchange,
    InputError,
    Message,
    Profile,
    Queue,
    Router,
    Topology,
)
from exchange.partition.partitioning.specification import Partitioning
from tests.support import topologies
from tests.support.bindings.exact import exact
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
PROFILE = st.sampled_from(list(PROFILES.values()))
CERTAIN = topologies.Kinds(types=("direct", "fanout", "topic", "topic", "headers", "x-consistent-hash"))
PARTITIONINGS = (
    None, "kafka.murmur2 over 3 by routing_key", "kafka.murmur2 over 5 by word 2", 'kafka.murmur2 over 5 by header "h"',
    "librdkafka.random over 2 by routing_key", "librdkafka.fnv1a over 3 by property message_id",
)  # fmt: skip


def altered(rng: Random, topology: Topology) -> Topology:
    """Return another topology that has much in common with this one."""
    exchanges = {name: each for name, each in topology.exchanges.items() if rng.random() < 0.95}
    queues = [each for each in topology.queues.values() if rng.random() < 0.9]
    bindings = [each for each in topology.bindings if rng.random() < 0.85]
    policies = [each for each in topology.policies.values() if rng.random() < 0.7]
    for name in [name for name in exchanges if name.startswith("x") and rng.random() < 0.15]:
        exchanges[name] = replace(exchanges[name], internal=not exchanges[name].internal)
    vhost = rng.choice(("/", "/", "other"))
    queues = [*queues, Queue("new")] if rng.random() < 0.5 else queues
    other = Topology(exchanges.values(), queues, bindings, policies, profile=topology.profile, vhost=vhost)
    for _ in range(rng.randint(0, 5)):
        if other.queues and any(name.startswith("x") for name in other.exchanges):
            other = topologies.edit(rng, other)
    return other


def partitioned(rng: Random, topology: Topology) -> Topology:
    """Return the same topology with partitioned queues."""
    chosen = {name: rng.choice(PARTITIONINGS) for name in topology.queues}
    queues = [
        replace(queue, partitioning=None if (text := chosen[name]) is None else Partitioning.parse(text))
        for name, queue in topology.queues.items()
    ]
    parts = (topology.exchanges.values(), queues, topology.bindings, topology.policies.values())
    return Topology(*parts, profile=topology.profile, vhost=topology.vhost)


def two(rng: Random, profile: Profile, kinds: topologies.Kinds | None = None) -> tuple[Topology, Topology]:
    before = topologies.topology(rng, profile, kinds)
    return partitioned(rng, before), partitioned(rng, altered(rng, before))


def records_for(rng: Random, topology: Topology, number: int, *, placed: bool = True) -> list[Record]:
    """Return records with and without a time, some of them twice."""
    made = [topologies.message(rng, topology) for _ in range(number)]
    made += [Message("nowhere", "a.b"), Message("amq.rabbitmq.trace", "a")]
    messages = rng.choices(made, k=2 * number)
    return [
        Record(message, rng.choice((None, rng.randrange(10**16))), source="f" if placed else "", offset=n * placed)
        for n, message in enumerate(messages)
    ]


def compared(comparer: Comparer, records: Sequence[Record], chunk: int = 1_000) -> Comparison:
    for start in range(0, len(records), chunk):
        comparer.add(build_batch(records[start : start + chunk]))
    return comparer.result()


def slow_comparison(before: Topology, after: Topology, records: Sequence[Record]) -> Comparison:
    """Return the comparison, made message by message, without witnesses and shapes."""
    first, second = OutcomeExplorer(before), OutcomeExplorer(after)
    total = make_zero(before, after)
    for message, time, *_ in records:
        pair = Pair(first.outcome(message), second.outcome(message))
        key = compute_registers([hash_of(escape(message.routing_key).encode())])
        change = change_of(*pair)
        facts = {} if change is None else {change: ChangeFacts(Span(1, time, time), key)}
        moves = {}
        for queue in set(pair[0].queues) & set(pair[1].queues):
            ways = (before.queues[queue].partitioning, after.queues[queue].partitioning)
            if ways[0] != ways[1]:
                old, new = (None if way is None else way.choose(message).partition for way in ways)
                moves[PartitionMove(queue, old, new)] = 1
        total += replace(make_zero(before, after), sums=slow_sums(pair, before, after), changes=facts, moves=moves)
    return total


def slow_sums(pair: Pair, before: Topology, after: Topology) -> dict[MessageSum, int]:
    """Return the sums of one message."""
    change = change_of(*pair)
    sums = [MessageSum("message")]
    if pair.before.exchange not in {*before.exchanges, *after.exchanges}:
        sums.append(MessageSum("unknown exchange"))
    for side, topology, other in ((SIDES[0], before, after), (SIDES[1], after, before)):
        outcome = pair[SIDES.index(side)]
        sums += [MessageSum("got", side, queue) for queue in outcome.queues]
        for number, binding in enumerate(sort_bindings(topology)):
            if binding not in other.bindings:
                possible = number in outcome.possible_bindings
                certain = number in outcome.bindings
                sums += [MessageSum("taken", side, number=number)] * certain
                sums += [MessageSum("possible", side, number=number)] * possible
                sums += [MessageSum("rerouted", side, number=number)] * (change is not None) * (certain + possible)
    if change is not None:
        sums += [MessageSum("lost", name=queue) for queue in change.lost]
        sums += [MessageSum("gained", name=queue) for queue in change.gained]
        sums += [MessageSum("unsure", name=queue) for queue in change.unsure]
    return Counter(sums)


def bare(comparison: Comparison) -> Comparison:
    changes = exact(comparison).changes
    return replace(comparison, changes={change: facts._replace(witnesses=()) for change, facts in changes.items()})


@examples(60)
@given(SEED, PROFILE, PROFILE, st.integers(1, 60), st.sampled_from([3, 1 << 17]), st.sampled_from([7, 1 << 17]))
def test_batches_are_compared_as_single_messages_are(
    seed: int, profile: Profile, other_profile: Profile, chunk: int, states: int, window: int
) -> None:
    """Of two topologies, or of one and the same on two releases."""
    rng = Random(seed)
    before, after = two(rng, profile)
    if rng.random() < 0.5:
        after = before.with_profile(other_profile)
    records = records_for(rng, before, 15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "WINDOW", window)
        found = compared(Comparer(before, after, states=states), records, chunk)
    assert bare(found) == slow_comparison(before, after, records)
    first, second = OutcomeExplorer(before), OutcomeExplorer(after)
    words = {word for topology in (before, after) for word in named_words(topology)}
    for change, facts in found.changes.items():
        its = [r for r in records if change_of(first.outcome(r.message), second.outcome(r.message)) == change]
        keys = sorted({hash_of(escape(record.message.routing_key).encode()) for record in its})
        assert [witness.hash for witness in facts.witnesses] == keys[:MAX_WITNESSES]
        for witness in facts.witnesses:
            assert change_of(first.outcome(witness.message), second.outcome(witness.message)) == change
            assert records[witness.offset or 0].message.routing_key == witness.message.routing_key
        shapes = Multiset(shape_of(record.message.routing_key, words) for record in its)
        assert {item.text: item.count for item in facts.shapes.items} == shapes
        assert facts.shapes.error == 0
        assert all(shape_of(item.example, words) == item.text for item in facts.shapes.items)


def named_words(topology: Topology) -> set[str]:
    """Return all words in the keys of bindings to topic and direct exchanges, and in the names of queues."""
    kinds = {name: exchange.type for name, exchange in topology.exchanges.items()}
    keys = [(b.routing_key, kinds[b.source]) for b in topology.bindings if kinds.get(b.source) in ("topic", "direct")]
    return {
        word
        for key, kind in [*keys, *((name, "direct") for name in topology.queues)]
        for word in (key.split(".") if key else [])
        if kind == "direct" or word not in ("*", "#")
    }


def shape_of(key: str, words: set[str]) -> str:
    return ".".join([word if word in words else "*" for word in key.split(".")] if key else [])


@examples(40)
@given(SEED, SEED, st.booleans())
def test_comparisons_add(seed: int, cut: int, placed: bool) -> None:
    """In any order, by one comparer or by three."""
    rng = Random(seed)
    before, after = two(rng, LATEST_PROFILE)
    records = records_for(rng, before, 15, placed=placed)
    cut %= len(records)
    other = cut // 2
    parts = (records[:other], records[other:cut], records[cut:])
    whole = compared(Comparer(before, after), records)
    a, b, c = (compared(Comparer(before, after), part) for part in parts)
    one = Comparer(before, after)
    again = [compared(one, part, 7) for part in parts]
    assert exact(a + b + c) == exact(a + (b + c)) == exact(c + a + b) == exact(whole)
    assert [exact(each) for each in again] == [exact(a), exact(b), exact(c)]
    assert a + b == b + a
    assert a + make_zero(before, after) == a
    assert whole.messages == len(records) == whole.same + sum(f.messages for f in whole.changes.values())
    assert read_comparison_table(build_table(whole)) == whole


@examples(40)
@given(SEED, SEED, st.integers(0, 3), st.integers(0, 3))
def test_past_a_limit_changes_are_folded_however_they_are_divided(seed: int, cut: int, most: int, pairs: int) -> None:
    """If and only if there are more; totals, queues and bindings are what they are without a limit."""
    rng = Random(seed)
    before, after = two(rng, LATEST_PROFILE)
    records = records_for(rng, before, 15)
    unlimited = compared(Comparer(before, after), records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison_module, "CHANGES", most)
        patch.setattr(comparing, "MOST_CHANGES", 2 * most)
        patch.setattr(comparing, "MOST_PAIRS", pairs)
        patch.setattr(comparing, "WINDOW", 7)
        one = Comparer(before, after)
        whole = compared(one, records, 5)
        assert exact(compared(one, records, 5)) == exact(whole)
        parts = [compared(one, part, 3) for part in (records[: cut % len(records)], records[cut % len(records) :])]
        assert exact(parts[0] + parts[1]) == exact(parts[1] + parts[0]) == exact(whole)
        assert read_comparison_table(build_table(whole)) == whole
        assert len(one._pairs) <= pairs
    expected = unlimited
    if len(unlimited.changes) > most:
        folded = [(change.fold("*"), facts) for change, facts in unlimited.changes.items()]
        expected = replace(unlimited, changes=sum_by_key(folded))
    assert exact(whole) == exact(expected)
    tables = list_changes(whole, before, after)
    others = list_changes(unlimited, before, after)
    assert (tables.totals, tables.queues, tables.bindings) == (others.totals, others.queues, others.bindings)
    assert bool(tables.many) == whole.is_folded


def test_what_shows_folded_changes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which messages lose a queue is known still, and which queue loses how many."""
    monkeypatch.setattr(comparison_module, "CHANGES", 1)
    exchange, queues = Exchange("x"), [Queue("a"), Queue("b")]
    before = Topology([exchange], queues, [Binding.to_queue("x", name, name) for name in ("a", "b")])
    lines = tmp_path / "m.jsonl"
    lines.write_text("".join(f'{{"exchange": "x", "routing_key": "{key}"}}\n' for key in "aab"))
    report = bindings.audit(before, lines, compare=Topology([exchange], queues))
    assert report.comparison is not None
    changes = report.comparison.changes
    assert [(row.change.lost, row.change.gained, row.messages) for row in changes.rerouted] == [(("*",), (), 3)]
    assert [(row.queue, row.lost) for row in changes.queues] == [("a", 2), ("b", 1)]
    said = "differences between the two topologies"
    assert any(said in each for each in list_caveats(report))
    assert any(said in each for each in format_traffic(ReroutedTraffic(changes, 1.0, Unread(), 0)))


def test_what_is_added_to_folded_changes_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the sum has fewer rows than the limit."""
    monkeypatch.setattr(comparison_module, "CHANGES", 2)
    zero = make_zero(Topology(), Topology())
    changes = [OutcomeChange("x", (name,), (), (), "routed", "unroutable") for name in "abcd"]
    facts = ChangeFacts(Span(1, None, None))
    apart = replace(zero, changes=dict.fromkeys(changes[:3], facts)).bound()
    whole = apart + replace(zero, changes={changes[3]: facts})
    assert {change.lost: each.messages for change, each in whole.changes.items()} == {("*",): 4}


def test_no_queue_has_the_name_of_folded_ones() -> None:
    assert make_zero(Topology((), [Queue("*")]), Topology((), [Queue("**")])).many == "***"


def routed(router: Router, message: Message) -> frozenset[str]:
    try:
        return frozenset(router.route(message).queues)
    except BrokerError:
        return frozenset()


@examples(60)
@given(SEED, PROFILE)
def test_lost_and_gained_messages_are_those_of_two_routers(seed: int, profile: Profile) -> None:
    rng = Random(seed)
    before, after = two(rng, profile, CERTAIN)
    records = records_for(rng, before, 25)
    found = list_changes(compared(Comparer(before, after), records), before, after)
    first, second = Router(before), Router(after)
    ways = [(routed(first, record.message), routed(second, record.message)) for record in records]
    for row in found.queues:
        sides = Multiset((row.queue in old, row.queue in new) for old, new in ways)
        assert (row.before, row.after) == (
            sides[True, True] + sides[True, False],
            sides[True, True] + sides[False, True],
        )
        assert (row.lost, row.gained, row.unsure) == (sides[True, False], sides[False, True], 0)
    totals = found.totals
    assert totals.messages == len(records)
    assert totals.lose == sum(bool(old - new) for old, new in ways)
    assert totals.gain == sum(bool(new - old) for old, new in ways)
    assert totals.become_unroutable == sum(bool(old and not new) for old, new in ways)
    assert totals.no_longer_unroutable == sum(bool(new and not old) for old, new in ways)
    wanted = Multiset((tuple(sorted(o - n)), tuple(sorted(n - o))) for o, n in ways if o != n)
    shifts: Multiset[tuple[tuple[str, ...], tuple[str, ...]]] = Multiset()
    for change, messages, *_ in found.rerouted:
        if change.lost or change.gained:
            shifts[change.lost, change.gained] += messages
    assert shifts == wanted
    assert sum(row.messages for row in found.shapes) == sum(row.messages for row in found.rerouted) == totals.elsewhere
    assert sum(row.messages for row in found.unroutable) == totals.become_unroutable
    assert sum(row.messages for row in found.routed) == totals.no_longer_unroutable
    check_bindings(found, before, after, records)
    check_partitions(found, before, after, records)


def check_bindings(found: Changes, before: Topology, after: Topology, records: Sequence[Record]) -> None:
    sides = ((False, before, after), (True, after, before))
    alone = [(added, binding) for added, here, there in sides for binding in sort_bindings(here)
             if binding not in list(there.bindings)]  # fmt: skip
    assert [(row.added, row.binding) for row in found.bindings] == alone
    explorers = (OutcomeExplorer(before), OutcomeExplorer(after))
    outcomes = [tuple(explorer.outcome(record.message) for explorer in explorers) for record in records]
    for row in found.bindings:
        carried = [pair for pair in outcomes if row.number in pair[row.added].bindings]
        assert row.messages == len(carried)
        assert row.elsewhere == sum(change_of(*pair) is not None for pair in carried)


def check_partitions(found: Changes, before: Topology, after: Topology, records: Sequence[Record]) -> None:
    first, second = Router(before), Router(after)
    flows: dict[str, Multiset[tuple[str | None, str | None]]] = {}
    for record in records:
        try:
            old, new = first.route(record.message), second.route(record.message)
        except BrokerError:
            continue
        places = [{p.queue: p.name for p in route.placements} for route in (old, new)]
        for queue in set(old.queues) & set(new.queues):
            if before.queues[queue].partitioning != after.queues[queue].partitioning:
                flows.setdefault(queue, Multiset())[places[0].get(queue), places[1].get(queue)] += 1
    assert {row.queue: row.flows for row in found.partitions} == flows
    for row in found.partitions:
        assert row.messages == sum(row.flows.values())
        assert row.moved + row.undecided <= row.messages
        assert row.share is None or 0 <= row.share <= 1
    assert found.totals.repartitioned == sum(row.moved for row in found.partitions)


def counted_first(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row for each exchange and key, with the number of its messages."""
    table = pa.Table.from_batches([batch]).select(["exchange", "routing_key", "time"])
    sums: list[Any] = [([], "count_all"), ("time", "min"), ("time", "max")]
    names = {"count_all": "count", "time_min": "time", "time_max": "last"}
    found = table.group_by(["exchange", "routing_key"]).aggregate(sums)
    return found.rename_columns([names.get(name, name) for name in found.schema.names]).combine_chunks().to_batches()[0]


@examples(40)
@given(SEED)
def test_messages_counted_beforehand_give_the_same_comparison(seed: int) -> None:
    """Only the witnesses' sources and offsets differ, which grouped messages do not have."""
    rng = Random(seed)
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "x-modulus-hash"))
    before = topologies.topology(rng, LATEST_PROFILE, kinds)
    after = altered(rng, before)
    made = [Record(Message(r.message.exchange, r.message.routing_key), r.time) for r in records_for(rng, before, 20)]
    comparer = Comparer(before, after)
    assert comparer.by_key
    comparer.add(counted_first(build_batch(made)))
    found, wanted = comparer.result(), slow_comparison(before, after, made)
    assert bare(found) == wanted
    assert all(facts.witnesses for facts in found.changes.values())
    assert all(sum(i.count for i in facts.shapes.items) == facts.messages for facts in found.changes.values())


def test_other_bindings_to_the_same_queues_are_no_change() -> None:
    exchanges = [Exchange("t", "topic"), Exchange("f", "fanout")]
    parts = (exchanges, [Queue("q")])
    before = Topology(*parts, [Binding.to_queue("t", "q", "a.#"), Binding.to_queue("t", "q", "a.*")])
    after = Topology(*parts, [Binding.to_queue("t", "q", "a.#"), Binding.to_exchange("t", "f", "a.b"),
                              Binding.to_queue("f", "q")])  # fmt: skip
    found = compared(Comparer(before, after), [Record(Message("t", "a.b"))] * 5)
    assert (found.same, found.changes) == (5, {})
    told = list_changes(found, before, after)
    assert {(row.binding.routing_key, row.added): (row.messages, row.elsewhere) for row in told.bindings} == {
        ("a.*", False): (5, 0), ("", True): (5, 0), ("a.b", True): (5, 0)
    }  # fmt: skip


def test_the_summary_names_how_many_messages_are_routed_otherwise() -> None:
    partitioning = [Partitioning.parse(f"kafka.murmur2 over {count}") for count in (2, 3)]
    queues = [[Queue("q"), Queue("p"), Queue("k", partitioning=each)] for each in partitioning]
    common = [Binding.to_queue("amq.topic", "k", "k.#")]
    before = Topology((), queues[0], [*common, Binding.to_queue("amq.topic", "q", "a"),
                                      Binding.to_queue("amq.topic", "q", "b")])  # fmt: skip
    after = Topology((), queues[1], [*common, Binding.to_queue("amq.topic", "p", "a"),
                                     Binding.to_queue("amq.topic", "p", "c")])  # fmt: skip
    keys = ["a"] * 1_000 + ["b"] * 20 + ["c"] * 3 + ["z", *(f"k.{n}" for n in range(30))]
    found = list_changes(
        compared(Comparer(before, after), [Record(Message("amq.topic", key)) for key in keys]), before, after
    )
    moved = sum(partitioning[0].choose_for(f"k.{n}").partition != partitioning[1].choose_for(f"k.{n}").partition
                for n in range(30))  # fmt: skip
    assert 0 < moved < 30
    assert summarize_changes(found.totals) == (
        "Over 1,054 messages: 1,023 go elsewhere (1,020 lose a queue, 1,003 gain one), 20 become unroutable, "
        f"3 no longer are, {moved} change partitions."
    )
    assert [(row.shape, row.change.lost, row.change.gained, row.messages) for row in found.shapes] == [
        ("a", ("q",), ("p",), 1_000), ("b", ("q",), (), 20), ("c", (), ("p",), 3)
    ]  # fmt: skip


def test_changes_that_depend_on_chance_are_unsure() -> None:
    exchanges, queues = [Exchange("r", "x-random")], [Queue("q"), Queue("p")]
    before = Topology(exchanges, queues, [Binding.to_queue("r", "q")])
    after = before.bind(Binding.to_queue("r", "p"))
    found = list_changes(compared(Comparer(before, after), [Record(Message("r"))] * 7), before, after)
    assert (found.totals.lose, found.totals.gain, found.totals.unsure) == (0, 0, 7)
    assert found.rerouted[0].change.unsure == ("p", "q")
    assert "7 may, or are answered otherwise" in summarize_changes(found.totals)


def test_a_comparison_of_other_topologies_or_version_is_refused() -> None:
    with pytest.raises(InputError, match="different topologies"):
        Comparison("a", "b") + Comparison("b", "a")
    with pytest.raises(InputError, match="other topologies"):
        list_changes(Comparison("a", "b"), Topology(), Topology())
    table = build_table(Comparison("a", "b", {}, {}, {PartitionMove("q", None, 1): 2}))
    with pytest.raises(InputError, match="not a comparison"):
        read_comparison_table(pa.table({"a": [1]}))
    metadata = dict(table.schema.metadata) | {b"hashstar.comparison": b"99"}
    with pytest.raises(InputError, match="version 99"):
        read_comparison_table(table.replace_schema_metadata(metadata))
    with pytest.raises(InputError, match="damaged"):
        read_comparison_table(table.drop_columns(["shapes"]))
