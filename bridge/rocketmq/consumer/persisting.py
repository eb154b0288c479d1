"""A member's offsets, persisted every five seconds and when a queue is given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, MutableSet
from typing import Final

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import Group, MessageModel
from bridge.rocketmq.consumer.offsets import ConsumeFrom, LocalOffsets, OffsetStore
from bridge.rocketmq.consumer.room import PulledQueue
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError

LOG: Final = logging.getLogger(__name__)

PERSIST_AGAIN: Final = 1.0
"""Seconds until offsets that must be persisted are tried again."""


class Persisting:
    """Where the offsets of a member's queues are kept, with what could not be persisted last."""

    def __init__(
        self,
        group: Group,
        readings: Mapping[TopicQueue, PulledQueue],
        offsets: OffsetStore,
        known: MutableSet[TopicQueue | str] | None = None,
    ) -> None:
        self.offsets = offsets
        self.known: Final = set() if known is None else known
        """Queues of which an offset was persisted, and topics that were deleted since the group read them."""
        self.unpersisted: Final[dict[TopicQueue, Exception]] = {}
        """Queue -> why the last try to persist its offset failed."""
        self._group: Final = group
        self._readings: Final = readings

    def load(self, client_id: str) -> None:
        """Read the file of offsets, when broadcasting. Raises InputError."""
        settings = self._group.settings
        if settings.message_model is MessageModel.BROADCASTING:
            local = LocalOffsets.for_group(client_id, self._group.name, settings.offset_folder)
            local.load()
            self.offsets = local

    async def run(self) -> None:
        """Persist the offsets of all queues every ``persist_consumer_offset_interval``."""
        while True:
            await asyncio.sleep(self._group.settings.persist_consumer_offset_interval)
            await self.persist(group_offsets(self._readings.values()))

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> dict[TopicQueue, int]:
        """Persist these offsets, note and log those that could not be persisted, and return the others."""
        failed = await self.offsets.persist(offsets)
        for queue in offsets:
            if queue not in failed:
                self.known.add(queue)
                self.unpersisted.pop(queue, None)
        for queue, error in failed.items():
            if isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST:
                self.note_gone(queue)
            if queue in self._readings:
                self.unpersisted[queue] = error
            LOG.warning(
                "group %s: offset %d of %s is not persisted: %s", self._group.name, offsets[queue], queue, error
            )
        return {queue: offset for queue, offset in offsets.items() if queue not in failed}

    def find_begin(self, queue: TopicQueue) -> ConsumeFrom:
        """Return where to begin a queue of which the group has no offset: at the first message if it once had one.

        That went with the topic, which was made anew, and what is in the new one was never read.
        """
        is_known = queue in self.known or queue.topic in self.known
        return ConsumeFrom.FIRST if is_known else self._group.settings.consume_from

    async def persist_all(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Persist these offsets, again until each is: with an older one, the next reader would pass over messages.

        Those of a topic that does not exist, and of queues that are given up meanwhile, are not tried again: the topic
        may be made anew, and the queue be ours again.
        """
        ours = {queue: self._readings[queue] for queue in offsets}
        while offsets:
            done = await self.persist(offsets)
            left = [queue for queue in offsets if queue not in done and not ours[queue].assigned.is_gone]
            if left:
                await asyncio.sleep(PERSIST_AGAIN)
            offsets = {queue: offsets[queue] for queue in left if self._readings.get(queue) is ours[queue]}

    def note_gone(self, queue: TopicQueue) -> None:
        """Take note that the topic of a queue does not exist: what was read of it there is no more.

        A topic that is made anew has no mark of its own. An offset of the one before would pass over its messages.
        """
        self.known.add(queue.topic)
        for topic_queue, reading in self._readings.items():
            if topic_queue[:2] == queue[:2]:
                reading.assigned.is_gone = True


def group_offsets(readings: Iterable[PulledQueue]) -> dict[TopicQueue, int]:
    """Return the offsets to persist, without those of queues whose lock has expired: another member may have the
    lock by now, and may have persisted a later offset.
    """
    now = asyncio.get_running_loop().time()
    return {
        reading.assigned.queue: offset
        for reading in readings
        if (offset := reading.assigned.committable) is not None and now < reading.assigned.locked_until
    }
