"""A small model of librdkafka's consumer, below the real source, and of what happens to its group and topic.

Records are in transactions that end later, or are aborted; partitions move to other members and come back; commits are
refused, or their answers lost; the member is put out of its group; the topic is made anew with another number of
partitions, and loses its newest records. As librdkafka, the consumer reports all of it only while it is polled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoints.kafka.consumer.source import KafkaSource
from bridge.endpoints.kafka.consumer.topic_ids import MARK, Ids
from tests.simulation.kafka_consumer import TOPIC, ModelConsumer
from tests.simulation.kafka_topic import Calls, Late, ModelTopic
from tests.simulation.plan import Fault
from tests.simulation.sources import Client
from tests.simulation.world import World

GROUP: Final = "group"
SESSION: Final = 10.0
"""Number of seconds after which a group puts a silent member out."""
UNANSWERED: Final = 6.0
"""Number of seconds after which a call fails that has no answer."""
CONSUMER: Final = "bridge.endpoints.kafka.consumer"


class ModelAsker:
    """Takes the place of `topic_ids.Asker`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._host: KafkaTopic = settings["host"]

    def connect(self) -> None:
        """Do nothing."""

    def fetch_ids(self, _: Collection[str]) -> dict[str, str]:
        self._host.answer()
        return {TOPIC: self._host.topic.id} if self._host.topic.exists else {}

    def ask(
        self, topics: Collection[str], partitions: Collection[tuple[str, int]], paused: Any = (), *, with_given: bool
    ) -> Ids:
        """Answer as `topic_ids.Asker` does."""
        now = self.fetch_ids(topics)
        topic = self._host.topic
        known = {key: topic.committed[key[1]] for key in partitions if key[1] in topic.committed}
        consumer = self._host.consumer
        return Ids(
            now,
            {key: mark.removeprefix(MARK) for key, (_, mark, _) in known.items() if mark},
            {key: offset for key, (offset, _, _) in known.items()},
            {key: len(topic.partitions[key[1]]) for key in paused if key[1] < len(topic.partitions)},
            frozenset([TOPIC]) if with_given and consumer is not None and consumer.positions else None,
            {key: epoch for key, (_, _, epoch) in known.items() if epoch >= 0},
        )

    def end(self) -> None:
        """Do nothing."""


COMMIT_FAULTS: Final = ("refuse", "lose request", "lose answer", "refuse one", "raise", "forbid")


