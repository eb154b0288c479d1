"""What a producer knows of a topic, and what it writes to a broker: routes become queues, messages become requests.

A `PublishQueue` encodes once those fields of a request's header that are the same for all messages of its queue
(`org.apache.rocketmq.client.impl.producer.TopicPublishInfo`, `SendMessageRequestHeaderV2`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import compress

from bridge.rocketmq.remoting.client import AUTO_CREATE_TOPIC_KEY_TOPIC
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, encode_field, join_frame
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, CommandError
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import BODY_BYTES, UNIQ_KEY, check_body, encode_checked_properties
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.faults import FaultStrategy
from exchange.partition.clients.rocketmq.queues import MessageQueue, TopicRoute, publish_queues
from exchange.partition.clients.rocketmq.send import SendSettings
from exchange.partition.partitions import Partitions

COMPRESSED: Final = 0x1 | 0x3 << 8
"""`MessageSysFlag.COMPRESSED_FLAG | COMPRESSION_ZLIB_TYPE`; before 5.0 the first bit alone means zlib."""
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
"""Answers of a broker that has stored the message -> `SendStatus`."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Configuration of a producer, with the names of `DefaultMQProducer` where it has them."""

    group: str
    """``producerGroup``"""
    sending: SendSettings = field(default_factory=SendSettings)
    """Timeouts, retries, and the version of the Java client whose rules they follow."""
    faults: FaultStrategy = field(default_factory=lambda: FaultStrategy(enabled=False))
    """``sendLatencyFaultEnable``, off by default, and how brokers that fail or are slow are avoided."""
    compress_over: int = 4096
    """``compressMsgBodyOverHowmuch``: minimum size of a body that is compressed, in bytes; batches never are."""
    compress_level: int = 5
    """``rocketmq.message.compressLevel``, of zlib."""
    max_message_size: int = BODY_BYTES
    """``maxMessageSize``: maximum size of a body, in bytes."""
    create_topic_key: str = AUTO_CREATE_TOPIC_KEY_TOPIC
    """``createTopicKey``: the topic whose route a new topic gets where brokers create topics on first use."""
    default_topic_queue_nums: int = 4
    """``defaultTopicQueueNums``: maximum number of queues that such a new topic gets on each broker."""
    unit_mode: bool = False
    async_send_num: int = 1024
    """``backPressureForAsyncSendNum``: maximum number of messages under way."""
    async_send_size: int = 100 << 20
    """``backPressureForAsyncSendSize``: maximum size of their bodies together, in bytes."""


class SendResult(NamedTuple):
    """Answer of a broker that has stored a message (`org.apache.rocketmq.client.producer.SendResult`)."""

    status: str
    """One of `exchange.partition.clients.rocketmq.send.STATUSES`."""
    message_id: str
    """``msgId``, the unique id; the ids of a batch have commas between them."""
    offset_message_id: str
    """``offsetMsgId``, the position where it is stored; those of a batch have commas between them."""
    queue: MessageQueue
    queue_offset: int
    """Offset of the message, or of the first message of a batch."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    """Handle by which a timed message can be recalled, since 5.3."""


class SendRequest(NamedTuple):
    """A message or a batch, encoded except for the fields that depend on its queue."""

    code: int
    topic: str
    body: bytes
    properties: bytes
    unique_id: str
    system_flag: int
    flag: int
    is_batch: bool = False


class PublishQueue(NamedTuple):
    """A queue of the publish queue list."""

    queue: MessageQueue
    fields: dict[str, str]
    """Fields of the request's header that are the same for all messages."""
    raw: bytes
    """The same fields, as they are in a binary header."""

    def command(self, request: SendRequest, born: int) -> Command:
        """Return the request to this queue; ``born`` is in milliseconds since 1970."""
        varying = {
            "f": str(request.system_flag), "g": str(born), "h": str(request.flag), "i": request.properties.decode(),
            "m": "true" if request.is_batch else "false",
        }  # fmt: skip
        return Command(request.code, self.fields | varying, request.body)

    def frame(self, request: SendRequest, born: int, opaque: int, flag: int = 0) -> bytes:
        """Return the frame of `command` with a binary header; it makes no `Command`, as it runs for each message."""
        code, _, body, properties, _, system_flag, user_flag, is_batch = request
        size = len(properties)
        flags = NO_FLAGS if not (system_flag or user_flag or is_batch) else _flags(system_flag, user_flag, is_batch)
        # A field is the length of its name (2 bytes), the name, the length of its value (4 bytes), the value. Behind
        # `raw` come g, the time of birth in 13 digits; f, h and m, all in `flags`; and i, the properties.
        fields = b"%b\0\1g\0\0\0\x0d%013d%b\0\1i%c%c%c%c%b" % (
            self.raw, born, flags, size >> 24, size >> 16 & 255, size >> 8 & 255, size & 255, properties,
        )  # fmt: skip
        return join_frame(code, opaque, flag, fields, body)


@lru_cache(maxsize=256)
def _flags(system_flag: int, flag: int, is_batch: bool) -> bytes:
    batch = "true" if is_batch else "false"
    return encode_field("f", str(system_flag)) + encode_field("h", str(flag)) + encode_field("m", batch)


NO_FLAGS: Final = _flags(0, 0, is_batch=False)


class TopicPublishInfo:
    """The queues of a topic: ``partitions`` for selectors, and ``queues`` at the same positions."""

    __slots__ = ("_by_queue", "_settings", "_topic", "partitions", "queues")

    def __init__(self, topic: str, partitions: Partitions, settings: ProducerSettings) -> None:
        self._topic = topic
        self._settings = settings
        self.partitions: Final = partitions
        self.queues: Final = tuple(
            [_make_queue(topic, MessageQueue.from_partition(partition), settings) for partition in partitions]
        )
        self._by_queue: Final = {each.queue: each for each in self.queues}

    @classmethod
    def from_route(
        cls, topic: str, route: TopicRoute, settings: ProducerSettings, *, is_new: bool = False
    ) -> TopicPublishInfo:
        """Return the queues of a route. With ``is_new`` the topic does not exist yet, and the route is that of
        ``create_topic_key``. Raises ClientError where the route has no queue.
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

    def find(self, queue: MessageQueue) -> PublishQueue:
        """Return a queue, which need not be in the list: ``send(Message, MessageQueue)`` takes any."""
        return self._by_queue.get(queue) or _make_queue(self._topic, queue, self._settings)


class SendTo(NamedTuple):
    """The destination of a message: a topic, and maybe one of its queues."""

    publishing: TopicPublishInfo
    chosen: PublishQueue | None
    """The queue that the caller or the selector has chosen; None: the producer chooses one for each try."""


def _make_queue(topic: str, queue: MessageQueue, settings: ProducerSettings) -> PublishQueue:
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
    return PublishQueue(queue, fields, b"".join([encode_field(name, value) for name, value in fields.items()]))


def build_request(message: RocketMessage, settings: ProducerSettings, unique_id: str) -> SendRequest:
    """Build the request of a message, compressed if it is large; ``unique_id`` is for a message that has none.

    Raises IllegalMessage for a message that brokers refuse.
    """
    topic, body, properties, flag = message
    check_body(body, settings.max_message_size)
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
    return SendRequest(code, topic, body, encode_checked_properties(properties), unique_id, system_flag, flag)


def decode_result(answer: Command, request: SendRequest, queue: MessageQueue, address: str) -> SendResult:
    """Return the result in a broker's answer (`MQClientAPIImpl.processSendResponse`).

    Raises BrokerError for a refusal, CommandError.
    """
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
