"""A queue as a lane of a source, which makes deliveries of its messages, whatever they contain."""

from __future__ import annotations

from collections import deque
from typing import Final
from urllib.parse import quote

from bridge.endpoint import Delivery, validate_time
from bridge.interop import Unmappable, convert_from_rocketmq, identify_stored
from bridge.interop.record import is_showable
from bridge.interop.rocketmq_topics import name_of
from bridge.rocketmq.consumer.assigned import AssignedQueue
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.rocketmq.stored_record import PACKED
from exchange.values.message import Message

FIXED_BYTES: Final = 1_024
"""Approximate size of a delivery in memory beside its body, in bytes."""


class QueueLane:
    """A queue from its assignment until it is taken away."""

    __slots__ = ("_identity", "_origin", "assigned", "has_news", "offsets")

    def __init__(self, source: str, assigned: AssignedQueue) -> None:
        self.assigned = assigned
        self.offsets: deque[int] = deque()
        """Offsets of the deliveries that are not committed."""
        self.has_news = False
        """Whether deliveries were settled that are not committed."""
        # Not the topic in the message: a retry has the topic there that it was first read from.
        topic, broker, number = assigned.queue.topic, assigned.queue.broker, str(assigned.queue.queue_id)
        self._identity = "/".join(["rocketmq", *[quote(each, safe="") for each in (source, topic, broker, number)], ""])
        self._origin = f"{topic} at {broker}:{number} at "

    def make_delivery(self, stored: StoredMessage) -> Delivery:
        """Return the delivery of a message, with a refusal if AMQP cannot hold the message."""
        offset = stored.queue_offset
        message, refusal = read_stored(stored)
        return Delivery(
            message,
            self,
            offset,
            identify_stored(f"{self._identity}{offset}", stored),
            validate_time(stored.born_time * 1_000),
            stored.reconsume_times > 0,
            FIXED_BYTES + stored.weight,
            f"{self._origin}{offset}",
            refusal,
        )

    def mark_committed(self, offset: int | None) -> int:
        """Forget the deliveries before a committed offset, and return their number; None: nothing was committed."""
        offsets, before = self.offsets, len(self.offsets)
        while offset is not None and offsets and offsets[0] < offset:
            offsets.popleft()
        return before - len(offsets)


def read_stored(stored: StoredMessage) -> tuple[Message, str | None]:
    """Return a message as one of AMQP, and why AMQP cannot hold all of it; None if it can."""
    try:
        return convert_from_rocketmq(stored), None
    except Exception as error:  # noqa: BLE001  whatever is wrong with a message, the others go on
        refusal = str(error) if isinstance(error, Unmappable) else f"{type(error).__name__}: {error}"
        return _showable_message(stored), refusal


def _showable_message(message: StoredMessage) -> Message:
    """Return what AMQP can hold of a message: for dead letters, which name the place where the whole message is."""
    properties = {name: value for name, value in message.properties.items() if is_showable(name)}
    as_it_is = message._replace(properties=properties, system_flag=message.system_flag & ~PACKED, problem="")
    try:
        return convert_from_rocketmq(as_it_is, None, "")
    except Exception:  # noqa: BLE001  not even so: then its body alone
        return build_lazy_message(name_of(message.topic), "", ContentHeader.from_parts({}, b""), message.body)
