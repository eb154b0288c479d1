"""The handle of a popped message, by which it is acknowledged or hidden for longer; and the topics of its retries.

A pop hides its messages from other members for a time. The broker keeps a checkpoint of each pop, and the handle of a
message names the checkpoint and the message's offset. As text it is the property ``POP_CK`` of the message
(`org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil`): eight fields with blanks between them. A handle that was
replaced, because the message was hidden for longer, is no longer valid.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bridge.rocketmq.consumer.offsets import RETRY_PREFIX
from exchange.errors import InputError

POP_CK: Final = "POP_CK"
"""The property with the handle of a popped message."""
FIRST_POP_TIME: Final = "1ST_POP_TIME"
"""The property with the time of the first pop of a message, in milliseconds since 1970."""

ORDER_REVIVE_QUEUE: Final = 999
"""The revive queue of messages that were popped in order: these have no checkpoint (`KeyBuilder`)."""

NORMAL, RETRY, RETRY_V2 = "0", "1", "2"
SEPARATORS: Final = {RETRY: "_", RETRY_V2: "+"}
"""Mark of a retry topic -> what stands between group and topic in its name."""

NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class PopHandle(NamedTuple):
    """The parts of a handle, in the order of its text; times are in milliseconds."""

    start_offset: int
    """Offset at which the pop of this queue began: with the pop time, the name of the checkpoint."""
    pop_ms: int
    """When the broker handed the message out, since 1970 by the broker's clock."""
    invisible_ms: int
    """How long the message is hidden from then on."""
    revive_queue: int
    """Queue of the broker's own topic in which the checkpoint is kept; `ORDER_REVIVE_QUEUE` for pops in order."""
    retry: str
    """``0``: the message is of the topic itself; ``1``, ``2``: of the group's retry topic, named in the old or the new
    way."""
    broker: str
    queue_id: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> PopHandle:
        """Return the parts of a handle. Raises InputError for any other text."""
        parts = text.split(" ")
        if len(parts) != 8 or not all(map(NUMBER.fullmatch, [*parts[:4], *parts[6:]])):
            raise InputError(f"not the handle of a popped message: {text[:100]!r}")
        start, pop_ms, invisible_ms, revive, retry, broker, queue_id, offset = parts
        if retry not in (NORMAL, RETRY, RETRY_V2):
            raise InputError(f"the handle of a popped message has retry mark {retry[:20]!r}; there are 0, 1 and 2")
        return cls(
            int(start), int(pop_ms), int(invisible_ms), int(revive), retry, broker, int(queue_id), int(offset)
        )  # fmt: skip

    @property
    def text(self) -> str:
        """The handle as brokers read it."""
        return " ".join(map(str, self))

    def real_topic(self, topic: str, group: str) -> str:
        """Return the topic where the message is stored: ``topic``, or the retries of a group for it."""
        return topic if self.retry == NORMAL else pop_retry_topic(topic, group, self.retry)


def pop_retry_topic(topic: str, group: str, mark: str = RETRY) -> str:
    """Return the topic of a group's popped retries (`KeyBuilder.buildPopRetryTopicV1`, ``V2``).

    The old name, ``1``, is ambiguous: group ``a`` with topic ``b_c`` has the same as group ``a_b`` with topic ``c``.
    """
    return f"{RETRY_PREFIX}{group}{SEPARATORS[mark]}{topic}"


def retry_mark(topic: str) -> str:
    """Return the mark of a topic in handles and answers (`ExtraInfoUtil.getRetry`)."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if SEPARATORS[RETRY_V2] in topic else RETRY


def parse_original_topic(topic: str, group: str) -> str:
    """Return the topic whose popped messages of this group are retried in ``topic``; another topic as it is."""
    for separator in SEPARATORS.values():
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic
