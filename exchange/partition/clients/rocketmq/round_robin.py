"""The queue that RocketMQ's Java producer chooses by itself: the next one, by an index of the thread.

Each thread has an index for each topic; it begins at random, and again whenever the route changes. After a failure the
client looks for the next queue of another broker. Versions differ in how the index moves, and in what it does at
Integer.MAX_VALUE: a row each in ``ERAS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import broker_name
from exchange.partition.hashing.hashes import absolute, positive, signed
from exchange.partition.hashing.java import remainder
from exchange.partition.partitioner import Choice, Inputs, Key, Partitioner
from exchange.partition.partitions import Partitions

__all__ = ["ERAS", "Era", "RoundRobin", "Turn", "era_of", "position"]


class Era(NamedTuple):
    """The rules of an index in a range of versions (`org.apache.rocketmq.client.common.ThreadLocalIndex`)."""

    first: Callable[[int], int]
    """``Random.nextInt()`` -> the index before the first message."""
    step: Callable[[int], tuple[int, int]]
    """The index -> the next index, and the number that is returned."""
    seeks_from_a_copy: bool = False
    """Whether a search for another broker moves the index only by one, whatever the number of queues that it skips."""


def _absolute_or_zero(value: int) -> int:
    return max(absolute(value), 0)


def _step_to_zero(index: int) -> tuple[int, int]:
    after = _absolute_or_zero(signed(index + 1))
    return after, after


def _step_and_stick(index: int) -> tuple[int, int]:
    after = absolute(signed(index + 1))
    return after, after


def _step_and_turn_back(index: int) -> tuple[int, int]:
    after = signed(index + 1)
    return after, absolute(after)


def _step(index: int) -> tuple[int, int]:
    after = signed(index + 1)
    return after, positive(after)


def _as_drawn(value: int) -> int:
    return value


ERAS: Final[Mapping[tuple[int, ...], Era]] = MappingProxyType({
    (4, 0): Era(_absolute_or_zero, _step_to_zero, seeks_from_a_copy=True),
    (4, 8): Era(absolute, _step_and_stick),
    (4, 9): Era(absolute, _step_and_turn_back),
    (4, 9, 4): Era(absolute, _step),
    (5, 0): Era(_as_drawn, _step),
})  # fmt: skip
"""The first version -> how an index moves from there on.

After 2147483647 comes 0 in 4.0-4.7. In 4.8 the index is stuck: it alternates between 2147483647 and the least integer,
which is position 0. In 4.9.0-4.9.3 it counts down from there. From 4.9.4 on it continues with 0.
"""


@cache
def era_of(version: str) -> Era:
    """Return the era of a client's version, ``4.9.2``. Raises InputError for no version, and for one before 4.0."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise InputError(f"not a version of rocketmq-client: {version!r}; write it as in 4.7.1 or 5.0")
    number = tuple(map(int, version.split(".")))
    eras = [era for since, era in ERAS.items() if since <= (*number, 0, 0)]
    if not eras:
        raise InputError(f"rocketmq-client {version} is older than 4.0")
    return eras[-1]


def position(number: int, count: int) -> int:
    """Return ``Math.abs(number) % count``, but 0 for the least integer."""
    return max(remainder(absolute(number), count), 0)


class Turn(NamedTuple):
    """The index of one thread and topic, and the queues that take turns."""

    at: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RoundRobin(Partitioner):
    """`TopicPublishInfo.selectOneMessageQueue`, as `DefaultMQProducer.send(Message)` calls it.

    ``version`` is the client's; in 5.1.4 and later queues take turns in the same way, through their QueueFilter. A
    `Producer` with it corresponds to one thread. With ``sendLatencyFaultEnable`` the client chooses differently.
    """

    version: str = "5.0"

    def __post_init__(self) -> None:
        era_of(self.version)

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "the thread's index, which begins at random")

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        return self.choose_again(None, partitions, memory, inputs)

    def choose_again(
        self, last_broker: str | None, partitions: Partitions, memory: Turn | None, inputs: Inputs
    ) -> tuple[Choice, Turn]:
        """Choose the queue for another try, at another broker than the last one if there is one, and return it with
        the memory after it.
        """
        era = era_of(self.version)
        same_route = memory is not None and (memory.partitions is partitions or memory.partitions == partitions)
        index = memory.at if memory and same_route else era.first(signed(inputs.draw(1 << 32)))
        if last_broker is not None:
            for next_index, number in _numbers(era, index, partitions.count):
                index = next_index
                partition = partitions.all[position(number, partitions.count)]
                if broker_name(partition) != last_broker:
                    return Choice(partition.id, None, f"index {number}, not {last_broker}"), Turn(index, partitions)
        index, number = era.step(index)
        partition = partitions.all[position(number, partitions.count)]
        return Choice(partition.id, None, f"index {number} % {partitions.count}"), Turn(index, partitions)


def _numbers(era: Era, index: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield for as many tries as there are queues the index after the try, and its number."""
    if era.seeks_from_a_copy:
        index, number = era.step(index)
        for ahead in range(count):
            yield index, signed(number + ahead)
    else:
        for _ in range(count):
            index, number = era.step(index)
            yield index, number
