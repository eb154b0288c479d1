"""Requests of a group to brokers about popped messages: pop, acknowledge, hide for longer, wait for news.

They need neither an assigned queue nor membership in the group: a handle is enough. Their codes do not fit in a binary
header, so their headers are always in JSON.

Brokers of 5.x divide the queues themselves when a member asks (`MessageQueueAssignment`), and decide how each topic is
consumed by a group: with pulls, or with POP, by `mqadmin setConsumeMode` or ``defaultMessageRequestMode``. Older ones
do not know the request.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pop.answers import Popped, parse_pop
from bridge.rocketmq.consumer.pop.handle import PopHandle
from bridge.rocketmq.consumer.room import ANSWER_BYTES
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, now_ms, read_json
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, CommandError

InitMode = Literal["MIN", "MAX"]
"""Where a group starts in a queue that it has never read: at the first or the last message (`ConsumeInitMode`)."""

INIT_MODES: Final[dict[InitMode, str]] = {"MIN": "0", "MAX": "1"}
POP_TIMEOUT: Final = 10.0
"""Seconds beyond the time to wait at the broker until a pop must be answered."""
ACK_TIMEOUT: Final = 3.0
"""Seconds until an acknowledgement must be answered (``ASYNC_TIMEOUT``)."""
MAX_BATCH_SPAN: Final = 4096
"""Maximum distance of an offset from the first one of its pop in a batch of acknowledgements: a bit for each."""

TopicHandle = tuple[str, PopHandle]
"""The topic of a popped message, as it was asked for, and its handle."""


class PopRequests:
    """Requests of a group. Each raises RemotingError when it fails; times are in seconds."""

    def __init__(self, client: Client, group: str) -> None:
        self._client: Final = client
        self._group: Final = group

    async def pop(
        self,
        queue: TopicQueue,
        subscription: Subscription,
        count: int = 32,
        invisible_time: float = 60.0,
        *,
        poll_time: float = 0.0,
        init: InitMode = "MIN",
        ordered: bool = False,
        attempt: str = "",
        room: float = ANSWER_BYTES,
    ) -> Popped:
        """Pop at most ``count`` messages, 32 at most (`PullAPIWrapper.popAsync`).

        ``queue`` is a queue, or with the number -1 (``ANY_QUEUE``) all of its broker. The broker waits ``poll_time``
        for a message. Popped in order (``ordered``), the messages of a queue are handed out to one member at a time:
        the broker hands out no more until these are acknowledged, or their time is over; a pop with the ``attempt`` of
        the last one gets the same messages again. See `parse_pop` for ``room``. Raises InputError for damaged messages.
        """
        address = await self._address(queue)
        fields = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "maxMsgNums": str(count),
            "invisibleTime": str(round(invisible_time * 1000)),
            "pollTime": str(round(poll_time * 1000)),
            "bornTime": str(now_ms()),
            "initMode": INIT_MODES[init],
            "expType": subscription.type,
            "exp": subscription.expression,
            "order": "true" if ordered else "false",
            "bname": queue.broker,
            **({"attemptId": attempt} if attempt else {}),
        }
        answer = await self._client.invoke(address, RequestCode.POP_MESSAGE, fields, timeout=poll_time + POP_TIMEOUT)
        return parse_pop(answer, queue.broker, queue.topic, room, address)

    async def ack(self, topic: str, handle: PopHandle) -> None:
        """Acknowledge a message: it is not handed out again, unless its invisible time is over.

        Raises BrokerError with NO_MESSAGE for an offset that the queue does not have.
        """
        fields = self._handle_fields(topic, handle)
        await self._client.ask(
            await self._address_of(topic, handle), RequestCode.ACK_MESSAGE, fields, timeout=ACK_TIMEOUT
        )

    async def ack_all(self, handles: Sequence[TopicHandle]) -> None:
        """Acknowledge messages of one broker in one request (`batchAckMessageAsync`).

        The broker answers SUCCESS, whether or not it still knew the messages.
        """
        if len(handles) == 1:
            await self.ack(*handles[0])
            return
        near = [each for each in handles if 0 <= each[1].offset - each[1].start_offset <= MAX_BATCH_SPAN]
        for far in set(handles) - set(near):
            await self.ack(*far)
        if near:
            address = await self._address_of(*near[0])
            body = encode_batch_ack(self._group, near)
            await self._client.ask(address, RequestCode.BATCH_ACK_MESSAGE, body=body, timeout=ACK_TIMEOUT)

    async def change_invisible_time(self, topic: str, handle: PopHandle, seconds: float) -> PopHandle:
        """Hide a message for another time, from now on, and return its new handle; the old one is no longer valid.

        When the time is over, the message is handed out again, as after a failed try. Raises BrokerError.
        """
        fields = {**self._handle_fields(topic, handle), "invisibleTime": str(round(seconds * 1000))}
        address = await self._address_of(topic, handle)
        answer = await self._client.ask(address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields, timeout=ACK_TIMEOUT)
        pop_ms, invisible_ms, revive = _read_numbers(answer, address, "popTime", "invisibleTime", "reviveQid")
        return handle._replace(
            start_offset=handle.offset, pop_ms=pop_ms, invisible_ms=invisible_ms, revive_queue=revive
        )

    async def wait_for_news(self, queue: TopicQueue, poll_time: float, *, ordered: bool = False) -> bool:
        """Wait at the broker until a queue has messages to pop, ``poll_time`` at most; return whether it has some.

        Nothing is popped, so the request may be cancelled without losing messages (``NOTIFICATION``).
        """
        address = await self._address(queue)
        fields = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "pollTime": str(round(poll_time * 1000)),
            "bornTime": str(now_ms()),
            "order": "true" if ordered else "false",
            "bname": queue.broker,
        }
        answer = await self._client.invoke(address, RequestCode.NOTIFICATION, fields, timeout=poll_time + POP_TIMEOUT)
        if answer.code in (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND):
            return False
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark, address)
        return answer.fields.get("hasMsg") == "true"

    async def polling_number(self, queue: TopicQueue) -> int:
        """Return how many pops of the group wait at the broker for this queue, or for any (``POLLING_INFO``)."""
        address = await self._address(queue)
        fields = {
            "consumerGroup": self._group, "topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker,
        }  # fmt: skip
        answer = await self._client.ask(address, RequestCode.POLLING_INFO, fields)
        return _read_numbers(answer, address, "pollingNum")[0]

    def _handle_fields(self, topic: str, handle: PopHandle) -> dict[str, str]:
        return {
            "consumerGroup": self._group,
            "topic": handle.real_topic(topic, self._group),
            "queueId": str(handle.queue_id),
            "extraInfo": handle.text,
            "offset": str(handle.offset),
            "bname": handle.broker,
        }

    async def _address_of(self, topic: str, handle: PopHandle) -> str:
        return await self._address(TopicQueue(topic, handle.broker, handle.queue_id))

    async def _address(self, queue: TopicQueue) -> str:
        """Return the address of the master of a queue's broker; look the route up if it is not known."""
        try:
            return self._client.address(queue.broker)
        except ClientError:
            await self._client.update_route(queue.topic)
            return self._client.address(queue.broker)


