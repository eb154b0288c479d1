"""Requests to brokers about a queue: for its messages, its first and last offsets, and a group's offset in it.

A pull that finds no message waits at the broker, and is answered when one comes or time is up. The answer names the
server to pull from next: a replica, when the master's memory no longer holds the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, CommandError
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.stored import parse_stored_records
from exchange.partition.clients.rocketmq.queues import MASTER

FLAG_COMMIT_OFFSET: Final = 1
"""The pull brings an offset to commit (`PullSysFlag`)."""
FLAG_SUSPEND: Final = 2
"""The pull may wait at the broker."""
FLAG_SUBSCRIPTION: Final = 4
"""The pull brings its subscription. Ours never do: the broker then uses the subscription of the last heartbeat.

When a broker cannot parse a subscription that came with a heartbeat, it refuses the pull; when it cannot parse one that
came with the pull, it answers with all messages.
"""

BROKER_SUSPEND_MAX_TIME: Final = 15.0
"""Seconds that a pull may wait at the broker."""
CONSUMER_TIMEOUT_WHEN_SUSPEND: Final = 30.0
"""Seconds until such a pull must be answered."""
OFFSET_TIMEOUT: Final = 5.0
"""Seconds until a request about a group's offset must be answered."""


class PullStatus(Enum):
    """How a pull ended (`org.apache.rocketmq.client.consumer.PullStatus`)."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    """There are messages, but none that the subscription wants."""
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
    """The queue has no such offset: it was deleted, or lost, or must be reset."""


STATUSES: Final = {int(status.value): status for status in PullStatus}


class Pulled(NamedTuple):
    """The answer to a pull (`PullResultExt`)."""

    status: PullStatus
    next_offset: int
    """Offset to pull next."""
    min_offset: int
    """Offset at which the queue begins."""
    max_offset: int
    """Offset at which it ends: of the next message to be stored."""
    broker_id: int
    """``suggestWhichBrokerId``: the broker's server to pull from next."""
    offset_delta: int
    """Number to add to the offsets in the body: of a static topic, else 0."""
    body: bytes

    def messages(self, queue: TopicQueue, subscription: Subscription) -> list[StoredMessage]:
        """Return the messages that the subscription accepts (`PullAPIWrapper.processPullResult`). Raises InputError."""
        return self.first_messages(queue, subscription, inf)[0]

    def first_messages(
        self, queue: TopicQueue, subscription: Subscription, room: float
    ) -> tuple[list[StoredMessage], int]:
        """Return the first messages that the subscription accepts, as room permits, and the offset to pull next.

        Records are unpacked, one at least, until the messages weigh ``room`` bytes. The rest is pulled again later: so
        a compressed answer of 256 KiB never becomes 256 MiB here at once. Raises InputError.
        """
        messages: list[StoredMessage] = []
        next_offset, weight = self.next_offset, 0
        for record in parse_stored_records(self.body, queue.broker):
            if weight >= room and record:
                next_offset = record[0].queue_offset + self.offset_delta
                break
            messages += record
            weight += sum([each.weight for each in record]) if len(record) != 1 else record[0].weight
        if self.offset_delta:
            messages = [each._replace(queue_offset=each.queue_offset + self.offset_delta) for each in messages]
        if subscription.names_tags:
            messages = [each for each in messages if subscription.accepts(each.tags)]
        return messages, next_offset


def pull_fields(
    group: str, queue: TopicQueue, subscription: Subscription, offset: int, count: int, commit: int | None
) -> dict[str, str]:
    """Return the fields of a pull that may wait (`PullMessageRequestHeader`) and commits the offset ``commit``."""
    flags = FLAG_SUSPEND | (FLAG_COMMIT_OFFSET if commit else 0)
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(flags),
        "commitOffset": str(commit or 0),
        "suspendTimeoutMillis": str(round(BROKER_SUSPEND_MAX_TIME * 1000)),
        "subVersion": str(subscription.version),
        "expressionType": subscription.type,
        "bname": queue.broker,
    }


