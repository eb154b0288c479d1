"""A partitioned queue: its exchanges, queues and bindings on the broker, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import InputError
from exchange.limits import GROUP_PARTITIONS, SHORTSTR_BYTES
from exchange.partition.slots import check_slots, place_slots
from exchange.text.numbers import is_digits
from exchange.topology.topology import Topology

SLOTS: Final = 256
"""Default number of slots."""

DELIVERIES: Final = 2_000_000_000
"""Maximum number of deliveries of a message: never reached."""

LONGEST: Final = SHORTSTR_BYTES - 60
"""Maximum length of a name in bytes: names derived from it are at most 60 bytes longer."""


@dataclass(frozen=True, slots=True)
class PartitionedQueue:
    """A queue in partitions: the exchange NAME, and the queues NAME-0, NAME-1 ... with a single active consumer each.

    A message is published to the exchange with the key ``SLOT.KEY``: number of its slot, a dot, and its routing key.
    The slot follows from the message's key, by a hash that all publishers share; its binding ``SLOT.#`` leads to one
    partition. So a publisher in any language only has to know the number of slots, which never changes.

    Raises InputError for a name that is empty or too long.
    """

    name: str
    slots: int = SLOTS
    queue_type: Literal["quorum", "classic"] = "quorum"

    def __post_init__(self) -> None:
        if not 0 < len(self.name.encode("utf-8", "surrogateescape")) <= LONGEST:
            raise InputError(f"the name of a partitioned queue has 1 to {LONGEST} bytes in UTF-8: {self.name[:40]!r}")
        check_slots(self.slots, 1)
        if self.queue_type not in ("quorum", "classic"):
            raise InputError(f'the type of the queues is "quorum" or "classic", not {self.queue_type!r}')

    def partition(self, number: int) -> str:
        """Return the name of a partition's queue."""
        return f"{self.name}-{number}"

    @property
    def members(self) -> str:
        """Name of the fanout exchange on which members announce themselves."""
        return f"{self.name}.members"

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of each partition's queue."""
        return {"x-single-active-consumer": True, **self.lasting_arguments}

    @property
    def lasting_arguments(self) -> dict[str, Any]:
        """Arguments of a queue of this type that keeps its messages however often they come back.

        By default, quorum queues of RabbitMQ 4.0 and later drop what came back 20 times. -1 would be no limit there,
        but 0 for earlier releases.
        """
        arguments: dict[str, Any] = {"x-queue-type": self.queue_type}
        return arguments | ({"x-delivery-limit": DELIVERIES} if self.queue_type == "quorum" else {})

    def topology(self, partitions: int) -> Topology:
        """Return what is declared for this number of partitions. Raises InputError for a number out of range."""
        check_partitions(self.slots, partitions)
        topology = Topology().declare_exchange(Exchange(self.name, "topic", durable=True))
        for number in range(partitions):
            topology = topology.declare_queue(Queue(self.partition(number), durable=True, arguments=self.arguments))
        for slot, number in enumerate(place_slots(self.slots, partitions)):
            topology = topology.bind(Binding.to_queue(self.name, self.partition(number), format_binding_key(slot)))
        return topology


def check_partitions(slots: int, partitions: int) -> None:
    """Check a number of partitions. Raises InputError."""
    check_slots(slots, partitions)
    if partitions > GROUP_PARTITIONS:
        raise InputError(f"{partitions:,} partitions: a partitioned queue has {GROUP_PARTITIONS:,} at most")


def format_binding_key(slot: int) -> str:
    """Return the key that binds a slot to its partition."""
    return f"{slot}.#"


def split_key(routing_key: str) -> tuple[int | None, str]:
    """Return slot and routing key of a message as it came from a partition; no slot if the key has none.

    >>> split_key("17.order.eu.created")
    (17, 'order.eu.created')
    """
    slot, _, key = routing_key.partition(".")
    return (int(slot), key) if is_digits(slot) and len(slot) < 6 else (None, routing_key)