class KafkaTopic(Client):
    """A topic that the real source reads."""

    def __init__(self, name: str, world: World, topic: ModelTopic, *, until_end: bool = False) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.topic = topic
        self.consumer: ModelConsumer | None = None
        settings = {"group.id": GROUP, "bootstrap.servers": "b:9092", "host": self}
        self.endpoint = KafkaSource(
            name,
            settings,
            [TOPIC],
            window=world.plan.window,
            until_end=until_end,
            transactional=world.plan.is_transactional,
        )

    @property
    def is_silent(self) -> bool:
        """Whether no broker answers."""
        return self.is_dead or self.has("down") or self.has("hang")

    @property
    def commit_fault(self) -> str:
        """What happens to commits, "" if nothing."""
        return COMMIT_FAULTS[self.numbers["commit"] % len(COMMIT_FAULTS)] if self.has("commit") else ""

    @property
    def is_empty(self) -> bool:
        return self.topic.exists and not self.topic.left()

    def answer(self) -> None:
        """Raise what a call raises that has no answer."""
        if self.is_silent:
            error = KafkaException(KafkaError(KafkaError._TRANSPORT))
            raise Late(UNANSWERED if self.has("hang") else 0.1, error)

    def fetch_metadata(self) -> Any:
        """Return the cluster's metadata, or raise why there is none."""
        self.answer()
        known = SimpleNamespace(error=None, partitions=self.topic.partitions)
        return SimpleNamespace(topics={TOPIC: known} if self.topic.exists else {})

    def put(self, number: int) -> None:
        self._put(self.world.key_of(number).encode(), b"%d" % number)

    def _put(self, key: bytes, value: bytes) -> None:
        if not self.topic.exists:
            self.topic.unsent.append((key, value))
            return
        partition = int(key.partition(b".")[2]) % len(self.topic.partitions)
        self.topic.put(partition, key, value, in_transaction=self.has("open transaction"))

    def _put_all(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            self._put(key, value)

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        self.world.repeats[self.name] += 1
        consumer, loop = self.consumer, asyncio.get_running_loop()
        if fault.what == "open transaction":
            loop.call_later(fault.seconds + 1e-6, self._end_transactions, bool(fault.number % 2))
        elif fault.what == "remade":
            self._remake(fault)
        elif fault.what == "cut off":
            self._cut_off(fault.number)
        elif consumer is None or consumer.is_over:
            return
        elif fault.what == "rebalance":
            consumer.revoke(fault.number % len(self.topic.partitions), fault.seconds)
        elif fault.what == "fence":
            self.topic.generation += 1
            loop.call_later(min(fault.seconds, SESSION), consumer.put_out)
        elif fault.what == "forget":
            consumer.forgotten = True
        elif fault.what in ("down", "hang") and fault.seconds > SESSION:
            consumer.put_out()

    def lose(self) -> None:
        if self.consumer is not None and not self.has("down"):
            self.consumer.errors.append(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    def _end_transactions(self, are_aborted: bool) -> None:
        if not self.has("open transaction"):
            if are_aborted:
                self._put_all(self.topic.abort())
            else:
                self.topic.end_transactions()

    def _remake(self, fault: Fault) -> None:
        """Delete the topic and make it anew; its owner moves what was in it to the new one."""
        self.topic.unsent += self.topic.left()
        self.topic.partitions = [[] for _ in self.topic.partitions]
        self.topic.exists = False
        if fault.seconds and self.consumer is not None:
            self.consumer.errors.append(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

        def make() -> None:
            if not self.topic.exists:
                self.topic.remake(1 + fault.number % 3, is_readable=fault.number < 3)
                self.topic.exists = True
                if fault.number % 2:
                    self.topic.committed.clear()
                unsent, self.topic.unsent = self.topic.unsent, []
                self._put_all(sorted(unsent, key=lambda record: int(record[1])))
                reached = {} if self.consumer is None else self.consumer.positions
                if any(0 < reached.get(number, 0) <= len(each) for number, each in enumerate(self.topic.partitions)):
                    self.world.overlong.add(self.name)

        if fault.seconds:
            asyncio.get_running_loop().call_later(fault.seconds, make)
        else:
            make()

    def _cut_off(self, number: int) -> None:
        """Lose the newest records of a partition; their owner writes those again that the group has not committed."""
        partition = number % len(self.topic.partitions)
        records, left = self.topic.partitions[partition], self.topic.offset_of(partition)
        if not self.topic.exists or self.topic.stable[partition] is not None:
            return
        end = max(0, len(records) - 1 - number)
        again = [each for each in records[max(end, left) :] if each is not None]
        self.topic.cut_off(partition, end)
        consumer = self.consumer
        if consumer is not None and not consumer.is_over and consumer.positions.get(partition, -1) > end:
            consumer.positions[partition] = end
        self._put_all(again)

    def kill(self) -> None:
        self.is_dead = True
        if self.consumer is not None and not self.consumer.is_over:
            self.consumer.is_over = True
            self.topic.taken_until = self.world.now + self.world.delay(SESSION)
        source = self.endpoint
        if source.member is not None:
            source.member.leave()


@contextmanager
def kafka_simulated() -> Iterator[None]:
    """Have the source's clients be models."""

    def now() -> float:
        return asyncio.get_running_loop().time()

    async def look_at_topics(settings: Mapping[str, Any], _: Any) -> Any:
        return await Calls().call(settings["host"].fetch_metadata)

    with ExitStack() as stack:
        for name, replaced in {
            "member.Consumer": ModelConsumer, "member.Calls": Calls, "member.monotonic": now,
            "member.explain_idle": lambda *_: "it has forgotten to ask where to begin", "remade_topics.Calls": Calls,
            "remade_topics.Asker": ModelAsker, "remade_topics.monotonic": now, "source.Calls": Calls,
            "source.look_at_topics": look_at_topics, "source.make_admin": lambda *_: None,
            "source.check_rights": lambda *_: None, "source.LONGEST_WAIT": 0.25,
        }.items():  # fmt: skip
            stack.enter_context(patch(f"{CONSUMER}.{name}", replaced))
        # Name servers answer: it would wait a second on the wall clock for a thread that does not run meanwhile.
        stack.enter_context(patch("bridge.endpoints.kafka.cluster.errors.is_look_up_hanging", lambda _: False))
        yield
