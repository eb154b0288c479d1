"""One pull of an assigned queue and its outcome: messages to keep, another offset to continue from, or a pause."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.group import Group
from bridge.rocketmq.consumer.offsets import RETRY_PREFIX
from bridge.rocketmq.consumer.pulling import BrokerQueues, Pulled, PullStatus
from bridge.rocketmq.consumer.retrying import restore_topic
from bridge.rocketmq.consumer.room import ANSWER_BYTES
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, ConnectError, RemotingError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import HashstarError, InputError

LOG: Final = logging.getLogger(__name__)

FLOW_CONTROL_SECONDS: Final = 0.02
"""Seconds to wait when a broker is overloaded (``PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL``)."""
NO_SUBSCRIPTION: Final = frozenset({
    ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST, ResponseCode.FILTER_DATA_NOT_EXIST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
})  # fmt: skip
"""Answers of a broker that was restarted and has had no heartbeat since."""
HEARTBEAT_SECONDS: Final = 1.0
"""Seconds to wait after a heartbeat until the broker has processed it."""


Answered = Callable[[AssignedQueue, int, int, int], None]
"""Takes the answer to a pull: the queue, the offset that was asked for, the first after it that is read, and the offset
at which the queue began then. What lies between the first two was removed, or the subscription does not want it."""


class QueuePulls:
    """The pulls of a group. The error of a failed pull is put into ``troubles``, under its queue.

    ``news`` is called when messages came, ``reset`` with a queue that must continue at another offset. ``bytes_left``
    returns how many bytes of messages may still be kept, of all queues together; ``gone`` is called with a queue whose
    topic does not exist.
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
        gone: Callable[[TopicQueue], None] = lambda _: None,
        answered: Answered | None = None,
    ) -> None:
        self._client: Final = client
        self._group: Final = group
        self._queues: Final = queues
        self._troubles: Final = troubles
        self._news: Final = news
        self._reset: Final = reset
        self._bytes_left: Final = bytes_left
        self._gone: Final = gone
        self._answered: Final = answered or (lambda *_: None)

    async def pull(self, assigned: AssignedQueue, room: int, commit: int | None) -> float | None:
        """Pull once, and commit the offset ``commit`` with it.

        Return None for a success, else the seconds to wait before the next try.
        """
        queue = assigned.queue
        subscription = self._group.subscriptions[queue.topic]
        try:
            answer = await self._queues.pull(queue, subscription, assigned.next_offset, room, commit)
            if assigned.is_gone:  # the topic is there again: what the group has of it counts
                self._reset(assigned, await self._queues.committed_offset(queue) or 0)
            elif answer.status is PullStatus.OFFSET_ILLEGAL:
                await self._move(assigned, answer)
            else:
                self._take_answer(assigned, answer, subscription)
        except (RemotingError, InputError) as error:
            code = error.code if isinstance(error, BrokerError) else None
            if code == ResponseCode.FLOW_CONTROL:
                return FLOW_CONTROL_SECONDS
            if code == ResponseCode.TOPIC_NOT_EXIST:
                self._gone(queue)
            if queue not in self._troubles:
                LOG.warning("group %s: %s is not pulled: %s", self._group.name, queue, error)
            self._troubles[queue] = error
            if isinstance(error, ConnectError):  # the broker may be back under another address
                with suppress(RemotingError):
                    await self._client.update_route(queue.topic)
            if code not in NO_SUBSCRIPTION:
                return self._group.settings.pull_time_delay_when_exception
            await self._client.heartbeat()
            return HEARTBEAT_SECONDS
        if self._troubles.pop(queue, None) is not None:
            LOG.info("group %s: %s is pulled again", self._group.name, queue)
        return None

    async def _move(self, assigned: AssignedQueue, answer: Pulled) -> None:
        """Continue a queue that has not the offset that was pulled. Raises RemotingError.

        Where messages were removed from its beginning, or the group's offset was reset, that is at the offset in the
        answer. A queue that ends before the offset is another one: its topic was made anew, or the broker has lost the
        end. The answer is then its end, and what it has was never read: so it is read from its beginning, or from the
        messages on that were stored since the last one that came from here.
        """
        queue, wanted, offset = assigned.queue, assigned.next_offset, answer.next_offset
        if wanted > answer.max_offset:
            offset = max(0, answer.min_offset)
            if assigned.stored_at is not None:
                offset = max(offset, await self._queues.search_offset(queue, assigned.stored_at))
            offset = min(offset, answer.max_offset)
        else:
            self._answered(assigned, wanted, offset, answer.min_offset)
        LOG.warning("group %s: %s has no offset %d; it goes on at %d", self._group.name, queue, wanted, offset)
        self._reset(assigned, offset)

    def _take_answer(self, assigned: AssignedQueue, answer: Pulled, subscription: Subscription) -> None:
        """Keep the messages of an answer."""
        messages: Sequence[StoredMessage] = ()
        next_offset = answer.next_offset
        if answer.status is PullStatus.FOUND:
            left = self._bytes_left()
            if left <= 0:  # answers for other queues have taken the room: this one is dropped, and pulled again later
                return
            messages, next_offset = answer.first_messages(assigned.queue, subscription, min(left, ANSWER_BYTES))
        if assigned.queue.topic.startswith(RETRY_PREFIX):
            messages = [restore_topic(message, self._group.name) for message in messages]
        asked = assigned.next_offset
        is_news = assigned.put(messages, next_offset, answer.max_offset)
        first = messages[0].queue_offset if messages else assigned.next_offset
        self._answered(assigned, asked, first, answer.min_offset)
        if is_news:
            self._news()
