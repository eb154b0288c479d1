"""The ways of tasks, and the findings about them, beside what Celery 5.4, 5.6 and 5.7 sent for random apps."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import celery
import pytest

from bindings.adapters.celery import check_app
from bindings.checking.rules.finding import Finding
from bindings.sources.applications.application import TaskWay
from bindings.sources.applications.celery import read_app
from exchange import Binding, BrokerError, Exchange, Message, Queue, Router, Topology
from tests.recorders.golden import names, read
from tests.support.celery_apps import APPS, RandomApp, Sending, random_app
from tests.support.tiers import scale

RECORDINGS = names("celery-")
TASK_CODES = ("HS811", "HS812", "HS813")


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[RandomApp, Any]]]:
    """Return random apps, each with its Celery app."""
    folder = tmp_path_factory.mktemp("apps")
    sys.path.insert(0, str(folder))
    found = []
    for seed in range(scale(APPS)):
        app = random_app(seed)
        Path(folder, f"random_app_{seed}.py").write_text(app.source)
        importlib.invalidate_caches()
        found.append((app, importlib.import_module(f"random_app_{seed}").app))
    yield found
    sys.path.remove(str(folder))


def label_of(app: RandomApp, task: str, place: str) -> str:
    """Return the label of a message, by the place that the product names."""
    beat, line = re.search(r"entry '(\d+)'", place), re.search(r":(\d+)$", place)
    return f"beat {beat[1]}" if beat else app.lines[int(line[1])] if line else task


def find_way(app: RandomApp, ways: tuple[TaskWay, ...], sending: Sending) -> list[TaskWay]:
    """Return the way of a message; of messages that are sent alike, the first alone is listed."""
    own = [way for way in ways if label_of(app, way.task, way.place) == sending.label]
    return own or [way for way in ways if way.task == sending.task]


@cache
def ways_of(real: Any) -> tuple[TaskWay, ...]:
    """Return the ways of the tasks of an app, read once."""
    return read_app(real, Topology()).ways


def test_each_message_is_what_celery_sends(apps: list[tuple[RandomApp, Any]]) -> None:
    assert {name.removeprefix("celery-")[:3] for name in RECORDINGS} >= {"5.4", "5.6"}
    for name in RECORDINGS:
        recorded = read(name)
        for seed, (app, real) in enumerate(apps):
            ways = ways_of(real)
            for sending in app.sendings:
                if sending.by_name and app.decorators.get(sending.task):
                    continue  # the versions differ, and the one that is installed is asked
                truth = tuple(recorded[str(seed)]["ways"][sending.label])
                if truth == ("KeyError",) and not name.endswith(celery.__version__):
                    continue  # before 5.7 no task can be sent without the default queue
                found = {
                    (way.error.partition(":")[0],) if way.error else (way.exchange, way.routing_key, way.priority)
                    for way in find_way(app, ways, sending)
                }
                assert truth in found, (name, seed, sending, found)
                assert len(found) == 1 or sending.label.startswith(("beat", "call"))


def declared_topology(declared: list[list[str]]) -> Topology:
    """Return the topology of recorded declarations."""
    exchanges: dict[str, Exchange] = {}
    queues: dict[str, Queue] = {}
    bindings: dict[Binding, None] = {}
    for kind, name, *rest in declared:
        if kind == "exchange" and name:
            exchanges.setdefault(name, Exchange(name, rest[0]))
        elif kind == "queue":
            queues[name] = Queue(name)
        elif kind == "bind" and rest[0]:
            bindings[Binding.to_queue(rest[0], name, rest[1])] = None
    return Topology(exchanges.values(), queues.values(), bindings)


def expect(app: RandomApp, sending: Sending, recorded: dict[str, Any]) -> str:
    """Return the code of what is wrong with a message, by what was recorded and named; empty if nothing is."""
    way = recorded["ways"][sending.label]
    if len(way) == 1:
        return "HS813"
    router = Router(declared_topology(recorded["declared"]))

    def reach(exchange: str, key: str) -> set[str]:
        try:
            return set(router.route(Message(exchange, key)).queues)
        except BrokerError:
            return set()

    reached = reach(way[0], way[1])
    if not reached:
        return "HS811"
    named = app.named(sending)
    if sending.by_name:
        named = {**app.named(Sending("", sending.task, {})), **sending.options}
    if "queue" in named or not {"exchange", "routing_key"} & set(named):
        return "" if reached == {named.get("queue", app.default_queue)} else "HS812"
    own = [each[2:] for each in recorded["declared"] if each[:2] == ["bind", app.default_queue]]
    exchange = named.get("exchange", own[0][0] if own else "")
    key = next((key for name, key in own if name == exchange), "")
    meant = reach(exchange, named.get("routing_key", key or app.default_key))
    return "" if meant == reached else "HS812"


def codes_by_label(app: RandomApp, findings: list[Finding]) -> dict[str, str]:
    """Return label of a message -> code of the finding about it."""
    found = {}
    for finding in findings:
        if finding.code in TASK_CODES:
            text = finding.message.partition("\n")[0]
            task = ast.literal_eval(re.match(r"task ('[^']*')", text)[1])  # type: ignore[index]
            place = re.match(r"task '[^']*' (of beat's entry '\d+'|at [^ ]+:\d+)? ?", text)
            found[label_of(app, task, (place and place[1]) or "")] = finding.code
    return found


def test_findings_are_those_that_the_messages_need(apps: list[tuple[RandomApp, Any]]) -> None:
    """No false alarm and no silence: an independent judge, which knows what the author wrote and what was sent."""
    recorded = read(RECORDINGS[-1])
    seen = set()
    for seed, (app, real) in enumerate(apps):
        labels = {label_of(app, way.task, way.place) for way in ways_of(real)}
        found = codes_by_label(app, check_app(real))
        for sending in app.sendings:
            wanted = expect(app, sending, recorded[str(seed)])
            seen.add(wanted)
            if sending.label in labels:
                assert found.get(sending.label, "") == wanted, (seed, sending, app.named(sending))
    assert seen == {"", *TASK_CODES}
