"""What a producer knows of a topic, and what it writes to a broker: routes made into places, messages into requests.

A place is a queue of the publish queue list with the part of a request that is the same for all its messages, encoded
once (`org.apache.rocketmq.client.impl.producer.TopicPublishInfo`, `SendMessageRequestHeaderV2`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from zlib import compress

from bridge.rocketmq.remoting.client import AUTO_CREATE_TOPIC_KEY_TOPIC
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, frame_of
from bridge.rocketmq.remoting.command import field as field_of
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, CommandError
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import BODY_BYTES, UNIQ_KEY, checked_body, checked_properties
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.faults import FaultStrategy
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.clients.rocketmq.queues import TopicRoute, publish_queues
from exchange.partition.clients.rocketmq.send import SendSettings
from exchange.partition.partitions import Partitions

__all__ = ["Place", "ProducerSettings", "Publishing", "Request", "SendResult", "request_for", "result_of"]

COMPRESSED: Final = 0x1 | 0x3 << 8
"""`MessageSysFlag.COMPRESSED_FLAG | COMPRESSION_ZLIB_TYPE`; before 5.0 zlib is what the first alone means."""
PREPARED: Final = 0x1 << 2
"""`MessageSysFlag.TRANSACTION_PREPARED_TYPE`"""

MESSAGE_TYPE: Final = "MSG_TYPE"
REPLY: Final = "reply"
PREPARED_PROPERTY: Final = "TRAN_MSG"

STATUS: Final[Mapping[int, str]] = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
"""The answers that say that the broker has the message -> `SendStatus`."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """What a producer is configured with, under the names of `DefaultMQProducer` where it has them."""

    group: str
    """``producerGroup``"""
    sending: SendSettings = field(default_factory=SendSettings)
    """Timeouts, retries, and the version of the Java client whose rules they follow."""
    faults: FaultStrategy = field(default_factory=lambda: FaultStrategy(enabled=False))
    """``sendLatencyFaultEnable``, off in a producer that was not told otherwise, and how brokers are kept away from."""
    compress_over: int = 4096
    """``compressMsgBodyOverHowmuch``: a body of so many bytes or more is compressed; batches are not."""
    compress_level: int = 5
    """``rocketmq.message.compressLevel``, of zlib."""
    max_message_size: int = BODY_BYTES
    create_topic_key: str = AUTO_CREATE_TOPIC_KEY_TOPIC
    """``createTopicKey``: the topic whose queues those have that brokers create when they are first sent to."""
    default_topic_queue_nums: int = 4
    """How many queues, on each broker, such a topic gets at most."""
    unit_mode: bool = False
    async_send_num: int = 1024
    """``backPressureForAsyncSendNum``: so many messages are under way at most."""
    async_send_size: int = 100 << 20
    """``backPressureForAsyncSendSize``: bytes of bodies."""


class SendResult(NamedTuple):
    """The broker has the message (`org.apache.rocketmq.client.producer.SendResult`)."""

    status: str
    """A row of `exchange.partition.clients.rocketmq.send.STATUSES`."""
    message_id: str
    """``msgId``, the unique id; those of a batch with commas between."""
    offset_message_id: str
    """``offsetMsgId``, which tells where it is stored; those of a batch with commas between."""
    queue: MessageQueue
    queue_offset: int
    """Of a batch that of its first message."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    """Of a timed message, since 5.3: what it could be recalled by."""


class Request(NamedTuple):
    """A message, or a batch, as it is written; but for the queue."""

    code: int
    topic: str
    body: bytes
    properties: bytes
    unique_id: str
    system_flag: int
    flag: int
    is_batch: bool = False


class Place(NamedTuple):
    """A queue that can be sent to."""

    queue: MessageQueue
    fields: dict[str, str]
    """Of the request's header, those that are the same for all messages."""
    raw: bytes
    """The same, as a binary header has them."""

    def command(self, request: Request, born: int) -> Command:
        """The request for this queue; ``born`` is in milliseconds since 1970."""
        varying = {
            "f": str(request.system_flag), "g": str(born), "h": str(request.flag), "i": request.properties.decode(),
            "m": "true" if request.is_batch else "false",
        }  # fmt: skip
        return Command(request.code, self.fields | varying, request.body)

    def frame(self, request: Request, born: int, opaque: int, flag: int = 0) -> bytes:
        """The frame of the same, with a binary header."""
        code, _, body, properties, _, system_flag, user_flag, is_batch = request
        size = len(properties)
        plain = PLAIN if not (system_flag or user_flag or is_batch) else _marks(system_flag, user_flag, is_batch)
        fields = b"%b\0\1g\0\0\0\x0d%013d%b\0\1i%c%c%c%c%b" % (
            self.raw, born, plain, size >> 24, size >> 16 & 255, size >> 8 & 255, size & 255, properties,
        )  # fmt: skip
        return frame_of(code, opaque, flag, fields, body)


