"""A message as a producer sends it, and as a consumer gets it: with its position, its times and its hosts.

A delay is given in one of two ways. ``delay_level`` is an index, from 1, into the broker's ``messageDelayLevel``, by
default ``1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h``. ``deliver_ms``, since 5.0, is the time of
delivery in milliseconds since 1970. It is precise to the second, and by default at most three days ahead
(``timerMaxDelaySec`` of the broker).

Several messages for one queue are one request (``SEND_BATCH_MESSAGE``). All have the same topic and the same
``wait_store_ok``, none is delayed or a retry (`MessageBatch.generateFromList`), and together they may be as large as
one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from struct import Struct
from typing import Final, NamedTuple

from bridge.rocketmq.remoting.properties import (
    DELAY,
    KEYS,
    PROPERTIES_BYTES,
    SHARDING_KEY,
    TAGS,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
    IllegalMessage,
    check_property,
    decode_properties,
    encode_checked_properties,
)
from exchange.errors import InputError
from exchange.rocketmq.offset_id import format_host, format_id
from exchange.rocketmq.stored_record import BATCH_HEAD, PACKED, split_batch
from exchange.text.numbers import read_integer


class _WithProperties:
    """A message, seen by its properties (`org.apache.rocketmq.common.message.Message`)."""

    __slots__ = ()

    properties: Mapping[str, str]

    @property
    def tags(self) -> str | None:
        """Its tag; RocketMQ compares it as a whole."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys, to search it by."""
        return tuple(self.properties.get(KEYS, "").split())

    @property
    def sharding_key(self) -> str | None:
        """Key by which its queue was chosen, if its producer has added it."""
        return self.properties.get(SHARDING_KEY)

    @property
    def unique_id(self) -> str | None:
        """Id that its producer gave, the same for all tries to send it (`getUniqID`)."""
        return self.properties.get(UNIQ_KEY)

    @property
    def delay_level(self) -> int:
        """Level of its delay (`getDelayTimeLevel`); 0: none."""
        return read_number(self.properties.get(DELAY))

    @property
    def deliver_ms(self) -> int:
        """Time of its delivery, in milliseconds since 1970 (`getDeliverTimeMs`); 0: none."""
        return read_number(self.properties.get(TIMER_DELIVER_MS))

    @property
    def wait_store_ok(self) -> bool:
        """Whether the broker answers only after the flush and the replication that it is configured for
        (`isWaitStoreMsgOK`).
        """
        return self.properties.get(WAIT, "true").lower() == "true"


class _Sent(NamedTuple):
    topic: str
    body: bytes
    properties: Mapping[str, str] = {}
    flag: int = 0
    """32 bits for the user, which mean nothing to RocketMQ itself."""


class RocketMessage(_WithProperties, _Sent):
    """A message to send; ``properties`` has the user's properties and RocketMQ's own."""

    __slots__ = ()

    @classmethod
    def build(
        cls,
        topic: str,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        *,
        tags: str | None = None,
        keys: str | tuple[str, ...] | list[str] = (),
        sharding_key: str | None = None,
        delay_level: int = 0,
        deliver_ms: int = 0,
        wait_store_ok: bool = True,
        flag: int = 0,
    ) -> RocketMessage:
        """Build a message with the user's ``properties``, checked, and RocketMQ's own from the other arguments.

        Arguments that are empty or 0 give no property; ``keys`` are joined with spaces. Raises IllegalMessage.
        """
        if not -(1 << 31) <= flag < 1 << 31:
            raise IllegalMessage(f"flag {flag} does not fit in 32 bits with a sign")
        every: dict[str, str] = {}
        if properties:
            for name, value in properties.items():
                check_property(name, value)
                every[name] = value
        if tags:
            every[TAGS] = tags
        if keys:
            every[KEYS] = keys if isinstance(keys, str) else " ".join(keys)
        if sharding_key:
            every[SHARDING_KEY] = sharding_key
        if delay_level:
            every[DELAY] = str(delay_level)
        if deliver_ms:
            every[TIMER_DELIVER_MS] = str(deliver_ms)
        every[WAIT] = "true" if wait_store_ok else "false"
        return tuple.__new__(cls, (topic, body, every, flag))  # half the cost of cls(...): this runs for each message

    def with_property(self, name: str, value: str) -> RocketMessage:
        """Return the message with a property added or replaced."""
        return RocketMessage(self.topic, self.body, {**self.properties, name: value}, self.flag)


