"""Where the messages of a topology's queue are published in a broker: exchange and routing key, for each partition.

A partitioned queue is spread over its partitions as the topology decides. `PublishAddress` names a queue for each
partition with ``{partition}``; or a super stream by its name; or an exchange whose bindings have the partitions' names
as keys, with ``routing_key = "{partition}"``; or an exchange that hashes as the topology does. Any other address would
put messages into other partitions than the topology, and is refused when the configuration is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bridge.endpoint import BridgeLayout, Misfit, Outgoing
from bridge.interop.marks import FIRST_HOP, list_origin_fields, mark_header
from exchange.amqp import get_content
from exchange.errors import InputError
from exchange.kinds import KINDS
from exchange.partition.partitioning.specification import Partitioning

PARTITION: Final = "{partition}"
"""Placeholder for the name of a partition."""

LONGEST_KEY: Final = 255
"""Maximum length of a routing key, in bytes."""

SUPER_STREAM: Final = "rabbitmq.super_stream"
HASHING: Final = {kind.strategy: name for name, kind in KINDS.items() if kind.strategy is not None}
"""Strategy -> the exchange type that chooses partitions in the same way."""


@dataclass(frozen=True, slots=True)
class PublishAddress:
    """The address in a broker at which messages of a topology's queue are published."""

    exchange: str = ""
    routing_key: str | None = None
    """One routing key for all messages, maybe with ``{partition}``; None: each message's own."""

    @classmethod
    def queue(cls, name: str) -> PublishAddress:
        """Return the address of a queue, by way of the default exchange."""
        return cls("", name)

    @property
    def is_template(self) -> bool:
        """Whether each partition has its own routing key."""
        return self.routing_key is not None and PARTITION in self.routing_key

    def __str__(self) -> str:
        return f"exchange {self.exchange!r}" if self.exchange else f"queue {self.routing_key!r}"


class Expected(NamedTuple):
    """A queue or an exchange that a target needs, or that must not be there."""

    kind: str
    """``queue`` or ``exchange``."""
    name: str
    key: str
    """The key of the target's table that names it."""
    reason: str = ""
    """Why it is needed, for a partition, where that is not obvious."""
    absent: bool = False
    """Whether it must not be there, because the topology has no such partition."""
    is_type: str = ""
    """The type that an exchange must have; "" for any."""