def _marks(system_flag: int, flag: int, is_batch: bool) -> bytes:
    batch = "true" if is_batch else "false"
    return field_of("f", str(system_flag)) + field_of("h", str(flag)) + field_of("m", batch)


PLAIN: Final = _marks(0, 0, is_batch=False)


class Publishing:
    """A topic's queues, as selectors get them, with a place for each at the same position."""

    __slots__ = ("_by_queue", "_settings", "_topic", "partitions", "places")

    def __init__(self, topic: str, partitions: Partitions, settings: ProducerSettings) -> None:
        self._topic = topic
        self._settings = settings
        self.partitions: Final = partitions
        self.places: Final = tuple([_place(topic, MessageQueue.of(partition), settings) for partition in partitions])
        self._by_queue: Final = {place.queue: place for place in self.places}

    @classmethod
    def of(cls, topic: str, route: TopicRoute, settings: ProducerSettings, *, is_new: bool = False) -> Publishing:
        """The queues in a route; with ``is_new`` it is the route of ``create_topic_key``, and the topic is not there.

        Raises ClientError where the route has no queue.
        """
        if is_new:
            queues = []
            for data in route.queues:
                count = min(settings.default_topic_queue_nums, data.read_queues)
                queues.append(data._replace(read_queues=count, write_queues=count))
            route = replace(route, queues=tuple(queues))
        try:
            return cls(topic, publish_queues(route), settings)
        except InputError as error:
            raise ClientError(f"topic {topic}: {error}") from None

    def place(self, queue: MessageQueue) -> Place:
        """That of a queue, which need not be in the list: ``send(Message, MessageQueue)`` takes any."""
        return self._by_queue.get(queue) or _place(self._topic, queue, self._settings)


def _place(topic: str, queue: MessageQueue, settings: ProducerSettings) -> Place:
    fields = {
        "a": settings.group,
        "b": topic,
        "c": settings.create_topic_key,
        "d": str(settings.default_topic_queue_nums),
        "e": str(queue.queue_id),
        "j": "0",
        "k": "true" if settings.unit_mode else "false",
        "n": queue.broker,
    }
    return Place(queue, fields, b"".join([field_of(name, value) for name, value in fields.items()]))


def request_for(message: RocketMessage, settings: ProducerSettings, unique_id: str) -> Request:
    """A message as it is written, with this unique id unless it has one, compressed if it is large.

    Raises IllegalMessage for one that brokers do not take.
    """
    topic, body, properties, flag = message
    checked_body(body, settings.max_message_size)
    if UNIQ_KEY in properties:
        unique_id = properties[UNIQ_KEY]
    else:
        properties = {**properties, UNIQ_KEY: unique_id}
    system_flag = 0
    if len(body) >= settings.compress_over:
        body, system_flag = compress(body, settings.compress_level), COMPRESSED
    if properties.get(PREPARED_PROPERTY) == "true":
        system_flag |= PREPARED
    is_reply = properties.get(MESSAGE_TYPE) == REPLY
    code = RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply else RequestCode.SEND_MESSAGE_V2
    return Request(code, topic, body, checked_properties(properties), unique_id, system_flag, flag)


def result_of(answer: Command, request: Request, queue: MessageQueue, address: str) -> SendResult:
    """What a broker's answer says (`MQClientAPIImpl.processSendResponse`). Raises BrokerError, CommandError."""
    status = STATUS.get(answer.code)
    if status is None:
        raise BrokerError(answer.code, answer.remark, address)
    fields = answer.fields
    try:
        queue_id, offset = int(fields.get("queueId", queue.queue_id)), int(fields.get("queueOffset", -1))
    except ValueError:
        raise CommandError(f"{address}: not the answer to a message: {fields}") from None
    return SendResult(
        status,
        request.unique_id,
        fields.get("msgId", ""),
        queue if queue_id == queue.queue_id else MessageQueue(queue.broker, queue_id),
        offset,
        fields.get("transactionId"),
        fields.get("recallHandle"),
    )
