"""Messages that a broker will store in a topic later: delayed ones, timed ones, and halves of transactions.

Until they are due, or committed, they are in topics of the broker's own. Their queue was chosen when they were sent,
and the broker puts them there without a look at the topic's numbers of queues: in a queue that is not read any more
they would be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import FLAG_SUBSCRIPTION, BrokerQueues, parse_pull, pull_fields
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import BrokerError
from bridge.rocketmq.remoting.message import StoredMessage, read_number
from bridge.rocketmq.remoting.statistics import consume_stats, count_timed_messages, delay_offsets, fetch_topic_stats
from exchange.errors import HashstarError
from exchange.limits import DEFERRED_MESSAGES


class ScalingRefused(HashstarError):
    """A topic must not be scaled, or not now: messages would be lost, or it cannot be known whether any would be."""

    exit_code: ClassVar[int] = 1


DELAYED: Final = "SCHEDULE_TOPIC_XXXX"
"""Topic of delayed messages, with a queue for each delay level."""
TIMED: Final = "rmq_sys_wheel_timer"
"""Topic of messages with a time of their own (5.x). All stay there; a wheel has those that are not due."""
HALVES: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Topic of half messages."""
HALVES_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Group whose offset in it is that of the first half that may be undecided."""

READER: Final = "TOOLS_CONSUMER"
"""Group of administration tools, which every broker has. No offset of it is committed."""
PULLED: Final = 32
"""Maximum number of messages of a pull."""

LATE: Final = 10_000
"""Milliseconds by which a timed message may be delivered late."""


class _Room(NamedTuple):
    """A queue of the broker's own, and the offsets between which its messages wait."""

    topic: str
    queue: int
    start: int
    end: int


class _Message(NamedTuple):
    """A message that waits."""

    offset: int
    """Its offset in the room."""
    queue: int
    """Queue of the topic that it goes to."""
    due: int
    """When it leaves a room whose messages stay, in milliseconds since 1970; 0 in other rooms."""


@dataclass(slots=True)
class _KnownRoom:
    """What was read of a room."""

    next_offset: int = 0
    waiting: list[_Message] = field(default_factory=list)


class DeferredMessages:
    """The messages that one broker will store in a topic. Each is read once, however often they are counted."""

    def __init__(self, client: Client, broker: str, address: str, topic: str) -> None:
        self._client: Final = client
        self._broker: Final = broker
        self._address: Final = address
        self._topic: Final = topic
        self._rooms: Final[dict[tuple[str, int], _KnownRoom]] = {}

    async def count(self) -> Counter[int]:
        """Return the number of messages on their way to each queue of the topic.

        Raises RemotingError; and ScalingRefused if halves cannot be read yet, or if more than `DEFERRED_MESSAGES` wait
        in one of the broker's queues.
        """
        counts: Counter[int] = Counter()
        for room in [*await self._delayed(), *await self._halves(), *await self._timed()]:
            known = self._rooms.setdefault((room.topic, room.queue), _KnownRoom())
            await self._read(room, known)
            now = now_ms()
            known.waiting = [
                each for each in known.waiting if each.offset >= room.start and (not each.due or each.due > now)
            ]
            counts.update(each.queue for each in known.waiting)
        return counts

    async def _delayed(self) -> list[_Room]:
        delivered = await delay_offsets(self._client, self._address)
        queues = await self._offsets(DELAYED)
        return [_Room(DELAYED, queue, delivered.get(queue + 1, 0), end) for queue, (_, end) in queues.items()]

    async def _halves(self) -> list[_Room]:
        queues = await self._offsets(HALVES)
        if not queues and await self._has_hidden_halves():
            raise ScalingRefused(
                f"broker {self._broker!r} has half messages of transactions, and shows them only from its first check "
                "of transactions on, a minute after its start; run it again then"
            )
        if not any(end for _, end in queues.values()):
            return []
        decided = await consume_stats(self._client, self._address, HALVES, HALVES_GROUP)
        return [_Room(HALVES, queue, decided.get(queue, 0), end) for queue, (_, end) in queues.items()]

    async def _has_hidden_halves(self) -> bool:
        """Return whether there are half messages although the broker does not know their topic yet."""
        return await BrokerQueues(self._client, READER).max_offset(TopicQueue(HALVES, self._broker, 0)) > 0

    async def _timed(self) -> list[_Room]:
        if await count_timed_messages(self._client, self._address, self._topic) <= 0:
            return []
        return [_Room(TIMED, queue, *offsets) for queue, offsets in (await self._offsets(TIMED)).items()]

    async def _offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of the queues of one of the broker's topics; none if it has no such."""
        try:
            return await fetch_topic_stats(self._client, self._address, topic)
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return {}
            raise

    async def _read(self, room: _Room, known: _KnownRoom) -> None:
        """Read what is new in a room."""
        at = max(known.next_offset, room.start)
        if room.end - at > DEFERRED_MESSAGES:
            raise ScalingRefused(
                f"broker {self._broker!r} has {room.end - at:,} deferred messages in {room.topic}; at most "
                f"{DEFERRED_MESSAGES:,} can be searched for those of this topic. Run it when there are fewer"
            )
        queue = TopicQueue(room.topic, self._broker, room.queue)
        everything = Subscription.to_tags(room.topic)
        while at < room.end:
            fields = pull_fields(READER, queue, everything, at, PULLED, None)
            fields |= {"sysFlag": str(FLAG_SUBSCRIPTION), "subscription": everything.expression}
            answer = await self._client.invoke(self._address, RequestCode.PULL_MESSAGE, fields)
            pulled = parse_pull(answer, self._address)
            known.waiting += self._of_topic(pulled.messages(queue, everything), is_timed=room.topic == TIMED)
            if pulled.next_offset <= at:  # the end, whatever was counted before
                break
            at = pulled.next_offset
        known.next_offset = at

    def _of_topic(self, messages: list[StoredMessage], *, is_timed: bool) -> Iterator[_Message]:
        for message in messages:
            properties = message.properties
            if properties.get("REAL_TOPIC") == self._topic:
                due = read_number(properties.get("TIMER_OUT_MS")) + LATE if is_timed else 0
                yield _Message(message.queue_offset, read_number(properties.get("REAL_QID")), due)
