"""The parts of a topology, as values: exchanges, queues, bindings and policies, with RabbitMQ's attributes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from exchange.values import EMPTY, FieldTable, type_and_value

if TYPE_CHECKING:
    from exchange.partition.partitioning import Partitioning

__all__ = ["PREDECLARED", "Binding", "Destination", "Exchange", "Policy", "Queue"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange; ``type`` is a key of `exchange.kinds.KINDS` or a plugin's that we do not know."""

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
    """How what it gets is spread over partitions further on: of a Kafka topic, a RocketMQ topic, a super stream."""

    def __post_init__(self) -> None:
        _freeze(self)

    @property
    def type(self) -> str:
        """``x-queue-type``, as the broker would read it."""
        return str(self.arguments.get("x-queue-type", "classic"))


_new_tuple: Final = tuple.__new__


class Destination(NamedTuple):
    """Where a binding leads: a queue or an exchange."""

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
    """A binding. Two are the same one when all four parts are equal, the types in the arguments included.

    ``arguments`` become a `FieldTable`; any mapping can be given.
    """

    __slots__ = ()

    def __new__(
        cls, source: str, destination: Destination, routing_key: str = "", arguments: Mapping[str, Any] = EMPTY
    ) -> Self:
        if type(arguments) is not FieldTable:
            arguments = FieldTable(arguments)
        return _new_tuple(cls, (source, destination, routing_key, arguments))

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]  # typeshed: of any NamedTuple
        return cls(*iterable)

    @classmethod
    def to_queue(
        cls, source: str, queue: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Binding:
        """A binding from an exchange to a queue."""
        return cls(source, Destination("queue", queue), routing_key, arguments or EMPTY)

    @classmethod
    def to_exchange(
        cls, source: str, exchange: str, routing_key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Binding:
        """A binding from an exchange to another one, or to itself."""
        return cls(source, Destination("exchange", exchange), routing_key, arguments or EMPTY)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: of those that apply to a name, only the one with the highest priority is in force."""

    name: str
    pattern: str
    definition: Mapping[str, Any] = EMPTY
    """A `FieldTable`; any mapping can be given."""
    apply_to: str = "all"
    priority: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.definition, FieldTable):
            object.__setattr__(self, "definition", FieldTable(self.definition))

    def applies_to_exchange(self, name: str) -> bool:
        """Whether it is for exchanges and its pattern is found in the name; one that is no regex applies to none."""
        expression = _compiled(self.pattern)
        return self.apply_to in ("all", "exchanges") and expression is not None and bool(expression.search(name))


def alternate_exchange(exchange: Exchange, policies: Mapping[str, Policy]) -> str | None:
    """The name of the alternate exchange in force: the argument, else what the policy in force says.

    Policies of equal priority have no defined order in RabbitMQ; the first given wins here.
    """
    if "alternate-exchange" in exchange.arguments:
        kind, value = type_and_value(exchange.arguments["alternate-exchange"])
        return value.decode("utf-8", "surrogateescape") if kind in ("longstr", "binary") else None
    policy = policy_in_force(exchange.name, policies)
    value = policy.definition.get("alternate-exchange") if policy is not None else None
    return value if isinstance(value, str) else None


def policy_in_force(exchange: str, policies: Mapping[str, Policy]) -> Policy | None:
    """The policy that RabbitMQ applies to the exchange of this name."""
    applying = [policy for policy in policies.values() if policy.applies_to_exchange(exchange)]
    return max(applying, key=lambda policy: policy.priority, default=None)


def _freeze(part: Exchange | Queue) -> None:
    if not isinstance(part.arguments, FieldTable):
        object.__setattr__(part, "arguments", FieldTable(part.arguments))


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Python's regexes may mean one day
        try:
            return re.compile(pattern)
        except re.error:
            return None


PREDECLARED: Final = (
    Exchange("", "direct"),
    Exchange("amq.direct", "direct"),
    Exchange("amq.fanout", "fanout"),
    Exchange("amq.topic", "topic"),
    Exchange("amq.headers", "headers"),
    Exchange("amq.match", "headers"),
    Exchange("amq.rabbitmq.trace", "topic", internal=True),
)
"""The exchanges of every virtual host (`rabbit_vhost.erl`)."""
