"""Random Celery apps as the text of a module, and what their author names for each message, found the slow way.

Only the standard library is used: the recorder runs with any version of Celery.
"""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Final

APPS: Final = 150
"""Number of apps that are recorded; the number of an app is its seed."""
TASKS: Final = ("news.import", "news.update.all", "post.send", "solo")
FOREIGN: Final = "other.task"
"""A task that the app does not have."""
KEYS: Final = ("a", "b", "k", "feed.new", "mail.x", "#", "feed.#", "*.x")
QUEUES: Final = ("a", "b", "c", "feeds")
EXCHANGES: Final = ("x", "y", "z")


Entry = tuple[str, str, Any]
"""``name``, ``glob``, ``regex`` or ``function``; the pattern; the target."""


@dataclass(frozen=True)
class Sending:
    """One message that an app sends."""

    label: str
    task: str
    options: dict[str, Any]
    by_name: bool = False
    """Whether it is sent with ``send_task``: releases before 5.7 then take no options of a decorator."""


@dataclass(frozen=True)
class RandomApp:
    """An app, and how it routes."""

    source: str
    sendings: list[Sending]
    decorators: dict[str, dict[str, Any]]
    routes: list[list[Entry]]
    """Maps of entries, in the order in which Celery asks."""
    default_queue: str
    default_key: str
    lines: dict[int, str]
    """Line of the module -> label of the message that is sent there."""

    def named(self, sending: Sending) -> dict[str, Any]:
        """Return what the author names for a message: the call first, then the decorator, then the first route."""
        found: Any = next((answer for each in self.routes if (answer := _look_up(each, sending.task)) is not None), {})
        target: dict[str, Any] = {"queue": found} if isinstance(found, str) else dict(found)
        return {**target, **self.decorators.get(sending.task, {}), **sending.options}


def _look_up(entries: list[Entry], task: str) -> Any:
    for kind, pattern, target in entries:
        if kind in ("name", "function") and pattern == task:
            return target
    for kind, pattern, target in entries:
        if (kind == "glob" and fnmatchcase(task, pattern)) or (kind == "regex" and re.match(pattern, task)):
            return target
    return None


def random_app(seed: int) -> RandomApp:
    """Return the app of a seed."""
    random = Random(seed)
    lines = [
        "import re",
        "from celery import Celery, signature",
        "from kombu import Exchange, Queue, binding",
        "from kombu.common import Broadcast",
        f'app = Celery("random", broker="memory://app-{seed}/", set_as_current=False)',
        *(
            f"{name} = Exchange({name!r}, {random.choice(('direct', 'topic', 'topic', 'fanout'))!r})"
            for name in EXCHANGES
        ),
    ]
    settings = _settings(random)
    default: str = literal_eval(settings.get("task_default_queue", "'celery'"))
    routes, texts = _routes(random)
    if texts:
        settings["task_routes"] = f"({', '.join(texts)},)"
    sendings = [Sending(task, task, {}) for task in TASKS]
    schedule = []
    for number in range(random.randrange(3)):
        task, given = random.choice((*TASKS, FOREIGN)), _options(random, 0.5)
        sendings.append(Sending(f"beat {number}", task, given))
        schedule.append(f"'{number}': {{'task': {task!r}, 'schedule': 60, 'options': {given!r}}}")
    settings["beat_schedule"] = "{" + ", ".join(schedule) + "}"
    lines += [f"app.conf.update({name}={value})" for name, value in settings.items()]
    decorators = {}
    for number, task in enumerate(TASKS):
        decorators[task] = _options(random, 0.25)
        written = "".join(f", {name}={value!r}" for name, value in decorators[task].items())
        lines += [f"@app.task(name={task!r}, shared=False{written})", f"def t{number}(): ..."]
    constant = random.choice(QUEUES)
    lines.append(f"MINE = {constant!r}")
    places = {}
    for number in range(random.randrange(5)):
        sending, call = _call(random, f"call {number}", constant)
        lines += [f"def call_{number}():", f"    {call}"]
        places[len(lines)] = sending.label
        sendings.append(sending)
    key: str = literal_eval(settings.get("task_default_routing_key", repr(default)))
    return RandomApp("\n".join(lines) + "\n", sendings, decorators, routes, default, key, places)


