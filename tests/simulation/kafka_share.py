"""Share groups below the real source: a model of librdkafka's share consumer, and what happens to it and its group.

Locks end while targets take nothing; sessions end, and partitions move to other members; acknowledgements are refused,
or get lost, or their answers do; records were fetched before a long pause. As librdkafka, the consumer fetches when it
is polled and has nothing, and reports the fate of acknowledgements only within its calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Record

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.kafka.consumer.share import FETCHING, ShareSource
from bridge.endpoints.kafka.consumer.share_group import ShareGroup
from tests.simulation.kafka_share_group import Ending, ModelShareGroup, SharedRecord
from tests.simulation.kafka_topic import Calls, Late
from tests.simulation.plan import Fault
from tests.simulation.sources import Client
from tests.simulation.world import World

TOPIC: Final = "in"
SESSION: Final = 10.0
"""Number of seconds after which a group puts a silent member out."""
SECONDS: Final = 0.02
"""Maximum number of seconds until a request has arrived, and until its answer has."""
FETCH_WAIT: Final = FETCHING / 2
"""Seconds that a fetch waits for records, at its broker."""
PROMPT: Final = 1.0
"""Seconds within which what is settled is accepted, unless a fault keeps it from that."""

LEFT: Final = 15.0
"""Seconds within which a source is closed whose client cannot go on."""

FAULTS: Final = ("refuse", "lose request", "lose answer", "raise", "forbid")
"""What happens to acknowledgements."""


class ShareTopic(Client):
    """A topic that the real source reads, as a member of a share group."""

    def __init__(self, name: str, world: World, group: ModelShareGroup) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.group = group
        group.ended = self._judge_end
        self.consumer: ModelShareConsumer | None = None
        self.upset_until = -1.0
        """Time until which something kept it from acknowledging."""
        self.endpoint = _Share(self)

    @property
    def is_silent(self) -> bool:
        """Whether no broker answers."""
        return self.is_dead or self.has("down") or self.has("hang")

    @property
    def acknowledgement_fault(self) -> str:
        """What happens to acknowledgements, "" if nothing."""
        return FAULTS[self.numbers["acknowledge"] % len(FAULTS)] if self.has("acknowledge") else ""

    @property
    def is_empty(self) -> bool:
        return self.group.is_empty

    def answer(self, result: Any = None) -> Any:
        """Return the answer of brokers, or raise that there is none."""
        if self.is_silent:
            raise Late(6.0 if self.has("hang") else 0.1, KafkaException(KafkaError(KafkaError._TRANSPORT)))
        return result

    def put(self, number: int) -> None:
        key = self.world.key_of(number)
        partition = int(key.partition(".")[2]) % len(self.group.partitions)
        self.group.put(partition, key.encode(), b"%d" % number)

    def take_over(self, before: Client | None) -> None:
        super().take_over(before)
        self.group.ended = self._judge_end
        if isinstance(before, ShareTopic):
            self.upset_until = before.upset_until

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        self.world.repeats[self.name] += 1
        self.upset_until = max(self.upset_until, self.world.now + fault.seconds)
        consumer, loop = self.consumer, asyncio.get_running_loop()
        if consumer is None or consumer.is_over:
            return
        if fault.what == "acknowledge" and self.acknowledgement_fault == "raise":
            consumer.is_broken = True
        if fault.what == "rebalance":
            consumer.give_away(fault.number % len(self.group.partitions), fault.seconds)
        elif fault.what == "fence" or (fault.what in ("down", "hang") and fault.seconds > SESSION):
            seconds = min(fault.seconds, SESSION)
            self.upset_until = max(self.upset_until, self.world.now + seconds)
            loop.call_later(seconds, self.group.leave, consumer)

    def lose(self) -> None:
        if self.consumer is not None and not self.has("down"):
            code = (
                KafkaError.TOPIC_AUTHORIZATION_FAILED if self.numbers.get("lose", 0) % 2 else KafkaError._AUTHENTICATION
            )
            self.consumer.problems.append(KafkaError(code))

    def kill(self) -> None:
        self.is_dead = True
        consumer = self.consumer
        if consumer is not None and not consumer.is_over:  # brokers notice it at once, or by its silence
            consumer.is_over = True
            asyncio.get_running_loop().call_later(self.world.random.choice((0.0, SESSION)), self.group.leave, consumer)
        self.endpoint.end()

    def _judge_end(self, record: SharedRecord, member: Any, how: Ending) -> None:
        """Judge the end of a lock without which a record does not come again."""
        world, host = self.world, member.host
        world.again += 1
        if how == "reject":
            world.breaks("settled when written", f"{record.value!r} is rejected")
        settled = host.endpoint.settled_at.get((record.partition, record.offset, record.deliveries))
        if settled is not None and not host.is_dead and settled > host.upset_until and world.now - settled > PROMPT:
            world.breaks("settled when written", f"{record.value!r} is settled since {settled:.3f}, and comes again")
        faults = [each for each in world.plan.faults if each.at <= world.now]
        bound = world.plan.workers * (1 + 2 * len(faults)) + 1
        # While no acknowledgement is taken, or what is given up is late for its lock, of which a check warns.
        is_late = (world.plan.give_up_after or 0.0) >= self.group.lock_seconds
        bound += sum(int(f.seconds / self.group.lock_seconds) for f in faults if is_late or f.what == "acknowledge")
        if record.deliveries > bound:
            world.breaks("bounded redelivery", f"{record.value!r} came {record.deliveries} times")
        if record.is_done:
            world.dropped.add(int(record.value))


class ModelShareConsumer:
    """What librdkafka does for a member of a share group."""

    def __init__(self, settings: Mapping[str, Any], logger: Any = None) -> None:
        self.host: ShareTopic = settings["host"]
        self.group = self.host.group
        self.host.consumer = self
        self.is_over = False
        self.is_broken = False
        """Whether it raises an error for acknowledgements, as no client after it does."""
        self.problems: list[KafkaError] = []
        self._settings = settings
        self._most: int = settings["max.poll.records"]
        self.in_flight: dict[tuple[int, int], int] = {}
        """Partition and offset of records of the latest poll that are not acknowledged -> how often they came."""
        self.given: set[tuple[int, int, int]] = set()
        """Partition and offset of all records that it gave, and how often they came."""
        self._fetched: deque[list[SharedRecord]] = deque()
        """Records that came and were not polled."""
        self._is_fetching = False
        self._acknowledged: list[tuple[int, int, AcknowledgeType]] = []
        self._away: dict[int, float] = {}
        """Partition -> time until which other members have it."""
        self._reports: deque[Callable[[], None]] = deque()
        self._callback: Any = None

    def set_acknowledgement_commit_callback(self, callback: Any) -> None:
        self._callback = callback

    def subscribe(self, topics: Sequence[str]) -> None:
        assert topics == [TOPIC]

    # Reading.

    def poll(self, _: float) -> list[Record]:
        self._check()
        if self.host.endpoint.takes_no_more:
            self.host.world.breaks("pause", f"{self.host.name} takes more after the last")
        if self.in_flight:
            raise IllegalStateException("not all records are acknowledged")
        self._report()
        self._send()
        if self.problems:
            problem = self.problems.pop()
            self._must_end()
            if self.host.world.random.random() < 0.5:
                raise KafkaException(problem)
            return [Record(topic=TOPIC, partition=0, error=problem)]
        if self._fetched:
            return self._give(self._fetched.popleft())
        if not self._is_fetching and not self.host.has("quiet"):
            self._is_fetching = True
            self._later(self._fetch, self.host.world.now + FETCH_WAIT)
        return []

    def _give(self, records: list[SharedRecord]) -> list[Record]:
        self.given |= {(each.partition, each.offset, each.deliveries) for each in records}
        self.in_flight = {(each.partition, each.offset): each.deliveries for each in records}
        return [_Shared(each) for each in records]

    def _fetch(self, until: float) -> None:
        host, world = self.host, self.host.world
        if self.is_over:
            return
        if host.acknowledgement_fault == "forbid":  # a group that is forbidden gives nothing, either
            self._is_fetching = False
            self.problems.append(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
            return
        if host.is_silent:
            asyncio.get_running_loop().call_later(1.0, self._fetch, world.now + 1.0 + FETCH_WAIT)
            return
        without = [each for each, until in self._away.items() if until > world.now]
        records = self.group.acquire(self, self._most, world.random, without)
        if records:
            self._later(self._arrive, records)
        elif world.now >= until:
            self._later(self._arrive, [])
        else:
            once = [self._fetch]

            def fetch() -> None:
                if once:
                    once.pop()(until)

            self.group.wait(fetch)
            asyncio.get_running_loop().call_at(until, fetch)

    def _arrive(self, records: list[SharedRecord]) -> None:
        self._is_fetching = False
        if records and not self.is_over and not self.host.is_silent:  # else they are locked until their locks end
            self._fetched.append(records)

    # Acknowledging.

    def acknowledge(self, message: Any, how: AcknowledgeType) -> None:
        self.acknowledge_offset(message.topic(), message.partition(), message.offset(), how)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, how: AcknowledgeType) -> None:
        self._check()
        assert topic == TOPIC
        if (deliveries := self.in_flight.pop((partition, offset), None)) is None:
            raise IllegalStateException("not in flight")
        if how == AcknowledgeType.ACCEPT and (partition, offset, deliveries) not in self.host.endpoint.settled_at:
            self.host.world.breaks("settled when written", f"{partition}-{offset} is accepted, and was not settled")
        self._acknowledged.append((partition, offset, how))

    def commit_async(self) -> None:
        if self.host.is_dead:
            return
        self._check()
        self._report()
        if self.is_broken:
            self.host.endpoint.must_end = True
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._send()

    def _send(self) -> None:
        if self._acknowledged:
            sent, self._acknowledged = self._acknowledged, []
            self._later(self._take, sent)

    def _take(self, sent: list[tuple[int, int, AcknowledgeType]]) -> None:
        """Have acknowledgements arrive, and be answered partition by partition."""
        host, fault, error = self.host, self.host.acknowledgement_fault, None
        if host.is_silent or fault == "lose request":
            error = KafkaError._TRANSPORT
        elif fault in ("refuse", "forbid"):
            error = KafkaError.GROUP_AUTHORIZATION_FAILED if fault == "forbid" else KafkaError.NOT_LEADER_FOR_PARTITION
        answers: dict[tuple[int, int | None], set[int]] = defaultdict(set)
        for partition, offset, how in sent:
            taken = error is None and self.group.acknowledge(self, partition, offset, how)
            answers[partition, None if taken else error or KafkaError.INVALID_RECORD_STATE].add(offset)
        if fault != "lose answer":
            self._later(self._note, answers)

    def _note(self, answers: Mapping[tuple[int, int | None], set[int]]) -> None:
        for (partition, code), offsets in answers.items():
            if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                self._must_end()
            problem = None if code is None else KafkaException(KafkaError(code))
            self._reports.append(
                lambda p=partition, o=offsets, e=problem: self._callback({TopicPartition(TOPIC, p): o}, e)  # type: ignore[misc]
            )

    def _report(self) -> None:
        if self.problems and self.problems[0].code() == KafkaError._AUTHENTICATION:
            self._settings["error_cb"](self.problems.pop(0))
            self._must_end()
        while self._reports:
            self._reports.popleft()()

    # Its session.

    def _must_end(self) -> None:
        """Judge, after a while, whether it was closed for an error that does not pass."""
        self.host.endpoint.must_end = True

        def judge() -> None:
            if not (self.is_over or self.host.is_dead):
                self.host.world.breaks("left", f"{self.host.name} goes on after an error that does not pass")

        asyncio.get_running_loop().call_later(LEFT, judge)

    def give_away(self, partition: int, seconds: float) -> None:
        """Have other members get a partition for some time."""
        self._away[partition] = self.host.world.now + seconds
        self.group.leave(self, partition)
        for key in [key for key in self.in_flight if key[0] == partition]:
            del self.in_flight[key]
        self._acknowledged = [each for each in self._acknowledged if each[0] != partition]

    def close(self) -> None:
        """Send what is acknowledged, and leave the group; brokers that do not answer notice it later."""
        self.is_over = True
        if self.host.is_silent:
            asyncio.get_running_loop().call_later(SESSION, self.group.leave, self)
            return
        self._take(self._acknowledged)
        self.group.leave(self)

    def _check(self) -> None:
        if self.is_over:
            raise IllegalStateException("closed")

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(self.host.world.delay(SECONDS), call, *arguments)


class _Shared(Record):
    """A record as a share consumer gives it."""

    def __init__(self, record: SharedRecord) -> None:
        super().__init__(
            topic=TOPIC, partition=record.partition, offset=record.offset, key=record.key, value=record.value,
            timestamp=(0, -1),
        )  # fmt: skip
        self._deliveries = record.deliveries

    def delivery_count(self) -> int:
        return self._deliveries


class _Share(ShareSource):
    """The real source, which notes what it is told to settle."""

    def __init__(self, host: ShareTopic) -> None:
        settings = {"group.id": "group", "bootstrap.servers": "b:9092", "host": host}
        super().__init__(host.name, settings, [TOPIC], window=host.world.plan.window)
        self._host = host
        self.settled_at: dict[tuple[int, int, int], float] = {}
        """Partition, offset and number of deliveries of a record -> when it was to be settled first."""
        self.takes_no_more = False
        self.must_end = False
        """Whether its client has reported an error that does not pass."""

    @property
    def lost(self) -> Disconnected | None:
        lost = super().lost
        if lost is not None and not self.must_end:
            self._host.world.breaks("bounded redelivery", f"{self.name} gives up what it has, without need: {lost}")
        return lost

    async def open(self) -> None:
        self.takes_no_more = self.must_end = False
        await super().open()

    async def stop_taking(self) -> bool:
        self.takes_no_more = True
        return await super().stop_taking()

    async def read(self, limit: int) -> Sequence[Delivery]:
        deliveries = await super().read(limit)
        for each in deliveries:
            lane: Any = each.lane
            if (lane.partition, lane.offset, lane.deliveries) not in self._consumer.given:
                self._host.world.breaks("bounded redelivery", f"{each.message.body!r} is of an earlier connection")
        return deliveries

    def settle(self, delivery: Delivery) -> None:
        lane: Any = delivery.lane
        self.settled_at.setdefault((lane.partition, lane.offset, lane.deliveries), self._host.world.now)
        super().settle(delivery)

    def end(self) -> None:
        """End the tasks of a process that was killed."""
        for task in self._tasks:
            task.cancel()


@contextmanager
def share_simulated() -> Iterator[None]:
    """Have the source's clients be models."""

    async def look_at_topics(settings: Mapping[str, Any], _: Any) -> Any:
        host: ShareTopic = settings["host"]
        known = {TOPIC: SimpleNamespace(error=None, partitions=host.group.partitions)}
        return await Calls().call(lambda: host.answer(SimpleNamespace(topics=known)))

    def fetch_group(host: ShareTopic, name: str) -> ShareGroup:
        group = host.answer(host.group)
        return ShareGroup(name, group.lock_seconds, group.limit)

    with ExitStack() as stack:
        for name, replaced in {
            "ShareConsumer": ModelShareConsumer, "Calls": Calls, "look_at_topics": look_at_topics,
            "monotonic": lambda: asyncio.get_running_loop().time(), "make_admin": lambda settings, _: settings["host"],
            "check_rights": lambda *_: None, "find_missing_request": lambda *_: "", "fetch_share_group": fetch_group,
            "LONGEST_WAIT": 0.25,
        }.items():  # fmt: skip
            stack.enter_context(patch(f"bridge.endpoints.kafka.consumer.share.{name}", replaced))
        yield
