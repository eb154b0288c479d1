"""Tallies add; a tally made of batches equals the one made message by message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.archive.inspection import Account
from bindings.archive.names import escape
from bindings.archive.record import Record, build_batch, to_records
from bindings.archive.sums import UNKNOWN_LOSS, Span, Unread
from bindings.auditing.local.tasks import decode_account, encode_account
from bindings.counts.columnar import counting
from bindings.counts.columnar.arrays import rows
from bindings.counts.columnar.arrays.hashing import hash_column
from bindings.counts.columnar.counting import Tallier
from bindings.counts.outcome import Facts, OutcomeExplorer
from bindings.counts.sketch import (
    ERROR,
    FREQUENT,
    SAMPLE,
    Frequent,
    FrequentItem,
    SampledKey,
    compute_registers,
    count_distinct,
    hash_of,
    join_registers,
    keep_sample,
    merge_summaries,
)
from bindings.counts.slots import WIDTHS, SlotCounts, choose_width
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.tally_file import build_table, decode_tally, load_tally, save_tally
from exchange import LATEST_PROFILE, Binding, InputError, Message, Queue, Topology
from exchange.arrays import grouping
from exchange.partition.partitioning.specification import Partitioning
from tests.support import topologies
from tests.support.bindings.exact import exact
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
REASONS = st.dictionaries(st.sampled_from(["no key", "é\udcff", "not JSON"]), st.integers(1, 9))


def records_for(rng: Random, topology: Topology, number: int) -> list[Record]:
    """Return records with and without a time, some of them twice, in windows from seconds to centuries."""
    made = [topologies.message(rng, topology) for _ in range(number)]
    made += [Message("nowhere", "a.b"), Message("amq.rabbitmq.trace", "a")]
    messages = rng.choices(made, k=2 * number)
    long = rng.choice((10**6, 10**8, 10**10, 10**12, 10**16))
    start = rng.choice((0, -long // 2, 1_790_000_000_000_000))
    return [Record(message, rng.choice((None, start + rng.randrange(long)))) for message in messages]


def slow_tally(topology: Topology, records: Sequence[Record]) -> Tally:
    """Return the tally, made message by message, without summaries of heavy hitters."""
    explorer = OutcomeExplorer(topology)
    total = Tally(compute_fingerprint(topology))
    for message, time, *_ in records:
        outcome = explorer.outcome(message)
        value = hash_of(escape(message.routing_key).encode())
        facts = Facts(
            Span(1, time, time), compute_registers([value]), keep_sample([SampledKey(value, message.routing_key)])
        )
        timeline = SlotCounts()
        if time is not None:
            timeline = SlotCounts(WIDTHS[0], {(time // WIDTHS[0], message.exchange, outcome.routed): 1})
        partitions: dict[tuple[str, int | None], int] = {}
        for queue in outcome.queues:
            partitioning = topology.queues[queue].partitioning
            if partitioning is not None:
                partitions[queue, partitioning.choose(message).partition] = 1
        total += Tally(total.topology, {outcome: facts}, partitions, timeline)
    return total


def tally_in_parts(counter: Tallier, records: Sequence[Record], chunk: int) -> Tally:
    for start in range(0, len(records), chunk):
        counter.add(build_batch(records[start : start + chunk]))
    return counter.result()


@examples(60)
@given(
    SEED,
    st.integers(1, 60),
    st.sampled_from([3, 1 << 17]),
    st.sampled_from([7, 1 << 17]),
    st.sampled_from([0, 2_000, 1 << 30]),
)
def test_batches_are_counted_as_single_messages_are(
    seed: int, chunk: int, states: int, window: int, light: int
) -> None:
    """Whatever the size of a window is, in rows and in bytes."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    records = records_for(rng, topology, 15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WINDOW", window)
        patch.setattr(rows, "MAX_LIGHT_BYTES", light)
        found = tally_in_parts(Tallier(topology, states=states), records, chunk)
    assert exact(found) == slow_tally(topology, records)
    for facts in found.facts.values():
        assert sum(item.count for item in facts.hot.items) <= facts.messages
        assert all(item.count > 0 for item in (*facts.hot.items, *facts.shapes.items))


