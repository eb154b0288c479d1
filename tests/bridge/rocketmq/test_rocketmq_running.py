"""What a consumer tells of itself, without a broker that asks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.offsets import parse_table
from bridge.rocketmq.consumer.room import PulledQueue
from bridge.rocketmq.consumer.running import build_running_info, encode_offsets, format_stacks
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import StoredMessage

QUEUE = TopicQueue("orders", "broker-a", 3)


def reading(queue: TopicQueue = QUEUE, *, ordered: bool = False, count: int = 4) -> PulledQueue:
    """Return a queue of which this number of messages was pulled, from offset 10 on, and two handed out."""
    assigned = AssignedQueue(queue, 10, ordered=ordered)
    assigned.put(
        [StoredMessage("orders", b"x", {}, 0, "broker-a", 3, 10 + n, 0, 0, 0, b"", 0, b"", 0) for n in range(count)],
        10 + count,
        10 + count,
    )
    assigned.locked_until = 1e12
    assigned.take(2, 0.0)
    return PulledQueue(assigned)


async def read_info(found: list[PulledQueue], jstack: str | None = None, **settings: Any) -> dict[str, Any]:
    """Return the fields and the one queue's row, which is read separately, as JSON has no such keys."""
    group = Group(
        Client(ClientSettings("127.0.0.1:9876")),
        "g",
        [Subscription.to_tags("orders", "a")],
        ConsumerSettings(**settings),
    )
    text = build_running_info(group, found, ["one:1", "two:2"], 1700000000000, jstack).decode()
    plain, _, tables = text.partition(',"mqTable":')
    table, _, rest = tables.partition(',"mqPopTable":')
    assert rest == "{}}"
    read: dict[str, Any] = json.loads(plain + "}")
    key = json.dumps(found[0].assigned.queue.to_json())
    assert table.startswith("{" + key + ":")
    return {**read, "queue": json.loads(table[len(key) + 2 : -1])}


def test_settings_have_java_s_names_and_values() -> None:
    info = asyncio.run(read_info([reading()], orderly=True, max_reconsume_times=3))
    properties = info["properties"]
    assert all(isinstance(each, str) for each in properties.values())
    assert properties["PROP_NAMESERVER_ADDR"] == "one:1;two:2;"
    assert properties["PROP_CONSUMEORDERLY"] == "true"
    assert properties["PROP_CONSUMER_START_TIMESTAMP"] == "1700000000000"
    assert (properties["maxReconsumeTimes"], properties["pullThresholdSizeForQueue"]) == ("3", "100")
    assert [each["topic"] for each in info["subscriptionSet"]] == ["orders", "%RETRY%g"]
    assert "jstack" not in info


@pytest.mark.parametrize("ordered", [False, True])
def test_messages_handed_out_in_order_are_reported_as_a_transaction_as_in_java(ordered: bool) -> None:
    queue = asyncio.run(read_info([reading(ordered=ordered)]))["queue"]
    cached, transaction = ((12, 13, 2), (10, 11, 2)) if ordered else ((10, 13, 4), (0, 0, 0))
    names = [f"Msg{what}" for what in ("MinOffset", "MaxOffset", "Count")]
    assert tuple(queue[f"cached{name}"] for name in names) == cached
    assert tuple(queue[f"transaction{name}"] for name in names) == transaction
    assert (queue["commitOffset"], queue["locked"], queue["droped"]) == (10, ordered, False)


def test_the_status_has_the_offsets_of_one_topic() -> None:
    new = PulledQueue(AssignedQueue(TopicQueue("orders", "broker-b", 0), 77))
    other = reading(TopicQueue("others", "broker-a", 0))
    body = encode_offsets([reading(), new, other], "orders").decode()
    assert parse_table(body.replace("messageQueueTable", "offsetTable")) == {QUEUE: 10, new.assigned.queue: 77}


def test_stacks_show_where_tasks_wait() -> None:
    async def waits_here() -> None:
        await asyncio.sleep(60)

    async def run() -> str:
        task = asyncio.create_task(waits_here())
        await asyncio.sleep(0)
        found = format_stacks()
        task.cancel()
        return found

    assert "in waits_here" in asyncio.run(run())
