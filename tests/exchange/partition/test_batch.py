"""Columns of keys against single keys: every hash, every strategy, every way to give a column."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange.arrays import columns as batch_columns
from exchange.arrays.columns import Column, split_column
from exchange.errors import InputError
from exchange.partition import Partitions
from exchange.partition.batch import UNDECIDED, partition_batch
from exchange.partition.batch.hashes import (
    SMALL_BLOCK_KEYS,
    HashArray,
    crc32,
    fnv1a,
    java_string_hash,
    murmur2,
    murmur3,
)
from exchange.partition.batch.rules import RULES
from exchange.partition.clients.go import Sarama
from exchange.partition.clients.kafka import Keyed, KeyedOneCounter, Scala, Sticky
from exchange.partition.clients.key_hash import POSITIVE_FNV1A, KeyHash
from exchange.partition.clients.rocketmq.selectors import ByHash, ByHash40, GoHash
from exchange.partition.hashing import hashes
from exchange.partition.hashing.java import string_hash
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitioning.strategies import STRATEGIES
from exchange.values.field_values import Typed
from tests.recorders.keys import COUNTS, KEYS
from tests.support.tiers import examples, some

BYTES_HASHES: list[tuple[Callable[[Column], HashArray], Callable[[bytes], int]]] = [
    (murmur2, hashes.murmur2),
    (lambda column: murmur3(column, 104729), lambda key: hashes.murmur3(key, 104729)),
    (fnv1a, hashes.fnv1a),
    (crc32, zlib.crc32),
]


def hash_keys(of_column: Callable[[Column], HashArray], keys: Any) -> HashArray:
    """Return the hash of each key of a column, piece by piece as partitioners compute them."""
    pieces = [of_column(piece) for piece in split_column(keys) if isinstance(piece, Column)]
    return np.concatenate([np.zeros(0, np.uint32), *pieces])


PARTITIONERS: list[Partitioner] = [
    *(strategy.make() for strategy in STRATEGIES.values() if strategy.name != "kafka.nearest"),
    KeyedOneCounter(Sticky()),
    Sarama(KeyHash(len, abs, "the length of the key", lambda key, count: len(key) % count)),
    Sarama(POSITIVE_FNV1A),
    ByHash(),
    ByHash40(),
    GoHash(),
]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
WIDE = st.text(st.characters(min_codepoint=0x7E, max_codepoint=0x10FFFF, exclude_categories=["Cs"]), max_size=10)


@st.composite
def columns_of_bytes(draw: st.DrawFn) -> list[bytes]:
    """Draw enough keys of similar length for blocks, and some of other lengths."""
    random = Random(draw(st.integers(0, 2**32)))
    lengths = draw(st.lists(st.integers(0, 90), min_size=1, max_size=5))
    number = draw(st.sampled_from([1, SMALL_BLOCK_KEYS - 1, SMALL_BLOCK_KEYS, 3 * SMALL_BLOCK_KEYS, 200]))
    alone = draw(st.lists(st.integers(0, 700), max_size=3))
    keys = [random.randbytes(random.choice(lengths)) for _ in range(number)] + [random.randbytes(n) for n in alone]
    random.shuffle(keys)
    return keys


@examples(60)
@given(columns_of_bytes())
def test_a_column_has_the_hashes_of_its_keys(keys: list[bytes]) -> None:
    for of_column, of_key in BYTES_HASHES:
        assert hash_keys(of_column, pa.array(keys, pa.binary())).tolist() == [of_key(key) for key in keys]


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 36, 64, 65, 66, 1000])
def test_keys_of_one_length_have_their_hashes(length: int) -> None:
    keys = [Random(number).randbytes(length) for number in range(3 * SMALL_BLOCK_KEYS)]
    for of_column, of_key in BYTES_HASHES:
        assert hash_keys(of_column, keys).tolist() == [of_key(key) for key in keys]


@examples(60)
@given(st.lists(TEXTS | WIDE | st.just("polygenelubricants") | st.none(), max_size=60), st.integers(1, 20))
def test_a_column_of_texts_has_the_hash_codes_of_its_texts(texts: list[str | None], times: int) -> None:
    keys = texts * times
    column = pa.array(keys, pa.string())
    found = hash_keys(java_string_hash, column).view(np.int32).tolist()
    assert [value for value, key in zip(found, keys, strict=True) if key is not None] == [
        string_hash(key) for key in keys if key is not None
    ]


@pytest.mark.scaled
def test_every_partitioner_chooses_the_same_for_a_column_as_for_each_key() -> None:
    """The keys of the recordings, as texts and as bytes; all their numbers of partitions where a rule decides."""
    as_bytes = [key.encode() for key in KEYS]
    for partitioner in PARTITIONERS:
        for count in some(COUNTS, 3) if type(partitioner) in RULES else (12,):
            partitions = Partitions.named([f"room@queue-{number}" for number in range(count)])
            for keys, arrow in ((KEYS, pa.string()), (as_bytes, pa.binary())):
                taken, wanted = _taken(partitioner, keys, partitions)
                assert partition_batch(partitioner, pa.array(taken, arrow), partitions).tolist() == wanted


def _taken(partitioner: Partitioner, keys: Any, partitions: Partitions) -> tuple[list[Any], list[int]]:
    """Return the keys that the client takes, and the partitioner's choice for each."""
    taken, wanted = [], []
    for key in keys:
        try:
            partition = partitioner.choose(key, partitions).partition
        except InputError:
            continue
        taken.append(key)
        wanted.append(UNDECIDED if partition is None else partition)
    return taken, wanted


