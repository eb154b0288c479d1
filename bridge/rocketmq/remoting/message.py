"""A message as a producer sends it, and as a consumer gets it: with its place, its times and its hosts.

A delay is asked for in one of two ways. ``delay_level`` is an index into the broker's ``messageDelayLevel``, of which
`DELAY_LEVELS` is the default. ``deliver_ms``, since 5.0, is a moment in milliseconds since 1970, kept to the second, at
most three days ahead unless the broker's ``timerMaxDelaySec`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bindings.archive.rocketmq.id import format_host, format_id
from bindings.archive.rocketmq.record import PACKED
from bridge.rocketmq.remoting.properties import (
    DELAY,
    KEYS,
    SHARDING_KEY,
    TAGS,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
    IllegalMessage,
    check_property,
)

__all__ = ["DELAY_LEVELS", "RocketMessage", "StoredMessage"]

DELAY_LEVELS: Final = (
    "1s", "5s", "10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h",
)  # fmt: skip
"""Of level 1, 2 ...: `MessageStoreConfig.messageDelayLevel`."""


class _Told:
    """What properties tell of a message (`org.apache.rocketmq.common.message.Message`)."""

    __slots__ = ()

    properties: Mapping[str, str]

    @property
    def tags(self) -> str | None:
        """Its tag; RocketMQ compares it as a whole."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it can be found by."""
        return tuple(self.properties.get(KEYS, "").split())

    @property
    def sharding_key(self) -> str | None:
        """What its queue was chosen by, if its producer said so."""
        return self.properties.get(SHARDING_KEY)

    @property
    def unique_id(self) -> str | None:
        """The id that its producer gave, once for however many tries it needed (`getUniqID`)."""
        return self.properties.get(UNIQ_KEY)

    @property
    def delay_level(self) -> int:
        """0: none (`getDelayTimeLevel`)."""
        return _number(self.properties.get(DELAY))

    @property
    def deliver_ms(self) -> int:
        """0: none (`getDeliverTimeMs`)."""
        return _number(self.properties.get(TIMER_DELIVER_MS))

    @property
    def wait_store_ok(self) -> bool:
        """Whether the broker answers only when it is stored as safely as the broker is set to (`isWaitStoreMsgOK`)."""
        return self.properties.get(WAIT, "true").lower() == "true"


class _Sent(NamedTuple):
    topic: str
    body: bytes
    properties: Mapping[str, str] = {}
    flag: int = 0
    """32 bits of the user's; RocketMQ itself makes nothing of it."""


class RocketMessage(_Told, _Sent):
    """A message to send: the user's properties and RocketMQ's own are together in ``properties``."""

    __slots__ = ()

    @classmethod
    def of(
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
        """A message with the user's ``properties``, checked, and RocketMQ's own from the others. Raises IllegalMessage.

        What is empty or 0 is not said at all; ``keys`` are joined with spaces.
        """
        if not -(1 << 31) <= flag < 1 << 31:
            raise IllegalMessage(f"flag {flag} does not fit in 32 bits with a sign")
        written: dict[str, str] = {}
        if properties:
            for name, value in properties.items():
                check_property(name, value)
                written[name] = value
        if tags:
            written[TAGS] = tags
        if keys:
            written[KEYS] = keys if isinstance(keys, str) else " ".join(keys)
        if sharding_key:
            written[SHARDING_KEY] = sharding_key
        if delay_level:
            written[DELAY] = str(delay_level)
        if deliver_ms:
            written[TIMER_DELIVER_MS] = str(deliver_ms)
        written[WAIT] = "true" if wait_store_ok else "false"
        return cls(topic, body, written, flag)

    def with_property(self, name: str, value: str) -> RocketMessage:
        """The message with one more property, or another value of it."""
        return RocketMessage(self.topic, self.body, {**self.properties, name: value}, self.flag)


class _Stored(NamedTuple):
    topic: str
    body: bytes
    properties: Mapping[str, str]
    flag: int
    broker: str
    """The name of the broker it was got from."""
    queue_id: int
    queue_offset: int
    log_offset: int
    """The byte of the broker's commit log at which it stands."""
    system_flag: int
    born_time: int
    """When its producer sent it, in milliseconds since 1970."""
    born_address: bytes
    """Its producer's address, of 4 or 16 bytes, and port, of 4."""
    store_time: int
    """When its broker stored it, in milliseconds since 1970."""
    store_address: bytes
    reconsume_times: int
    """How often consumers gave it back."""
    prepared_offset: int = 0
    """Where the half of its transaction stands."""
    size: int = 0
    """The bytes of its record in the log; of a message of a batch those of its part."""
    problem: str = ""
    """Why its body is as it was stored, where it cannot be unpacked or taken apart; else nothing."""


class StoredMessage(_Told, _Stored):
    """A message that was consumed (`MessageExt`); its body is not compressed any more, unless `is_packed` says so."""

    __slots__ = ()

    @property
    def is_packed(self) -> bool:
        """Whether its body is as it was sent, packed, because it cannot be unpacked."""
        return bool(self.system_flag & PACKED and self.body)

    @property
    def weight(self) -> int:
        """What it takes in memory, about, in bytes: its record, or its body where that was unpacked."""
        return max(len(self.body), self.size)

    @property
    def born_host(self) -> str:
        """``ADDRESS:PORT``"""
        return format_host(self.born_address)

    @property
    def store_host(self) -> str:
        """``ADDRESS:PORT``"""
        return format_host(self.store_address)

    @property
    def offset_id(self) -> str:
        """Its place in all brokers' logs (`MessageDecoder.createMessageId`); see `bridge.rocketmq.remoting.ids`."""
        return format_id(self.store_address, self.log_offset)

    @property
    def message_id(self) -> str:
        """What consumers call its id: the producer's, else the broker's (`MessageClientExt.getMsgId`)."""
        return self.unique_id or self.offset_id

    def again(self) -> RocketMessage:
        """The message that its producer sent, with what was added on the way."""
        return RocketMessage(self.topic, self.body, self.properties, self.flag)


def _number(text: Any) -> int:
    """A whole number; 0 of what is none: a property may say anything."""
    if text is None:
        return 0
    try:
        return int(text)
    except (TypeError, ValueError):
        return 0
