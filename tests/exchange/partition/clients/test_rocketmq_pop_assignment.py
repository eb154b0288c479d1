"""Which queues the members of a group pop: as a broker of RocketMQ assigned them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.allocation import (
    ANY_QUEUE,
    AllocateAveragely,
    AllocateAveragelyByCircle,
    assign_pop,
)
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.partitions import Partitions
from tests.recorders import golden
from tests.recorders.rocketmq_pop import SHARES
from tests.support.cases import with_each


def share(asked: dict[str, Any]) -> list[set[MessageQueue]]:
    counts: Counter[str] = Counter(broker for broker, _ in asked["queues"])
    queues = list(Partitions.queues(counts))
    allocation = AllocateAveragelyByCircle() if asked["circle"] else AllocateAveragely()
    return [
        set(assign_pop(allocation, "orders", client, queues, asked["clients"], asked["share"]))
        for client in asked["clients"]
    ]


@with_each("at", range(len(SHARES)))
def test_members_pop_the_queues_that_the_broker_assigned(at: int) -> None:
    java = golden.read("rocketmq-pop")["shares"][at]
    assert share(SHARES[at]) == [{MessageQueue(*row) for row in rows} for rows in java]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12))
def test_every_queue_is_popped_by_as_many_members_as_share_it(queues: int, clients: int, others: int) -> None:
    asked = {
        "queues": [["b", at] for at in range(queues)], "clients": [f"{at:02}" for at in range(clients)],
        "share": others, "circle": False,
    }  # fmt: skip
    shares = share(asked)
    popped = Counter(queue for each in shares for queue in each)
    if others == 0 or others >= clients - 1:
        assert popped == {MessageQueue("b", ANY_QUEUE): clients}
    elif clients <= queues:
        assert set(popped.values()) == {others + 1}
        assert len(popped) == queues
    else:
        assert set(map(len, shares)) == {1}
        assert len(popped) == queues


def test_a_client_that_is_not_in_the_group_gets_nothing_and_none_is_an_error() -> None:
    queues = list(Partitions.queues({"b": 2}))
    assert assign_pop(AllocateAveragely(), "orders", "x", queues, ["a", "b", "c"], 1) == frozenset()
    with pytest.raises(InputError, match="currentCID is empty"):
        assign_pop(AllocateAveragely(), "orders", "", queues, ["a", "b", "c"], 1)
