"""A Celery app as a topology, with the way of each of its tasks: what a producer declares and publishes.

The way of a task is asked of Celery's own router and built as `send_task` builds it; no broker is connected to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from bindings.sources.applications.kombu import read_parts
from bindings.sources.applications.parts import Declared, Part, Refusal, declare_parts
from exchange.display import escape_line
from exchange.entities.profile import LATEST, Profile
from exchange.errors import InputError
from exchange.topology.topology import Topology

__all__ = ["CeleryApp", "TaskRoute", "TaskWay", "read_app", "topology_of"]

BUILT_IN: Final = "celery."
"""Prefix of the names of Celery's own tasks."""


class TaskWay(NamedTuple):
    """Where the messages of a task are published to."""

    task: str
    exchange: str
    routing_key: str
    queue: str | None
    """Name of the queue that the app means: that of its route, or the default queue; None if it names an exchange."""
    is_made: bool
    """Whether the queue is none of ``task_queues``, and is made because ``task_create_missing_queues`` is set."""
    parts: tuple[Part, ...]
    """What the producer declares before it publishes."""
    error: str | None = None
    """Why `send_task` raises an error in place of publishing."""


class TaskRoute(NamedTuple):
    """One entry of ``task_routes``."""

    pattern: str
    """The name of a task, a glob pattern, or the text of a regular expression."""
    queue: str | None
    tasks: tuple[str, ...]
    """The tasks of the app that it matches."""
    used_by: tuple[str, ...]
    """Those of them that it decides about: no earlier entry matches them."""
    is_pattern: bool


class CeleryApp(NamedTuple):
    """What was read of an app."""

    name: str
    declared: Declared
    """The topology that workers and producers of the app declare, on top of the one that was given."""
    ways: tuple[TaskWay, ...]
    routes: tuple[TaskRoute, ...]
    has_queues: bool
    """Whether ``task_queues`` is set."""
    has_routers: bool
    """Whether some routes are functions: they may decide by more than the name of a task."""

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The declarations that the broker refuses."""
        return self.declared.refusals


def topology_of(app: Any, *, vhost: str = "/", profile: Profile | str = LATEST) -> Topology:
    """Return the topology that a Celery app declares for its tasks: its queues, their exchanges and bindings.

    Queues that Celery makes for routes (``task_create_missing_queues``) are in it. Raises InputError if routes or
    queues are set to what Celery cannot use.
    """
    return read_app(app, Topology(vhost=vhost, profile=profile)).declared.topology


def read_app(app: Any, base: Topology) -> CeleryApp:
    """Return what the tasks of an app do on top of a topology. Raises InputError as `topology_of`."""
    try:
        app.loader.import_default_modules()  # as a worker, so that all tasks are known
        app.finalize()
        queues = dict(app.amqp.queues)  # before routes make more
        tasks = sorted(name for name in app.tasks if not name.startswith(BUILT_IN))
        ways = tuple(_find_way(app, task, queues) for task in tasks)
        routes = tuple(_read_routes(app, tasks))
        routers = app.amqp.routes
    except Exception as error:
        name = getattr(app, "main", None) or type(app).__name__
        raise InputError(escape_line(f"Celery app {name!r}: {type(error).__name__}: {error}")) from error
    parts = [part for queue in queues.values() for part in read_parts(queue)]
    parts += [part for way in ways for part in way.parts]
    declared = declare_parts(dict.fromkeys(parts), base)
    has_routers = any(_map_of(router) is None for router in routers)
    return CeleryApp(app.main or "app", declared, ways, routes, bool(app.conf.task_queues), has_routers)


def _find_way(app: Any, task: str, queues: Mapping[str, Any]) -> TaskWay:
    """Return what ``app.send_task(task)`` would publish, as `celery.app.amqp.AMQP._create_task_sender` builds it."""
    from celery.exceptions import QueueNotFound

    kind = app.tasks[task]
    given = {name: getattr(kind, name, None) for name in ("queue", "exchange", "routing_key")}
    try:
        options = app.amqp.router.route({name: value for name, value in given.items() if value is not None}, task)
    except QueueNotFound as error:
        return TaskWay(task, "", "", None, False, (), f"QueueNotFound: {error}")
    queue, exchange, key = (options.get(name) for name in ("queue", "exchange", "routing_key"))
    exchange = getattr(exchange, "name", exchange)
    if queue is None and exchange is None:
        queue = app.amqp.default_queue
    if isinstance(queue, str):
        queue = app.amqp.queues[queue]
    kind_of_exchange = options.get("exchange_type") or getattr(getattr(queue, "exchange", None), "type", "direct")
    name = None if queue is None else queue.name
    if (not exchange or not key) and kind_of_exchange == "direct":
        exchange, key = "", name
    elif exchange is None:
        default = app.amqp.default_exchange
        exchange = (queue.exchange.name if queue.exchange else "") or default.name
        key = key or queue.routing_key or app.conf.task_default_routing_key
    parts = () if queue is None else tuple(read_parts(queue))
    is_made = name is not None and name not in queues and all(name != other.alias for other in queues.values())
    return TaskWay(task, exchange or "", key or "", name, is_made, parts)


def _read_routes(app: Any, tasks: list[str]) -> Iterator[TaskRoute]:
    """Yield the entries of ``task_routes`` in the order in which Celery asks them; functions have no entries."""
    decided: set[str] = set()
    for router in app.amqp.routes:
        entries = _map_of(router)
        if entries is None:
            decided.update(task for task in tasks if router_answers(app, router, task))
            continue
        for text, matches, target in entries:
            found = tuple(task for task in tasks if matches(task))
            used = tuple(task for task in found if task not in decided)
            decided.update(found)
            yield TaskRoute(text, _queue_of(target), found, used, "*" in text or text not in router.map)


def router_answers(app: Any, router: Any, task: str) -> bool:
    """Return whether a router that is a function has a route for a call of the task without arguments."""
    try:
        return app.amqp.router.query_router(router, task, (), {}, {}, app.tasks[task]) is not None
    except Exception:  # noqa: BLE001  it may need the arguments of a real call
        return False


Entry = tuple[str, Callable[[str], object], Any]


def _map_of(router: Any) -> list[Entry] | None:
    """Return the entries of a `celery.app.routes.MapRoute` with what they match; None for a function."""
    from celery.app.routes import MapRoute

    if not isinstance(router, MapRoute):
        return None
    exact: list[Entry] = [(name, name.__eq__, target) for name, target in router.map.items()]
    return exact + [(_text_of(regex), regex.match, target) for regex, target in router.patterns.items()]


GLOB: Final = re.compile(r"\A\(\?s:(.*)\)\\[Zz]\Z", re.DOTALL)


def _text_of(regex: re.Pattern[str]) -> str:
    """Return the glob pattern that Celery made an expression of, if it is so simple that this is certain."""
    made = GLOB.match(regex.pattern)
    if made is None:
        return regex.pattern
    return re.sub(r"\\(.)", r"\1", made[1].replace(".*", "*").replace("(?>*?", "*"))


def _queue_of(target: Any) -> str | None:
    queue = target.get("queue") if isinstance(target, Mapping) else target
    return getattr(queue, "name", queue)
