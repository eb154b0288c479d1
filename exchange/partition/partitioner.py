"""The base class of partitioners, which choose as a named client and version does, and the description of a strategy.

A choice never reads a clock, draws a random number or keeps state. `Inputs` supply time and random numbers, and the
memory of a client's producer is an argument and a result, a frozen value. So any run can be replayed. Only a `Producer`
is mutable: it keeps the memories between records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitions import Partitions

Key = Any
"""None, str, bytes, bool, int, float, or a `Typed` of these; `exchange.partition.hashing.keys` serialises it."""

Draw = Callable[[int], int]
"""Function from n to a random integer from 0 to n - 1. ``draw(2**31)`` is Java's ``toPositive(random.nextInt())``."""


class Choice(NamedTuple):
    """A choice of a partition, with its reason."""

    partition: int | None
    """Id of the partition; None if not the key decides it, but earlier records, time or chance."""
    hash: int | None = None
    """Hash of the key, as the client computes it: a signed 32-bit integer in Java."""
    rule: str = ""
    """How the partition follows from the hash, ``toPositive(hash) % 12``; without a hash, what decides."""


class Inputs(NamedTuple):
    """The inputs of a choice from outside: random numbers and the time."""

    draw: Draw
    now: int = 0
    """Milliseconds of a monotonic clock."""


class Undecided(BaseException):
    """What is known does not decide the partition: the value, chance, time or the memory of a producer is needed, too.

    No Exception, so that a partitioner that handles its own errors does not catch it.
    """


UNKNOWN: Final = object()
"""In place of a value that is not known."""


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """All that a partitioner may know of a record: the arguments of `org.apache.kafka.clients.producer.Partitioner`.

    Chance, time and memory come from outside, so a run can be replayed. What is not known raises `Undecided` when it is
    read: chance, time and memory where a route is explained; the value, too, where only keys are compared.
    """

    topic: str
    """Name of the topic; of the queue of the topology, where no topic is known."""
    key: Any
    """None, str, bytes, bool, int, float, or a `Typed` of these."""
    given: Any
    """The value; `UNKNOWN` where only the key is known."""
    partitions: Partitions
    """The partitions in the order of the metadata, each with its leader (name, host, rack), None while it has none."""
    inputs: Inputs | None = None
    kept: Any = None

    @property
    def key_bytes(self) -> bytes | None:
        """The serialized key; None for no key. Raises InputError for a key that no serializer of Kafka takes."""
        return serialize_key(self.key)

    @property
    def value(self) -> Any:
        """The body of the message, bytes; in ``hashstar partition`` a value as the key is one. None for no value."""
        if self.given is UNKNOWN:
            raise Undecided
        return self.given

    @property
    def value_bytes(self) -> bytes | None:
        """The serialized value; None for no value. Raises InputError for a value that no serializer of Kafka takes."""
        return serialize_key(self.value)

    @property
    def memory(self) -> Any:
        """What the partitioner returned with its last answer for the topic; None before the first record."""
        self._require_inputs()
        return self.kept

    @property
    def now(self) -> int:
        """Milliseconds of a monotonic clock."""
        return self._require_inputs().now

    def draw(self, n: int) -> int:
        """Return a random integer from 0 to ``n`` - 1."""
        return self._require_inputs().draw(n)

    def _require_inputs(self) -> Inputs:
        if self.inputs is None:
            raise Undecided
        return self.inputs


class NewBatch(NamedTuple):
    """The event that a producer must begin a new batch for ``partition`` (`Partitioner.onNewBatch`, Kafka 2.4-3.9).

    The producer then asks again for a partition for the same record.
    """

    partition: int


class Appended(NamedTuple):
    """The event that a record without key was appended (`BuiltInPartitioner.updatePartitionInfo`).

    With size 0: the last batch of the partition was sent, is full, or has no room for the next record.
    """

    size: int
    """Number of bytes by which the estimated size of the batch grew, with the header of a new one."""
    batches_full: bool = True
    """Whether all batches of that partition are full (`enableSwitch`)."""


class LoadStats(NamedTuple):
    """The event that the load is known: the waiting batches of each usable partition (`updatePartitionLoadStats`)."""

    queue_sizes: tuple[int, ...]
    """Numbers of waiting batches, in the order of ``partition_ids``."""
    partition_ids: tuple[int, ...]