KEY = st.one_of(
    TEXTS, st.binary(max_size=40), st.none(), st.sampled_from(["", b"", "\ud800", 1, True, 1.0, 0.0, -0.0]),
    st.builds(Typed, st.just("signedint"), st.integers(-5, 5)),
)  # fmt: skip


@examples(150)
@given(st.sampled_from(PARTITIONERS), st.lists(KEY, max_size=40), st.integers(1, 5))
@example(Keyed(Sticky()), ["a\ud800", "a?"] * SMALL_BLOCK_KEYS, 3)
@example(Keyed(Sticky()), [1, True, 1.0], 1)
def test_a_sequence_may_have_any_keys(partitioner: Partitioner, keys: list[Any], times: int) -> None:
    """Strings that UTF-8 has no place for, numbers and None too."""
    partitions = Partitions.from_count(1000)
    taken, wanted = _taken(partitioner, keys * times, partitions)
    assert partition_batch(partitioner, taken, partitions).tolist() == wanted


def test_the_rules_are_what_most_strategies_use() -> None:
    """A class that is renamed or wrapped would fall back to the slow way unseen."""
    keyed = ("kafka.murmur2", "kafka.default_0_9", "librdkafka.fnv1a", "sarama.crc32", "franz-go.sarama_compat",
             "rabbitmq.super_stream", "kafka.scala_0_8")  # fmt: skip
    for name in keyed:
        partitioner = STRATEGIES[name].make()
        assert RULES[type(partitioner)](partitioner) is not None, name


def test_partitions_that_are_not_numbered_in_their_order_keep_their_ids() -> None:
    """Kafka's number is an id; a place in RocketMQ's list is one of the list."""
    partitions = Partitions(reversed(Partitions.from_count(7).all))
    for partitioner in (Keyed(Sticky()), ByHash(), Scala()):
        wanted = [partitioner.choose(key, partitions).partition for key in KEYS]
        assert partition_batch(partitioner, list(KEYS), partitions).tolist() == wanted


def test_a_key_that_the_client_cannot_take_is_an_error_in_a_column_too() -> None:
    with pytest.raises(InputError):
        partition_batch(ByHash(), [b"bytes have no hashCode"] * 50, 3)
    with pytest.raises(InputError):
        partition_batch(ByHash40(), ["polygenelubricants"] * 50, 3)
    with pytest.raises(InputError):
        partition_batch(ByHash(), pa.array([None] * 50, pa.string()), 3)


ARROW = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


@pytest.mark.parametrize("arrow", ARROW, ids=str)
@examples(40)
@given(
    keys=st.lists(st.none() | st.text("abc", max_size=9), max_size=40),
    begin=st.integers(0, 20),
    length=st.integers(0, 20),
)
def test_an_arrow_array_is_read_through_its_buffers(
    arrow: Any, keys: list[str | None], begin: int, length: int
) -> None:
    """Slices with an offset, nulls, empty arrays and chunks."""
    array = pa.array(keys, pa.string()).cast(arrow)
    part = array.slice(begin, length)
    wanted = keys[begin : begin + length]
    found = [key for piece in split_column(part) if isinstance(piece, Column) for key in piece.objects()]
    assert [key.decode() if isinstance(key, bytes) else key for key in found] == wanted
    chunked = pa.chunked_array([part, array, part[:0]], arrow)
    assert partition_batch("kafka.murmur2", chunked, 12).tolist() == _kafka(wanted) + _kafka(keys)


