"""Addresses keep their numbers from batch to batch, and no two have the same."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.record import Record, build_batch
from bindings.counts.columnar.arrays.hashing import hash_column
from bindings.counts.columnar.classes import known
from bindings.counts.columnar.classes.classes import Classifier
from bindings.counts.columnar.classes.known import KnownAddresses
from bindings.counts.columnar.counting import Tallier
from exchange import LATEST_PROFILE, Message
from exchange.arrays import grouping
from exchange.routing.columns.addresses import find_addresses
from tests.support import topologies
from tests.support.tiers import examples

BATCHES = st.lists(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("abcdefgh")), min_size=1), max_size=6)


@examples(100)
@given(BATCHES, st.sampled_from([1, 3, 1 << 40]), st.sampled_from([0, 5, 1 << 20]))
def test_one_number_is_one_exchange_and_key(batches: list[list[tuple[str, str]]], hashes: int, most: int) -> None:
    """Also if many keys have one hash, and all are forgotten now and then."""
    numbered = KnownAddresses()
    named: dict[tuple[int, int], tuple[str, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "hash_column", lambda keys: hash_column(keys) % hashes)
        patch.setattr(known, "MAX_ADDRESSES", most)
        patch.setattr(grouping, "WORTH", 1.0)
        for pairs in batches:
            exchanges, keys = zip(*pairs, strict=True)
            addresses = find_addresses(
                pa.record_batch({"exchange": pa.array(exchanges), "routing_key": pa.array(keys)})
            )
            before = len(numbered), numbered.age
            found = numbered.number(addresses)
            assert found is not None
            numbers, new, _ = found
            begin = before[0] if numbered.age == before[1] else 0
            assert numbers[new].tolist() == [*range(begin, len(numbered))]
            texts = zip(
                [addresses.names[each] for each in addresses.exchanges], addresses.keys.to_pylist(), strict=True
            )
            for number, address in zip(numbers.tolist(), texts, strict=True):
                assert named.setdefault((numbered.age, number), address) == address
    if hashes > 3 and most > 5:  # each is known from its first batch on
        assert len(named) == len({pair for pairs in batches for pair in pairs})


def test_addresses_that_do_not_come_again_are_no_longer_numbered_until_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "TRIAL", 10)
    monkeypatch.setattr(known, "MAX_PASSED", 3)
    numbered = KnownAddresses()

    def is_numbered(begin: int) -> bool:
        names = pa.array([f"key.{n}" for n in range(begin, begin + 10)] * 2)
        addresses = find_addresses(pa.record_batch({"exchange": pa.array(["x"] * 20), "routing_key": names}))
        assert addresses.address_of_row is not None
        return numbered.number(addresses) is not None

    each_once = "".join("n" if is_numbered(10 * n) else "-" for n in range(20))
    assert each_once == "n" + "--" + "n" + "----" + "n" + "----" + "n" + "----" + "n" + "-"
    assert [is_numbered(0) for _ in range(8)] == [False] * 3 + [True] * 5
    assert [is_numbered(10 * n) for n in range(1, 4)] == [False, False, True]


def test_a_batch_of_keys_that_are_too_large_is_not_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MAX_BYTES", 1000)
    addresses = find_addresses(pa.record_batch({"exchange": ["x"] * 4, "routing_key": ["a" * 600, "b" * 600] * 2}))
    assert addresses.address_of_row is not None
    assert KnownAddresses().number(addresses) is None


@examples(10)
@given(st.integers(0, 2**32), st.sampled_from([0, 5, 1 << 20]), st.sampled_from([1, 1 << 18]))
def test_what_is_known_of_keys_changes_no_tally(seed: int, most: int, trial: int) -> None:
    """A counter that has counted before, and forgets at any time, counts as a new one does for each part."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    made = [topologies.message(rng, topology) for _ in range(12)] + [Message("nowhere", "a.b")]
    parts = [
        build_batch([Record(message) for message in rng.choices(made, k=24)]) for _ in range(2 if trial > 1 else 5)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "MAX_ADDRESSES", most)
        patch.setattr(known, "TRIAL", trial)
        patch.setattr(grouping, "WORTH", 1.0)
        counter, classifier = Tallier(topology), Classifier(topology)
        for part in parts:
            counter.add(part)
            fresh = Tallier(topology)
            fresh.add(part)
            assert counter.result() == fresh.result()
            found, anew = classifier.classify(part), Classifier(topology)
            expected = anew.classify(part)
            assert [classifier.outcomes[n] for n in found.classes] == [anew.outcomes[n] for n in expected.classes]
            assert found.shapes.tolist() == expected.shapes.tolist()
