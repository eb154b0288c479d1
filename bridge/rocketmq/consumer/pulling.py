"""What is asked of brokers about a queue: its messages, its ends, and where a group stands in it.

A pull that finds nothing waits at the broker, and is answered when a message comes or time is up. The broker says from
which of its servers to pull next: a replica, when the master's memory no longer holds what is asked for.
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
from bridge.rocketmq.remoting.stored import stored_records
from exchange.partition.clients.rocketmq.queues import MASTER

__all__ = [
    "FLAG_COMMIT_OFFSET", "FLAG_SUBSCRIPTION", "FLAG_SUSPEND", "BrokerQueues", "PullStatus", "Pulled", "pull_fields",
    "pulled", "server_of",
]  # fmt: skip

FLAG_COMMIT_OFFSET: Final = 1
"""The pull brings an offset to commit (`PullSysFlag`)."""
FLAG_SUSPEND: Final = 2
"""It may wait at the broker."""
FLAG_SUBSCRIPTION: Final = 4
"""It brings its subscription; else the broker takes that of the last heartbeat, as with all pulls of ours.

One that it cannot parse it refuses if it came with a heartbeat, but takes as everything if it came with the pull.
"""

BROKER_SUSPEND_MAX_TIME: Final = 15.0
"""Seconds that a pull may wait at the broker."""
CONSUMER_TIMEOUT_WHEN_SUSPEND: Final = 30.0
"""Seconds after which its answer is given up."""
OFFSET_TIMEOUT: Final = 5.0
"""Seconds that an answer to what is asked of a group's offset may take."""


class PullStatus(Enum):
    """How a pull ended (`org.apache.rocketmq.client.consumer.PullStatus`)."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    """There are messages, but none that the subscription wants."""
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
    """There is no such offset in the queue: it was deleted, or lost, or is to be reset."""


STATUSES: Final = {int(status.value): status for status in PullStatus}


class Pulled(NamedTuple):
    """The answer to a pull (`PullResultExt`)."""

    status: PullStatus
    next_offset: int
    """From where to pull next."""
    min_offset: int
    max_offset: int
    """Where the queue begins and ends."""
    broker_id: int
    """``suggestWhichBrokerId``: which server of the broker to pull from next."""
    offset_delta: int
    """What is to be added to the offsets in the body, of a static topic."""
    body: bytes

    def messages(self, queue: TopicQueue, subscription: Subscription) -> list[StoredMessage]:
        """Return what came that the subscription means (`PullAPIWrapper.processPullResult`). Raises InputError."""
        return self.first_messages(queue, subscription, inf)[0]

    def first_messages(
        self, queue: TopicQueue, subscription: Subscription, room: float
    ) -> tuple[list[StoredMessage], int]:
        """Return what came that the subscription means, as far as there is room for it, and the offset to go on from.

        Records are unpacked until the messages weigh ``room`` bytes, one record at least; what is left is to be pulled
        again, so that an answer of 256 KiB never becomes 256 MiB here at once. Raises InputError.
        """
        found: list[StoredMessage] = []
        next_offset, weight = self.next_offset, 0
        for messages in stored_records(self.body, queue.broker):
            if weight >= room and messages:
                next_offset = messages[0].queue_offset + self.offset_delta
                break
            found += messages
            weight += sum([each.weight for each in messages]) if len(messages) != 1 else messages[0].weight
        if self.offset_delta:
            found = [each._replace(queue_offset=each.queue_offset + self.offset_delta) for each in found]
        if subscription.names_tags:
            found = [each for each in found if subscription.accepts(each.tags)]
        return found, next_offset


def pull_fields(
    group: str, queue: TopicQueue, subscription: Subscription, offset: int, count: int, commit: int | None
) -> dict[str, str]:
    """The fields of a pull that may wait (`PullMessageRequestHeader`); ``commit`` is the offset to commit with it."""
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


def pulled(answer: Command, address: str = "") -> Pulled:
    """What an answer to a pull says (`MQClientAPIImpl.processPullResponse`). Raises BrokerError, CommandError."""
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


def server_of(servers: Mapping[int, str], broker_id: int, *, only: bool = False) -> tuple[str, bool] | None:
    """The address to ask of a broker's servers, and whether it is a replica (`findBrokerAddressInSubscribe`).

    That of the id; of a replica that is not there, that of the next id; else, unless ``only`` it will do, any.
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
    """What a group asks of its queues' brokers; all raises RemotingError."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._pull_from: dict[TopicQueue, int] = {}

    async def pull(
        self, queue: TopicQueue, subscription: Subscription, offset: int, count: int, commit: int | None
    ) -> Pulled:
        """At most ``count`` messages from an offset on; waits 15 s for the first (`PullAPIWrapper.pullKernelImpl`).

        Raises RemotingTimeout if the broker does not answer at all.
        """
        address, is_replica = await self._address(queue, self._pull_from.get(queue, MASTER))
        fields = pull_fields(self._group, queue, subscription, offset, count, None if is_replica else commit)
        code = RequestCode.PULL_MESSAGE
        answer = await self._client.invoke(address, code, fields, timeout=CONSUMER_TIMEOUT_WHEN_SUSPEND)
        found = pulled(answer, address)
        self._pull_from[queue] = found.broker_id
        return found

    async def max_offset(self, queue: TopicQueue) -> int:
        """Where it ends: the offset of the next message."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET)

    async def min_offset(self, queue: TopicQueue) -> int:
        """Where it begins."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET)

    async def search_offset(self, queue: TopicQueue, time: int) -> int:
        """The first message stored at or after a time, in milliseconds since 1970, or the end."""
        fields = {"timestamp": str(time), "boundaryType": "LOWER"}
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)

    async def committed(self, queue: TopicQueue) -> int | None:
        """Where the group stands; None where the broker knows nothing (`fetchConsumeOffsetFromBroker`).

        Of a group that it does not know, a broker says 0 as long as the queue's first message is in its memory.
        """
        fields = {"consumerGroup": self._group}
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, fields, OFFSET_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: TopicQueue, offset: int) -> None:
        """Say where the group stands, and hear that it was heard (`updateConsumeOffsetToBroker`)."""
        address, _ = await self._address(queue, MASTER)
        fields = {"consumerGroup": self._group, "commitOffset": str(offset), **_of(queue)}
        await self._client.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields, timeout=OFFSET_TIMEOUT)

    def forget(self, queue: TopicQueue) -> None:
        """Begin at the master if it is pulled again."""
        self._pull_from.pop(queue, None)

    async def _offset(
        self,
        queue: TopicQueue,
        code: RequestCode,
        fields: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's
    ) -> int:
        address, _ = await self._address(queue, MASTER)
        answer = await self._client.ask(address, code, {**_of(queue), **(fields or {})}, timeout=timeout)
        try:
            return int(answer.fields["offset"])
        except (KeyError, ValueError):
            raise CommandError(f"{address}: no offset in the answer to {code.name}: {answer.fields}") from None

    async def _address(self, queue: TopicQueue, broker_id: int) -> tuple[str, bool]:
        found = server_of(self._client.brokers().get(queue.broker, {}), broker_id)
        if found is None:
            await self._client.update_route(queue.topic)
            found = server_of(self._client.brokers().get(queue.broker, {}), broker_id)
        if found is None:
            raise ClientError(f"The broker[{queue.broker}] not exist", ResponseCode.BROKER_NOT_EXIST)
        return found


def _of(queue: TopicQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker}