@examples(60)
@given(SEED, SEED)
def test_the_tally_of_several_archives_is_the_sum_of_their_tallies(seed: int, cut: int) -> None:
    """In any order, by one counter or by three."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    records = records_for(rng, topology, 15)
    cut %= len(records)
    other = cut // 2
    whole = tally_in_parts(Tallier(topology), records, 100)
    a, b, c = (
        tally_in_parts(Tallier(topology), part, 100) for part in (records[:other], records[other:cut], records[cut:])
    )
    assert exact(a + b + c) == exact(a + (b + c)) == exact(c + a + b) == exact(whole)
    assert a + b == b + a
    assert a + Tally(compute_fingerprint(topology)) == a
    assert whole.messages == len(records)


@examples(60)
@given(st.lists(st.tuples(REASONS, REASONS), min_size=2, max_size=2))
@example([({"": 1}, {"": 2}), ({"": 4}, {"": 8})])
def test_a_sum_has_all_that_was_not_read(parts: list[tuple[dict[str, int], dict[str, int]]]) -> None:
    one, other = (Tally("", unread=Unread(Counter(skipped), Counter(bad))) for skipped, bad in parts)
    (skipped, bad), (others_skipped, others_bad) = parts
    total = (one + other).unread
    assert (total.skipped, total.bad) == (
        Counter(skipped) + Counter(others_skipped),
        Counter(bad) + Counter(others_bad),
    )
    assert (one + other).read == one.read + other.read == sum(sum(each.values()) for part in parts for each in part)


@examples(60)
@given(SEED, REASONS, REASONS)
def test_a_tally_survives_a_table(seed: int, skipped: dict[str, int], bad: dict[str, int]) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    tally = tally_in_parts(Tallier(topology), records_for(rng, topology, 10), 100)
    uncounted = Counter({reason: records // 2 for reason, records in bad.items() if records > 1})
    unread = Unread(Counter(skipped), Counter(bad), uncounted=uncounted)
    tally = replace(tally, unread=unread, partitions={("q", None): 3, ("q", 0): 2})
    assert decode_tally(build_table(tally)) == tally
    assert tally.read == tally.messages + sum(skipped.values()) + sum(bad.values())


def test_damage_of_unknown_size_is_known_from_the_texts_of_earlier_releases() -> None:
    """They ended its reasons with `UNKNOWN_LOSS`, in tallies, and in accounts without ``uncounted``."""
    older = Unread(bad=Counter({"damaged": 40, f"damaged{UNKNOWN_LOSS}": 2, "torn": 1}))
    newer = Unread(bad=Counter({"damaged": 42, "torn": 1}), uncounted=Counter({"damaged": 2}))
    assert decode_tally(build_table(Tally("", unread=older))).unread == newer
    document = encode_account(Account(unread=older))
    del document["uncounted"]
    assert decode_account(document).unread == newer
    assert [newer.explain(reason) for reason in newer.bad] == [f"damaged{UNKNOWN_LOSS}", "torn"]


def test_no_tally_has_more_damage_of_unknown_size_than_bad_records() -> None:
    table = build_table(Tally("", unread=Unread(bad=Counter({"a": 1}), uncounted=Counter({"a": 2}))))
    with pytest.raises(InputError, match="more damage of unknown size"):
        decode_tally(table)


def test_a_tally_survives_a_file(tmp_path: Path) -> None:
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", "#")])
    tally = tally_in_parts(Tallier(topology), [Record(Message("amq.topic", "a"), 5)], 1)
    save_tally(tally, tmp_path / "tally.parquet")
    assert load_tally(tmp_path / "tally.parquet") == tally
    assert tally.window == (5, 5)


def test_a_file_that_is_no_tally_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tally.parquet"
    with pytest.raises(InputError, match=r"tally\.parquet"):
        load_tally(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        load_tally(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(InputError, match="not a tally"):
        load_tally(path)
    table = build_table(Tally("x"))
    metadata = dict(table.schema.metadata) | {b"hashstar.tally": b"99"}
    with pytest.raises(InputError, match="version 99"):
        decode_tally(table.replace_schema_metadata(metadata))
    with pytest.raises(InputError, match="damaged"):
        decode_tally(table.drop_columns(["hot"]))


def test_tallies_for_different_topologies_do_not_add() -> None:
    with pytest.raises(InputError, match="different topologies"):
        Tally(compute_fingerprint(Topology())) + Tally(compute_fingerprint(Topology((), [Queue("q")])))


@examples(60)
@given(SEED)
def test_equal_topologies_have_one_fingerprint_and_an_edit_changes_it(seed: int) -> None:
    rng = Random(seed)
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "headers"))
    topology = topologies.topology(rng, LATEST_PROFILE, kinds)
    bindings = list(topology.bindings)
    rng.shuffle(bindings)
    same = Topology(topology.exchanges.values(), topology.queues.values(), bindings, topology.policies.values())
    assert compute_fingerprint(same) == compute_fingerprint(topology)
    edited = topologies.edit(rng, topology)
    assert (compute_fingerprint(edited) == compute_fingerprint(topology)) == (edited == topology)


@pytest.mark.parametrize("by", ["routing_key", "word 2", "word -1", 'header "h"', "property message_id", 'body "/id"'])
def test_messages_are_counted_by_partition(by: str) -> None:
    queues = [Queue("q", partitioning=Partitioning.parse(f"kafka.murmur2 over 5 by {by}")), Queue("r")]
    bindings = [Binding.to_queue("amq.topic", "q", "a.#"), Binding.to_queue("amq.topic", "r", "#")]
    topology = Topology((), queues, bindings)
    rng = Random(3)
    tails = enumerate(["", ".b", "\0", ".é"] * 20)
    keys = [(n, f"a.{rng.randrange(9)}{tail}") for n, tail in tails]
    messages = [
        Message("amq.topic", key, {"h": str(n)}, {"message_id": str(n)}, f'{{"id": {n}}}'.encode()) for n, key in keys
    ]
    records = list(map(Record, messages))
    counter = Tallier(topology)
    assert counter.by_key == (by in ("routing_key", "word 2", "word -1"))
    counter.add(build_batch(records).select(list(counter.columns)))
    tally = counter.result()
    assert exact(tally) == slow_tally(topology, records)
    assert sum(tally.partitions.values()) == len(records)


def grouped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row for messages of one slot with the same exchange and key."""
    times = [None if time is None else time.value for time in batch.column("time")]
    known = [time for time in times if time is not None]
    width = choose_width(min(known), max(known)) if known else 1
    slots = pa.array([None if time is None else time // width for time in times], pa.int64())
    table = pa.table([*batch.select(["exchange", "routing_key", "time"]).columns, slots], ["e", "k", "time", "slot"])
    found = table.group_by(["e", "k", "slot"]).aggregate([([], "count_all"), ("time", "min"), ("time", "max")])
    columns = [found.column(name) for name in ("e", "k", "count_all", "time_min", "time_max")]
    whole = pa.table(columns, ["exchange", "routing_key", "count", "time", "last"]).combine_chunks()
    return whole.to_batches()[0]


@examples(40)
@given(SEED)
def test_messages_counted_beforehand_give_the_same_tally(seed: int) -> None:
    """Also if a part is counted by itself, whose own window allows narrower slots."""
    rng = Random(seed)
    topology = topologies.topology(
        rng, LATEST_PROFILE, topologies.Kinds(types=("direct", "fanout", "topic", "x-modulus-hash"))
    )
    made = [Record(Message(r.message.exchange, r.message.routing_key), r.time) for r in records_for(rng, topology, 20)]
    batch = build_batch(made)
    counter = Tallier(topology)
    assert counter.by_key
    whole = grouped(batch)
    counter.add(whole)
    expected = slow_tally(topology, made)
    assert exact(counter.result()) == expected
    total = Tally(compute_fingerprint(topology))
    for number in range(0, whole.num_rows, 3):
        counter.add(whole.slice(number, 3))
        total += counter.result()
    assert total.timeline == expected.timeline


def coded(column: pa.Array) -> pa.Array:
    """Return the same texts in dictionaries, which also hold a text that no row has."""
    if pa.types.is_string(column.type):
        found = column.dictionary_encode()
        texts = pa.concat_arrays([pa.array(["unused"]), found.dictionary])
        return pa.DictionaryArray.from_arrays(pc.add(found.indices, 1), texts)
    if pa.types.is_map(column.type):
        values = [coded(column.items.field(n)) for n in range(2)]
        fields = pa.StructArray.from_arrays(values, ["type", "value"])
        return pa.MapArray.from_arrays(column.offsets, coded(column.keys), fields)
    return column


@examples(60)
@given(SEED, st.sampled_from([0.0, 0.8, 1.0]), st.sampled_from([0, 1, 8]), st.sampled_from([7, 1 << 17]))
def test_grouping_by_key_does_not_change_the_tally(seed: int, worth: float, sparse: int, window: int) -> None:
    """Whether grouping is found to pay or not, and texts are in dictionaries or not."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    batch = build_batch(records_for(rng, topology, 20))
    columns = [coded(column) if name != "properties" else column for name, column in zip(*named(batch), strict=True)]
    tallies = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WINDOW", window)
        for share, some in ((0.0, batch), (worth, batch), (worth, pa.record_batch(columns, batch.schema.names))):
            patch.setattr(grouping, "WORTH", share)
            patch.setattr(grouping, "SPARSE", sparse)
            counter = Tallier(topology)
            for start in range(0, batch.num_rows, 16):
                counter.add(some.slice(start, 16))
            tallies.append(counter.result())
    plain, *others = tallies
    assert exact(plain) == slow_tally(topology, to_records(batch))
    for other in others:
        assert exact(other) == exact(plain)
        for outcome, facts in plain.facts.items():
            found = other.facts[outcome]
            assert found.hot == facts.hot
            assert [(i.text, i.count) for i in found.shapes.items] == [(i.text, i.count) for i in facts.shapes.items]


def named(batch: pa.RecordBatch) -> tuple[list[str], list[pa.Array]]:
    return batch.schema.names, batch.columns


def test_messages_of_different_slots_may_not_be_counted_together() -> None:
    batch = build_batch([Record(Message("amq.topic", "a"), -1)]).append_column("count", pa.array([2]))
    counter = Tallier(Topology())
    counter.add(batch.append_column("last", pa.array([1], pa.timestamp("us", "UTC"))))
    with pytest.raises(InputError, match="very different times"):
        counter.result()


@examples(60)
@given(st.lists(st.text("ab.é\0", max_size=40), max_size=40))
def test_a_column_has_the_hashes_of_its_keys(keys: list[str]) -> None:
    assert hash_column(pa.array(keys, pa.string())).tolist() == [hash_of(key.encode()) for key in keys]


@examples(60)
@given(st.lists(st.sets(st.integers(0, 2**64 - 1), max_size=50), min_size=3, max_size=3))
def test_registers_and_samples_are_of_the_union(sets: list[set[int]]) -> None:
    union = set().union(*sets)
    a, b, c = map(compute_registers, sets)
    assert (
        join_registers(join_registers(a, b), c) == join_registers(c, join_registers(b, a)) == compute_registers(union)
    )
    keys = [[SampledKey(value, str(value)) for value in each] for each in sets]
    assert keep_sample([*keep_sample(keys[0]), *keep_sample(keys[1] + keys[2])]) == keep_sample(
        SampledKey(v, str(v)) for v in union
    )


@pytest.mark.parametrize("number", [0, 1, 5, 100, 1_000, 20_000])
def test_the_number_of_distinct_keys_is_within_the_error(number: int) -> None:
    registers = compute_registers(hash_of(f"order.{n}".encode()) for n in range(number))
    assert abs(count_distinct(registers) - number) <= 4 * ERROR * number


@examples(60)
@given(st.lists(st.dictionaries(st.integers(0, 300), st.integers(1, 100), max_size=200), max_size=6))
def test_counts_of_heavy_hitters_are_too_low_by_no_more_than_the_error(parts: list[dict[int, int]]) -> None:
    truth = Counter[str]()
    summary = Frequent()
    for part in parts:
        counts = {str(key): count for key, count in part.items()}
        truth.update(counts)
        summary = merge_summaries(
            summary, merge_summaries(Frequent(tuple(FrequentItem(key, count, key) for key, count in counts.items())))
        )
    found = {item.text: item.count for item in summary.items}
    for key, count in truth.items():
        assert found.get(key, 0) <= count <= found.get(key, 0) + summary.error
    assert summary.error <= sum(truth.values()) / (FREQUENT + 1)
    assert len(summary.items) <= FREQUENT


@examples(30)
@given(SEED, st.sampled_from([50, 1 << 17]))
def test_hot_keys_of_batches_are_within_the_error(seed: int, window: int) -> None:
    rng = Random(seed)
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", "a.#")])
    keys = [f"{rng.choice('ab')}.{int(rng.paretovariate(0.7)) % 500}" for _ in range(600)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WINDOW", window)
        patch.setattr(counting, "LIGHT_WINDOWS", 3)
        counter = Tallier(topology)
        for start in range(0, len(keys), 60):
            counter.add(build_batch([Record(Message("amq.topic", key)) for key in keys[start : start + 60]]))
        tally = counter.result()
    truth = Counter(keys)
    for outcome, facts in tally.facts.items():
        found = {item.text: item.count for item in facts.hot.items}
        for key in truth:
            if key.startswith("a") == bool(outcome.queues):
                assert found.get(key, 0) <= truth[key] <= found.get(key, 0) + facts.hot.error
        if not outcome.queues:
            assert [item.text for item in facts.shapes.items] == ["*.*"]
            assert facts.shapes.items[0].example.startswith("b.")
        assert len(facts.sample) == min(SAMPLE, len({k for k in truth if k.startswith("a") == bool(outcome.queues)}))
