"""The program: JSON lines in and out, order kept, bad input told with its place, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridge.cli import main
from exchange import Binding, Exchange, Queue, Topology

ROOT = Path(__file__).parent.parent
DEFINITIONS = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for name in ("b", "a", "h")
    ],
    "exchanges": [
        {"name": name, "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "internal": False,
         "arguments": {}}
        for name, kind in (("x", "topic"), ("odd", "x-odd"), ("h", "headers"))
    ],
    "bindings": [
        {"source": source, "vhost": "/", "destination": queue, "destination_type": "queue", "routing_key": key,
         "arguments": arguments}
        for source, queue, key, arguments in (
            ("x", "b", "k.#", {}), ("x", "a", "k.*", {}), ("h", "h", "", {"n": 1, "x-match": "all"}),
        )
    ],
}  # fmt: skip


@pytest.fixture
def definitions(tmp_path: Path) -> str:
    """A file with two queues bound to a topic exchange, one to a headers exchange, and an exchange of unknown type."""
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS))
    return str(path)


class Done(NamedTuple):
    """What the program said and how it ended."""

    returncode: object
    stdout: str
    stderr: str


def hashstar(*arguments: str, given: str = "") -> Done:
    """Run the program, as a process of its own."""
    command = [sys.executable, "-m", "bridge.cli", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def in_here(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the program in this process, which saves its start; what `main` lets through fails the test."""

    def run(*arguments: str) -> Done:
        code: object = 0
        try:
            main(arguments)
        except SystemExit as leave:
            code = leave.code
        return Done(code, *capsys.readouterr())

    return run


def test_route_answers_each_line_in_order(definitions: str) -> None:
    """One line out for each line in, with the exchange and key of the line and its queues sorted."""
    given: list[dict[str, Any]] = [
        {"exchange": "x", "routing_key": "k.1", "body": "ignored", "extra": [1]},
        {"exchange": "x", "routing_key": "z"},
        {"exchange": "", "routing_key": "a"},
        {"exchange": "h", "routing_key": "é", "headers": {"n": 1}},
        {"exchange": "h", "headers": {"n": {"!short": 1}}},
        {"exchange": "h", "headers": {"n": {"!float": 1}}},
        {"exchange": "x", "routing_key": "z", "headers": {"CC": ["k.2"]}},
    ] * 3
    result = hashstar("route", "-d", definitions, given="\n".join(map(json.dumps, given)))
    assert result.returncode == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [list(line) for line in lines] == [["exchange", "routing_key", "queues", "unroutable"]] * len(given)
    expected = [["a", "b"], [], ["a"], ["h"], ["h"], [], ["a", "b"]] * 3
    assert [line["queues"] for line in lines] == expected
    assert [line["unroutable"] for line in lines] == [not queues for queues in expected]
    assert [line["routing_key"] for line in lines] == [message.get("routing_key", "") for message in given]