Event = NewBatch | Appended | LoadStats


class Partitioner:
    """A strategy with its parameters; subclasses are frozen dataclasses.

    ``choose`` returns what the key alone decides. ``choose_next`` is the whole strategy, with the producer's memory; by
    default it calls ``choose``.
    """

    one_memory: ClassVar[bool] = False
    """Whether a producer has one memory for all topics, and not one for each."""
    reads_record: ClassVar[bool] = False
    """Whether more of a record than its key may decide: `answer` takes the whole record, `choose` only its key."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        """Return what the key alone decides. Raises InputError for a key that the client cannot take."""
        raise NotImplementedError

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        """Return the id of the partition that the key alone decides, None if it does not: `choose` without its reason.

        It is the fast way to many answers. Raises InputError as `choose`.
        """
        return self.choose(key, partitions).partition

    def memory(self, inputs: Inputs) -> Any:
        """Return the memory of a producer before the first record, a frozen value; None if it needs none."""
        return None

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        """Return the choice for the next record, and the memory after it."""
        return self.choose(key, partitions), memory

    def answer(self, request: PartitionRequest) -> tuple[Choice, Any]:
        """Return the choice for a record, and the memory after it.

        Without inputs it is what the record alone decides. Raises InputError as `choose`.
        """
        if request.inputs is None:
            return self.choose(request.key, request.partitions), None
        return self.choose_next(request.key, request.partitions, request.kept, request.inputs)

    def after(self, event: Event, partitions: Partitions, memory: Any, inputs: Inputs) -> Any:
        """Return the memory after the event; an event that means nothing to the strategy leaves it unchanged."""
        return memory


class Producer:
    """A producer: it keeps the memory of its partitioner, for each topic, from record to record.

    ``draw`` and ``clock`` (milliseconds) supply random numbers and the time. Not safe to share between threads.
    """

    def __init__(self, partitioner: Partitioner, draw: Draw, clock: Callable[[], int] = lambda: 0) -> None:
        self.partitioner: Final = partitioner
        self._draw: Final = draw
        self._clock: Final = clock
        self._memories: Final[dict[str, Any]] = {}

    def choose(self, topic: str, key: Key, partitions: Partitions, value: Any = UNKNOWN) -> Choice:
        """Return the choice for the next record of this topic. Raises InputError as `Partitioner.choose`.

        A memory that chooses a partition which is not there any more is forgotten: the topic has fewer than before.
        """
        name, inputs = self._memory_name(topic), Inputs(self._draw, self._clock())

        def ask(kept: Any) -> tuple[Choice, Any]:
            if self.partitioner.reads_record:
                return self.partitioner.answer(PartitionRequest(topic, key, value, partitions, inputs, kept))
            return self.partitioner.choose_next(key, partitions, kept, inputs)

        choice, memory = ask(self._recall(name, inputs))
        if choice.partition is not None and choice.partition not in partitions:
            choice, memory = ask(self.partitioner.memory(inputs))
        self._memories[name] = memory
        return choice

    def handle(self, topic: str, event: Event, partitions: Partitions) -> None:
        """Handle an event about a batch of this topic."""
        name, inputs = self._memory_name(topic), Inputs(self._draw, self._clock())
        self._memories[name] = self.partitioner.after(event, partitions, self._recall(name, inputs), inputs)

    def _memory_name(self, topic: str) -> str:
        return "" if self.partitioner.one_memory else topic

    def _recall(self, name: str, inputs: Inputs) -> Any:
        if name not in self._memories:
            self._memories[name] = self.partitioner.memory(inputs)
        return self._memories[name]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named strategy, such as ``kafka.murmur2``."""

    name: str
    make: Callable[..., Partitioner]
    """Class of the partitioner, or a function that makes one; parameters are keyword arguments."""
    mirrors: str
    """Client, class and versions whose choice it mirrors."""
    promise: str
    """What a user may rely on."""
    cost: str
    """Price of the promise: what moves, what becomes uneven."""
    lists_queues: bool = False
    """Whether its partitions are a queue list of RocketMQ, from which the queues of a lost broker disappear.

    Elsewhere partitions have numbers, and those of a lost broker remain, without a leader.
    """
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """Parameter of ``make`` -> function that parses its text, raising ValueError: ``kafka.nearest(rack=eu-1)``."""
