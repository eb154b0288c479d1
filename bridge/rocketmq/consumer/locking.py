"""The broker's locks on queues: with them, a queue that is read in order is read by one member of a group at a time.

A broker releases a lock 60 s after the last request for it. A member asks every 20 s, and regards a lock as its own for
at most 30 s from its request. So no queue is read by two members, as long as their clocks run equally fast.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.persisting import Persisting
from bridge.rocketmq.consumer.room import PulledQueue
from bridge.rocketmq.consumer.tasks import wait_for
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import now_ms, read_json
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from exchange.errors import HashstarError, InputError

REBALANCE_LOCK_MAX_LIVE_TIME: Final = 30.0
"""Seconds that a lock is regarded as ours, from its request on (`ProcessQueue`)."""
REBALANCE_LOCK_INTERVAL: Final = 20.0
"""Seconds between two requests for all locks."""
LOCK_TIMEOUT: Final = 1.0
"""Seconds until a broker must have answered."""


class LockRequests:
    """Requests of one member of a group for locks on queues, to the masters of their brokers."""

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


LOG: Final = logging.getLogger(__name__)

LOCK_AGAIN: Final = 1.0
"""Seconds until the next request for all locks after one that failed for a queue."""


class Locking:
    """Keeps the queues of ``readings`` locked for one member of a group.

    ``renewed`` is called when messages may be handed out again, ``lost`` with each queue that another member has.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        readings: Mapping[TopicQueue, PulledQueue],
        persisting: Persisting,
        troubles: dict[TopicQueue | str, HashstarError],
        *,
        renewed: Callable[[], None],
        lost: Callable[[PulledQueue], None],
    ) -> None:
        self._client: Final = client
        self._group: Final = group
        self._requests: Final = LockRequests(client, group)
        self._readings: Final = readings
        self._persisting: Final = persisting
        self._troubles: Final = troubles
        self._renewed: Final = renewed
        self._lost: Final = lost
        self._unlocked: Final = asyncio.Event()
        """Set when a lock is to be asked for again at once."""

    async def acquire(self, queues: Iterable[TopicQueue]) -> set[TopicQueue]:
        """Lock queues, and return those that are locked for us now; a request that fails is noted in ``troubles``."""
        locked, unknown = await self._requests.lock(queues)
        for queue, error in unknown.items():
            self._troubles[queue] = error
        return locked

    async def release(self, queues: Iterable[TopicQueue]) -> None:
        """Unlock queues."""
        await self._requests.unlock(queues)

    def check(self, reading: PulledQueue) -> None:
        """Regard a lock as lost when its connection has ended: a broker that was restarted has no locks."""
        if reading.channel is not None and reading.channel.closed:
            reading.channel = None
            reading.assigned.locked_until = -inf
            self._unlocked.set()

    async def run(self) -> None:
        """Renew all locks every 20 s, and at once when one is lost; give up the queues that another member has."""
        loop = asyncio.get_running_loop()
        wait = REBALANCE_LOCK_INTERVAL
        while True:
            await wait_for(self._unlocked, wait)
            self._unlocked.clear()
            held = {queue: reading for queue, reading in self._readings.items() if not reading.assigned.dropped}
            asked = loop.time()
            locked, unknown = await self._requests.lock(held)
            wait = LOCK_AGAIN if unknown else REBALANCE_LOCK_INTERVAL
            for queue, reading in held.items():
                # The queue may have been given up, or assigned anew, during the request.
                if self._readings.get(queue) is not reading or reading.assigned.dropped:
                    continue
                if queue in locked:
                    await self._renew(reading, asked)
                elif queue in unknown:
                    self._troubles[queue] = unknown[queue]
                else:
                    LOG.warning("group %s: %s is locked by another member", self._group, queue)
                    reading.assigned.locked_until = -inf
                    self._lost(reading)

    async def _renew(self, reading: PulledQueue, asked: float) -> None:
        """Extend the lock of a queue.

        If it had expired at ``asked``, when the request was sent, another member may have had it: the queue is given up
        if the group's offset is beyond ours.
        """
        assigned = reading.assigned
        if assigned.locked_until <= asked:
            try:
                known = await self._persisting.offsets.read(assigned.queue)
            except (RemotingError, InputError) as error:
                self._troubles[assigned.queue] = error
                return
            if known is not None and known > (assigned.committable or 0):
                self._lost(reading)
                return
        self.hold(reading, asked + REBALANCE_LOCK_MAX_LIVE_TIME)
        reading.moved.set()
        self._renewed()

    def hold(self, reading: PulledQueue, until: float) -> None:
        """Regard the lock as ours until a time; without an open connection to the broker, have it asked for again."""
        with suppress(ClientError):
            reading.channel = self._client.open_channel(self._client.address(reading.assigned.queue.broker))
        if reading.channel is None:
            self._unlocked.set()
        else:
            reading.assigned.locked_until = until
            reading.locked_ms = now_ms()
