"""What an application declares, part by part, as RabbitMQ would take it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.topology.topology import Topology

__all__ = ["Declared", "Part", "DeclarationRefusal", "declare_parts"]

Part = Exchange | Queue | Binding


class DeclarationRefusal(NamedTuple):
    """A declaration that the broker refuses; the application gets this error when it starts or publishes."""

    part: Part
    error: BrokerError


class Declared(NamedTuple):
    """The topology after all declarations, and those that were refused."""

    topology: Topology
    refusals: tuple[DeclarationRefusal, ...]


def declare_parts(parts: Iterable[Part], base: Topology) -> Declared:
    """Declare parts in their order on top of a topology; one that is refused does not stop the others.

    Raises InputError for a name or key that no client can send.
    """
    router = Router(base)
    refusals = []
    for part in parts:
        try:
            if isinstance(part, Exchange):
                router.declare_exchange(part)
            elif isinstance(part, Queue):
                router.declare_queue(part)
            else:
                router.bind(part)
        except BrokerError as error:
            refusals.append(DeclarationRefusal(part, error))
    return Declared(router.topology, tuple(dict.fromkeys(refusals)))
