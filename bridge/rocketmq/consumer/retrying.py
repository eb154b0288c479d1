"""Messages that failed: given back to the broker, which delivers them later, and in the end makes them dead letters.

A group has a topic of its own for retries, ``%RETRY%GROUP``, to which every member is subscribed, and one for dead
letters, ``%DLQ%GROUP``, which no member reads. The broker copies the message from its log; when it cannot, the client
sends the copy. The property RETRY_TOPIC of a retry is the topic that it was first read from; the retry is handed out
with that topic.
"""

from __future__ import annotations

import random
from typing import Final

from bridge.rocketmq.consumer.offsets import RETRY_PREFIX
from bridge.rocketmq.consumer.pop.handle import parse_original_topic
from bridge.rocketmq.remoting.client import AUTO_CREATE_TOPIC_KEY_TOPIC, Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import RemotingError
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.properties import DELAY, encode_properties
from exchange.partition.clients.rocketmq.queues import MessageQueue, publish_queues

DLQ_PREFIX: Final = "%DLQ%"

RETRY_TOPIC: Final = "RETRY_TOPIC"
"""The property with the topic that a retry was first read from."""
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"

MAX_RECONSUME_TIMES: Final = 16
"""Maximum number of times that a message is given back by default, unless it is read in order
(`DefaultMQPushConsumerImpl`)."""
FIRST_LEVEL: Final = 3
"""Delay level of the first retry; each further one is one level higher."""
DEAD: Final = -1
"""Delay level that makes a message a dead letter at once."""

CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
SEND_BACK_TIMEOUT: Final = 5.0
"""Seconds until the broker must have answered."""
SEND_TRIES: Final = 3
"""Maximum number of queues that are tried for a copy."""


def retry_topic(group: str) -> str:
    """Return the topic of a group's retries (``MixAll.getRetryTopic``)."""
    return RETRY_PREFIX + group


def restore_topic(message: StoredMessage, group: str) -> StoredMessage:
    """Return a retry with the topic it was first read from, another message as it is (`resetRetryAndNamespace`)."""
    first = message.properties.get(RETRY_TOPIC)
    if message.topic != RETRY_PREFIX + group:
        popped_from = parse_original_topic(message.topic, group)
        return message if popped_from == message.topic else message._replace(topic=popped_from)
    return message if first is None else message._replace(topic=first)


async def give_back(
    client: Client, group: str, message: StoredMessage, delay_level: int = 0, most: int = MAX_RECONSUME_TIMES
) -> None:
    """Give a message back to its broker, to be delivered later (`DefaultMQPushConsumerImpl.sendMessageBack`).

    With ``delay_level`` 0 the delay grows with the retries. The message becomes a dead letter with `DEAD`, and when it
    is given back more than ``most`` times. Raises RemotingError; then it is unknown whether a broker took the message.
    """
    try:
        fields = {
            "group": group,
            "originTopic": message.topic,
            "offset": str(message.log_offset),
            "delayLevel": str(delay_level),
            "originMsgId": message.message_id,
            "maxReconsumeTimes": str(most),
            "unitMode": "false",
            "bname": message.broker,
        }
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        await client.ask(client.address(message.broker), code, fields, timeout=SEND_BACK_TIMEOUT)
    except RemotingError:
        await send_retry(client, group, message, most)


async def send_retry(client: Client, group: str, message: StoredMessage, most: int) -> None:
    """Send a copy of a message to the group's retries (`sendMessageBackAsNormalMessage`).

    The broker makes it a dead letter if it was given back more than ``most`` times, or if the group reads in order.
    Raises RemotingError if no broker that has the topic takes it, InputError if none has the topic.
    """
    topic = retry_topic(group)
    queues = publish_queues(await client.route(topic)).all
    for tries, partition in enumerate(random.sample(queues, len(queues))[:SEND_TRIES], 1):
        queue = MessageQueue.from_partition(partition)
        try:
            fields = _fields(topic, queue, message, most)
            await client.ask(client.address(queue.broker), RequestCode.SEND_MESSAGE_V2, fields, message.body)
        except RemotingError:
            if tries == min(SEND_TRIES, len(queues)):
                raise
        else:
            return


def _fields(topic: str, queue: MessageQueue, message: StoredMessage, most: int) -> dict[str, str]:
    """Return the fields of the request that sends the copy (`SendMessageRequestHeaderV2`)."""
    properties = dict(message.properties)
    properties.setdefault(ORIGIN_MESSAGE_ID, message.message_id)
    properties[RETRY_TOPIC] = message.topic
    properties.pop(TRANSACTION_PREPARED, None)
    properties[DELAY] = str(FIRST_LEVEL + message.reconsume_times)
    return {
        "a": CLIENT_INNER_PRODUCER_GROUP,
        "b": topic,
        "c": AUTO_CREATE_TOPIC_KEY_TOPIC,
        "d": "4",
        "e": str(queue.queue_id),
        "f": "0",
        "g": str(now_ms()),
        "h": str(message.flag),
        "i": encode_properties(properties).decode(),
        "j": str(message.reconsume_times + 1),
        "k": "false",
        "l": str(most),
        "m": "false",
        "n": queue.broker,
    }
