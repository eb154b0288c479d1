"""Twice as much of anything takes twice the work: each kind of thing that a file can have many of is doubled.

Work is the number of lines of Python that run, so neither the machine nor what else it does decides. Each part of the
table has once taken a time quadratic in it, or is what such a part is compared with.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from click.testing import CliRunner

from bindings.cli import find_command
from bindings.serve.drafts import edit
from bindings.sources.document import Document
from exchange import Topology
from tests.support.tiers import some

GROWTH: Final = 2.2
"""Maximum of the work for twice as much, divided by the work for once."""


def count_lines(work: Callable[[], object]) -> int:
    lines = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        """Count a line, or the end of a function: to tell these apart would take a quarter of the time."""
        nonlocal lines
        lines += 1
        return count

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return count

    before = sys.gettrace()
    gc.disable()  # Hypothesis has a function called at each collection
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


def vhost(number: int) -> dict[str, Any]:
    return {"name": f"v{number}"}


def queue(number: int, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    return {"name": f"q{number:03}", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": arguments}


def exchange(number: int, kind: str = "fanout", **arguments: Any) -> dict[str, Any]:
    return {
        "name": f"x{number}", "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "internal": False,
        "arguments": arguments,
    }  # fmt: skip


def binding(source: int, target: int, key: str = "", kind: str = "queue", **arguments: Any) -> dict[str, Any]:
    return {
        "source": f"x{source}", "vhost": "/", "destination": f"q{target:03}" if kind == "queue" else f"x{target}",
        "destination_type": kind, "routing_key": key, "arguments": arguments,
    }  # fmt: skip


def policy(number: int, pattern: str, vhost: str = "/") -> dict[str, Any]:
    return {
        "name": f"p{number}", "vhost": vhost, "pattern": pattern, "apply-to": "queues", "priority": 0,
        "definition": {"max-length": number},
    }  # fmt: skip


def operator_policy(number: int, pattern: str, vhost: str = "/") -> dict[str, Any]:
    value = {"pattern": pattern, "apply-to": "queues", "priority": 0, "definition": {"max-length": number}}
    return {"component": "operator_policy", "vhost": vhost, "name": f"p{number}", "value": value}


def definitions(**sections: Sequence[Any]) -> str:
    return json.dumps({"rabbitmq_version": "4.1.0", **sections})


KINDS: Final[Mapping[str, Callable[[range], str]]] = {
    "virtual hosts": lambda r: definitions(
        vhosts=[vhost(n) for n in r], queues=[queue(0, f"v{n}") for n in r],
        parameters=[operator_policy(0, "^q", f"v{n}") for n in r], policies=[policy(0, "^q", f"v{n}") for n in r],
    ),
    "queues": lambda r: definitions(queues=[queue(n) for n in r]),
    "pairs": lambda r: definitions(
        exchanges=[exchange(n) for n in r], queues=[queue(n) for n in r], bindings=[binding(n, n) for n in r]
    ),
    "topic keys": lambda r: definitions(
        exchanges=[exchange(0, "topic")], queues=[queue(n) for n in r],
        bindings=[binding(0, n, f"a.{n}.#") for n in r],
    ),
    "headers": lambda r: definitions(
        exchanges=[exchange(0, "headers")], queues=[queue(n) for n in r],
        bindings=[binding(0, n, **{"x-match": "all", "a": str(n)}) for n in r],
    ),
    "policies": lambda r: definitions(
        queues=[queue(n) for n in r], policies=[policy(n, f"^q{n:03}(a|b)*$") for n in r],
    ),
    "operator policies": lambda r: definitions(
        queues=[queue(n) for n in r], parameters=[operator_policy(n, f"^q{n:03}(a|b)*$") for n in r],
    ),
    "dead letters": lambda r: definitions(
        exchanges=[exchange(n) for n in r], bindings=[binding(n, n) for n in r],
        queues=[queue(n, "/", **{"x-dead-letter-exchange": f"x{n + 1}", "x-overflow": "drop-head"}) for n in r],
    ),
    "rings": lambda r: definitions(
        exchanges=[exchange(n, **{"alternate-exchange": f"x{(n + 1) % len(r)}"}) for n in r],
        queues=[queue(n, **{"x-dead-letter-exchange": f"x{n}"}) for n in r], bindings=[binding(n, n) for n in r],
    ),
    "rings both ways": lambda r: definitions(
        exchanges=[exchange(n) for n in r], queues=[queue(0)],
        bindings=[
            *[binding(n, (n + 1) % len(r), kind="exchange") for n in r],
            *[binding((n + 1) % len(r), n, kind="exchange") for n in r], binding(0, 0),
        ],
    ),
    "alternates": lambda r: definitions(
        exchanges=[exchange(n, **({"alternate-exchange": f"x{n + 1}"} if n < r[-1] else {})) for n in r],
        queues=[queue(0)], bindings=[binding(r[-1], 0)],
    ),
    "ladders": lambda r: definitions(
        exchanges=[exchange(n) for n in r], queues=[queue(n) for n in r],
        bindings=[*[binding(n, n) for n in r], *[binding(n, (n + 1) % len(r)) for n in r]],
    ),
    "chains": lambda r: definitions(
        exchanges=[exchange(n) for n in r], queues=[queue(0)],
        bindings=[*[binding(n, n + 1, kind="exchange") for n in r[:-1]], binding(r[-1], 0)],
    ),
    "hubs": lambda r: definitions(
        exchanges=[exchange(n) for n in r], queues=[queue(n) for n in r],
        bindings=[*[binding(0, n, kind="exchange") for n in r[1:]], *[binding(n, n) for n in r]],
    ),
    "streams": lambda r: definitions(queues=[queue(n, **{"x-queue-type": "stream", "x-max-age": "1h"}) for n in r]),
    "delayed exchanges": lambda r: definitions(
        exchanges=[exchange(n, "x-delayed-message", **{"x-delayed-type": "topic"}) for n in r],
        queues=[queue(n) for n in r], bindings=[binding(n, n, f"a.{n}.*") for n in r],
    ),
    "users": lambda r: definitions(
        queues=[queue(0)], users=[{"name": f"u{n}", "password_hash": "", "tags": []} for n in r],
        permissions=[{"user": f"u{n}", "vhost": "/", "configure": "", "write": f"x{n}", "read": ".*"} for n in r],
    ),
    "mistakes": lambda r: definitions(bindings=[binding(n, n) for n in r]),
    "expectations": lambda r: "exchange x: topic\n" + "".join(
        f'vhost v{n}\nexchange x: topic\nqueue q\nx -> q: "a"\nexpect x "a" -> q\n' for n in r
    ),
}  # fmt: skip

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "check": (),
    "convert": ("--format", "bindings"),
    "convert to definitions": ("--format", "definitions"),
    "graph": ("--format", "svg", "--vhost", "v0"),
}


@pytest.mark.scaled
@pytest.mark.parametrize(("kind", "command"), some([*product(KINDS, COMMANDS)], 3))
def test_twice_as_much_takes_twice_the_work(kind: str, command: str, tmp_path: Path) -> None:
    name, *_ = command.split()
    options = COMMANDS[command]
    if name == "graph" and kind not in ("virtual hosts", "expectations"):
        options = options[:2]
    path = tmp_path / "source"

    def work(count: int) -> int:
        path.write_text(KINDS[kind](range(count)))
        run = find_command(name)
        results = []
        lines = count_lines(lambda: results.append(CliRunner().invoke(run, [str(path), *options])))
        assert results[0].exit_code in (0, 1), results[0].output
        assert results[0].exception is None or isinstance(results[0].exception, SystemExit)
        return lines

    work(2)  # what is done once in a process
    once, twice = work(60), work(120)
    assert twice < GROWTH * once, f"{once} lines for 60, {twice} for 120"


def test_an_edit_of_many_parts_copies_the_tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = 0
    tables = Topology.tables

    def count(topology: Topology) -> Any:
        nonlocal copies
        copies += 1
        return tables(topology)

    monkeypatch.setattr(Topology, "tables", count)
    statement = '+ for a in 1..500:\n  queue q{a}\n  x -> q{a}: "k{a}"'
    built = edit(Document.loads("exchange x: topic").topology(), [statement])
    assert len(built.queues) == len(built.bindings) == 500
    assert copies == 1
