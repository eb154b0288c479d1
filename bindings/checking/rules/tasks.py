"""81x: applications: declarations that the broker refuses, and tasks of Celery that do not go where they should."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bindings.checking.rules.finding import Finding, list_names
from bindings.sources.applications.application import Application, TaskRoute, TaskWay
from exchange.entities.entities import Binding
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.text.display import escape_line
from exchange.values.message import Message

NOT_OF_GLOBS: Final = "#?["
"""Wildcards of AMQP and of globs: in an entry without ``*``, which Celery takes for a name, they mean nothing."""
DIRECT: Final = ": with a direct exchange, Celery takes an exchange and a key together, or neither"
LINE: Final = re.compile(r":[0-9]+$")
"""The line of a call: another one after each edit of its module."""


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
    task = f"task '{way.task}'{f' {way.place}' if way.place else ''}"
    detail = f"{way.task} {LINE.sub('', way.place)}".strip()
    if way.error is not None:
        yield Finding("HS813", None, escape_line(f"{task} cannot be sent: {way.error}"), detail=detail)
        return
    topology = application.declared.topology
    part = topology.exchanges.get(way.exchange)
    address = _quote(way.exchange, way.routing_key)
    message = Message(way.exchange, way.routing_key)
    dropped = _describe_dropped(way)
    try:
        route = router.route(message)
    except BrokerError as error:
        yield Finding("HS811", part, escape_line(f"{task} is lost: {address}: {error}{dropped}"), detail=detail)
        return
    if route.unroutable:
        text = escape_line(f"{task} is lost: {address} gets to no queue{dropped}")
        trail = str(router.explain(message, way.queue))
        yield Finding("HS811", part, f"{text}\n{trail}", way.routing_key, detail=detail)
        return
    wrong = "" if route.undecided else _compare(way, list(route.queues), router)
    if wrong:
        yield Finding("HS812", part, escape_line(f"{task} {wrong}"), way.routing_key, detail=detail)
    if way.is_made and application.has_queues:
        text = f"{task} goes to queue '{way.queue}', which is not in task_queues: Celery makes it, and only a worker "
        text += f"that is started with -Q {way.queue} consumes from it"
        yield Finding("HS814", topology.queues.get(way.queue or ""), escape_line(text), detail=detail)


def _compare(way: TaskWay, reached: list[str], router: Router) -> str:
    """Return how the queues that a task gets to differ from those that its author means; empty if they do not."""
    address = _quote(way.exchange, way.routing_key)
    if way.meant is not None:  # what is named is an exchange, or a key: the queues are those that it leads to
        try:
            meant = list(router.route(Message(*way.meant)).queues)
        except BrokerError:
            meant = []
        if way.meant == (way.exchange, way.routing_key) or sorted(meant) == sorted(reached):
            return ""
        led = list_names(meant) if meant else "no queue"
        return (
            f"names {_named(way)}, which leads to {led}, but Celery publishes it to {address}, which gets to "
            f"{list_names(reached)}{DIRECT}"
        )
    others = [queue for queue in reached if queue != way.queue]
    if way.queue is None or not others:
        return ""
    is_default = way.named.queue is None
    meant_for = f"goes to the default queue '{way.queue}'" if is_default else f"is meant for queue '{way.queue}'"
    return f"{meant_for}, but {address} {'also ' if way.queue in reached else ''}gets to {list_names(others)}"


def _named(way: TaskWay) -> str:
    words = (("exchange", way.named.exchange), ("routing_key", way.named.routing_key))
    return " and ".join(f"{name} {value!r}" for name, value in words if value is not None)


def _describe_dropped(way: TaskWay) -> str:
    """Return what Celery does not send of what the author wrote; empty if it sends all."""
    is_dropped = way.exchange != (way.named.exchange or "") or way.routing_key != (way.named.routing_key or "")
    return f"; it names {_named(way)}{DIRECT}" if _named(way) and not way.exchange and is_dropped else ""


def _quote(exchange: str, key: str) -> str:
    return f"{exchange!r} <- {key!r}"


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
