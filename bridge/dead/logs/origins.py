"""Make of a dead letter in a topic what was written to the topic where it died, and say which one that is.

=====================  ================================================  ==============================================
given up by            topic                                             partition or queue
=====================  ================================================  ==============================================
a bridge               of `hashstar-origin`, which it was read from      the same one
Connect, Spring        the header in `bridge.dead.conventions`; of       the header beside it
                       several the first, which is of the first death
a group of RocketMQ    `RETRY_TOPIC`, or `DLQ_ORIGIN_TOPIC` where that   chosen by the key, as brokers forget it
                       is none
=====================  ================================================  ==============================================

A record that goes to a partition that the topic does not have goes to that of its key. It has the time when it is
published again: a topic would soon remove what is as old as its retention. All else is as it was, to the bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from bridge.dead.conventions import CONVENTIONS, Convention
from bridge.dead.logs.log import Letter
from bridge.dead.restoring import ORIGIN, REPLAY
from bridge.interop import Record, convert_from_rocketmq, to_amqp, to_kafka, to_rocketmq
from bridge.interop.marks import HOPS, REASON
from bridge.interop.record import Header
from bridge.interop.rocketmq_guest import LITE_TOPIC, PRODUCER_PROPERTIES, is_own
from bridge.interop.rocketmq_guest import PREFIX as OF_ROCKETMQ
from bridge.pump.dead_letters import PACKED
from bridge.rocketmq.consumer.offsets import RETRY_PREFIX
from bridge.rocketmq.consumer.pop.handle import parse_original_topic
from bridge.rocketmq.consumer.retrying import DLQ_PREFIX, RETRY_TOPIC
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.errors import InputError
from exchange.text.numbers import is_digits
from exchange.values.field_json import decode_message_line
from exchange.values.message import Message

Edit: TypeAlias = Callable[[Message], Message]
BRIDGE: Final = CONVENTIONS[0]
OF_RECORDS: Final = tuple([each for each in CONVENTIONS if each.added])
"""Conventions of records of Kafka, but for bridges."""
KAFKA_ORIGIN: Final = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]{1,9}) at [0-9]+", re.DOTALL)
ROCKETMQ_ORIGIN: Final = re.compile(r"(?P<topic>[^ ]+) at [^ ]+:[0-9]+ at [0-9]+")
"""`hashstar-origin` of what a bridge has read from a topic."""
OURS: Final = ("hashstar-", HOPS)
WAY_OUT: Final = "--replay queue or exchange, with --target amqp://, publishes what was read from a queue"


class Goal(NamedTuple):
    """What is to be written, and where."""

    stored: Record | RocketMessage
    """With its topic."""
    partition: int | None = None
    """Partition of Kafka that it was in; None: that of its key."""

    @property
    def key(self) -> bytes | str | None:
        """Key whose records stay in order."""
        if isinstance(self.stored, Record):
            return self.stored.key
        return self.stored.sharding_key or next(iter(self.stored.keys), None)

    @property
    def body(self) -> bytes:
        """Its value or body."""
        return (self.stored.value if isinstance(self.stored, Record) else self.stored.body) or b""

    def stamp(self, identifier: str) -> Goal:
        """Return it with the digest of its dead letter."""
        if isinstance(self.stored, RocketMessage):
            return self._replace(stored=self.stored.with_property(REPLAY, identifier))
        headers = [*[each for each in self.stored.headers if each[0] != REPLAY], (REPLAY, identifier.encode())]
        return self._replace(stored=self.stored._replace(headers=headers))


def find_goal(letter: Letter, edit: Edit | None = None) -> Goal:
    """Return what became this dead letter, edited, and where it was written. Raises InputError."""
    stored = letter.stored
    return _find_record(stored, edit) if isinstance(stored, Record) else _find_message(stored, edit)


def _find_record(record: Record, edit: Edit | None) -> Goal:
    headers = record.headers
    if _first(headers, REASON) is not None:
        topic, partition = _read_origin(_text(_first(headers, "hashstar-origin")), KAFKA_ORIGIN)
        if _first(headers, PACKED) is not None:
            record = to_kafka(_unpack(record.value), topic, record.key)
        kept = [each for each in record.headers if not each[0].startswith(OURS)]
    else:
        convention = next((each for each in OF_RECORDS if any(name in each.marks for name, _ in headers)), None)
        if convention is None:
            raise InputError("no header says where it died")
        topic = _text(_first(headers, convention.queue))
        if not topic:
            raise InputError(f"the header {convention.queue} names no topic: which one it was in is not known")
        partition = _read_partition(_first(headers, convention.partition), convention)
        kept = [each for each in headers if not each[0].startswith(convention.added)]
    restored = record._replace(topic=topic, headers=kept, timestamp=None, partition=None, offset=None)
    if edit is not None:
        message = to_amqp(restored)
        edited = edit(message)
        other = topic if edited.exchange == message.exchange else edited.exchange
        restored = to_kafka(edited, other, restored.key)._replace(timestamp=None)
        partition = partition if other == topic else None
    return Goal(restored, partition)


def _first(headers: Sequence[Header], name: str) -> bytes | None:
    return next((value for other, value in headers if other == name and value is not None), None)


def _text(raw: bytes | None) -> str:
    try:
        return (raw or b"").decode()
    except UnicodeDecodeError:
        raise InputError("a header that names a topic is no text") from None


def _read_partition(raw: bytes | None, convention: Convention) -> int | None:
    """Return a partition; None if the header has none."""
    if raw is None:
        return None
    if convention.has_digits:
        text = raw.decode("ascii", "replace")
        return int(text) if is_digits(text) and len(text) < 10 else None
    number = int.from_bytes(raw, signed=True)
    return number if len(raw) == 4 and number >= 0 else None


def _read_origin(text: str, form: re.Pattern[str]) -> tuple[str, int | None]:
    """Return the topic that a bridge has read, and the partition."""
    found = None if text.startswith(ORIGIN) else form.fullmatch(text)
    if found is None:
        raise InputError(f"the bridge has not read it from a topic of this system: {WAY_OUT}")
    partition = found.groupdict().get("partition")
    return found["topic"], None if partition is None else int(partition)


def _unpack(body: bytes | None) -> Message:
    try:
        return decode_message_line(body or b"", any_length=True)
    except InputError:
        raise InputError(f"its body is no message, as the header {PACKED} says") from None


def _find_message(stored: StoredMessage, edit: Edit | None) -> Goal:
    properties, body = stored.properties, stored.body
    if stored.is_packed or stored.problem:
        raise InputError(f"its body cannot be unpacked{': ' if stored.problem else ''}{stored.problem}")
    if LITE_TOPIC.removeprefix(OF_ROCKETMQ) in properties:
        raise InputError("it is of a lite topic, which only RocketMQ's gRPC client writes to")
    kept = {name: text for name, text in properties.items() if not is_own(name) or name in PRODUCER_PROPERTIES}
    flag = stored.flag
    if REASON in properties:
        topic, _ = _read_origin(properties.get("hashstar-origin", ""), ROCKETMQ_ORIGIN)
        if PACKED in properties:
            packed = to_rocketmq(_unpack(body), topic)
            kept, body, flag = dict(packed.properties), packed.body, packed.flag
        kept = {name: text for name, text in kept.items() if not name.startswith(OURS)}
    else:
        topic = _find_topic(stored)
    if edit is not None:
        message = convert_from_rocketmq(stored._replace(topic=topic, properties=kept, body=body, flag=flag))
        edited = edit(message)
        topic = topic if edited.exchange == message.exchange else edited.exchange
        return Goal(to_rocketmq(edited, topic, next(iter(stored.keys), "").encode() or None))
    return Goal(RocketMessage(topic, body, kept, flag))


def _find_topic(stored: StoredMessage) -> str:
    """Return the topic in which a group was given a message that it did not consume. Raises InputError."""
    group = stored.topic.removeprefix(DLQ_PREFIX)
    for name in (RETRY_TOPIC, "DLQ_ORIGIN_TOPIC"):
        topic = parse_original_topic(stored.properties.get(name, ""), group)  # what was popped has a topic of retries
        if topic and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return topic
    raise InputError("no property names the topic that it was in")