def _options(random: Random, chance: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if random.random() < chance:
        found["queue"] = random.choice((*QUEUES, "missing"))
    if random.random() < chance / 2:
        found["exchange"] = random.choice((*EXCHANGES, "nowhere"))
    if random.random() < chance:
        found["routing_key"] = random.choice(KEYS[:5])
    if random.random() < chance / 2:
        found["priority"] = random.randrange(1, 10)
    return found


def _settings(random: Random) -> dict[str, str]:
    settings = {"task_ignore_result": "True"}
    if random.random() < 0.8:
        queues = []
        for name in random.sample(QUEUES, random.randrange(1, 5)):
            exchange, key = random.choice((*EXCHANGES, *EXCHANGES, "None")), random.choice(KEYS)
            if random.random() < 0.1:
                queues.append(f"Queue({name!r}, bindings=[binding({random.choice(EXCHANGES)}, {key!r})])")
            else:
                queues.append(f"Queue({name!r}, {exchange}{random.choice((f', routing_key={key!r}', ''))})")
        if random.random() < 0.15:
            queues.append("Broadcast('all', queue='all.mine')")
        settings["task_queues"] = f"[{', '.join(queues)}]"
        settings["task_default_queue"] = repr(random.choice(QUEUES))
    if random.random() < 0.3:
        settings["task_default_exchange"] = repr(random.choice(("x", "main")))
        settings["task_default_exchange_type"] = repr(random.choice(("direct", "topic", "fanout")))
    if random.random() < 0.3:
        settings["task_default_routing_key"] = repr(random.choice(KEYS[:5]))
    if random.random() < 0.2:
        settings["task_create_missing_queues"] = "False"
    if random.random() < 0.2:
        settings["task_queue_max_priority"] = "5"
    return settings


def _routes(random: Random) -> tuple[list[list[Entry]], list[str]]:
    routes: list[list[Entry]] = []
    texts = []
    for _ in range(random.choice((0, 1, 1, 2))):
        entries: list[Entry] = []
        if random.random() < 0.2:
            given, task = _options(random, 0.6), random.choice(TASKS)
            routes.append([("function", task, given)])
            texts.append(f"lambda name, *_args, **_options: dict({given!r}) if name == {task!r} else None")
            continue
        for _ in range(random.randrange(1, 4)):
            target = random.choice((random.choice(QUEUES), _options(random, 0.6), _options(random, 0.6)))
            kind, pattern = random.choice(
                (
                    ("name", random.choice((*TASKS, FOREIGN))),
                    ("glob", random.choice(("news.*", "*", "*.send", "post.*"))),
                    ("regex", random.choice((r"(news|post)\..*", "sol"))),
                )
            )
            entries = [each for each in entries if each[:2] != (kind, pattern)] + [(kind, pattern, target)]
        keys = [f"re.compile({pattern!r})" if kind == "regex" else repr(pattern) for kind, pattern, _ in entries]
        pairs = [(key, repr(target)) for key, (_, _, target) in zip(keys, entries, strict=True)]
        as_map = "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        as_list = "[" + ", ".join(f"({key}, {value})" for key, value in pairs) + "]"
        texts.append(random.choice((as_map, as_list)))
        routes.append(entries)
    return routes, texts


def _call(random: Random, label: str, constant: str) -> tuple[Sending, str]:
    """Return a message, and the call that sends it; ``MINE`` is a constant of the module."""
    task, given = random.choice(TASKS), _options(random, 0.6)
    text = ", ".join(f"{name}={value!r}" for name, value in given.items())
    if given.get("queue") == constant:
        text = text.replace(f"queue={constant!r}", "queue=MINE")
    local, form = f"t{TASKS.index(task)}", random.randrange(7)
    if form == 2:
        task = FOREIGN
    calls = (
        f"{local}.apply_async({text})",
        f"app.send_task({task!r}, {text})",
        f"app.send_task({task!r}, {text})",
        f"{local}.s().set({text}).apply_async()",
        f"{local}.signature((), {text}).delay()",
        f"signature({task!r}, options={given!r}, app=app).apply_async()",
        f"app.signature({task!r}, {text}).apply_async()",
    )
    return Sending(label, task, given, form in (1, 2)), calls[form].replace(", )", ")")
