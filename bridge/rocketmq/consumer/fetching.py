"""One pull of an assigned queue, and what becomes of it: messages, a new place to go on from, or a pause."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.group import Group
from bridge.rocketmq.consumer.pulling import BrokerQueues, Pulled, PullStatus
from bridge.rocketmq.consumer.retrying import restored
from bridge.rocketmq.consumer.room import ANSWER_BYTES
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, RemotingError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import HashstarError, InputError

__all__ = ["Fetching"]

LOG: Final = logging.getLogger(__name__)

FLOW_CONTROL: Final = 0.02
"""Seconds to wait when a broker has too much to do (``PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL``)."""
UNKNOWN: Final = frozenset({
    ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST, ResponseCode.FILTER_DATA_NOT_EXIST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
})  # fmt: skip
"""A broker says these that was restarted, as long as it has had no heartbeat."""
HEARD: Final = 1.0
"""Seconds that it may take to make something of a heartbeat."""


class Fetching:
    """Pulls for a group: ``news`` is called when messages came, ``reset`` with a queue that goes on elsewhere.

    ``bytes_left`` gives how many bytes of messages may still be kept, of all queues together.
    """

    def __init__(
        self,
        client: Client,
        group: Group,
        queues: BrokerQueues,
        troubles: dict[TopicQueue | str, HashstarError],
        *,
        news: Callable[[], None],
        reset: Callable[[AssignedQueue, int], None],
        bytes_left: Callable[[], float],
    ) -> None:
        self._client: Final = client
        self._group: Final = group
        self._queues: Final = queues
        self._troubles: Final = troubles
        self._news: Final = news
        self._reset: Final = reset
        self._bytes_left: Final = bytes_left

    async def pull(self, assigned: AssignedQueue, room: int, commit: int | None) -> float | None:
        """Pull once, and tell where the group stands; the seconds to wait before it is tried again, if it failed."""
        queue = assigned.queue
        subscription = self._group.subscriptions[queue.topic]
        try:
            answer = await self._queues.pull(queue, subscription, assigned.next_offset, room, commit)
            self._heed(assigned, answer, subscription)
        except (RemotingError, InputError) as error:
            code = error.code if isinstance(error, BrokerError) else None
            if code == ResponseCode.FLOW_CONTROL:
                return FLOW_CONTROL
            if queue not in self._troubles:
                LOG.warning("group %s: %s is not pulled: %s", self._group.name, queue, error)
            self._troubles[queue] = error
            if code not in UNKNOWN:
                return self._group.settings.pull_time_delay_when_exception
            await self._client.heartbeat()
            return HEARD
        if self._troubles.pop(queue, None) is not None:
            LOG.info("group %s: %s is pulled again", self._group.name, queue)
        return None

    def _heed(self, assigned: AssignedQueue, answer: Pulled, subscription: Subscription) -> None:
        """What became of a pull (`DefaultMQPushConsumerImpl.pullMessage`)."""
        if answer.status is PullStatus.OFFSET_ILLEGAL:
            queue = assigned.queue
            LOG.warning(
                "group %s: %s has no offset %d; it goes on at %d",
                self._group.name, queue, assigned.next_offset, answer.next_offset,
            )  # fmt: skip
            self._reset(assigned, answer.next_offset)
            return
        found: Sequence[StoredMessage] = ()
        next_offset = answer.next_offset
        if answer.status is PullStatus.FOUND:
            left = self._bytes_left()
            if left <= 0:  # pulls of other queues were answered first; it is pulled again when there is room
                return
            found, next_offset = answer.first_messages(assigned.queue, subscription, min(left, ANSWER_BYTES))
        if assigned.queue.topic == self._group.retry_topic:
            found = [restored(message, self._group.name) for message in found]
        if assigned.put(found, next_offset, answer.max_offset):
            self._news()