def encode_batch_ack(group: str, handles: Iterable[TopicHandle]) -> bytes:
    """Return the body of a request that acknowledges messages of one broker (`BatchAckMessageRequestBody`).

    Messages of one pop of one queue share a row, with a bit for each, counted from the pop's begin.
    """
    bits: defaultdict[TopicHandle, int] = defaultdict(int)
    broker = ""
    for topic, handle in handles:
        broker = handle.broker
        pop = handle._replace(offset=0)  # what the messages of one pop of one queue have in common
        bits[topic, pop] |= 1 << handle.offset - handle.start_offset
    rows = [
        {
            "b": b64encode(each.to_bytes((each.bit_length() + 7) // 8, "little")).decode(),
            "c": group, "it": pop.invisible_ms, "pt": pop.pop_ms, "q": pop.queue_id, "r": pop.retry,
            "rq": pop.revive_queue, "so": pop.start_offset, "t": topic,
        }
        for (topic, pop), each in bits.items()
    ]  # fmt: skip
    return json.dumps({"acks": rows, "brokerName": broker}).encode()


def _read_numbers(answer: Command, address: str, *names: str) -> list[int]:
    try:
        return [int(answer.fields[name]) for name in names]
    except (KeyError, ValueError) as error:
        raise CommandError(f"{address}: an answer without {', '.join(names)}: {error}") from None


class BrokerAssignment(NamedTuple):
    """Queues of a topic that a member consumes."""

    pull: frozenset[TopicQueue]
    pop: frozenset[TopicQueue] = frozenset()
    """Queues, and brokers: a broker whose queues are all to be popped has the number -1 in place of a queue."""


async def query_assignment(
    client: Client, address: str, topic: str, group: str, strategy: str, model: str
) -> BrokerAssignment | None:
    """Ask a broker for the share of this client (`MQClientInstance.queryAssignment`).

    ``strategy`` is the name of an allocation that the broker has, ``AVG`` or ``AVG_BY_CIRCLE``; ``model`` is that of a
    `MessageModel`. None: the broker does not know the request, as before 5.0. Raises ClientError where it has no
    assignment, because it does not know the member, the topic, or the strategy; and RemotingError.
    """
    body = {
        "topic": topic, "consumerGroup": group, "clientId": client.client_id, "strategyName": strategy,
        "messageModel": model,
    }  # fmt: skip
    try:
        answer = await client.ask(address, RequestCode.QUERY_ASSIGNMENT, body=json.dumps(body).encode())
    except BrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        raise
    assigned = read_json(answer.body, _parse_assignment)
    if assigned is None:
        raise ClientError(
            f"group {group}: {address} assigns no queues of {topic} to {client.client_id} by {strategy}: it does not "
            "know the topic, the member, or the strategy"
        )
    return assigned


def _parse_assignment(body: Any) -> BrokerAssignment | None:
    rows = body.get("messageQueueAssignments")
    if rows is None:
        return None
    queues: dict[bool, set[TopicQueue]] = {False: set(), True: set()}
    for row in rows:
        queue = row["messageQueue"]
        found = TopicQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))
        queues[row.get("mode") == "POP"].add(found)
    return BrokerAssignment(frozenset(queues[False]), frozenset(queues[True]))
