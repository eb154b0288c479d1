"""The broker's locks on queues, by which one member of a group at a time reads a queue that is read in order.

A broker forgets a lock 60 s after it was asked for last. A member asks every 20 s and takes it for its own no longer
than 30 s from when it asked: so when two clocks agree about how long a second is, no queue is read by two.
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
"""Seconds that a lock is taken for ours after it was asked for (`ProcessQueue`)."""
REBALANCE_LOCK_INTERVAL: Final = 20.0
"""Seconds between two times that all are asked for again."""
LOCK_TIMEOUT: Final = 1.0
"""Seconds that the answer may take."""


class Locks:
    """Locks and unlocks queues for a client of a group, at the masters of their brokers."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group

    async def lock(self, queues: Iterable[TopicQueue]) -> tuple[set[TopicQueue], dict[TopicQueue, RemotingError]]:
        """Ask for these (`RebalanceImpl.lockAll`): which are ours, and of which it cannot be known, and why.

        The others are somebody else's.
        """
        locked: set[TopicQueue] = set()
        unknown: dict[TopicQueue, RemotingError] = {}
        for broker, wanted in _by_broker(queues).items():
            try:
                answer = await self._client.ask(
                    self._client.address(broker), RequestCode.LOCK_BATCH_MQ, body=self._body(wanted),
                    timeout=LOCK_TIMEOUT,
                )  # fmt: skip
                locked |= _locked(answer.body) & set(wanted)
            except RemotingError as error:
                unknown |= dict.fromkeys(wanted, error)
        return locked, unknown

    async def unlock(self, queues: Iterable[TopicQueue]) -> None:
        """Give these up (`RebalanceImpl.unlock`); what cannot be, is forgotten by the broker in time."""
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
    """The body of both requests (`LockBatchRequestBody`)."""
    body = {
        "clientId": client_id,
        "consumerGroup": group,
        "mqSet": [queue.to_json() for queue in queues],
        "onlyThisBroker": False,
    }
    return json.dumps(body).encode()


def _by_broker(queues: Iterable[TopicQueue]) -> dict[str, list[TopicQueue]]:
    found: defaultdict[str, list[TopicQueue]] = defaultdict(list)
    for queue in queues:
        found[queue.broker].append(queue)
    return found


def _locked(body: bytes) -> set[TopicQueue]:
    def queues(told: Any) -> set[TopicQueue]:
        rows = told["lockOKMQSet"] or ()
        return {TopicQueue(str(row["topic"]), str(row["brokerName"]), int(row["queueId"])) for row in rows}

    return read_json(body, queues)
