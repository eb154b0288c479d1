"""What a partitioner is: a value that chooses as a named client and version would.

Choosing never reads a clock, draws a random number or remembers: `Inputs` bring the first two, and what a client's
producer remembers of a topic goes in and comes out as a frozen value. So any run can be replayed, and `Producer`, which
keeps those memories between records, is the only thing here that changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

from exchange.partition.partitions import Partitions

__all__ = ["Appended", "Choice", "Draw", "Event", "Inputs", "LoadStats", "NewBatch", "Partitioner", "Producer"]

Key = Any
"""None, str, bytes, bool, int, float, or a `Typed` of these; `partition.hashing.keys` serialises it as clients do."""

Draw = Callable[[int], int]
"""Given n, an integer from 0 to n - 1. ``draw(2**31)`` stands for Java's ``toPositive(random.nextInt())``."""


class Choice(NamedTuple):
    """A partition, and what led to it."""

    partition: int | None
    """The id; None when the key does not decide, and what the producer did before, time or chance does."""
    hash: int | None = None
    """Of the key, as the client computes it: a signed 32-bit integer in Java."""
    rule: str = ""
    """How one follows from the other, ``toPositive(hash) % 12``; what else decides where no hash does."""


class Inputs(NamedTuple):
    """What comes from outside: the time and chance."""

    draw: Draw
    now: int = 0
    """Milliseconds, of a clock that does not go back."""


class NewBatch(NamedTuple):
    """A producer has to begin a new batch for ``partition`` (`Partitioner.onNewBatch`, Kafka 2.4-3.9).

    It then asks again for the same record.
    """

    partition: int


class Appended(NamedTuple):
    """A record without a key was appended to the chosen partition (`BuiltInPartitioner.updatePartitionInfo`).

    With size 0: the partition's last batch was sent, is full, or has no room for the next record.
    """

    size: int
    """The bytes by which the batch's estimated size grew, its header included when it is new."""
    batches_full: bool = True
    """Whether all batches of that partition are full (`enableSwitch`)."""


class LoadStats(NamedTuple):
    """How many batches wait for each partition that is fit to be used (`updatePartitionLoadStats`)."""

    queue_sizes: tuple[int, ...]
    partition_ids: tuple[int, ...]


Event = NewBatch | Appended | LoadStats


class Partitioner:
    """A strategy with its parameters; subclasses are frozen dataclasses.

    ``choose`` tells what the key alone decides. ``choose_next`` is the whole strategy: by default the same.
    """

    one_memory: ClassVar[bool] = False
    """Whether a producer remembers one thing for all its topics, and not one for each."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        """The partition for this key, or a choice without one. Raises InputError for a key the client cannot take."""
        raise NotImplementedError

    def memory(self, inputs: Inputs) -> Any:
        """What a producer remembers before the first record: a frozen value; None where there is nothing."""
        return None

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        """The partition for the next record, and what the producer remembers afterwards."""
        return self.choose(key, partitions), memory

    def after(self, event: Event, partitions: Partitions, memory: Any, inputs: Inputs) -> Any:
        """What the producer remembers after the event; events that mean nothing to a strategy leave it as it is."""
        return memory


class Producer:
    """One producer's choices: it keeps what its partitioner remembers of each topic from record to record.

    ``draw`` and ``clock`` (milliseconds) bring chance and time. Not safe to share between threads.
    """

    def __init__(self, partitioner: Partitioner, draw: Draw, clock: Callable[[], int] = lambda: 0) -> None:
        self.partitioner: Final = partitioner
        self._draw: Final = draw
        self._clock: Final = clock
        self._memories: Final[dict[str, Any]] = {}

    def choose(self, topic: str, key: Key, partitions: Partitions) -> Choice:
        """The partition for the next record of this topic."""
        place, inputs = self._place(topic), Inputs(self._draw, self._clock())
        choice, self._memories[place] = self.partitioner.choose_next(
            key, partitions, self._remembered(place, inputs), inputs
        )
        return choice

    def tell(self, topic: str, event: Event, partitions: Partitions) -> None:
        """What happened to this topic's batches."""
        place, inputs = self._place(topic), Inputs(self._draw, self._clock())
        self._memories[place] = self.partitioner.after(event, partitions, self._remembered(place, inputs), inputs)

    def _place(self, topic: str) -> str:
        return "" if self.partitioner.one_memory else topic

    def _remembered(self, place: str, inputs: Inputs) -> Any:
        if place not in self._memories:
            self._memories[place] = self.partitioner.memory(inputs)
        return self._memories[place]