def parse_pull(answer: Command, address: str = "") -> Pulled:
    """Read the answer to a pull (`MQClientAPIImpl.processPullResponse`). Raises BrokerError, CommandError."""
    status = STATUSES.get(answer.code)
    if status is None:
        raise BrokerError(answer.code, answer.remark, address)
    fields = answer.fields
    try:
        return Pulled(
            status, int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"]),
            int(fields["suggestWhichBrokerId"]), int(fields.get("offsetDelta") or 0), answer.body,
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise CommandError(f"{address}: not the answer to a pull: {type(error).__name__} {error}") from None


def find_server(servers: Mapping[int, str], broker_id: int, *, only: bool = False) -> tuple[str, bool] | None:
    """Choose a broker's server: return its address, and whether it is a replica (`findBrokerAddressInSubscribe`).

    It is the server with this id; where a replica of this id is missing, the one with the next id; where that is
    missing too, the one with the lowest id, unless ``only`` is set. None: there is no such server.
    """
    is_replica = broker_id != MASTER
    for number in (broker_id, broker_id + 1) if is_replica else (broker_id,):
        if number in servers:
            return servers[number], is_replica
    if servers and not only:
        number = min(servers)
        return servers[number], number != MASTER
    return None


class BrokerQueues:
    """Requests of a group to the brokers of its queues. Each raises RemotingError when it fails."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._pull_from: dict[TopicQueue, int] = {}
        """Queue -> the id of the server to pull from next; else it is the master."""

    async def pull(
        self, queue: TopicQueue, subscription: Subscription, offset: int, count: int, commit: int | None
    ) -> Pulled:
        """Pull at most ``count`` messages from an offset on; wait 15 s for the first (`PullAPIWrapper.pullKernelImpl`).

        Raises RemotingTimeout if the broker does not answer at all.
        """
        address, is_replica = await self._address(queue, self._pull_from.get(queue, MASTER))
        fields = pull_fields(self._group, queue, subscription, offset, count, None if is_replica else commit)
        code = RequestCode.PULL_MESSAGE
        answer = await self._client.invoke(address, code, fields, timeout=CONSUMER_TIMEOUT_WHEN_SUSPEND)
        result = parse_pull(answer, address)
        self._pull_from[queue] = result.broker_id
        return result

    async def max_offset(self, queue: TopicQueue) -> int:
        """Return the offset at which a queue ends: of the next message to be stored."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET)

    async def min_offset(self, queue: TopicQueue) -> int:
        """Return the offset at which a queue begins."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET)

    async def search_offset(self, queue: TopicQueue, time: int) -> int:
        """Return the offset of the first message stored at or after a time, in milliseconds since 1970, or the end."""
        fields = {"timestamp": str(time), "boundaryType": "LOWER"}
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)

    async def committed_offset(self, queue: TopicQueue) -> int | None:
        """Return the group's offset in a queue; None where the broker has none (`fetchConsumeOffsetFromBroker`).

        For a group that it does not know, a broker answers 0 as long as the queue's first message is in its memory.
        """
        fields = {"consumerGroup": self._group}
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, fields, OFFSET_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: TopicQueue, offset: int) -> None:
        """Store the group's offset in a queue at its broker (`updateConsumeOffsetToBroker`)."""
        address, _ = await self._address(queue, MASTER)
        fields = {"consumerGroup": self._group, "commitOffset": str(offset), **_queue_fields(queue)}
        await self._client.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields, timeout=OFFSET_TIMEOUT)

    def forget(self, queue: TopicQueue) -> None:
        """Forget the server that the broker named, so that the next pull of the queue goes to the master."""
        self._pull_from.pop(queue, None)

    async def _offset(
        self,
        queue: TopicQueue,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's
    ) -> int:
        address, _ = await self._address(queue, MASTER)
        answer = await self._client.ask(address, code, {**_queue_fields(queue), **(fields or {})}, timeout=timeout)
        try:
            return int(answer.fields["offset"])
        except (KeyError, ValueError):
            raise CommandError(f"{address}: no offset in the answer to {code.name}: {answer.fields}") from None

    async def _address(self, queue: TopicQueue, broker_id: int) -> tuple[str, bool]:
        server = find_server(self._client.brokers().get(queue.broker, {}), broker_id)
        if server is None:
            await self._client.update_route(queue.topic)
            server = find_server(self._client.brokers().get(queue.broker, {}), broker_id)
        if server is None:
            raise ClientError(f"The broker[{queue.broker}] not exist", ResponseCode.BROKER_NOT_EXIST)
        return server


def _queue_fields(queue: TopicQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker}
