"""Where the tasks of a Celery app go: read from its settings, and as Celery itself publishes them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.signals import after_task_publish, before_task_publish
from kombu import Exchange, Queue
from kombu.common import Broadcast

from bindings.adapters.celery import check_app, topology_of
from bindings.adapters.kombu import find_broker, register
from bindings.sources.applications.celery import read_app
from exchange import Binding, InputError, Topology
from exchange import Exchange as OurExchange
from exchange import Queue as OurQueue

TASKS = ("feed.import", "feed.update.all", "mail.send", "video.encode", "alone")


def make_app(host: str = "localhost", **settings: Any) -> Celery:
    """Return an app with the tasks of `TASKS`, which is not the current app afterwards."""
    app = Celery("shop", broker=f"hashstar://{host}", set_as_current=False)
    app.conf.update(settings)
    for name in TASKS:
        app.task(name=name, shared=False)(work)  # else all later apps have it, too
    return app


def work() -> None:
    """Do nothing."""


work.__module__ = "shop"  # calls are looked for in all that is imported of its package, and tests are much


TOPIC = Exchange("tasks", "topic")
SETTINGS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "names of queues": {"task_routes": {"feed.*": "feeds", "mail.send": {"queue": "mail"}}},
    "another default": {"task_default_queue": "main", "task_default_exchange": "main", "task_default_routing_key": "m"},
    "a default topic": {"task_default_exchange": "main", "task_default_exchange_type": "topic"},
    "queues with keys": {
        "task_queues": [Queue("feeds", TOPIC, "feed.#"), Queue("rest", TOPIC, "#"), Queue("plain")],
        "task_default_queue": "rest",
        "task_routes": ([
            ("feed.*", {"queue": "feeds", "routing_key": "feed.import"}),
            (re.compile(r"(video|image)\..*"), {"queue": "feeds", "exchange": "tasks", "routing_key": "feed"}),
            ("mail.*", {"exchange": "tasks", "routing_key": "mail.new"}),
            ("alone", "plain"),
        ],),
    },
    "a function": {"task_routes": (lambda name, *_args, **_options: {"queue": name} if "mail" in name else None,)},
    "quorum": {"task_create_missing_queue_type": "quorum", "task_routes": {"mail.send": "mail"}},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_tasks_go_where_celery_publishes_them(name: str) -> None:
    """Every task is really sent, through a broker in memory: to the same exchange, key and queues."""
    register()
    host = name.replace(" ", "-")  # Celery keeps connections and what was declared on them, by the host
    broker, settings = find_broker(host), SETTINGS[name]
    app = make_app(host, **settings)
    with app.connection_for_write() as connection:
        for queue in make_app(host, **settings).amqp.queues.values():  # as a worker does
            queue(connection.channel()).declare()
    for way in read_app(make_app(**settings), Topology()).ways:
        for messages in broker.queues.values():
            messages.clear()
        app.send_task(way.task)
        got = {queue: messages[0] for queue, messages in broker.queues.items() if messages}
        infos = [message["properties"]["delivery_info"] for message in got.values()]
        assert {(info["exchange"], info["routing_key"]) for info in infos} == {(way.exchange, way.routing_key)}
        assert way.queue is None or way.queue in got
    assert broker.topology == topology_of(make_app(**settings))


def codes(app: Celery, topology: Topology | None = None) -> list[tuple[str, str]]:
    """Return code and message, up to a colon and to the end of its line, of the findings about tasks."""
    found = [(finding.code, finding.message.partition("\n")[0]) for finding in check_app(app, topology)]
    return [(code, message) for code, message in found if code.startswith("HS81")]


def test_an_app_in_order_has_no_findings() -> None:
    for name in ("nothing", "names of queues", "another default", "a function", "quorum"):
        assert codes(make_app(**SETTINGS[name])) == [], name


def test_a_task_that_also_goes_to_other_queues_is_found() -> None:
    assert codes(make_app(**SETTINGS["queues with keys"])) == [
        ("HS812", "task 'feed.import' is meant for queue 'feeds', but 'tasks' <- 'feed.import' also gets to 'rest'"),
        (
            "HS812",
            "task 'feed.update.all' is meant for queue 'feeds', but 'tasks' <- 'feed.import' also gets to 'rest'",
        ),
        ("HS812", "task 'video.encode' is meant for queue 'feeds', but 'tasks' <- 'feed' also gets to 'rest'"),
    ]


def test_a_task_is_lost_without_a_binding_for_its_key() -> None:
    queues = [Queue("mail", Exchange("tasks", "topic"), "mail.*")]
    app = make_app(
        task_queues=queues, task_default_queue="mail", task_routes={"mail.send": {"queue": "mail", "routing_key": "x"}}
    )
    assert ("HS811", "task 'mail.send' is lost: 'tasks' <- 'x' gets to no queue") in codes(app)


def test_a_route_to_an_exchange_that_does_not_exist_is_found() -> None:
    app = make_app(task_routes={"mail.send": {"exchange": "nowhere", "routing_key": "mail"}})
    [(code, message)] = codes(app)
    assert code == "HS811"
    assert "404 NOT_FOUND - no exchange 'nowhere'" in message


def test_the_topology_of_the_broker_counts() -> None:
    app = make_app(task_routes={"mail.send": {"exchange": "mails", "routing_key": "mail.new"}})
    there = Topology([OurExchange("mails", "topic")], [OurQueue("mail")], [Binding.to_queue("mails", "mail", "mail.*")])
    assert codes(app, there) == []
    other = Topology(queues=[OurQueue("celery", durable=False)])
    assert [code for code, _ in codes(make_app(), other)] == ["HS816"]


def test_routes_that_decide_nothing_are_found() -> None:
    routes = {
        "mail.*": "mail", "mail.s*": "sent", "feed.#": "feeds", "alone?": "other", "gone": "gone", "feed.#.*": "feeds",
    }  # fmt: skip
    found = dict(message.partition("' ")[::2] for code, message in codes(make_app(task_routes=routes)))
    assert found == {
        "task_routes: 'mail.s*": "decides about no task: earlier entries match 'mail.send'",
        "task_routes: 'feed.#": "matches no task of the app; without a '*', Celery takes it for the name of a task",
        "task_routes: 'alone?": "matches no task of the app; without a '*', Celery takes it for the name of a task",
        "task_routes: 'gone": "matches no task of the app",
        "task_routes: 'feed.#.*": "matches no task of the app; '#' is no wildcard of Celery's, and '*' stands for any "
        "characters, dots included",
    }


def test_settings_that_celery_cannot_use_are_an_input_error() -> None:
    for settings in ({"task_routes": "no.such.module.route"}, {"task_queues": [3]}, {"include": ["no_such_module"]}):
        with pytest.raises(InputError, match="Celery app 'shop'"):
            read_app(make_app(**settings), Topology())
    with pytest.raises(InputError, match="no Celery app, but an object of str"):
        read_app("app", Topology())


def test_a_router_that_needs_real_arguments_is_not_read() -> None:
    def by_customer(name: str, args: tuple[str, ...], *_rest: Any, **_options: Any) -> dict[str, str] | None:
        return {"queue": args[0]} if name == "mail.send" else None

    app = make_app(task_routes=(by_customer,))
    [unread] = read_app(app, Topology()).unread
    assert unread.kind == "unevaluated"
    assert "task 'mail.send'" in str(unread)
    assert codes(app) == []


def test_signals_and_tasks_of_the_app_are_not_run() -> None:
    called: list[object] = []

    def keep(**options: object) -> None:
        called.append(options)

    receivers = (before_task_publish, after_task_publish)
    for signal in receivers:
        signal.connect(keep, weak=False)
    try:
        app = make_app(task_always_eager=True, task_send_sent_event=True, result_backend="rpc://")
        ways = read_app(app, Topology()).ways
        assert {way.task for way in ways} == set(TASKS)
        assert read_app(app, Topology()).ways == ways
    finally:
        for signal in receivers:
            signal.disconnect(keep)
    assert called == []


def test_keys_that_celery_fills_in_are_not_blamed() -> None:
    app = make_app(task_queues=[Broadcast("all", queue="all.1"), Queue("mine", Exchange("all", "fanout"), "written")])
    [blamed] = [finding.message for finding in check_app(app) if finding.code == "HS108"]
    assert blamed.endswith("'written'")


def test_a_key_that_celery_drops_is_named() -> None:
    direct = Exchange("d", "direct")
    queues = [Queue("main", direct, "main"), Queue("gpu", direct, "gpu")]
    app = make_app(task_queues=queues, task_default_queue="main", task_routes={"video.encode": {"routing_key": "gpu"}})
    [(code, message)] = codes(app)
    assert code == "HS812"
    assert "names routing_key 'gpu', which leads to 'gpu', but Celery publishes it to '' <- 'main'" in message


CALLS = """
from celery import Celery
app = Celery("c", set_as_current=False)
NAMED = "named"
@app.task(name="calls.one", shared=False)
def one(): ...
def literal(): one.apply_async(args=[1], queue="q1")
def constant(): one.s().set(queue=NAMED)
def shadowed(NAMED): one.apply_async(queue=NAMED)
def rebound():
    NAMED = input()
    one.apply_async(queue=NAMED)
def splat(options): one.apply_async(queue="q2", **options)
def computed(name): one.apply_async(queue=f"q-{name}")
def nested(chain): return chain(one.si(1).set(queue="q3"), one.s())
def imported():
    from calls_for_tests import one as same
    same.apply_async(queue="q4")
def other(one): one.apply_async(queue="q5")
def bound(self): self.app.send_task("calls.far", queue="q6")
"""


def test_only_calls_whose_options_are_certain_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calls_for_tests.py").write_text(CALLS)
    monkeypatch.syspath_prepend(tmp_path)
    app = importlib.import_module("calls_for_tests").app
    queues = [(way.task, way.queue) for way in read_app(app, Topology()).ways if way.place]
    assert queues == [
        ("calls.one", "q1"), ("calls.one", "named"), ("calls.one", "q3"), ("calls.one", "q4"), ("calls.far", "q6"),
    ]  # fmt: skip
