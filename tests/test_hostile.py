"""Every command ends hostile input with exit 2 and words: no traceback, no password, no forged line, no hang.

The commands are found in the program itself, so one that is added later is tried, too; an argument that takes a file
must be in `FILES` then, else it gets hostile text.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click
import pytest

from bridge.cli import hashstar
from tests.support.command_server import MEMORY, CommandServer, command_server
from tests.support.tiers import scale
from tests.support.waiting import stretch

PASSWORD = "hunter2"  # noqa: S105  not one of a server

FILES = {
    "source": "x.bindings", "sources": "x.bindings", "topologies": "x.bindings", "topology": "x.bindings",
    "config": "x.toml", "archive": "x.jsonl", "file": "x.jsonl", "files": "x.jsonl", "path": "x.jsonl",
    "archives": "x.jsonl", "tallies": "x.jsonl", "tally": "x.jsonl", "reports": "x.jsonl", "parts": "x.jsonl",
    "folder": "x.jsonl", "saved": "x.jsonl", "state": "state",
}  # fmt: skip
"""The name of a command's argument or required option that takes a file -> a harmless file for it."""
VALUES = {
    "address": "http://u:p@127.0.0.1:1", "exchange": "x", "routing_key": "k", "partitioner": "kafka.murmur2",
    "partitions": "3",
}  # fmt: skip
"""The name of what takes no file -> its value."""


