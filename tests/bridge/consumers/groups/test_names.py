"""A partitioned queue routes each slot to one partition, as a topology shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.consumers.groups import PartitionedQueue
from bridge.consumers.groups.names import split_key
from exchange.errors import InputError
from exchange.partition.slots import place_slots
from exchange.routing.router import Router
from exchange.values.message import Message


@given(st.integers(1, 12), st.text(st.sampled_from("ab.#*"), max_size=8))
def test_each_slot_leads_to_its_partition_whatever_the_key(partitions: int, key: str) -> None:
    queue = PartitionedQueue("orders", 16)
    router = Router(queue.topology(partitions))
    for slot, partition in enumerate(place_slots(16, partitions)):
        assert router.route(Message("orders", f"{slot}.{key}")).queues == (queue.partition(partition),)
        assert router.route(Message("orders", str(slot))).queues == (queue.partition(partition),)


@given(st.integers(0, 99_999), st.text())
def test_slot_and_key_come_apart_again(slot: int, key: str) -> None:
    assert split_key(f"{slot}.{key}") == (slot, key)


@pytest.mark.parametrize("key", ["", "order.eu", "x.1", "-1.a", "1234567.a", "²"])
def test_a_key_without_slot_is_left_alone(key: str) -> None:
    assert split_key(key) == (None, key)


@pytest.mark.parametrize("name", ["", "x" * 200, "é" * 100])
def test_names_that_leave_no_room_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        PartitionedQueue(name)


@pytest.mark.parametrize("partitions", [0, 17, -1])
def test_a_number_of_partitions_that_cannot_be_is_refused(partitions: int) -> None:
    with pytest.raises(InputError):
        PartitionedQueue("orders", 16).topology(partitions)
