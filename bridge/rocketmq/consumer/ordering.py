"""The broker's locks on queues: with them, a queue that is read in order is read by one member of a group at a time.

A broker releases a lock 60 s after the last request for it. A member asks every 20 s, and regards a lock as its own for
at most 30 s from its request. So no queue is read by two members, as long as their clocks run equally fast.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import read_json
from bridge.rocketmq.remoting.errors import RemotingError

__all__ = ["REBALANCE_LOCK_INTERVAL", "REBALANCE_LOCK_MAX_LIVE_TIME", "Locks", "lock_body"]

REBALANCE_LOCK_MAX_LIVE_TIME: Final = 30.0
"""Seconds that a lock is regarded as ours, from its request on (`ProcessQueue`)."""
REBALANCE_LOCK_INTERVAL: Final = 20.0
"""Seconds between two requests for all locks."""
LOCK_TIMEOUT: Final = 1.0
"""Seconds until a broker must have answered."""


class Locks:
    """The locks of a client of a group, at the masters of the queues' brokers."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group

    async def lock(self, queues: Iterable[TopicQueue]) -> tuple[set[TopicQueue], dict[TopicQueue, RemotingError]]:
        """Lock queues (`RebalanceImpl.lockAll`). Return the queues that are ours now, and the queues whose request
        failed, each with the error. All others are locked by another member.
        """
        locked: set[TopicQueue] = set()
        unknown: dict[TopicQueue, RemotingError] = {}
        for broker, wanted in _by_broker(queues).items():
            try:
                answer = await self._client.ask(
                    self._client.address(broker), RequestCode.LOCK_BATCH_MQ, body=self._body(wanted),
                    timeout=LOCK_TIMEOUT,
                )  # fmt: skip
                locked |= _parse_locked(answer.body) & set(wanted)
            except RemotingError as error:
                unknown |= dict.fromkeys(wanted, error)
        return locked, unknown

    async def unlock(self, queues: Iterable[TopicQueue]) -> None:
        """Unlock queues (`RebalanceImpl.unlock`); where that fails, the lock expires at the broker."""
        for broker, held in _by_broker(queues).items():
            try:
                address = self._client.address(broker)
                await self._client.ask(
                    address, RequestCode.UNLOCK_BATCH_MQ, body=self._body(held), timeout=LOCK_TIMEOUT
                )
            except RemotingError:
                continue

    def _body(self, queues: Iterable[TopicQueue]) -> bytes:
        return lock_body(self._group, self._client.client_id, queues)


def lock_body(group: str, client_id: str, queues: Iterable[TopicQueue]) -> bytes:
    """Return the body of both requests (`LockBatchRequestBody`)."""
    body = {
        "clientId": client_id,
        "consumerGroup": group,
        "mqSet": [queue.to_json() for queue in queues],
        "onlyThisBroker": False,
    }
    return json.dumps(body).encode()


def _by_broker(queues: Iterable[TopicQueue]) -> dict[str, list[TopicQueue]]:
    by_broker: defaultdict[str, list[TopicQueue]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker].append(queue)
    return by_broker


def _parse_locked(body: bytes) -> set[TopicQueue]:
    def queues(answer: Any) -> set[TopicQueue]:
        rows = answer["lockOKMQSet"] or ()
        return {TopicQueue(str(row["topic"]), str(row["brokerName"]), int(row["queueId"])) for row in rows}

    return read_json(body, queues)
