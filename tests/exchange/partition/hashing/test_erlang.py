"""Erlang's hash and RabbitMQ's jump are what Erlang/OTP itself said (`tests.recorders.erlang`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.partition.hashing.erlang import UNDEFINED, Atom, jump, phash2
from tests.recorders import golden
from tests.recorders.erlang import BUCKETS, LISTS, SEEDS, TERMS, to_source
from tests.recorders.keys import COUNTS, KEYS

RECORDED = [golden.read(name) for name in golden.names("erlang-")]
INTEGERS = st.integers(-(2**63), 2**64)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["version"])
class TestAgainstErlang:
    """Every answer of one Erlang/OTP."""

    def test_phash2_of_binaries_is_erlangs(self, recorded: dict[str, list[int]]) -> None:
        """1,200 keys, in Erlang's usual range and in that of 32 bits."""
        keys = [key.encode() for key in KEYS]
        assert len(keys) >= 1200
        assert [phash2(key) for key in keys] == recorded["phash2 of keys"]
        assert [phash2(key, 2**32) for key in keys] == recorded["phash2 of keys, of 2^32"]

    def test_phash2_of_lists_of_binaries_is_erlangs(self, recorded: dict[str, list[int]]) -> None:
        """A routing key with those of a CC header, as x-modulus-hash hashes them."""
        assert [phash2(term) for term in LISTS] == recorded["phash2 of lists"]

    def test_phash2_of_other_terms_is_erlangs(self, recorded: dict[str, dict[str, int]]) -> None:
        """Atoms, integers of all sizes, floats, tuples and lists in each other."""
        assert {to_source(term): phash2(term, 2**32) for term in TERMS} == recorded["phash2 of terms"]

    def test_keys_jump_to_erlangs_buckets(self, recorded: dict[str, dict[str, list[int]]]) -> None:
        """1,200 keys in 1, 2, 3, 7, 12, 16 and 100 buckets."""
        buckets = {str(count): [jump(phash2(key.encode()), count) for key in KEYS] for count in COUNTS}
        assert buckets == recorded["buckets of keys"]

    def test_seeds_jump_to_erlangs_buckets(self, recorded: dict[str, dict[str, list[int]]]) -> None:
        """Negative ones and those beyond 21, 32 and 63 bits too, in up to 1,000,000,000 buckets."""
        assert {str(seed): [jump(seed, count) for count in BUCKETS] for seed in SEEDS} == recorded["buckets of seeds"]


def test_there_is_a_recording() -> None:
    """The tests above compare with something."""
    assert RECORDED


def test_the_hashes_of_atoms_and_the_empty_list_are_the_known_ones() -> None:
    """Figures of the reference, from a broker's shell."""
    assert (phash2(UNDEFINED), phash2(True), phash2(False), phash2([])) == (45914356, 506293, 7111573, 113427502)


@given(INTEGERS, st.integers(1, 300))
def test_with_one_more_bucket_a_key_stays_or_moves_into_it(seed: int, buckets: int) -> None:
    """What makes the jump a consistent hash."""
    assert jump(seed, buckets + 1) in (jump(seed, buckets), buckets)


@given(INTEGERS, st.integers(1, 10**12))
def test_buckets_are_in_range(seed: int, buckets: int) -> None:
    """From 0 to one less than there are."""
    assert 0 <= jump(seed, buckets) < buckets


@pytest.mark.parametrize("term", [None, [1], "text", {}, [b"a", 300]])
def test_values_that_are_no_terms_and_lists_of_integers_are_refused(term: object) -> None:
    """Rather than hashed otherwise than Erlang does."""
    with pytest.raises(TypeError):
        phash2(term)


def test_an_empty_list_within_a_term_has_another_hash_than_alone() -> None:
    """As do atoms: alone they are not mixed (the recording has the figures)."""
    assert phash2((Atom("array"), [])) != phash2((Atom("array"), b"")) != phash2([])
