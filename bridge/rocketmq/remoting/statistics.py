"""What brokers count: the offsets of a topic's queues and of the groups that read it, and messages on their way there.

Each question goes to one broker, by its address. Those about a topic cover all its queues in one answer; they are the
questions of ``mqadmin topicStatus`` and ``consumerProgress`` (`org.apache.rocketmq.tools.admin.DefaultMQAdminExt`).
Each raises BrokerError for a refusal, and the other RemotingErrors where there is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import read_json
from bridge.rocketmq.remoting.errors import BrokerError
from exchange.values.json_text import parse_leniently

TOPIC_GROUP: Final = "@"
"""Separator of topic and group in the table of committed offsets (`ConsumerOffsetManager.TOPIC_GROUP_SEPARATOR`)."""


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a consumer group that are connected to a broker (`ConsumerConnection`)."""

    client_ids: frozenset[str] = frozenset()
    is_broadcasting: bool = False
    """Whether each member reads all queues and keeps its own offsets (`MessageModel.BROADCASTING`)."""
    from_first: bool = False
    """Whether they begin a queue at its first message (`CONSUME_FROM_FIRST_OFFSET`)."""


async def fetch_topic_stats(client: Client, address: str, topic: str) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset of each queue of a topic (`examineTopicStats`).

    Brokers before 5.0 have only the queues that are written in their answer.
    """
    answer = await client.ask(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
    return read_json(answer.body, lambda body: _by_queue(body, "minOffset", "maxOffset"))


async def consume_stats(client: Client, address: str, topic: str, group: str) -> dict[int, int]:
    """Return a group's offset in each queue of a topic that is read (`examineConsumeStats`); 0 where it has none.

    There is no queue in the answer if the group has members, and these subscribe to other topics only.
    """
    fields = {"consumerGroup": group, "topic": topic}
    answer = await client.ask(address, RequestCode.GET_CONSUME_STATS, fields)
    found = read_json(answer.body, lambda body: _by_queue(body, "consumerOffset", "brokerOffset"))
    return {queue: offset for queue, (offset, _) in found.items()}


async def fetch_groups(client: Client, address: str, topic: str) -> set[str]:
    """Return the groups that subscribe to a topic, or have an offset in it (`queryTopicConsumeByWho`).

    Brokers of some releases, as 5.3.3, also answer the name of the topic, which is no group: a group of this name
    counts only if it has members or an offset.
    """
    answer = await client.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    groups = read_json(answer.body, lambda body: set(map(str, body.get("groupList") or ())))
    if topic in groups:
        known = topic in await fetch_committed_offsets(client, address, topic)
        if not known and not (await fetch_members(client, address, topic)).client_ids:
            groups.discard(topic)
    return groups


async def fetch_committed_offsets(client: Client, address: str, topic: str) -> dict[str, dict[int, int]]:
    """Return the offsets that groups have committed in a topic: group -> queue -> offset.

    Unlike `consume_stats` it distinguishes no offset from offset 0. The answer has all topics of the broker.
    """
    answer = await client.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
    begin = topic + TOPIC_GROUP

    def read(body: Any) -> dict[str, dict[int, int]]:
        return {
            name[len(begin) :]: {int(queue): int(offset) for queue, offset in queues.items()}
            for name, queues in (body.get("offsetTable") or {}).items()
            if name.startswith(begin)
        }

    return read_json(answer.body, read)


async def fetch_members(client: Client, address: str, group: str) -> Members:
    """Return the members of a group that are connected to a broker (`examineConsumerConnectionInfo`)."""
    try:
        answer = await client.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    except BrokerError as error:
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return Members()
        raise
    return read_json(
        answer.body,
        lambda body: Members(
            frozenset(str(each["clientId"]) for each in body.get("connectionSet") or ()),
            body.get("messageModel") == "BROADCASTING",
            body.get("consumeFromWhere") == "CONSUME_FROM_FIRST_OFFSET",
        ),
    )


async def delay_offsets(client: Client, address: str) -> dict[int, int]:
    """Return the offset up to which delayed messages are delivered: delay level, from 1 on -> offset of its queue."""
    answer = await client.ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
    return read_json(
        answer.body, lambda body: {int(level): int(offset) for level, offset in (body.get("offsetTable") or {}).items()}
    )


async def count_timed_messages(client: Client, address: str, topic: str) -> int:
    """Return the number of messages of a topic that wait in the timer wheel; 0 at a broker that has no wheel."""
    try:
        answer = await client.ask(address, RequestCode.GET_TIMER_METRICS)
    except BrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED or "is null" in error.remark:
            return 0
        raise

    def read(body: Any) -> int:
        return int(((body.get("timingCount") or {}).get(topic) or {}).get("count") or 0)

    return read_json(answer.body, read)


def _by_queue(body: Mapping[str, Any], first: str, second: str) -> dict[int, tuple[int, int]]:
    """Return two numbers for each queue in a table whose names are queues as JSON objects."""
    table = body.get("offsetTable") or {}
    return {
        int(parse_leniently(queue)["queueId"]): (int(data[first]), int(data[second])) for queue, data in table.items()
    }
