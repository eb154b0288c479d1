"""The queue that RocketMQ's Java producer chooses without a selector: the next one, by an index of the thread.

Each thread has an index for each topic. It begins at random, and does so again each time the route changes. After a
failure, the client searches for the next queue of another broker. Versions differ in how the index moves, and in what
follows Integer.MAX_VALUE: each has a row in ``ERAS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import find_broker_name
from exchange.partition.hashing.hashes import to_absolute, to_positive, to_signed
from exchange.partition.hashing.java import compute_remainder
from exchange.partition.partitioner import Choice, Inputs, Key, Partitioner
from exchange.partition.partitions import Partitions


class Era(NamedTuple):
    """The rules of an index in a range of versions (`org.apache.rocketmq.client.common.ThreadLocalIndex`)."""

    first: Callable[[int], int]
    """``Random.nextInt()`` -> the index before the first message."""
    step: Callable[[int], tuple[int, int]]
    """The index -> the next index, and the number from which `find_position` makes a position."""
    seeks_from_a_copy: bool = False
    """Whether a search for another broker moves the index by one only, however many queues it skips."""


# How each version in `ERAS` begins and moves the index.


def _absolute_or_zero(value: int) -> int:
    return max(to_absolute(value), 0)


def _step_to_zero(index: int) -> tuple[int, int]:
    after = _absolute_or_zero(to_signed(index + 1))
    return after, after


def _step_and_stick(index: int) -> tuple[int, int]:
    after = to_absolute(to_signed(index + 1))
    return after, after


def _step_and_turn_back(index: int) -> tuple[int, int]:
    after = to_signed(index + 1)
    return after, to_absolute(after)


def _step(index: int) -> tuple[int, int]:
    after = to_signed(index + 1)
    return after, to_positive(after)


def _as_drawn(value: int) -> int:
    return value


ERAS: Final[Mapping[tuple[int, ...], Era]] = MappingProxyType({
    (4, 0): Era(_absolute_or_zero, _step_to_zero, seeks_from_a_copy=True),
    (4, 8): Era(to_absolute, _step_and_stick),
    (4, 9): Era(to_absolute, _step_and_turn_back),
    (4, 9, 4): Era(to_absolute, _step),
    (5, 0): Era(_as_drawn, _step),
})  # fmt: skip
"""First version of a range -> how an index moves in it.

After 2147483647, the index continues with 0 in 4.0-4.7. In 4.8 it is stuck: it alternates between 2147483647 and
Integer.MIN_VALUE, which is position 0. In 4.9.0-4.9.3 the numbers count down from there. From 4.9.4 on they continue
with 0.
"""


@cache
def find_era(version: str) -> Era:
    """Return the era of a client's version, ``4.9.2``. Raises InputError for no version, and for one before 4.0."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise InputError(f"not a version of rocketmq-client: {version!r}; write it as in 4.7.1 or 5.0")
    number = tuple(map(int, version.split(".")))
    eras = [era for since, era in ERAS.items() if since <= (*number, 0, 0)]
    if not eras:
        raise InputError(f"rocketmq-client {version} is older than 4.0")
    return eras[-1]


def find_position(number: int, count: int) -> int:
    """Return ``Math.abs(number) % count``, but 0 if Java's result is negative, as it may be for Integer.MIN_VALUE."""
    return max(compute_remainder(to_absolute(number), count), 0)


class Turn(NamedTuple):
    """The index of one thread for one topic, and the queue list that it is for."""

    at: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RoundRobin(Partitioner):
    """`TopicPublishInfo.selectOneMessageQueue`, as `DefaultMQProducer.send(Message)` calls it.

    ``version`` is the client's. From 5.1.4 on, the client's code for it is another (QueueFilter), with the same result.
    A `Producer` with this partitioner corresponds to one thread. With ``sendLatencyFaultEnable`` the client chooses
    differently: see `exchange.partition.clients.rocketmq.faults`.
    """

    version: str = "5.0"

    def __post_init__(self) -> None:
        find_era(self.version)

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "the thread's index, which begins at random")

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        return self.choose_again(None, partitions, memory, inputs)

    def choose_again(
        self, last_broker: str | None, partitions: Partitions, memory: Turn | None, inputs: Inputs
    ) -> tuple[Choice, Turn]:
        """Return the choice for another try, and the memory after it.

        The queue is at another broker than ``last_broker`` if there is one. None stands for a first try.
        """
        era = find_era(self.version)
        same_route = memory is not None and (memory.partitions is partitions or memory.partitions == partitions)
        index = memory.at if memory and same_route else era.first(to_signed(inputs.draw(1 << 32)))
        if last_broker is not None:
            for next_index, number in _numbers(era, index, partitions.count):
                index = next_index
                partition = partitions.all[find_position(number, partitions.count)]
                if find_broker_name(partition) != last_broker:
                    return Choice(partition.id, None, f"index {number}, not {last_broker}"), Turn(index, partitions)
        index, number = era.step(index)
        partition = partitions.all[find_position(number, partitions.count)]
        return Choice(partition.id, None, f"index {number} % {partitions.count}"), Turn(index, partitions)


def _numbers(era: Era, index: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield, for each try to find another broker, the index after it and its number; as many tries as queues."""
    if era.seeks_from_a_copy:
        index, number = era.step(index)
        for ahead in range(count):
            yield index, to_signed(number + ahead)
    else:
        for _ in range(count):
            index, number = era.step(index)
            yield index, number
