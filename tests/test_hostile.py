"""Every command ends hostile input with exit 2 and words: no traceback, no password, no forged line, no hang.

The commands are found in the program itself, so one that is added later is tried, too: what it takes as arguments must
be in `VALUES` then.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import pytest

from bridge.cli import hashstar

ROOT = Path(__file__).parent.parent
SECONDS = 120
MEMORY = 6 << 30
PASSWORD = "hunter2"  # noqa: S105  not one of a server

VALUES = {
    "source": "FILE", "file": "FILE", "files": "FILE", "before": "FILE", "after": "FILE", "config": "FILE",
    "archive": "FILE", "path": "FILE", "topology": "FILE", "saved": "FILE", "parts": "FILE", "archives": "FILE",
    "target": "OUT", "address": "URL", "exchange": "x", "routing_key": "k", "expression": "EXPRESSION",
    "tallies": "FILE", "tally": "FILE", "reports": "FILE", "folder": "FILE", "state": "FILE",
}  # fmt: skip
"""The name of a command's argument or required option -> what hostile input goes there."""


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


def arguments_of(command: click.Command, hostile: str, out: Path) -> list[str] | None:
    """Return arguments with the hostile input in each place that takes a file; None if there is no such place."""
    given: list[str] = []
    takes_files = False
    for parameter in command.params:
        if not parameter.required and not isinstance(parameter, click.Argument):
            continue
        names = {parameter.name or ""} | {option.lstrip("-").replace("-", "_") for option in parameter.opts}
        value = next((VALUES[name] for name in names if name in VALUES), None)
        if value is None and isinstance(parameter, click.Option):
            value = {"partitioner": "kafka.murmur2", "partitions": "3"}.get(parameter.name or "")
        assert value is not None, f"a new argument: say in VALUES what is hostile to it: {names}"
        if value == "FILE":
            takes_files, value = True, hostile
        elif value == "OUT":
            value = str(out)
        elif value == "URL":
            value = "http://u:p@127.0.0.1:1"
        elif value == "EXPRESSION":
            value = "a = "
        given += [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
    return given if takes_files else None


def start(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    options = {"stdin": subprocess.DEVNULL, **options}
    command = [sys.executable, "-m", "bridge.cli", *arguments]
    ended: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, cwd=ROOT, timeout=SECONDS, check=False, preexec_fn=bound, **options
    )
    return ended


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
    "bomb.json.gz": gzip.compress(bytes(600 << 20), 1),
    "cut.json.gz": gzip.compress(NAMES.encode())[:-9],
    "deep.json": ('{"queues":' + DEEP).encode(),
    "deep.toml": ("a = " + DEEP).encode(),
    "digits.json": ('{"queues":[{"name":' + "9" * 5000 + "}]}").encode(),
    "digits.bindings": ("queue q: x = " + "9" * 5000 + "\n").encode(),
    "huge.json": b'{"queues":[{"name":1e999}]}',
    "names.json": NAMES.encode("utf-8", "surrogatepass"),
    "loops.bindings": b"for a in 1..100000:\n  for b in 1..100000:\n    e -> q: x\n",
    "escape.json": b'{"hashstar":{"partitioned":{"/":{"q":"kafka.murmur2 over 3 by header \\"a\\\\q\\""}}}}',
    "url.toml": f'topology = "http://admin:{PASSWORD}#x@broker:15672/"\n[sources.a]\nurl = "amqp"\n'.encode(),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The name of each hostile input -> what stands for it on a command line."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, data in CONTENTS.items():
        (folder / name).write_bytes(data)
    (folder / "folder.bindings").mkdir()
    found = {name: str(folder / name) for name in CONTENTS}
    found["missing"] = str(folder / "missing")
    found["folder"] = str(folder / "folder.bindings")
    found["a name too long"] = str(folder / ("x" * 5000))
    found["a name to erase a line"] = str(folder / "\x1b[1A\n::error::forged")
    found["a name that is no UTF-8"] = os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")
    found["password with #"] = f"http://admin:{PASSWORD}#x@broker:15672/"
    found["password with ?"] = f"http://admin:{PASSWORD}?x@broker:15672/"
    found["password with /"] = f"http://admin:1/{PASSWORD}@broker:15672/"
    return found


FINE = {0, 1, 2}
"""Some of the input is fine for some commands: an empty .bindings file has no queues, and check says so."""
ENDS_WITH_2 = ["missing", "folder", "a name too long", "password with #", "password with ?", "password with /"]


@pytest.mark.parametrize("names", [names for names, command in COMMANDS.items() if arguments_of(command, "", Path())])
def test_hostile_input_ends_with_words(names: tuple[str, ...], hostile: dict[str, str], tmp_path: Path) -> None:
    def trial(case: tuple[str, str]) -> tuple[str, subprocess.CompletedProcess[bytes]]:
        what, value = case
        given = arguments_of(COMMANDS[names], value, tmp_path / f"out-{abs(hash(what))}.jsonl")
        assert given is not None
        return what, start([*names, *given], capture_output=True)

    with ThreadPoolExecutor(2) as pool:
        for what, ended in pool.map(trial, hostile.items()):
            said = (ended.stdout + ended.stderr).decode("utf-8", "backslashreplace")
            assert ended.returncode in FINE, (names, what, ended.returncode, said[-2000:])
            assert "Traceback" not in said, (names, what, said[-2000:])
            assert PASSWORD not in said, (names, what)
            assert not [line for line in said.splitlines() if line.lstrip().startswith("::")], (names, what, said)
            assert "\x1b" not in said, (names, what)
            if what in ENDS_WITH_2:
                assert ended.returncode == 2, (names, what, said)
                assert ended.stderr.strip(), (names, what)


SMALL = 'exchange e: topic\nqueue q\ne -> q: "a"\n'


@pytest.mark.parametrize("names", [
    ("check",), ("graph",), ("explain", "-t"), ("convert",), ("fmt", "--stdout"), ("partition", "--list"),
])  # fmt: skip
def test_an_output_that_takes_nothing_ends_with_words(names: tuple[str, ...], tmp_path: Path) -> None:
    """A disk that is full is told in one line; a reader that is gone has read enough."""
    file = tmp_path / "x.bindings"
    file.write_text(SMALL)
    arguments = [*names, *([] if "--list" in names else [str(file)]), *(["e", "a"] if "explain" in names else [])]
    with Path("/dev/full").open("wb") as full:
        ended = start(arguments, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [b"hashstar: [Errno 28] No space left on device"]
    reader, writer = socket.socketpair()
    reader.close()
    with writer:
        ended = start(arguments, stdout=writer.fileno(), stderr=subprocess.PIPE)
    assert b"Traceback" not in ended.stderr
    assert ended.returncode in FINE


def test_hostile_arguments_end_with_words(tmp_path: Path) -> None:
    file = tmp_path / "x.bindings"
    file.write_text(SMALL)
    explain = ["explain", "-t", str(file)]
    for arguments in (
        [*explain, "e", "a", "-H", f"x={DEEP}"],
        [*explain, "e", "a", "-P", f"x={'[' * 900}"],
        [*explain, "e", "a", "-H", f"x={'9' * 5000}"],
        [*explain, os.fsdecode(b"\xff"), "a"],
        ["check", str(file), f"http://admin:{PASSWORD}#x@h/"],
        ["apply", str(file), f"http://admin:{PASSWORD}#x@broker:15672/", "--dry-run"],
        ["apply", str(file), f"amqps://admin:{PASSWORD}@127.0.0.1:1/?ssl_options=x"],
        ["selector", "check", "(" * 50_000],
        ["selector", "check", "a = " + "9" * 5000],
        ["partition", "-p", "rabbitmq.consistent_hash(weight=0)", "-n", "3"],
        ["partition", "-p", "rocketmq.hash", "-n", "a:4", "--to", "lost=a"],
        ["partition", "-p", "kafka.murmur2", "-n", "2147483648"],
        ["partition", "-p", "kafka.murmur2", "-n", "3", "--to", "-1"],
        ["partition", "-p", "kafka.murmur2", "-n", "3", "--to", "4", "--seed", "1"],
    ):
        ended = start(arguments[: len(arguments)], capture_output=True)
        said = (ended.stdout + ended.stderr).decode("utf-8", "backslashreplace")
        assert ended.returncode == 2, (arguments[:3], arguments[-1][:40], said[-2000:])
        assert "Traceback" not in said, said[-2000:]
        assert PASSWORD not in said
