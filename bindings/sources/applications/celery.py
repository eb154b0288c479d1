"""A Celery app as a topology, with the way of each of its tasks: what a producer declares and publishes.

Celery's own code is asked, for each task, each entry of beat's schedule and each call in the code whose options are
literal; no broker is connected to.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Final

from bindings.sources.applications.application import Application, TaskRoute, TaskWay, WrittenOptions, declare_parts
from bindings.sources.applications.celery_calls import find_calls, find_scheduled
from bindings.sources.applications.celery_sending import Call, NoAnswer, send, without_connections
from bindings.sources.applications.importing import describe
from bindings.sources.applications.kombu import read_parts
from exchange.entities.entities import Binding
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE
from exchange.entities.unread import UnreadPart
from exchange.errors import InputError
from exchange.text.display import escape_line
from exchange.text.site import build_install_command
from exchange.topology.topology import Topology

BUILT_IN: Final = "celery."
"""Prefix of the names of Celery's own tasks."""


def topology_of(app: Any, *, vhost: str = "/", profile: Profile | str = LATEST_PROFILE) -> Topology:
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
        raise InputError(f"reading a Celery app needs Celery: {build_install_command('celery')}") from None
    if not isinstance(app, Celery):
        raise InputError(f"no Celery app, but an object of {type(app).__name__}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Celery's, which the app shows when it runs
            return _read(app, base)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"Celery app {app.main!r}: {describe(error)}") from error


def find_vhost(app: Any) -> str:
    """Return the virtual host that a Celery app publishes to. Its transport is not asked: it may not be installed."""
    from kombu.utils.url import parse_url

    where = app.conf.broker_write_url or ""
    url = str(where if isinstance(where, str) else where[0]).partition(";")[0]
    named = parse_url(url)["virtual_host"] if "://" in url else None
    return str(named or app.conf.broker_vhost or "/")


def _read(app: Any, base: Topology) -> Application:
    from celery.utils.functional import maybe_evaluate

    app.loader.import_default_modules()  # as a worker, so that all tasks are known
    app.finalize()
    queues = copy(app.amqp.queues)  # asking for a route adds queues
    declared_queues = dict(queues)
    router = app.amqp.Router(queues)
    for each in router.routes:
        maybe_evaluate(each)  # imports what is named as a text
    own = sorted(name for name in app.tasks if not name.startswith(BUILT_IN))
    calls = [Call(name) for name in own] + [*find_scheduled(app), *find_calls(app)]
    ways: dict[TaskWay, TaskWay] = {}  # one of several calls that send alike
    unread: list[UnreadPart] = []
    with without_connections(app):
        for call in calls:
            try:
                way = _find_way(app, router, call, declared_queues)
                ways.setdefault(way._replace(place=""), way)
            except NoAnswer as error:
                text = f"its route is not known, as a router raises an error without real arguments: {error}"
                unread.append(UnreadPart("unevaluated", f"task {call.task!r}", escape_line(text)))
    routes = tuple(_read_routes(app, router, sorted({call.task for call in calls})))
    parts = [part for queue in declared_queues.values() for part in read_parts(queue)]
    parts += [part for way in ways.values() for part in way.parts]
    declared = declare_parts(dict.fromkeys(parts), base)
    filled_in = frozenset(part for part in parts if isinstance(part, Binding) and _is_filled_in(app, queues, part))
    has_queues = bool(app.conf.task_queues)
    return Application(app.main or "app", declared, tuple(ways.values()), routes, has_queues, filled_in, tuple(unread))


def _is_filled_in(app: Any, queues: Mapping[str, Any], binding: Binding) -> bool:
    """Return whether Celery binds with this key where none is written: by the default key, or the name of the queue."""
    queue = queues.get(binding.destination.name)
    return binding.routing_key in {app.conf.task_default_routing_key, queue.name, queue.alias} if queue else False


def _find_way(app: Any, router: Any, call: Call, declared: Mapping[str, Any]) -> TaskWay:
    """Return what a call publishes. ``declared`` are the queues of the app without those that Celery makes for routes.

    Raises NoAnswer as `send`.
    """
    try:
        sent = send(app, router, call)
    except NoAnswer:
        raise
    except Exception as error:  # noqa: BLE001  what the user's call would raise, too
        return TaskWay(call.task, WrittenOptions(), "", "", None, False, (), describe(error), call.place)
    queue = sent.queue
    named = WrittenOptions(None if sent.named_queue is None else _shown(queue), sent.named_exchange, sent.named_key)
    meant = None
    if named.queue is None and (named.exchange is not None or named.routing_key is not None):
        own_exchange, own_key = _address_of(queue)
        exchange = named.exchange or own_exchange or app.conf.task_default_exchange
        key = named.routing_key or (own_key if exchange == own_exchange else "") or app.conf.task_default_routing_key
        meant = (exchange, key)
    name = None if queue is None else queue.name
    parts = tuple(part for each in sent.declared for part in read_parts(each))
    is_made = name is not None and name not in declared
    return TaskWay(
        call.task, named, sent.exchange, sent.routing_key, name, is_made, parts, None, call.place, meant, sent.priority
    )


def _address_of(queue: Any) -> tuple[str, str]:
    """Return the exchange and key by which an author binds a queue: of several bindings, the first by name."""
    bindings = sorted((each.exchange.name, each.routing_key) for each in getattr(queue, "bindings", ()))
    if bindings or queue is None:
        return bindings[0] if bindings else ("", "")
    return queue.exchange.name if queue.exchange else "", queue.routing_key or ""


def _shown(queue: Any) -> str:
    """Return the name by which an app calls a queue: that of a broadcast queue is made for each process."""
    name: str = queue.alias or queue.name
    return name


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
    queue = dict(target).get("queue") if isinstance(target, Mapping | list | tuple) else target
    return getattr(queue, "name", queue)