def test_an_exchange_of_unknown_type_is_reported_and_leaves_routes_undecided(definitions: str) -> None:
    """The warning goes to standard error, and the route says null and not false."""
    result = hashstar("route", "-d", definitions, given='{"exchange": "odd", "routing_key": "k"}\n')
    assert "exchange 'odd' is of type 'x-odd', which is unknown here" in result.stderr
    assert json.loads(result.stdout) == {
        "exchange": "odd", "routing_key": "k", "queues": [], "unroutable": None, "undecided": ["odd"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{bad", "not JSON: Expecting property name"),
        ("[1]", "is not a message"),
        ('{"exchange": "x", "routing_key": 5}', "routing_key"),
        ('{"exchange": "x", "headers": []}', "headers"),
        ('{"exchange": "x", "headers": {"n": {"!shirt": 1}}}', "!shirt"),
        ('{"exchange": "nope"}', "404 NOT_FOUND - no exchange 'nope' in vhost '/'"),
        ('{"exchange": "amq.rabbitmq.trace"}', "403 ACCESS_REFUSED - cannot publish to internal"),
        ('{"exchange": "x", "headers": {"CC": "k"}}', "406 PRECONDITION_FAILED"),
        ('{"exchange": "x"} {"exchange": "x"}', "not JSON: Extra data"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_stops_with_its_place_or_is_counted(
    in_here: Callable[..., Done], definitions: str, tmp_path: Path, line: str, reason: str
) -> None:
    """What came before it is answered; the message names file, line and reason; --skip-bad counts and goes on."""
    good = '{"exchange": "x", "routing_key": "k.1"}'
    path = tmp_path / "in.jsonl"
    path.write_text(f"{good}\n\n{line}\n{good}\n{line}\n")
    result = in_here("route", "-d", definitions, str(path))
    assert result.returncode == 2
    assert len(result.stdout.splitlines()) == 1
    assert f"{path}:3: " in result.stderr
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    result = in_here("route", "--skip-bad", "-d", definitions, str(path))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 2
    assert f"2 bad lines skipped, the first is {path}:3: " in result.stderr


def test_a_line_that_is_not_utf8_is_a_bad_line(definitions: str, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 have a place and a reason too."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"exchange": "\xff"}\n')
    result = hashstar("route", "-d", definitions, str(path))
    assert result.returncode == 2
    assert "in.jsonl:1: not UTF-8" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["route"], "Missing option '--topology'"),
        (["route", "-d", "/nowhere.json"], "/nowhere.json: cannot be read"),
        (["route", "-d", "DEFINITIONS", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["route", "-d", "DEFINITIONS", "--vhost", "other"], "there is no virtual host 'other'"),
        (["route", "-d", "DEFINITIONS", "--profile", "rabbitmq-1.0"], "rabbitmq-4.3"),
        (["explain", "-d", "DEFINITIONS", "nope"], "404 NOT_FOUND"),
        (["explain", "-d", "DEFINITIONS", "x", "-H", "nonsense"], "NAME=VALUE"),
        (["nonsense"], "No such command"),
    ],
)
def test_bad_usage_is_told_without_a_traceback(
    in_here: Callable[..., Done], definitions: str, arguments: list[str], reason: str
) -> None:
    """Exit code 2, and a message that names what is wrong."""
    result = in_here(*[definitions if argument == "DEFINITIONS" else argument for argument in arguments])
    assert result.returncode == 2
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_explain_is_readable_and_has_json(in_here: Callable[..., Done], definitions: str) -> None:
    """The text names the nearest binding and the word that failed; --json has the same for machines."""
    arguments = ["explain", "-d", definitions, "x", "k.1.2", "--queue", "a"]
    result = hashstar(*arguments)
    assert result.returncode == 0
    assert "'k.#' -> queue 'b': queued" in result.stdout
    assert "word 3 '2' is one too many" in result.stdout
    explained = json.loads(in_here(*arguments, "--json").stdout)
    assert explained["queues"] == ["b"]
    assert explained["hops"][0]["matched"][0]["routing_key"] == "k.#"
    assert explained["asked"]["obstacles"][0]["binding"]["routing_key"] == "k.*"
    result = in_here("explain", "-d", definitions, "h", "-H", 'n="1"', "-q", "h")
    assert "header 'n' is '1', it wants 1 (of another type)" in result.stdout


def test_a_closed_pipe_is_no_error(definitions: str) -> None:
    """``hashstar route | head`` ends quietly."""
    lines = '{"exchange": "x", "routing_key": "k.1"}\n' * 200_000
    command = f"{sys.executable} -m bridge.cli route -d {definitions} | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], input=lines, capture_output=True, text=True, check=False, cwd=ROOT,
        timeout=60,
    )  # fmt: skip
    assert len(result.stdout.splitlines()) == 1
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_importing_the_engine_imports_nothing_heavy() -> None:
    """`import exchange` leaves lark, click, decimal and what else takes long until it is needed."""
    heavy = "lark click pika json decimal datetime random difflib"
    code = f"import sys, exchange; print([m for m in {heavy.split()} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_the_front_door_is_complete() -> None:
    """Every name in __all__ is there, and the ones the README uses are among them."""
    import exchange

    assert all(hasattr(exchange, name) for name in exchange.__all__)
    assert {"Router", "Topology", "Message", "Pattern", "Dispatcher"} <= set(exchange.__all__)
    assert Topology([Exchange("x")], [Queue("q")], [Binding.to_queue("x", "q")]).bindings