class _Stored(NamedTuple):
    topic: str
    body: bytes
    properties: Mapping[str, str]
    flag: int
    broker: str
    """Name of the broker that it was pulled from."""
    queue_id: int
    queue_offset: int
    log_offset: int
    """Its offset in the broker's commit log, in bytes."""
    system_flag: int
    born_time: int
    """When its producer sent it, in milliseconds since 1970."""
    born_address: bytes
    """Its producer's address, of 4 or 16 bytes, and port, of 4."""
    store_time: int
    """When its broker stored it, in milliseconds since 1970."""
    store_address: bytes
    reconsume_times: int
    """Number of times that consumers gave it back."""
    prepared_offset: int = 0
    """Offset of the prepared half of its transaction."""
    size: int = 0
    """Size of its record in the log, or of its part of a batch, in bytes."""
    problem: str = ""
    """Why its body or its batch could not be unpacked; the body is then as it was stored. "" if nothing went wrong."""


class StoredMessage(_WithProperties, _Stored):
    """A message that was consumed (`MessageExt`); its body is not compressed, unless `is_packed`."""

    __slots__ = ()

    @property
    def is_packed(self) -> bool:
        """Whether its body is still packed, because it cannot be unpacked."""
        return bool(self.system_flag & PACKED and self.body)

    @property
    def weight(self) -> int:
        """Approximate size in memory, in bytes: of its record, or of its unpacked body if that is larger."""
        return max(len(self.body), self.size)

    @property
    def born_host(self) -> str:
        """Host of its producer, ``ADDRESS:PORT``."""
        return format_host(self.born_address)

    @property
    def store_host(self) -> str:
        """Host of its broker, ``ADDRESS:PORT``."""
        return format_host(self.store_address)

    @property
    def offset_id(self) -> str:
        """Id of its position in a broker's log (`MessageDecoder.createMessageId`); see `remoting.ids`."""
        return format_id(self.store_address, self.log_offset)

    @property
    def message_id(self) -> str:
        """Its id for consumers: the unique id if it has one, else the offset id (`MessageClientExt.getMsgId`)."""
        return self.unique_id or self.offset_id

    def to_send(self) -> RocketMessage:
        """Return the message to send again, with the properties that were added on its way."""
        return RocketMessage(self.topic, self.body, self.properties, self.flag)


def read_number(text: str | None) -> int:
    """Return the number in a property; 0 where it has none."""
    try:
        return read_integer(text or "")
    except ValueError:
        return 0


RETRY: Final = "%RETRY%"
DELAYS: Final = frozenset({DELAY, TIMER_DELIVER_MS})
SHORT: Final = Struct(">H")


def encode_batch(messages: Sequence[RocketMessage], ids: Sequence[str] = ()) -> bytes:
    """Return the body of the request (`MessageDecoder.encodeMessages`). Raises IllegalMessage.

    ``ids`` are the unique ids of the messages, for those that have none among their properties.
    """
    if not messages:
        raise IllegalMessage("a batch without messages")
    first = messages[0]
    topic, waits = first.topic, first.properties.get(WAIT)
    if topic.startswith(RETRY):
        raise IllegalMessage("a retry cannot be in a batch")
    pieces: list[bytes] = []
    encoded: Mapping[str, str] | None = None
    for message, unique_id in zip_longest(messages, ids):
        own_topic, body, properties, flag = message
        if own_topic != topic:
            raise IllegalMessage(f"a batch is of one topic, and has messages for {topic!r} and {own_topic!r}")
        if properties != encoded:  # most messages of a batch have the same properties, which are encoded once
            if properties.get(WAIT) != waits and message.wait_store_ok != first.wait_store_ok:
                raise IllegalMessage("the messages of a batch are to wait for the store alike")
            if not DELAYS.isdisjoint(properties) and (message.delay_level > 0 or message.deliver_ms > 0):
                raise IllegalMessage("a message that is delayed cannot be in a batch")
            without_id, encoded, has_id = encode_checked_properties(properties), properties, UNIQ_KEY in properties
        if unique_id is None or has_id:
            raw = without_id
        else:
            raw = without_id + f"{UNIQ_KEY}\x01{unique_id}\x02".encode()
            if len(raw) > PROPERTIES_BYTES:
                raw = encode_checked_properties({**properties, UNIQ_KEY: unique_id})
        length, size = len(body), len(raw)
        pieces += BATCH_HEAD.pack(BATCH_HEAD.size + length + 2 + size, 0, 0, flag, length), body, SHORT.pack(size), raw
    return b"".join(pieces)


def decode_batch(topic: str, data: bytes) -> list[RocketMessage]:
    """Return the messages of a batch (`MessageDecoder.decodeMessages`). Raises InputError."""
    try:
        return [
            RocketMessage(topic, each.body, decode_properties(each.properties), each.flag) for each in split_batch(data)
        ]
    except InputError as error:
        raise InputError(f"{topic}: {error}") from None
