"""The parts of a topology as values: exchanges, queues, bindings and policies, with RabbitMQ's attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from exchange.entities.predeclared import LOG_EXCHANGE, PREDECLARED_TYPES
from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pcre import parse_expression
from exchange.values.documents import document
from exchange.values.field_values import EMPTY, FieldTable, freeze_table

if TYPE_CHECKING:
    from exchange.partition.partitioning.specification import Partitioning


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange; ``type`` is a key of `exchange.kinds.KINDS`, or the type of an unknown plugin."""

    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Any] = EMPTY
    """A `FieldTable`; any mapping can be given."""

    def __post_init__(self) -> None:
        _freeze(self)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; its type (classic, quorum, stream ...) is the argument ``x-queue-type``, classic when absent."""

    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: Mapping[str, Any] = EMPTY
    """A `FieldTable`; any mapping can be given."""
    partitioning: Partitioning | None = None
    """How its messages are distributed to the partitions of a Kafka topic, a RocketMQ topic or a super stream."""

    def __post_init__(self) -> None:
        _freeze(self)

    @property
    def type(self) -> str:
        """The type, from ``x-queue-type`` as the broker reads it."""
        kind = str(self.arguments.get("x-queue-type", "classic"))
        return "classic" if kind in ("", "undefined") else kind  # where these two are not refused


_new_tuple: Final = tuple.__new__


@document("DestinationJson")
class Destination(NamedTuple):
    """The destination of a binding: a queue or an exchange."""

    kind: Literal["queue", "exchange"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'"


class _Binding(NamedTuple):
    source: str
    destination: Destination
    routing_key: str
    arguments: FieldTable


class Binding(_Binding):
    """A binding. Two are equal when source, destination, key and arguments are, the types in the arguments included.

    ``arguments`` become a `FieldTable`; any mapping can be given.
    """

    __slots__ = ()

    def __new__(
        cls, source: str, destination: Destination, routing_key: str = "", arguments: Mapping[str, Any] = EMPTY
    ) -> Self:
        if type(arguments) is not FieldTable:
            arguments = freeze_table(arguments, "Binding: arguments")
        if not (type(source) is type(routing_key) is str and type(destination) is Destination):
            _require_text(source, "Binding: source")
            _require_text(routing_key, "Binding: routing_key")
            if not isinstance(destination, Destination):
                raise TypeError(
                    f"Binding: destination must be a Destination, not {type(destination).__name__}; "
                    "Binding.to_queue takes a name"
                )
        return _new_tuple(cls, (source, destination, routing_key, arguments))

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]  # typeshed: of any NamedTuple
        return cls(*iterable)

    @classmethod
    def to_queue(
        cls, source: str, queue: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Binding:
        """Build a binding from an exchange to a queue."""
        _require_text(queue, "Binding: queue")
        return cls(source, Destination("queue", queue), routing_key, EMPTY if arguments is None else arguments)

    @classmethod
    def to_exchange(
        cls, source: str, exchange: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Binding:
        """Build a binding from an exchange to another one, or to itself."""
        _require_text(exchange, "Binding: exchange")
        return cls(source, Destination("exchange", exchange), routing_key, EMPTY if arguments is None else arguments)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy. Of all policies that apply to a name, only the one of the highest priority is in force.

    So it is with operator policies, which limit what policies and arguments set: see `exchange.entities.in_force`.
    """

    name: str
    pattern: str
    definition: Mapping[str, Any] = EMPTY
    """A `FieldTable`; any mapping can be given."""
    apply_to: str = "all"
    priority: int = 0
    operator: bool = False
    """Whether it is an operator policy; these have names of their own."""

    def __post_init__(self) -> None:
        # The rule that sets a policy checks the other attributes, with the texts of the broker.
        if not isinstance(self.definition, FieldTable):
            object.__setattr__(self, "definition", freeze_table(self.definition, "Policy: definition", is_json=True))

    def applies_to_exchange(self, name: str) -> bool | None:
        """Return whether the broker applies the policy to the exchange of this name; None where that is unknown.

        A pattern that the broker refuses applies to nothing. `exchange.patterns.pcre` documents what is unknown.
        """
        return self.apply_to in ("all", "exchanges") and self.is_found_in(name)

    def is_found_in(self, name: str) -> bool | None:
        """Return whether the broker finds the pattern in a name; None where that is unknown."""
        return False if parse_expression(self.pattern).error else parse_expression(self.pattern).is_found_in(name)


def _freeze(part: Exchange | Queue) -> None:
    kind = type(part).__name__
    _require_text(part.name, f"{kind}: name")
    if isinstance(part, Exchange):
        _require_text(part.type, f"{kind}: type")
    if not isinstance(part.arguments, FieldTable):
        object.__setattr__(part, "arguments", freeze_table(part.arguments, f"{kind}: arguments"))


def _require_text(value: object, owner: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{owner} must be str, not {type(value).__name__}: {value!r:.60}")


PREDECLARED: Final = tuple(
    [Exchange(name, kind, internal=name == "amq.rabbitmq.trace") for name, kind in PREDECLARED_TYPES.items()]
)
"""The exchanges that every virtual host has."""
PREDECLARED_NAMES: Final = frozenset(PREDECLARED_TYPES)
OWN_NAMES: Final = PREDECLARED_NAMES | {LOG_EXCHANGE}
"""The exchanges that brokers declare, and clients cannot."""

DIRECT_REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The pseudo queue of direct replies; the addresses of repliers begin with it, too."""


class Ranked:
    r"""Policies from the highest priority down; those of one priority in the order in which they are given.

    Only those are asked whose pattern a name can match: brokers with thousands of queues have thousands of policies,
    one for each family of names, ``^billing\.``, and asking each about each name takes a time of queues times policies.
    """

    __slots__ = ("_by_prefix", "_lengths", "_policies")

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies: Final = sorted(policies, key=lambda policy: -policy.priority)
        self._by_prefix: Final[dict[bytes, list[int]]] = {}
        for number, policy in enumerate(self._policies):
            self._by_prefix.setdefault(parse_expression(policy.pattern).prefix, []).append(number)
        self._lengths: Final = sorted({len(prefix) for prefix in self._by_prefix})

    def near(self, name: str) -> list[Policy]:
        """Return the policies whose pattern may be found in a name; it is certainly found in no other one's."""
        if not self._policies:
            return []
        data = name.encode("utf-8", "surrogatepass")
        if len(data) > SHORTSTR_BYTES:  # no pattern has an answer for these
            return self._policies
        lengths = (length for length in self._lengths if length <= len(data))
        numbers = [number for length in lengths for number in self._by_prefix.get(data[:length], ())]
        return [self._policies[number] for number in sorted(numbers)]