def _kafka(keys: list[str | None]) -> list[int]:
    return [
        UNDECIDED if key is None else hashes.to_positive(hashes.murmur2(key.encode())) % 12 for key in keys
    ]  # fmt: skip


def test_bytes_that_belong_to_a_null_do_not_matter() -> None:
    """Arrow leaves open what the bytes of a null are: here they are not UTF-8."""
    data, offsets = pa.py_buffer(b"abc\xff\xfe\xc3\xa9"), pa.py_buffer(np.array([0, 3, 5, 7], np.int32))
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    found = partition_batch("kafka.scala_0_8", array, 100).tolist()
    assert found == [abs(string_hash("abc")) % 100, UNDECIDED, string_hash("é") % 100]


def test_a_pair_of_bytes_and_offsets_is_a_column() -> None:
    data = np.frombuffer(b"..foobarabc", np.uint8)
    found = hash_keys(murmur2, (data, np.array([2, 8, 8, 11])))
    assert found.view(np.int32).tolist() == [-790332482, 275646681, 479470107]
    assert partition_batch("kafka.murmur2", (data, np.array([0])), 3).tolist() == []


@pytest.mark.parametrize("offsets", [[], [0, 4], [-1, 2], [2, 1]])
def test_offsets_that_lead_out_of_the_data_are_refused(offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets"):
        hash_keys(murmur2, (np.zeros(3, np.uint8), np.array(offsets, np.int64)))


def test_other_arrow_types_are_refused_with_the_way_out() -> None:
    """An Arrow int32 would be a long otherwise, with another hash."""
    with pytest.raises(InputError, match="int32: cast them to string"):
        partition_batch("kafka.murmur2", pa.array([1, 2], pa.int32()), 3)


def test_empty_columns_and_columns_of_nulls_are_accepted() -> None:
    for arrow in ARROW:
        assert partition_batch("kafka.murmur2", pa.array([], arrow), 3).tolist() == []
        assert partition_batch("kafka.murmur2", pa.nulls(40, arrow), 3).tolist() == [UNDECIDED] * 40
        assert partition_batch("librdkafka.consistent", pa.nulls(40, arrow), 3).tolist() == [0] * 40
    assert partition_batch("kafka.murmur2", [], 3).tolist() == []
    assert partition_batch("kafka.murmur2", np.array(["a", b"b", None], object), 3).tolist() == _of(["a", b"b", None])


def _of(keys: list[Any]) -> list[int]:
    return list(partition_batch("kafka.murmur2", keys, 3))


def test_pieces_are_put_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_columns, "PIECE_KEYS", 100)
    monkeypatch.setattr(batch_columns, "PIECE_BYTES", 500)
    keys = [*KEYS, None, "", *KEYS]
    wanted = [UNDECIDED if key is None else hashes.to_positive(hashes.murmur2(key.encode())) % 12 for key in keys]
    for column in (keys, pa.array(keys, pa.string()), pa.chunked_array([pa.array(keys[:7]), pa.array(keys[7:])])):
        assert partition_batch("kafka.murmur2", column, 12).tolist() == wanted


def test_one_long_key_among_short_ones_takes_memory_for_itself_only() -> None:
    keys = pa.array([b"order-%d" % number for number in range(50_000)] + [b"x" * 300_000], pa.binary())
    tracemalloc.start()
    found = hash_keys(murmur2, keys)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[-1] == hashes.murmur2(b"x" * 300_000)
    assert most < 30_000_000  # of 15,000,000,000 were all as long


def test_the_package_needs_no_numpy() -> None:
    """Only the batch modules need it, and no module needs pyarrow."""
    code = "import sys; sys.modules.update(numpy=None, pyarrow=None); import exchange.partition.partitioning.strategies"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys; sys.modules['pyarrow'] = None; import exchange.partition.batch"
    subprocess.run([sys.executable, "-c", code], check=True)
