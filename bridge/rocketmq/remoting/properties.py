r"""Names of topics, groups and properties, what RocketMQ allows in each, and the text that properties travel as.

Properties are pairs of texts without an order, since brokers keep them in a hash table. Each is written ``name \x01
value \x02``, so neither control character can be in one; and one without a value is lost when it is read. RocketMQ's
own are among them, tags and keys for example; their names are reserved.

The limits are those of the Java client (`Validators`, `Message.putUserProperty`) and of brokers, which refuse what is
beyond them: a message without a body is as illegal as one that is too large.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from exchange.errors import HashstarError
from exchange.rocketmq.stored_record import parse_properties

TOPIC_LENGTH: Final = 127
"""Maximum length of a topic's name, in characters (`Validators.TOPIC_MAX_LENGTH`)."""
GROUP_LENGTH: Final = 120
"""Maximum length of a group's name, in characters (`Validators.GROUP_MAX_LENGTH`)."""
BODY_BYTES: Final = 4 << 20
"""Maximum size of a body, in bytes (`DefaultMQProducer.maxMessageSize`, and the broker's own ``maxMessageSize``)."""
PROPERTIES_BYTES: Final = 32_767
"""Maximum size of all properties as they are stored, in bytes, RocketMQ's own included."""

LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")

KEYS: Final = "KEYS"
"""The keys to search a message by, with spaces between them."""
TAGS: Final = "TAGS"
"""The tag to filter a topic by. One tag, in spite of its name."""
WAIT: Final = "WAIT"
"""``false``: the broker answers before the message is on the disk, or at the replica."""
DELAY: Final = "DELAY"
"""The level of the delay; see `bridge.rocketmq.remoting.message`."""
UNIQ_KEY: Final = "UNIQ_KEY"
"""The id that the producer gave; see `bridge.rocketmq.remoting.ids`."""
SHARDING_KEY: Final = "__SHARDINGKEY"
"""The key by which the queue was chosen, if the producer adds it: the proxy does so for gRPC's message groups."""
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
"""When the message is delivered, in milliseconds since 1970."""
TRANSIENT: Final = "__RMQ.TRANSIENT."
"""Prefix of the names of properties that brokers do not store."""

RESERVED: Final = frozenset({
    "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CLUSTER", "CONSUME_START_TIME", "CORRECTION_FLAG",
    "CORRELATION_ID", "DELAY", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DUP_INFO", "EXTEND_UNIQ_INFO",
    "INNER_MULTI_QUEUE_OFFSET", "INSTANCE_ID", "KEYS", "MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG",
    "MSG_REGION", "MSG_TYPE", "ORIGIN_GROUP", "ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK", "POP_CK_OFFSET",
    "PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME", "REPLY_TO_CLIENT", "RETRY_TOPIC", "TAGS",
    "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY",
    "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "TRACE_ON", "TRANSFER_FLAG", "TRAN_MSG",
    "TRAN_PREPARED_QUEUE_OFFSET", "TTL", "UNIQ_KEY", "WAIT", "_SYS_MSG_PRIORITY_", "__BORNHOST", "__CRC32#",
    "__LITE_TOPIC",
})  # fmt: skip
"""Names that no property of a user may have (`MessageConst.STRING_HASH_SET` of 5.5.0)."""

SYSTEM: Final = RESERVED | {
    "CHECK_IMMUNITY_TIME_IN_SECONDS", "INNER_BASE", "INNER_MULTI_DISPATCH", "INNER_NUM",
    "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "TIMER_ROLL_LABEL", "TRACE_CONTEXT", "TRANSACTION_CHECK_TIMES",
    "__transactionId__",
}  # fmt: skip
"""Reserved names, and other names with a meaning for brokers and clients, which users may give all the same."""

CONTROL: Final = re.compile("[\x01\x02]")
ALL_OTHERS: Final = bytes([0, *range(3, 256)])
TRIMMED: Final = "".join(map(chr, range(33)))
"""The characters that ``String.trim`` takes away."""