def walk(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command that is no group, with how it is called."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from walk(command, (*names, name))
        else:
            yield (*names, name), command


COMMANDS = dict(walk(hashstar))


def places_of(command: click.Command) -> dict[str, click.Parameter]:
    """Return the name of each argument and required option -> it. The name is a key of FILES or VALUES, or unknown."""
    places = {}
    for parameter in command.params:
        if parameter.required or isinstance(parameter, click.Argument):
            names = [parameter.name or "", *(option.lstrip("-").replace("-", "_") for option in parameter.opts)]
            name = next((name for name in names if name in FILES or name in VALUES), names[0])
            places[name] = parameter
    return places


def arguments_of(command: click.Command, values: dict[str, str]) -> list[str]:
    """Return the arguments that give each place its value."""
    # Starting a JVM for each input would take hours, and it reads nothing of what is hostile here by itself.
    given = ["--no-spark"] if any("--no-spark" in parameter.opts for parameter in command.params) else []
    # A server that has read its input would go on: at this address nothing can be served.
    given += ["--listen", "203.0.113.1:80"] if any("--host" in parameter.opts for parameter in command.params) else []
    for name, parameter in places_of(command).items():
        value = values[name]
        given += [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
        given += [value] if name == "topologies" else []  # two are compared
    return given


@pytest.fixture(scope="module")
def server() -> CommandServer:
    """Start the server that runs the commands."""
    return command_server()


DEEP = "[" * 100_000
NAMES = json.dumps({
    "vhosts": [{"name": "/"}], "exchanges": [], "queues": [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
        for name in ("\ud800", "x\n::error::forged", "\x1b[2J", "\u202e", "\x9b31m")
    ], "bindings": [],
})  # fmt: skip

CONTENTS: dict[str, bytes] = {
    "empty.bindings": b"",
    "empty.toml": b"",
    "junk.bindings": bytes(range(256)) * 64,
    "junk.json": b"\x89PNG\r\n\x1a\n" + os.urandom(1) * 5000,
    "cut.json.gz": gzip.compress(NAMES.encode())[:-9],
    "deep.json": ('{"queues":' + DEEP).encode(),
    "deep.toml": ("a = " + DEEP).encode(),
    "digits.json": ('{"queues":[{"name":' + "9" * 5000 + "}]}").encode(),
    "digits.bindings": ("queue q: x = " + "9" * 5000 + "\n").encode(),
    "huge.json": b'{"queues":[{"name":1e999}]}',
    "names.json": NAMES.encode("utf-8", "surrogatepass"),
    "loops.bindings": b"for a in 1..100000:\n  for b in 1..100000:\n    e -> q: x\n",
    "bomb.yaml": b"asyncapi: &a0 [x]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9)),
    "deep.yaml": b"apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nspec: " + DEEP.encode(),
    "names.tfstate": b'{"version": 4, "terraform_version": "1.11.4", "resources": [{"mode": "managed", '
    b'"type": "rabbitmq_queue", "name": "q", "instances": [{"attributes": '
    b'{"name": "\\u001b[2J::error::forged\\n::x", "vhost": "/", "settings": [{}]}}]}]}',
    "escape.json": b'{"hashstar":{"partitioned":{"/":{"q":"kafka.murmur2 over 3 by header \\"a\\\\q\\""}}}}',
    "url.toml": f'topology = "http://admin:{PASSWORD}#x@broker:15672/"\n[sources.a]\nurl = "amqp"\n'.encode(),
}
BOMB = "bomb.json.gz"
"""Packed by the fixture: half a second of a processor, which each process that collects tests would take."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the hostile inputs: name -> argument of a command line."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, data in CONTENTS.items():
        (folder / name).write_bytes(data)
    (folder / BOMB).write_bytes(gzip.compress(bytes(600 << 20), 1))
    (folder / "folder.bindings").mkdir()
    found = {name: str(folder / name) for name in (*CONTENTS, BOMB)}
    found["missing"] = str(folder / "missing")
    os.mkfifo(folder / "pipe")
    found[PIPE] = str(folder / "pipe")
    found["a device"] = "/dev/zero"
    found["a socket"] = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(found["a socket"])
    found["folder"] = str(folder / "folder.bindings")
    found["a name too long"] = str(folder / ("x" * 5000))
    found["a name to erase a line"] = str(folder / "\x1b[1A\n::error::forged")
    found["a name that is no UTF-8"] = os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")
    found["password with #"] = f"http://admin:{PASSWORD}#x@broker:15672/"
    found["password with ?"] = f"http://admin:{PASSWORD}?x@broker:15672/"
    found["password with /"] = f"http://admin:1/{PASSWORD}@broker:15672/"
    return found


SMALL = 'exchange e: topic\nqueue q\ne -> q: "a"\n'

FINE = {0, 1, 2}
"""Some of the input is fine for some commands: check accepts an empty .bindings file, which has no queues."""
PIPE = "a pipe without a writer"
ENDS_WITH_2 = [
    "missing",
    "folder",
    "a device",
    "a socket",
    "a name too long",
    "password with #",
    "password with ?",
    "password with /",
]


MAY_BE_NEW = frozenset({"state", "target"})
"""Places that may name what is not there yet."""


def trials(command: click.Command, hostile: dict[str, str], folder: Path) -> Iterator[tuple[str, str, list[str], str]]:
    """Yield (the place, the name of the input, the arguments, the standard input), one place hostile at a time.

    Places of no file get the hostile input's text, and the standard input is hostile with each.
    """
    places = places_of(command)
    harmless = {name: str(folder / FILES[name]) if name in FILES else VALUES.get(name, "x = 1") for name in places}
    harmless |= {"target": str(folder / "out.jsonl")} if "target" in places else {}
    for what, value in hostile.items():
        for name in places:
            data = Path(value).read_bytes() if what == BOMB else value.encode("utf-8", "surrogateescape")
            text = CONTENTS.get(what, data)[:100_000].replace(b"\0", b" ")
            hostile_value = value if name in {*FILES, "target"} else os.fsdecode(text)
            if name == "target" and what not in ENDS_WITH_2[1:]:  # else it is written, over what others are to read
                continue
            if what == PIPE and name == "file":  # a stream of messages, which waits for its writer
                continue
            values = {**harmless, name: hostile_value}
            yield name, what, arguments_of(command, values), value if what in (*CONTENTS, BOMB) else os.devnull


@pytest.mark.parametrize("names", COMMANDS)
def test_hostile_input_ends_with_an_error_and_no_traceback(
    names: tuple[str, ...], hostile: dict[str, str], server: CommandServer, tmp_path: Path
) -> None:
    (tmp_path / "x.bindings").write_text(SMALL)
    (tmp_path / "x.jsonl").write_text('{"exchange": "e", "routing_key": "a", "body": ""}\n')
    (tmp_path / "x.toml").write_text("")
    tried = list(trials(COMMANDS[names], hostile, tmp_path))
    tried = Random(" ".join(names)).sample(tried, min(len(tried), scale(len(tried))))
    answers = server.run_each([([*names, *arguments], stdin) for _, _, arguments, stdin in tried], MEMORY)
    for (place, what, _, _), ended in zip(tried, answers, strict=True):
        printed = ended.out + ended.err
        trial = (names, place, what, ended.code, printed[-2000:])
        assert ended.code in FINE, trial
        assert "Traceback" not in printed, trial
        if what.startswith("password") or names[0] == "bridge":  # else the file itself is shown, with a caret
            assert PASSWORD not in printed, trial
        assert not [line for line in printed.splitlines() if line.lstrip().startswith("::")], trial
        assert "\x1b" not in printed, trial
        if what in (PIPE, *ENDS_WITH_2) and place in FILES and place not in MAY_BE_NEW:
            assert ended.code == 2, trial
            assert ended.err.strip(), trial


def test_hostile_arguments_end_with_an_error_and_no_traceback(server: CommandServer, tmp_path: Path) -> None:
    file = tmp_path / "x.bindings"
    file.write_text(SMALL)
    explain = ["explain", "-t", str(file)]
    commands = [
        [*explain, "e", "a", "-H", f"x={DEEP}"],
        [*explain, "e", "a", "-P", f"x={'[' * 900}{']' * 900}"],
        [*explain, "e", "a", "-H", 'x={"!long": 99999999999999999999}'],
        [*explain, os.fsdecode(b"\xff"), "a"],
        ["check", str(file), f"http://admin:{PASSWORD}#x@h/"],
        ["check", str(file), f"http://admin:{PASSWORD}@127.0.0.1:1/", "--format", "junit"],
        ["check", str(file), "--baseline", str(file)],
        ["check", str(file), "--baseline", "/dev/zero", "--write-baseline"],
        ["check", str(file), "--output", "/nowhere/x"],
        ["check", "[" * 100_000],
        ["check", "[" * 4_000],
        ["check", "**/" * 1_300 + "x"],
        ["check", "*a" * 2_000],
        ["check", "[", "**[", str(tmp_path / "**/\x1b[2J*")],
        ["apply", str(file), f"http://admin:{PASSWORD}#x@broker:15672/", "--dry-run"],
        ["apply", str(file), f"amqps://admin:{PASSWORD}@127.0.0.1:1/?ssl_options=x"],
        ["selector", "check", "(" * 50_000],
        ["selector", "check", "a = " + "9" * 5000],
        ["partition", "-p", "rabbitmq.consistent_hash(weight=0)", "-n", "3"],
        ["partition", "-p", "rocketmq.hash", "-n", "a:4", "--change", "lost=a"],
        ["partition", "-p", "kafka.murmur2", "-n", "2147483648"],
        ["partition", "-p", "kafka.murmur2", "-n", "3", "--change", "-1"],
        ["partition", "-p", "kafka.murmur2", "-n", "3", "--change", "4", "--seed", "1"],
    ]
    failures = []
    answers = server.run_each([(arguments, os.devnull) for arguments in commands], MEMORY)
    for arguments, ended in zip(commands, answers, strict=True):
        printed = ended.out + ended.err
        if ended.code != 2 or "Traceback" in printed or PASSWORD in printed:
            failures.append((arguments[0], arguments[-1][:40], ended.code, printed[-600:]))
    assert failures == []


PATTERNS = [
    "^(a+)+$", "^(a|aa)+$", "^(a+)+\\\\1$", "^((a{1,100}){1,100}){1,100}$", "^(?=(a+)+$)", "(.*)*(.*)*x",
    "^(a?){40}a{40}$", "^(?:(?:(?:a+)+)+)+$", "^(a*)*(a*)*(a*)*$",
]  # fmt: skip


@pytest.mark.parametrize("names", [("check",), ("graph",), ("route", "-t"), ("diff",)])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_policy_pattern_that_backtracks_ends_in_seconds(
    names: tuple[str, ...], pattern: str, server: CommandServer, tmp_path: Path
) -> None:
    """The broker's library gives up after some millions of steps; a command here answers, or names the policy."""
    name = "a" * 40 + "!"
    file, message = tmp_path / "x.bindings", tmp_path / "x.jsonl"
    file.write_text(
        f'exchange x: fanout\nexchange "{name}": topic\nqueue q\nx -> q\n"{name}" -> q: "a"\n'
        f'policy p: "{pattern}", exchanges, alternate-exchange = "x"\n'
    )
    message.write_text(json.dumps({"exchange": name, "routing_key": "b"}) + "\n")
    extra = {"route": [str(message)], "diff": [str(file)]}.get(names[0], [])
    began = time.monotonic()
    ended = server.run([*names, str(file), *extra], memory=MEMORY)
    assert time.monotonic() - began < stretch(30)
    assert ended.code in FINE, ended
    assert "Traceback" not in ended.err
    if names[0] == "check":
        assert "policy 'p'" in ended.out, ended  # it matches nothing, or is not understood
