"""The share of a member as the broker assigns it (`MessageQueueAssignment`): queues to pull, or queues to pop.

Brokers of 5.x divide the queues themselves when a member asks, and decide how each topic is consumed by a group: with
pulls, or with POP, by `mqadmin setConsumeMode` or ``defaultMessageRequestMode``. Older brokers do not know the request.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import read_json
from bridge.rocketmq.remoting.errors import BrokerError, ClientError

__all__ = ["BrokerAssignment", "query_assignment"]


class BrokerAssignment(NamedTuple):
    """Queues of a topic that a member consumes."""

    pull: frozenset[TopicQueue]
    pop: frozenset[TopicQueue] = frozenset()
    """Queues, and brokers: a broker whose queues are all to be popped has the number -1 in place of a queue."""


async def query_assignment(
    client: Client, address: str, topic: str, group: str, strategy: str, model: str
) -> BrokerAssignment | None:
    """Ask a broker for the share of this client (`MQClientInstance.queryAssignment`).

    ``strategy`` is the name of an allocation that the broker has, ``AVG`` or ``AVG_BY_CIRCLE``; ``model`` is that of a
    `MessageModel`. None: the broker does not know the request, as before 5.0. Raises ClientError where it has no
    assignment, because it does not know the member, the topic, or the strategy; and RemotingError.
    """
    body = {
        "topic": topic, "consumerGroup": group, "clientId": client.client_id, "strategyName": strategy,
        "messageModel": model,
    }  # fmt: skip
    try:
        answer = await client.ask(address, RequestCode.QUERY_ASSIGNMENT, body=json.dumps(body).encode())
    except BrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        raise
    assigned = read_json(answer.body, _parse)
    if assigned is None:
        raise ClientError(
            f"group {group}: {address} assigns no queues of {topic} to {client.client_id} by {strategy}: it does not "
            "know the topic, the member, or the strategy"
        )
    return assigned


def _parse(body: Any) -> BrokerAssignment | None:
    rows = body.get("messageQueueAssignments")
    if rows is None:
        return None
    queues: dict[bool, set[TopicQueue]] = {False: set(), True: set()}
    for row in rows:
        queue = row["messageQueue"]
        found = TopicQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))
        queues[row.get("mode") == "POP"].add(found)
    return BrokerAssignment(frozenset(queues[False]), frozenset(queues[True]))