class PublishRoute:
    """Publishes the messages of one queue of the topology: its exchange and routing keys."""

    __slots__ = ("_keys", "_order", "_turn", "exchange", "expected", "is_hashed", "is_plain", "key", "marks_place")

    def __init__(self, queue: str, address: PublishAddress) -> None:
        self.exchange: Final = _bytes(address.exchange)
        self.key: Final = None if address.routing_key is None else _bytes(address.routing_key)
        """The fixed routing key; None: that of the message or of its partition."""
        self.marks_place: Final = bool(queue)
        """Whether headers with their exchange and routing key are added to messages; dead letters have other headers
        for that."""
        self.is_hashed = False
        self.is_plain = True
        """Whether the routing key does not depend on the partition."""
        self.expected: list[Expected] = []
        self._keys: Mapping[int, bytes] = {}
        self._order: tuple[bytes, ...] = ()
        self._turn = 0
        key = f"queues.{queue}" if queue else "queue"
        if address.exchange:
            self.expected.append(Expected("exchange", address.exchange, key if queue else "exchange"))
        elif address.routing_key is not None:
            self.expected.append(Expected("queue", address.routing_key, key))

    @classmethod
    def spread(cls, queue: str, address: PublishAddress, partitioning: Partitioning) -> PublishRoute:
        """Return the route of a partitioned queue. Raises Misfit if its messages would get into other partitions."""
        partitions, strategy = partitioning.partitions, partitioning.strategy.partition("(")[0]
        key = f"queues.{queue}"
        if address.is_template:
            template = address.routing_key or ""
        elif partitions.count == 1:
            return cls(queue, address)
        elif not address.exchange and strategy == SUPER_STREAM:
            template = f"{address.routing_key}-{PARTITION}" if partitions.is_numbered else PARTITION
        elif address.exchange and address.routing_key is None and strategy in HASHING:
            route = cls(queue, address)
            route.is_hashed, route.is_plain = True, False
            route.expected = [Expected("exchange", address.exchange, key, is_type=HASHING[strategy])]
            return route
        else:
            raise Misfit(key, _way_out(queue, address, partitioning, strategy))
        route = cls(queue, PublishAddress(address.exchange, None))
        names = {each.id: template.replace(PARTITION, each.name) for each in partitions}
        route._keys = {number: _bytes(name) for number, name in names.items()}
        route._order = tuple(route._keys.values())
        route.is_plain = False
        if not address.exchange:
            why = f"the topology spreads {queue!r} over {partitions.count}"
            route.expected = [Expected("queue", name, key, why) for name in dict.fromkeys(names.values())]
            if partitions.is_numbered:
                more = template.replace(PARTITION, str(partitions.count))
                route.expected.append(Expected("queue", more, key, why, absent=True))
        return route

    def address(self, outgoing: Outgoing) -> tuple[bytes, bytes, bytes]:
        """Return the exchange and the routing key to publish with, and the header fields to add: these keep the
        message's own exchange and key where a fixed or a partition's key replaces them. Raises InputError.
        """
        key, message = self.key if self.is_plain else self.key_for(outgoing), outgoing.message
        if key is None:
            key, marks = _bytes(message.routing_key), FIRST_HOP
        else:
            marks = list_origin_fields(message.exchange, message.routing_key) if self.marks_place else FIRST_HOP
        if len(key) > LONGEST_KEY:
            raise InputError(f"the routing key has more than {LONGEST_KEY} bytes")
        return self.exchange, key, marks

    def header(self, outgoing: Outgoing, marks: bytes, user: str) -> bytes:
        """Return the content header to publish with, as `mark_header`, which raises the same."""
        return mark_header(get_content(outgoing.message), outgoing.delivery.identity, marks, user)

    def key_for(self, outgoing: Outgoing) -> bytes | None:
        """Return the routing key for a message of a partitioned queue; None: the message's own."""
        placement = outgoing.placement
        if self.is_hashed:
            # An exchange that hashes a header finds it in the message; one that hashes the routing key needs the key.
            key = None if placement is None else placement.key
            return _bytes(key) if isinstance(key, str) else None
        if placement is None or placement.partition is None:  # any partition will do
            if outgoing.turn is None:
                outgoing.turn = self._turn
                self._turn = (self._turn + 1) % len(self._order)
            return self._order[outgoing.turn]
        return self._keys[placement.partition]


def build_routes(
    addresses: Mapping[str, PublishAddress], layout: BridgeLayout | None = None
) -> dict[str, PublishRoute]:
    """Build the route of each queue of the topology. Raises Misfit for an address that does not fit the partitions."""
    routes = {}
    for queue, address in addresses.items():
        partitioning = None if layout is None else layout.topology.queues[queue].partitioning
        if partitioning is not None:
            routes[queue] = PublishRoute.spread(queue, address, partitioning)
        elif layout is not None and address.is_template:
            raise Misfit(
                f"queues.{queue}",
                f"has {PARTITION}, and the topology does not partition {queue!r}: write there, for instance, "
                f"partitioned rabbitmq.super_stream over 3, or name one queue here",
            )
        else:
            routes[queue] = PublishRoute(queue, address)
    return routes


def _way_out(queue: str, address: PublishAddress, partitioning: Partitioning, strategy: str) -> str:
    what = f"the topology spreads {queue!r} over {partitioning.partitions.count} partitions, and {address} is one place"
    if not address.exchange:
        return f'{what}; name a queue for each: "{address.routing_key}-{PARTITION}"'
    out = f'{{ exchange = "{address.exchange}", routing_key = "{PARTITION}" }} for bindings with the partitions\' names'
    if strategy == SUPER_STREAM:
        return f"{what}; write {out}, or the name of the super stream"
    kinds = ", ".join(f"{kind} with {name}" for name, kind in HASHING.items())
    return f"{what}, for all that is known of it; write {out}, or let it hash as the topology does: {kinds}"


def _bytes(name: Any) -> bytes:
    return str(name).encode("utf-8", "surrogateescape")
