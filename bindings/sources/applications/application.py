"""An application as a value: what it declares, as RabbitMQ would take it, and where the tasks that it sends go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exchange.entities.entities import Binding, Exchange, Queue
from exchange.entities.unread import UnreadPart
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.topology.topology import Topology

Part = Exchange | Queue | Binding


class WrittenOptions(NamedTuple):
    """What the author of an app wrote about the messages of a task: in its route, its decorator and its call.

    None where nothing is written: what Celery fills in there is not here, but in `TaskWay`.
    """

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


class TaskWay(NamedTuple):
    """Where the messages of a task are published to."""

    task: str
    named: WrittenOptions
    exchange: str
    routing_key: str
    queue: str | None
    """Name of the queue that Celery takes: the one that is named, or the default queue; None if it takes none."""
    is_made: bool
    """Whether the queue is not in ``task_queues``, and is made because ``task_create_missing_queues`` is set."""
    parts: tuple[Part, ...]
    """What the producer declares before it publishes."""
    error: str | None = None
    """Why sending the task raises an error in place of publishing."""
    place: str = ""
    """Where it is sent, if that has options of its own: an entry of beat's schedule, a call in the code."""
    meant: tuple[str, str] | None = None
    """Exchange and routing key that the author's words name, where only these are named; None where a queue is."""
    priority: int | None = None


class TaskRoute(NamedTuple):
    """One entry of ``task_routes``."""

    pattern: str
    """The name of a task, a glob pattern, or the text of a regular expression."""
    queue: str | None
    matches: tuple[str, ...]
    """The tasks of the app that it matches."""
    decides: tuple[str, ...]
    """Those of them that no earlier entry matches."""


class Application(NamedTuple):
    """What was read of an application."""

    name: str
    declared: Declared
    """The topology after the application has started and sent each task once, and what the broker refuses."""
    ways: tuple[TaskWay, ...] = ()
    routes: tuple[TaskRoute, ...] = ()
    has_queues: bool = False
    """Whether ``task_queues`` is set: then workers consume from these queues unless started with ``-Q``."""
    filled_in: frozenset[Binding] = frozenset()
    """The bindings whose routing keys Celery fills in where the author wrote none."""
    unread: tuple[UnreadPart, ...] = ()
    """The tasks whose way only a real call can show."""


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
