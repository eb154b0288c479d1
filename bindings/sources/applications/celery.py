"""A Celery app as a topology, with the way of each of its tasks: what a producer declares and publishes.

The way of a task is asked of Celery's own router and built as `send_task` builds it; no broker is connected to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Final

from bindings.sources.applications.application import Application, TaskRoute, TaskWay
from bindings.sources.applications.kombu import read_parts
from bindings.sources.applications.parts import declare_parts
from exchange.display import escape_line
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST
from exchange.errors import InputError
from exchange.topology.topology import Topology

__all__ = ["read_app", "topology_of"]

BUILT_IN: Final = "celery."
"""Prefix of the names of Celery's own tasks."""


def topology_of(app: Any, *, vhost: str = "/", profile: Profile | str = LATEST) -> Topology:
    """Return the topology that a Celery app declares for its tasks: its queues, their exchanges and bindings.

    Queues that Celery makes for routes (``task_create_missing_queues``) are in it. Raises InputError if routes or
    queues are set to what Celery cannot use.
    """
    return read_app(app, Topology(vhost=vhost, profile=profile)).declared.topology


def read_app(app: Any, base: Topology) -> Application:
    """Return what a Celery app declares on top of a topology, and where its tasks go.

    Raises InputError as `topology_of`, and for what is no Celery app.
    """
    try:
        from celery import Celery
    except ImportError:
        raise InputError("reading a Celery app needs Celery: pip install 'hashstar[celery]'") from None
    if not isinstance(app, Celery):
        raise InputError(f"no Celery app, but a {type(app).__name__}")
    try:
        app.loader.import_default_modules()  # as a worker, so that all tasks are known
        app.finalize()
        queues = copy(app.amqp.queues)  # asking for a route adds queues
        declared_queues = dict(queues)
        router = app.amqp.Router(queues)
        tasks = sorted(name for name in app.tasks if not name.startswith(BUILT_IN))
        ways = tuple(_find_way(app, router, task, declared_queues) for task in tasks)
        routes = tuple(_read_routes(app, router, tasks))
    except Exception as error:
        raise InputError(escape_line(f"Celery app {app.main!r}: {type(error).__name__}: {error}")) from error
    parts = [part for queue in declared_queues.values() for part in read_parts(queue)]
    parts += [part for way in ways for part in way.parts]
    declared = declare_parts(dict.fromkeys(parts), base)
    return Application(app.main or "app", declared, ways, routes, bool(app.conf.task_queues))


def _find_way(app: Any, router: Any, task: str, declared: Mapping[str, Any]) -> TaskWay:
    """Return what ``app.send_task(task)`` would publish, as `celery.app.amqp.AMQP._create_task_sender` builds it.

    ``declared`` are the queues of the app without those that Celery makes for routes.
    """
    from celery.exceptions import QueueNotFound

    kind = app.tasks[task]
    given = {name: getattr(kind, name, None) for name in ("queue", "exchange", "routing_key")}
    try:
        options = router.route({name: value for name, value in given.items() if value is not None}, task)
    except QueueNotFound as error:
        return TaskWay(task, "", "", None, False, (), f"QueueNotFound: {error}")
    queue, exchange, key = (options.get(name) for name in ("queue", "exchange", "routing_key"))
    exchange = getattr(exchange, "name", exchange)
    if queue is None and exchange is None:
        queue = app.conf.task_default_queue
    if isinstance(queue, str):
        queue = router.queues[queue]
    kind_of_exchange = options.get("exchange_type") or getattr(getattr(queue, "exchange", None), "type", "direct")
    name = None if queue is None else queue.name
    if (not exchange or not key) and kind_of_exchange == "direct":
        exchange, key = "", name
    elif exchange is None:
        default = app.amqp.default_exchange
        exchange = (queue.exchange.name if queue.exchange else "") or default.name
        key = key or queue.routing_key or app.conf.task_default_routing_key
    parts = () if queue is None else tuple(read_parts(queue))
    is_made = name is not None and name not in declared
    return TaskWay(task, exchange or "", key or "", name, is_made, parts)


def _read_routes(app: Any, router: Any, tasks: list[str]) -> Iterator[TaskRoute]:
    """Yield the entries of ``task_routes`` in the order in which Celery asks them; functions have no entries."""
    decided: set[str] = set()
    for each in router.routes:
        entries = _map_of(each)
        if entries is None:
            decided.update(task for task in tasks if _has_route_for(app, router, each, task))
            continue
        for text, matches, target in entries:
            found = tuple(task for task in tasks if matches(task))
            decides = tuple(task for task in found if task not in decided)
            decided.update(found)
            yield TaskRoute(text, _queue_of(target), found, decides)


def _has_route_for(app: Any, router: Any, function: Any, task: str) -> bool:
    """Return whether a function in ``task_routes`` has a route for a call of the task without arguments."""
    try:
        return router.query_router(function, task, (), {}, {}, app.tasks[task]) is not None
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