class IllegalMessage(HashstarError):
    """A message or a name that RocketMQ refuses (``MESSAGE_ILLEGAL``), found before anything is sent."""


def is_legal_name(name: str) -> bool:
    """Return whether a name is not empty, and has only characters that topics and groups may have."""
    return LEGAL.fullmatch(name) is not None


def check_topic(topic: str) -> str:
    """Return the topic if its name is legal (`Validators.checkTopic`). Raises IllegalMessage."""
    return _check_name("topic", topic, TOPIC_LENGTH)


def check_group(group: str) -> str:
    """Return the group if its name is legal (`Validators.checkGroup`). Raises IllegalMessage."""
    return _check_name("group", group, GROUP_LENGTH)


def _check_name(kind: str, name: str, longest: int) -> str:
    if not name.strip():
        raise IllegalMessage(f"{kind}: its name is blank")
    if len(name) > longest:
        raise IllegalMessage(f"{kind} {name[:40]!r}...: it has {len(name)} characters; RocketMQ allows {longest}")
    if not is_legal_name(name):
        wrong = next(each for each in name if not is_legal_name(each))
        raise IllegalMessage(f"{kind} {name!r}: {wrong!r} cannot be in it; letters, digits, % | _ - can")
    return name


def check_body(body: bytes, limit: int = BODY_BYTES) -> bytes:
    """Return the body if it is neither empty nor longer than the limit, in bytes (`Validators.checkMessage`).

    Raises IllegalMessage.
    """
    if not body:
        raise IllegalMessage("its body is empty; RocketMQ takes no message without one")
    if len(body) > limit:
        raise IllegalMessage(f"its body has {len(body)} bytes; the limit is {limit}")
    return body


def check_property(name: str, value: str) -> None:
    """Raise IllegalMessage for a property that no user may give a message (`Message.putUserProperty`)."""
    if name in RESERVED:
        raise IllegalMessage(f"property {name!r}: the name is RocketMQ's own")
    if not name.strip(TRIMMED):
        raise IllegalMessage("a property's name is blank")
    if not value.strip(TRIMMED):
        raise IllegalMessage(f"property {name!r}: its value is blank")


def encode_checked_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties after a check that each of them is decoded unchanged.

    Raises IllegalMessage for the first that would not be, and for more than ``PROPERTIES_BYTES`` in all.
    """
    try:
        raw = encode_properties(properties)
    except UnicodeEncodeError:
        raise IllegalMessage("a property is not text that UTF-8 can hold") from None
    # One pass over all bytes: if there are only the separators just written, and no name or value is empty, then no
    # property is wrong. Only otherwise the properties are looked through one by one.
    separators = raw.translate(None, ALL_OTHERS)
    if separators != b"\x01\x02" * len(properties) or "" in properties or "" in properties.values():
        _blame(properties)
    if len(raw) > PROPERTIES_BYTES:
        raise IllegalMessage(f"its properties are {len(raw)} bytes; RocketMQ takes {PROPERTIES_BYTES}")
    return raw


def _blame(properties: Mapping[str, str]) -> None:
    """Raise IllegalMessage for the first property that cannot be encoded."""
    for name, value in properties.items():
        if not name:
            raise IllegalMessage("a property's name is empty")
        if not value:
            raise IllegalMessage(f"property {name!r}: its value is empty; RocketMQ would lose it")
        if CONTROL.search(name) or CONTROL.search(value):
            raise IllegalMessage(f"property {name!r}: it has a character 1 or 2, which separate properties")


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties as `MessageDecoder.messageProperties2String` does, in UTF-8. Raises UnicodeEncodeError."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()


def decode_properties(raw: bytes) -> dict[str, str]:
    """Decode properties as `MessageDecoder.string2messageProperties` does; unlike Java, bytes that are not UTF-8 are
    kept (PEP 383).
    """
    return parse_properties(raw)
