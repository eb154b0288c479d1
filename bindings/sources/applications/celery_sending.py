"""What Celery publishes for a task: its own code sends, to a producer that publishes nothing.

So defaults, merging of options and what is dropped are those of the Celery that is installed, whatever its version.
What the author wrote is kept apart from what Celery fills in. Neither a broker nor a result backend is connected to, no
receiver of Celery's signals is called, and no task is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

LATER: Final = ("countdown", "eta")
"""Options that delay a message: with quorum queues it goes by way of exchanges of Celery's own, to the same queue."""


class Call(NamedTuple):
    """A task that is sent, with the options that are written where it is called."""

    task: str
    options: Mapping[str, Any] = {}
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    place: str = ""
    """Where it is called; empty for a call without options of its own."""
    by_name: bool = False
    """Whether ``send_task`` sends it: Celery before 5.7 then takes no options of the decorator."""


class CeleryMessage(NamedTuple):
    """A message as Celery publishes it."""

    exchange: str
    routing_key: str
    priority: int | None
    declared: tuple[Any, ...]
    """The kombu queues that the producer declares first."""
    queue: Any
    """The kombu queue that Celery takes for the message, if it takes one."""
    named_queue: Any
    """The queue that the route, the decorator or the call names; None where it is the default queue by default."""
    named_exchange: str | None
    named_key: str | None


class NoAnswer(Exception):
    """A router function of the app raises an error: without the arguments of a real call, its route is not known."""


class _Published(Exception):
    """Ends a call of ``send_task`` when it has published."""


class _CapturingProducer:
    """A producer that keeps the first message."""

    connection = SimpleNamespace(_reraise_as_library_errors=nullcontext)

    def publish(self, body: object, **options: Any) -> None:
        """Keep the options of a message."""
        del body
        self.options = options
        raise _Published


class _Router:
    """The router of an app, which keeps what the routes answer apart from the default queue that Celery adds."""

    def __init__(self, router: Any) -> None:
        self._router = router
        self._look_up = router.lookup_route
        router.lookup_route = self._keep
        self._found: Any = None
        self.merged: Mapping[str, Any] = {}
        self.names_queue = False

    def _keep(self, *args: Any, **options: Any) -> Any:
        self._found = self._look_up(*args, **options)
        return self._found

    def route(self, options: Mapping[str, Any], name: str, *args: Any) -> Mapping[str, Any]:
        """Return the options of a message, as `celery.app.routes.Router.route`."""
        from celery.exceptions import QueueNotFound

        self._found = None
        given = options.get("queue") is not None
        try:
            self.merged = self._router.route(dict(options), name, *args)
        except QueueNotFound:
            raise
        except Exception as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        self.names_queue = given or (bool(self._found) and self.merged.get("queue") is not None)
        return dict(self.merged)


@contextmanager
def without_connections(app: Any) -> Iterator[None]:
    """Let an app send without a pool of connections and without receivers of its signals."""
    from celery import signals

    state = vars(app.amqp)
    before = dict(state)
    transport = SimpleNamespace(driver_type="amqp")  # of whatever broker: it is RabbitMQ that is asked about
    pool = SimpleNamespace(connections=SimpleNamespace(connection=SimpleNamespace(transport=transport)))
    state |= {"_producer_pool": pool, "_event_dispatcher": None}
    state.pop("send_task_message", None)  # it holds receivers of signals
    silenced = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
    receivers = [each.receivers for each in silenced]
    for each in silenced:
        each.receivers = []
    try:
        yield
    finally:
        state.clear()
        state |= before
        for each, those in zip(silenced, receivers, strict=True):
            each.receivers = those


def send(app: Any, router: Any, call: Call) -> CeleryMessage:
    """Return what a call of a task publishes; within `without_connections`.

    Raises NoAnswer, and whatever Celery raises for a task that it cannot send.
    """
    from celery import Celery

    task = None if call.by_name else app.tasks.get(call.task)
    options = {name: value for name, value in call.options.items() if name not in LATER}
    if task is not None:  # as Task.apply_async
        options = {**task._get_exec_options(), **options}
        if task.priority is not None:
            options.setdefault("priority", task.priority)
    producer, asked = _CapturingProducer(), _Router(router)
    try:
        Celery.send_task(
            app, call.task, call.args, dict(call.kwargs), producer=producer, router=asked, task_type=task,
            **{**options, "ignore_result": True},
        )  # fmt: skip
    except _Published:
        pass
    finally:
        router.lookup_route = asked._look_up
    published, merged = producer.options, asked.merged
    queue = merged.get("queue")
    if queue is None and merged.get("exchange") is None:
        queue = app.amqp.default_queue
    return CeleryMessage(
        _name_of(published["exchange"]) or "",
        published["routing_key"] or "",
        published.get("priority", 0),  # as a producer of kombu
        tuple(published.get("declare") or ()),
        queue,
        queue if asked.names_queue else None,
        _name_of(merged.get("exchange")),
        merged.get("routing_key"),
    )


def _name_of(exchange: Any) -> str | None:
    name: str | None = getattr(exchange, "name", exchange)
    return name
