"""A topic of Kafka as a log: what is read does not depend on what its client has fetched, and ends where it ended."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka import Message as Found
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead.logs import log as logs
from bridge.dead.logs.kafka import TopicLog
from bridge.dead.logs.log import Letter, LogLane
from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.calls import Calls
from tests.support.tiers import examples


class Client:
    """Gives records of the partitions that are assigned, from where they are, any number at a time."""

    def __init__(self, times: list[list[int]], random: Random, ends: list[int]) -> None:
        self.at: dict[int, int] = {}
        self._times, self._random, self._ends = times, random, ends

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            assert each.partition not in self.at
            self.at[each.partition] = each.offset

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self.at[each.partition]

    def consume(self, count: int, timeout: float) -> list[Found]:
        found: list[Found] = []
        for partition in self._random.choices([*self.at], k=self._random.randint(0, count)) if self.at else ():
            offset, times = self.at[partition], self._times[partition]
            if offset < self._ends[partition]:
                found.append(
                    Found(topic="dead", partition=partition, offset=offset, value=b"x", timestamp=(1, times[offset]))
                )
                self.at[partition] += 1
            else:
                end = KafkaError(KafkaError._PARTITION_EOF)
                found.append(Found(topic="dead", partition=partition, offset=offset, error=end))
        return found

    def close(self) -> None:
        """Do nothing."""


class Read(TopicLog):
    """Reads such a client in place of librdkafka's."""

    def __init__(self, client: Client, ends: list[int]) -> None:
        super().__init__("kafka://127.0.0.1:1", "dead", dict)
        self._client, self._ends = client, ends

    async def connect(self) -> list[LogLane]:
        self._calls = Calls()
        self._consumer = self._client  # type: ignore[assignment]
        return [LogLane(each, f"dead-{each}", 0, end) for each, end in enumerate(self._ends)]


def read_all(times: list[list[int]], ends: list[int], seed: int = 0) -> list[Letter]:
    """Return the letters of a topic of these times that is known to have these ends."""

    async def read() -> list[Letter]:
        log = Read(Client(times, Random(seed), [len(each) for each in times]), ends)
        await log.open()
        letters: list[Letter] = []
        try:
            while (letter := await log.read()) is not None:
                letters.append(letter)
        finally:
            await log.close()
        return letters

    return asyncio.run(read())


@examples(60)
@given(st.lists(st.lists(st.integers(0, 40), max_size=40).map(sorted), min_size=1, max_size=4), st.integers(0, 99))
def test_letters_come_once_each_the_oldest_first_whatever_was_fetched(times: list[list[int]], seed: int) -> None:
    """Partitions run ahead of each other, and are read on where they were left; what is behind the ends is not read."""
    ends = [Random(seed).randint(0, len(each)) for each in times]
    wanted = sorted((time, at, offset) for at, some in enumerate(times) for offset, time in enumerate(some[: ends[at]]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logs, "FETCHED", 3)
        found = read_all(times, ends, seed)
    shown = [((each.time or 0) // 1000, int(each.lane.removeprefix("dead-")), each.offset) for each in found]
    assert shown == wanted


def test_a_partition_that_ends_before_it_did_is_no_end() -> None:
    """A leader that was behind has letters that are to come; they are not passed over as if they were gone."""
    with pytest.raises(Disconnected, match="dead-0 ends at 2, and ended at 5 before"):
        read_all([[1, 2]], [5])


def test_bodies_of_a_partition_that_runs_ahead_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    add = LogLane.add

    def note(lane: LogLane, letter: Letter) -> None:
        nonlocal most
        add(lane, letter)
        most = max(most, lane.size)

    monkeypatch.setattr(LogLane, "add", note)
    monkeypatch.setattr(logs, "FETCHED_BYTES", 10)
    behind: Any = [[*range(100)], [*range(1_000, 1_100)]]
    assert len(read_all(behind, [100, 100])) == 200
    assert most == 10
