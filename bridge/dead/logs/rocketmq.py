"""A topic of RocketMQ, ``%DLQ%GROUP`` or another one, as a log of dead letters: single pulls, nothing committed."""

from __future__ import annotations

from typing import Final

from bridge.dead.logs.log import FETCHED_BYTES, Letter, Log, LogLane, to_disconnected
from bridge.endpoint import validate_time
from bridge.endpoints.rocketmq.addresses import read_settings
from bridge.endpoints.rocketmq.keys import CLUSTER
from bridge.endpoints.rocketmq.lane import read_stored
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import FLAG_SUBSCRIPTION, BrokerQueues, parse_pull, pull_fields
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from exchange.errors import InputError

__all__ = ["CLUSTER", "TopicLog", "read_settings"]

READER: Final = "hashstar-dead"
"""Name of the group in pulls. It is never registered."""
PULLED: Final = 32
"""Maximum number of messages of one pull."""


class TopicLog(Log):
    """All queues of a topic at all brokers."""

    def __init__(self, url: str, topic: str, settings: ClientSettings) -> None:
        super().__init__(url, topic)
        self._settings: Final = settings
        self._everything: Final = Subscription.to_tags(topic)
        self._client: Client | None = None

    async def connect(self) -> list[LogLane]:
        try:
            client = self._client = Client(self._settings)
            await client.open()
            route = await client.update_route(self.topic)
            asked = BrokerQueues(client, READER)
            lanes = []
            for data in route.queues:
                for number in range(data.read_queues):
                    queue = TopicQueue(self.topic, data.broker, number)
                    name = f"{self.topic} {data.broker} queue {number}"
                    lanes.append(LogLane(queue, name, await asked.min_offset(queue), await asked.max_offset(queue)))
        except RemotingError as error:
            if isinstance(error, ClientError) and error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise InputError(f"there is no topic {self.topic!r}") from None
            raise to_disconnected(self.topic, error) from None
        return lanes

    async def fetch(self, lane: LogLane) -> None:
        queue, client, at = lane.key, self._client, lane.next
        if client is None or not isinstance(queue, TopicQueue):
            raise to_disconnected(self.topic, "it is closed")
        fields = pull_fields(READER, queue, self._everything, at, min(PULLED, lane.end - at), None)
        fields |= {"sysFlag": str(FLAG_SUBSCRIPTION), "subscription": self._everything.expression}
        try:
            address = client.address(queue.broker)
            pulled = parse_pull(await client.invoke(address, RequestCode.PULL_MESSAGE, fields), address)
            messages, following = pulled.first_messages(queue, self._everything, FETCHED_BYTES)
            end = lane.end if messages or following > at else await BrokerQueues(client, READER).max_offset(queue)
        except RemotingError as error:
            raise to_disconnected(self.topic, error) from None
        if end < lane.end:
            raise to_disconnected(self.topic, lane.describe_end(end))
        for stored in messages:
            if lane.next <= stored.queue_offset < lane.end:
                message, refusal = read_stored(stored)
                time = validate_time(stored.store_time * 1_000)
                place = f"{stored.store_host} {stored.log_offset} {stored.store_time} {stored.unique_id}"
                lane.add(Letter(message, stored, time, lane.name, stored.queue_offset, place, refusal))
        if lane.next == at or following > lane.next:
            lane.pass_to(lane.end if following <= at else min(following, lane.end))

    async def disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
