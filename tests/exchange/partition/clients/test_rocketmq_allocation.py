"""The client that reads each queue: as recorded from the real strategies, and each queue is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.allocation import (
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByConfig,
    AllocateByMachineRoom,
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    Allocation,
    rebalance,
)
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.partitions import Broker, Partition, Partitions
from tests.recorders import golden
from tests.recorders.rocketmq_faults import ALLOCATIONS

RECORDED = golden.names("rocketmq-allocation-")


def room_of_queue(queue: Partition) -> str:
    return MessageQueue.from_partition(queue).broker.split("@", 1)[0]


def room_of_client(client: str) -> str:
    return client.split("@", 1)[0]


def strategies(queues: list[Partition], version: str, rooms: list[str], virtual_nodes: int) -> tuple[Allocation, ...]:
    """Build the strategies that `RocketmqAllocation.java` builds."""
    return (
        AllocateAveragely(),
        AllocateAveragelyByCircle(),
        AllocateConsistentHash(virtual_nodes),
        AllocateByMachineRoom(frozenset(rooms), version, faithful=True),
        AllocateByConfig(tuple(queues[: len(queues) // 2])),
        AllocateMachineRoomNearby(AllocateAveragely(), room_of_queue, room_of_client),
        AllocateMachineRoomNearby(AllocateAveragelyByCircle(), room_of_queue, room_of_client),
    )


def answer(case: Mapping[str, Any], version: str) -> dict[str, list[int] | str]:
    queues = [Partition(at, Broker(name), f"{name}:{number}") for at, (name, number) in enumerate(case["queues"])]
    clients = list(case["clients"])
    if case["sorted"]:
        queues.sort(key=lambda queue: MessageQueue.from_partition(queue).order)
        clients.sort(key=lambda client: client.encode("utf-16-be"))
    answers: dict[str, list[int] | str] = {}
    for strategy in strategies(queues, version, case["rooms"], case["virtual_nodes"]):
        try:
            share = strategy.allocate(case["topic"], case["current"], queues, clients)
            answers[strategy.name] = [queues.index(queue) for queue in share]
        except InputError as error:
            answers[strategy.name] = str(error)
    return answers


@pytest.mark.parametrize("name", RECORDED)
def test_queues_are_shared_as_by_the_real_strategies(name: str) -> None:
    recorded = golden.read(name)
    assert len(ALLOCATIONS) >= 400
    for case, recorded_answer in zip(ALLOCATIONS, recorded["allocations"], strict=True):
        assert answer(case, recorded["version"]) == recorded_answer


CLIENTS = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=7, unique=True)
LAYOUTS = st.dictionaries(st.text(max_size=3), st.integers(1, 6), min_size=1, max_size=4).map(Partitions.queues)
SHARING = st.sampled_from([
    AllocateAveragely(), AllocateAveragelyByCircle(), AllocateConsistentHash(), AllocateConsistentHash(1),
    AllocateMachineRoomNearby(AllocateAveragely(), lambda queue: f"{len(queue.name)}", lambda client: f"{len(client)}"),
    AllocateMachineRoomNearby(AllocateConsistentHash(), lambda queue: queue.name[-1], lambda client: client[-1]),
])  # fmt: skip


@given(SHARING, LAYOUTS, CLIENTS, st.randoms())
def test_every_queue_is_read_by_one_client(
    allocation: Allocation, queues: Partitions, clients: list[str], random: Any
) -> None:
    shares = rebalance(allocation, "T", queues, clients)
    assert Counter(queue for share in shares.values() for queue in share) == Counter(queues)
    assert rebalance(allocation, "T", random.sample(queues.all, queues.count), reversed(clients)) == shares


@given(st.sampled_from([AllocateAveragely(), AllocateAveragelyByCircle()]), LAYOUTS, CLIENTS)
def test_with_the_average_strategy_no_client_reads_two_queues_more_than_another(
    allocation: Allocation, queues: Partitions, clients: list[str]
) -> None:
    sizes = [len(share) for share in rebalance(allocation, "T", queues, clients).values()]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(LAYOUTS, CLIENTS)
def test_with_consistent_hash_only_the_queues_of_a_leaving_client_move(queues: Partitions, clients: list[str]) -> None:
    *others, gone = clients
    before = rebalance(AllocateConsistentHash(), "T", queues, clients)
    for client, share in rebalance(AllocateConsistentHash(), "T", queues, others).items() if others else ():
        assert set(before[client]) <= set(share) <= {*before[client], *before[gone]}


@given(LAYOUTS, CLIENTS, st.frozensets(st.sampled_from(["a", "b", ""])))
def test_by_machine_room_queues_elsewhere_are_not_read(
    queues: Partitions, clients: list[str], rooms: frozenset[str]
) -> None:
    named = Partitions([
        queue._replace(leader=Broker(f"{'ab'[queue.id % 2]}@{queue.id}"), name=f"{'ab'[queue.id % 2]}@{queue.id}:0")
        for queue in queues
    ])  # fmt: skip
    shares = rebalance(AllocateByMachineRoom(rooms), "T", named, clients)
    read = Counter(queue for share in shares.values() for queue in share)
    assert read == Counter([queue for queue in named if queue.name[0] in rooms])


def test_a_client_id_that_two_processes_have_leaves_queues_unread() -> None:
    """Both think they are the first of the two in the list."""
    shares = rebalance(AllocateAveragely(), "T", Partitions.queues({"a": 6}), ["x", "x", "y"])
    assert [queue.name for queue in shares["x"]] == ["a:0", "a:1"]
    assert [queue.name for queue in shares["y"]] == ["a:4", "a:5"]


def test_queues_and_clients_sort_by_utf_16_code_units() -> None:
    queues = Partitions.queues({"\uffee": 1, "\U0001f600": 1})
    shares = rebalance(AllocateAveragely(), "T", queues, ["\uffee", "\U0001f600"])
    assert {client: share[0].name for client, share in shares.items()} == {
        "\U0001f600": "\U0001f600:0", "\uffee": "\uffee:0",
    }  # fmt: skip


def test_keys_that_java_refuses_are_refused_with_its_text() -> None:
    queues = Partitions.queues({"a": 2}).all
    for client, some, clients, words in (
        ("", queues, ["x"], "currentCID is empty"),
        ("x", (), ["x"], "mqAll is null or mqAll empty"),
        ("x", queues, [], "cidAll is null or cidAll empty"),
    ):
        with pytest.raises(InputError, match=words):
            AllocateAveragely().allocate("T", client, some, clients)
    with pytest.raises(InputError, match="illegal virtualNodeCnt :-1"):
        AllocateConsistentHash(-1)
    nowhere = AllocateMachineRoomNearby(AllocateAveragely(), lambda _: None, lambda _: "room")
    with pytest.raises(
        InputError, match=r"Machine room is null for mq MessageQueue \[topic=T, brokerName=a, queueId=0\]"
    ):
        nowhere.allocate("T", "x", queues, ["x"])
    nobody = AllocateMachineRoomNearby(AllocateAveragely(), lambda _: "room", lambda _: "")
    with pytest.raises(InputError, match="Machine room is null for consumer id x"):
        nobody.allocate("T", "x", queues, ["x"])
