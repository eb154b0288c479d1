"""Topics of RocketMQ as they are written to by a replay: each message as it was, to the queue of its key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from bridge.dead.logs.origins import Goal
from bridge.endpoint import Outgoing
from bridge.endpoints.rocketmq.placing import MessageWriter
from bridge.endpoints.rocketmq.target import RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue


class GoalTarget(RocketmqTarget):
    """Topics of RocketMQ, to which goals are written as they are; ``goals`` maps their digests to them."""

    def __init__(self, settings: ClientSettings, topics: Iterable[str], goals: Mapping[str, Goal]) -> None:
        super().__init__("the cluster", settings, {topic: TopicDestination(topic) for topic in topics})
        self._goals: Final = goals

    def make_writer(self, client_id: str) -> MessageWriter:
        return _GoalMessages(self._goals, self._destinations, client_id, self._turns)


class _GoalMessages(MessageWriter):
    def __init__(self, goals: Mapping[str, Goal], *others: Any) -> None:
        super().__init__(*others)
        self._goals: Final = goals

    def place(self, outgoing: Outgoing) -> tuple[RocketMessage, MessageQueue]:
        goal = self._goals[outgoing.delivery.identity or ""]
        message = cast("RocketMessage", goal.stored)
        spread = self.spreads[message.topic]
        queue = spread.queue_for(goal.key)
        return message, queue or spread.queues[self._turns.place(outgoing, spread.topic, spread.partitions)]


async def find_missing(settings: ClientSettings, topics: Sequence[str]) -> list[str]:
    """Return which of these topics are not there. Raises RemotingError."""
    missing = []
    async with Client(settings) as client:
        for topic in topics:
            try:
                await client.route(topic)
            except ClientError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                missing.append(topic)
    return missing
