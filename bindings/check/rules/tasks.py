"""81x: applications: declarations that the broker refuses, and tasks of Celery that do not go where they should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.check.rules.finding import Finding
from bindings.check.rules.words import list_names
from bindings.sources.applications.application import Application, TaskRoute, TaskWay
from exchange.display import escape_line
from exchange.entities.entities import Binding
from exchange.errors import BrokerError
from exchange.message import Message
from exchange.routing.explain import describe
from exchange.routing.router import Router

__all__ = ["find"]

NOT_OF_GLOBS: Final = "#?["
"""Wildcards of AMQP and of globs: in an entry without ``*``, which Celery takes for a name, they mean nothing."""


def find(application: Application) -> Iterator[Finding]:
    """Yield all findings about an application, with the topology after it has started."""
    for part, error in application.declared.refusals:
        yield Finding("HS816", part, escape_line(f"the broker refuses to {_describe(part)}: {error}"), detail=str(part))
    router = Router(application.declared.topology)
    for way in application.ways:
        yield from _find_in_way(way, application, router)
    for route in application.routes:
        yield from _find_in_route(route)


def _describe(part: object) -> str:
    if isinstance(part, Binding):
        return f"bind {part.destination} to exchange '{part.source}' with the key '{part.routing_key}'"
    return f"declare {type(part).__name__.lower()} '{getattr(part, 'name', '')}'"


def _find_in_way(way: TaskWay, application: Application, router: Router) -> Iterator[Finding]:
    task = f"task '{way.task}'"
    if way.error is not None:
        yield Finding("HS813", None, escape_line(f"{task} cannot be sent: {way.error}"), detail=way.task)
        return
    topology = application.declared.topology
    part = topology.exchanges.get(way.exchange)
    address = f"{way.exchange!r} <- {way.routing_key!r}"
    message = Message(way.exchange, way.routing_key)
    try:
        route = router.route(message)
    except BrokerError as error:
        yield Finding("HS811", part, escape_line(f"{task} is lost: {address}: {error}"), detail=way.task)
        return
    if route.unroutable:
        text = escape_line(f"{task} is lost: {address} gets to no queue")
        trail = describe(router.explain(message, way.queue))
        yield Finding("HS811", part, f"{text}\n{trail}", way.routing_key, detail=way.task)
        return
    others = [queue for queue in route.queues if queue != way.queue]
    if way.queue is not None and way.queue not in route.queues and not route.undecided:
        text = f"{task} is meant for queue '{way.queue}', but {address} gets to {list_names(others)}"
        yield Finding("HS812", part, escape_line(text), way.routing_key, detail=way.task)
    elif way.queue is not None and others:
        text = f"{task} is meant for queue '{way.queue}', but {address} also gets to {list_names(others)}"
        yield Finding("HS812", part, escape_line(text), way.routing_key, detail=way.task)
    if way.is_made and application.has_queues:
        text = f"{task} goes to queue '{way.queue}', which is not in task_queues: Celery makes it, and only a worker "
        text += f"that is started with -Q {way.queue} consumes from it"
        yield Finding("HS814", topology.queues.get(way.queue or ""), escape_line(text), detail=way.task)


def _find_in_route(route: TaskRoute) -> Iterator[Finding]:
    if route.decides:
        return
    if route.matches:
        text = (
            f"task_routes: '{route.pattern}' decides about no task: earlier entries match {list_names(route.matches)}"
        )
    else:
        text = f"task_routes: '{route.pattern}' matches no task of the app"
        if "*" not in route.pattern and any(character in route.pattern for character in NOT_OF_GLOBS):
            text += "; without a '*', Celery takes it for the name of a task"
        elif "#" in route.pattern:
            text += "; '#' is no wildcard of Celery's, and '*' stands for any characters, dots included"
    yield Finding("HS815", None, escape_line(text), detail=route.pattern)
