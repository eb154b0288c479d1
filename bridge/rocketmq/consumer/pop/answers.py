"""The answer to a pop: its messages, each with its handle.

Besides the messages, the answer has for each of their queues the offset at which the pop began and the offsets of the
messages; and for a pop in order, how often each was popped before. Entries are ``MARK QUEUE VALUE``, separated by
semicolons; see `retry_mark`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from bridge.rocketmq.consumer.pop.handle import FIRST_POP_TIME, ORDER_REVIVE_QUEUE, POP_CK, PopHandle, retry_mark
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, CommandError
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.stored import parse_stored_records
from exchange.errors import InputError

T = TypeVar("T")


class PopStatus(Enum):
    """How a pop ended (`org.apache.rocketmq.client.consumer.PopStatus`)."""

    FOUND = "FOUND"
    POLLING_NOT_FOUND = "POLLING_NOT_FOUND"
    POLLING_FULL = "POLLING_FULL"
    """Too many requests wait at the broker already (``popPollingSize``): wait before the next."""


STATUSES: Final = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT: PopStatus.POLLING_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.POLLING_NOT_FOUND,
}


class Popped(NamedTuple):
    """The answer to a pop (`org.apache.rocketmq.client.consumer.PopResult`)."""

    status: PopStatus
    messages: tuple[StoredMessage, ...] = ()
    """The messages, with the topic that was asked for, and their handle as property ``POP_CK``."""
    rest: int = 0
    """Number of messages that the queues had left, as the broker estimates it."""


class _AnswerHeader(NamedTuple):
    """Fields in the header of an answer that hold for all its messages."""

    broker: str
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    starts: dict[str, int]
    """Mark and queue -> the offset at which the pop began there; where the broker names none, of its first message."""
    has_starts: bool
    """Whether the broker names them; the first brokers of 5.0 do not."""
    offsets: dict[str, list[int]]
    """Mark and queue -> the offsets of its messages, in their order."""
    counts: dict[str, int]
    """Mark and queue, or mark, queue and offset -> the number of earlier pops; of a pop in order."""


def parse_pop(answer: Command, broker: str, topic: str, room: float, address: str = "") -> Popped:
    """Read the answer to a pop of ``topic`` (`MQClientAPIImpl.processPopResponse`).

    At least one message is unpacked, and further ones up to ``room`` bytes; those behind them stay hidden for their
    invisible time, and are delivered again. Raises BrokerError, CommandError, and InputError for messages that are
    damaged.
    """
    status = STATUSES.get(answer.code)  # type: ignore[call-overload]  # an IntEnum is found by its number
    if status is None:
        raise BrokerError(answer.code, answer.remark, address)
    fields = answer.fields
    try:
        rest = int(fields.get("restNum") or 0)
        if status is not PopStatus.FOUND:
            return Popped(status, rest=rest)
        header = _AnswerHeader(
            broker, int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"]),
            _parse_table(fields.get("startOffsetInfo"), int), bool(fields.get("startOffsetInfo")),
            _parse_table(fields.get("msgOffsetInfo"), lambda text: [int(each) for each in text.split(",") if each]),
            _parse_table(fields.get("orderCountInfo"), int),
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise CommandError(f"{address}: not the answer to a pop: {type(error).__name__} {error}") from None
    messages: list[StoredMessage] = []
    taken: defaultdict[str, int] = defaultdict(int)
    weight = 0
    for record in parse_stored_records(answer.body, broker):
        if messages and weight >= room:
            break
        for message in record:
            weight += message.weight
            messages.append(_with_handle(message, topic, header, taken))
    return Popped(status, tuple(messages), rest)


def _with_handle(
    message: StoredMessage, topic: str, header: _AnswerHeader, taken: defaultdict[str, int]
) -> StoredMessage:
    """Return a message with its topic and its handle. Raises CommandError if the header does not have its queue."""
    properties = {FIRST_POP_TIME: str(header.pop_ms), **message.properties}
    # A retry has its handle already: the broker gives it the topic that was asked for, which would hide where it is.
    mark = retry_mark(message.topic)
    key = f"{mark} {message.queue_id}"
    if not _is_own(properties.get(POP_CK), header):
        offset = message.queue_offset
        if header.has_starts:
            offsets, index = header.offsets.get(key, []), taken[key]
            if key not in header.starts or index >= len(offsets):
                raise CommandError(f"{header.broker}: the answer to a pop does not name queue {key} of a message")
            offset = offsets[index]
            taken[key] += 1
        start = header.starts.setdefault(key, offset)
        handle = PopHandle(
            start, header.pop_ms, header.invisible_ms, header.revive_queue, mark, header.broker, message.queue_id,
            offset,
        )  # fmt: skip
        properties[POP_CK] = handle.text
    times = message.reconsume_times
    if header.revive_queue == ORDER_REVIVE_QUEUE:
        counts = header.counts
        times = counts.get(f"{mark} qo{message.queue_id}%{message.queue_offset}", counts.get(key, 0)) or times
    return message._replace(topic=topic, properties=properties, reconsume_times=times)


def _is_own(text: str | None, header: _AnswerHeader) -> bool:
    """Return whether the broker has given a message this handle, in this answer: a producer can write one, too, by
    which a consumer would acknowledge another message.
    """
    try:
        handle = PopHandle.parse(text or "")
    except InputError:
        return False
    return (handle.pop_ms, handle.broker) == (header.pop_ms, header.broker)


def _parse_table(text: str | None, value: Callable[[str], T]) -> dict[str, T]:
    """Return ``MARK QUEUE VALUE;...`` as a dict from mark and queue. Raises ValueError."""
    table: dict[str, T] = {}
    for row in (text or "").split(";"):
        if row:
            mark, queue, read = row.split(" ")
            key = f"{mark} {queue}"
            if key in table:
                raise ValueError(f"queue {key} twice")
            table[key] = value(read)
    return table
