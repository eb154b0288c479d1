"""Hashes that numba compiled equal those in Python, for all that partitioners and exchanges pass them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange import Binding, Exchange, InputError, Message, Queue, Router, Topology
from exchange.partition import compile_hashes
from exchange.partition.hashing import compiled
from exchange.partition.hashing.compiled import PYTHON, Hashes
from exchange.text.site import build_install_command
from tests.support.partition_keys import keys, partitioner_for, partitions_for

STRATEGIES = ["rabbitmq.super_stream", "rabbitmq.consistent_hash", "rabbitmq.modulus_hash", "rocketmq.grpc_java",
              "rocketmq.grpc_proxy"]  # fmt: skip


@pytest.fixture
def hashes() -> Iterator[Hashes]:
    pytest.importorskip("numba")
    compile_hashes()
    yield compiled.get_hashes()
    compiled._hashes = PYTHON


def equal(ours: Callable[..., int], theirs: Callable[..., int], *arguments: Any) -> None:
    found = ours(*arguments)
    assert type(found) is int
    assert found == theirs(*arguments)


@pytest.mark.parametrize("name", ["murmur3", "phash2", "phash2_of_list", "sip_hash_24"])
def test_hashes_of_bytes(hashes: Hashes, name: str) -> None:
    @given(st.binary(max_size=70))
    @example(bytes(range(256)) * 4)
    def law(data: bytes) -> None:
        equal(getattr(hashes, name), getattr(PYTHON, name), data)

    for size in range(40):
        law.hypothesis.inner_test(b"\xff" * size)  # type: ignore[attr-defined]
    law()


def test_hashes_of_texts_count_utf_16(hashes: Hashes) -> None:
    @given(st.text(st.characters(), max_size=30))
    @example("\ud83d")
    @example("polygenelubricants")  # -2147483648
    def law(text: str) -> None:
        equal(hashes.string_hash, PYTHON.string_hash, text)

    law()


def test_buckets(hashes: Hashes) -> None:
    buckets = st.integers(1, 20) | st.integers(1, 1 << 20)

    @given(st.integers(0, (1 << 27) - 1) | st.integers(-(1 << 70), 1 << 70), buckets)
    @example((1 << 63) - 1, 12)
    def jumps(key: int, count: int) -> None:
        equal(hashes.jump, PYTHON.jump, key, count)

    @given(st.integers(-(1 << 63), (1 << 63) - 1), buckets)
    def guava(value: int, count: int) -> None:
        equal(hashes.consistent_hash, PYTHON.consistent_hash, value, count)

    jumps()
    guava()


@pytest.mark.parametrize("name", STRATEGIES)
def test_partitioners_choose_alike(hashes: Hashes, name: str) -> None:
    partitioner, partitions = partitioner_for(name), partitions_for(name)

    def answer(key: Any) -> object:
        try:
            return partitioner.choose(key, partitions), partitioner.partition_of(key, partitions)
        except InputError as error:
            return str(error)

    @given(keys)
    def law(key: Any) -> None:
        compiled._hashes = hashes
        found = answer(key)
        compiled._hashes = PYTHON
        assert found == answer(key)

    law()


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_exchanges_that_hash_route_alike(hashes: Hashes, kind: str) -> None:
    queues = [Queue(f"q{number}") for number in range(7)]
    topology = Topology([Exchange("h", kind)], queues, [Binding.to_queue("h", queue.name, "3") for queue in queues])
    router = Router(topology, cache=0)
    messages = [Message("h", f"order.{number}") for number in range(500)]
    found = [router.route(message).queues for message in messages]
    compiled._hashes = PYTHON
    assert found == [router.route(message).queues for message in messages]
    assert len(set(found)) == 7


def test_without_numba_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "exchange.partition.hashing.kernels", raising=False)
    monkeypatch.delattr("exchange.partition.hashing.kernels", raising=False)
    with pytest.raises(InputError, match=re.escape(build_install_command("native"))):
        compile_hashes()
    assert compiled.get_hashes() is PYTHON
