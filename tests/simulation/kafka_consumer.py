"""What librdkafka does for the only member of a group, as far as a member sees it: a small model.

As librdkafka, it reports partitions that are given and taken, answers to commits, and errors only while it is polled.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Record

from bridge.endpoints.kafka.consumer.assignment import METADATA
from tests.simulation.kafka_topic import ModelTopic
from tests.simulation.world import World

TOPIC: Final = "in"
COMMIT_SECONDS: Final = 0.05
"""Maximum number of seconds until a commit has arrived, and until its answer has."""


class Member(Protocol):
    """What a consumer must know of the process that it is in, and of the faults that last there."""

    name: str
    world: World
    topic: ModelTopic
    consumer: ModelConsumer | None
    is_dead: bool

    @property
    def is_silent(self) -> bool: ...
    @property
    def commit_fault(self) -> str: ...
    def has(self, fault: str) -> bool: ...


class ModelConsumer:
    """What librdkafka does for a member of the group."""

    def __init__(self, settings: Mapping[str, Any], logger: Any = None) -> None:
        self.host: Member = settings["host"]
        self.topic: ModelTopic = self.host.topic
        self.host.consumer = self
        self.knows = -1
        """Number of the topic that it knows: it asks for none before it is to join."""
        self.generation = -1
        self._assigned = 0
        self.is_over = False
        self.positions: dict[int, int] = {}
        """Partition -> offset that is read next; -1 until it is known."""
        self.paused: set[int] = set()
        self._ended: set[int] = set()
        """Partitions whose end was reported."""
        self.forgotten = False
        """Whether it does not ask where to begin any more."""
        self.news: deque[Callable[[], None]] = deque()
        """What it reports when it is polled."""
        self.errors: list[KafkaError] = []
        self._commits: deque[list[TopicPartition]] = deque()
        """Commits that have not arrived."""
        self._settings = settings
        self._measured_at = self.host.world.now

    # The group.

    def subscribe(self, topics: Sequence[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost
        self.knows = self.topic.number
        self._join()

    def _join(self) -> None:
        at = max(self.host.world.now + self.host.world.delay(0.3), self.topic.taken_until)
        asyncio.get_running_loop().call_at(at, self._be_member)

    def _be_member(self) -> None:
        if self.is_over:
            return
        if not self.topic.exists or self.host.is_silent or (self.topic.number != self.knows and not self.positions):
            self.knows = self.topic.number
            asyncio.get_running_loop().call_later(1.0, self._join)
            return
        self.topic.generation += 1
        self.generation = self.topic.generation
        now = self.host.world.now
        for partition in range(len(self.topic.partitions)):
            away = self.topic.away.get(partition, now)
            if away > now:
                asyncio.get_running_loop().call_at(away, self.give, partition)
            else:
                self.give(partition)

    def give(self, partition: int) -> None:
        """Assign a partition."""
        if not self.is_over and partition < len(self.topic.partitions):
            self.news.append(lambda: self._take(partition, self.generation))

    def _take(self, partition: int, generation: int) -> None:
        if generation != self.generation or partition in self.positions:
            return
        self.positions[partition] = -1
        self.topic.assigned += 1
        self._assigned = self.topic.assigned
        self.host.world.repeats[self.host.name] += 1
        self._on_assign(self, [TopicPartition(TOPIC, partition)])
        asyncio.get_running_loop().call_later(self.host.world.delay(0.05), self._start, partition, generation)

    def _start(self, partition: int, generation: int) -> None:
        """Ask where to begin."""
        if generation != self.generation or self.positions.get(partition) != -1 or self.forgotten:
            return
        if self.host.is_silent or partition in self.topic.pending:
            asyncio.get_running_loop().call_later(1.0, self._start, partition, generation)
        elif partition < len(self.topic.partitions):
            self.positions[partition] = self.topic.begin_of(partition)

    def revoke(self, partition: int, seconds: float) -> None:
        """Have another member get a partition, and give it back."""

        def revoke() -> None:
            if partition in self.positions:
                self._on_revoke(self, [TopicPartition(TOPIC, partition)])
                self._arrive_all()
                del self.positions[partition]
                self.topic.away[partition] = self.host.world.now + seconds
                asyncio.get_running_loop().call_later(seconds, self.give, partition)

        self.news.append(revoke)

    def put_out(self) -> None:
        """Have the group put it out, which it notices now."""

        def lose() -> None:
            lost = [TopicPartition(TOPIC, each) for each in self.positions]
            self.positions.clear()
            self.generation = -1
            if lost:
                self._on_lost(self, lost)
            self._join()

        self.news.append(lose)

    # What a client calls.

    def consume(self, count: int, timeout: float) -> list[Record]:
        if self.is_over:
            return []
        while self.news:
            self.news.popleft()()
        self._measure()
        found = [Record(topic=TOPIC, error=error) for error in self.errors[:count]]
        del self.errors[:count]
        if self.host.is_silent or self.host.has("quiet") or not self._can_read():
            return found
        for partition in self.host.world.random.sample([*self.positions], len(self.positions)):
            position = self.positions[partition]
            if position < 0 or partition in self.paused or partition >= len(self.topic.partitions):
                continue
            records = self.topic.partitions[partition]
            if position > len(records):  # out of range
                position = 0
            while position < self.topic.end_of(partition) and len(found) < count:
                if (record := records[position]) is not None:
                    key, value = record
                    epoch = self.topic.epoch_of(partition, position)
                    where: dict[str, Any] = {"topic": TOPIC, "partition": partition, "offset": position}
                    found.append(Record(key=key, value=value, timestamp=(0, -1), leader_epoch=epoch, **where))
                position += 1
            if position != self.positions[partition] or position < self.topic.end_of(partition):
                self._ended.discard(partition)
            elif self._settings.get("enable.partition.eof") and partition not in self._ended and len(found) < count:
                self._ended.add(partition)
                end = KafkaError(KafkaError._PARTITION_EOF)
                found.append(Record(topic=TOPIC, partition=partition, offset=position, error=end))
            self.positions[partition] = position
        return found

    def _can_read(self) -> bool:
        return self.topic.exists and (self.knows == self.topic.number or self.topic.is_readable)

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        if self.is_over:
            return
        if self.host.commit_fault == "raise":
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._commits.append([*offsets])
        asyncio.get_running_loop().call_later(self.host.world.delay(COMMIT_SECONDS), self._arrive)

    def _arrive_all(self) -> None:
        while self._commits:
            self._arrive()

    def _arrive(self) -> None:
        """Have the first commit arrive that has not, and be answered."""
        if not self._commits:
            return
        offsets, fault, error = self._commits.popleft(), self.host.commit_fault, None
        if self.host.is_silent or fault == "lose request":
            return
        if self.generation != self.topic.generation:
            error = KafkaError.ILLEGAL_GENERATION
        elif fault in ("refuse", "refuse one", "forbid"):
            error = KafkaError.GROUP_AUTHORIZATION_FAILED if fault == "forbid" else KafkaError.REBALANCE_IN_PROGRESS
        answers = [
            SimpleNamespace(
                topic=TOPIC, partition=each.partition, offset=each.offset, metadata=each.metadata,
                leader_epoch=each.leader_epoch, error=None,
            )
            for each in offsets
        ]  # fmt: skip
        taken = offsets if error is None else []
        if fault == "refuse one" and error == KafkaError.REBALANCE_IN_PROGRESS:
            answers[0].error, error, taken = KafkaError(error), None, offsets[1:]
        for each in taken:
            epoch = -1 if each.leader_epoch is None else each.leader_epoch
            self.topic.committed[each.partition] = (each.offset, each.metadata or "", epoch)
        if fault != "lose answer" and not self.host.is_dead:
            problem = None if error is None else KafkaError(error)
            answer = self._settings["on_commit"]
            asyncio.get_running_loop().call_later(
                self.host.world.delay(COMMIT_SECONDS), self.news.append, lambda: answer(problem, answers)
            )

    def seek(self, there: TopicPartition) -> None:
        if self.positions.get(there.partition, -1) < 0:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._ended.discard(there.partition)
        epoch = there.leader_epoch
        self.positions[there.partition] = (
            0 if epoch is None else self.topic.valid(there.partition, there.offset, epoch)
        )  # fmt: skip

    def consumer_group_metadata(self) -> bytes:
        epoch = (self.generation << 8) + self._assigned % 256
        return METADATA + epoch.to_bytes(4, sys.byteorder, signed=True) + self.host.name.encode()

    def memberid(self) -> str:
        return "member" if self.generation >= 0 else ""

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, partition) for partition in self.positions]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused -= {each.partition for each in partitions}

    def close(self) -> None:
        self._arrive_all()
        self.is_over = True
        if self.generation == self.topic.generation:
            self.topic.generation += 1

    def _measure(self) -> None:
        """Report statistics, once a second."""
        now = self.host.world.now
        if now < self._measured_at + 1:
            return
        self._measured_at = now
        ends = [(len(records), self.topic.end_of(each)) for each, records in enumerate(self.topic.partitions)]
        self._settings["stats_cb"](
            _statistics(self.host.is_silent, self.generation > 0, (*self.positions.items(),), (*ends,))
        )


@lru_cache(1_000)
def _statistics(
    is_silent: bool, is_member: bool, positions: tuple[tuple[int, int], ...], ends: tuple[tuple[int, int], ...]
) -> str:
    """Return statistics; ``ends`` are of all partitions, and where those end that may be read."""
    broker = {
        "name": "b", "nodename": "b", "nodeid": 1, "source": "learned", "state": "DOWN" if is_silent else "UP",
        "stateage": 0, "waitresp_cnt": 0, "rx": 0,
    }  # fmt: skip
    partitions = {
        str(each): {
            "leader": 1, "fetch_state": "active" if position >= 0 else "none", "lo_offset": 0,
            "hi_offset": ends[each][0], "ls_offset": ends[each][1], "app_offset": position, "committed_offset": -1,
            "next_offset": -1,
        }
        for each, position in positions
        if each < len(ends)
    }  # fmt: skip
    group = {"state": "up", "join_state": "steady" if is_member else "wait-join"}
    return json.dumps({"brokers": {"b": broker}, "topics": {TOPIC: {"partitions": partitions}}, "cgrp": group})
