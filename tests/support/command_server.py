"""Run commands of ``hashstar``, in processes of their own, without starting a Python for each.

The server imports the program once and forks for every request: a child has its own descriptors, folder, environment,
limits and exit code, as a command of the shell has. To start a Python and import the program takes about a second of a
processor; a fork takes some 20 milliseconds, so many small commands share one. A command that ends its process ends
only itself: the next ones have another. Requests and answers are lines of JSON; descriptors come through a socket.

A file of Python is run likewise, with all that is ours imported anew: what it uses and does not import is not there.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import math
import os
import pkgutil
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

from tests.support.waiting import find_limit

ROOT = Path(__file__).parents[2]
MEMORY = 6 << 30
"""Maximum address space of a command whose input is hostile, in bytes."""
PACKAGES = ("exchange", "bindings", "bridge")
PYTHON = "python"
"""The first argument of a command that runs a file of Python, which is the second."""
Main = Callable[[list[str]], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, negative for a signal, and what it printed."""

    code: int
    out: str
    err: str


class CommandServer:
    """A process that runs commands, until ``close``."""

    def __init__(self) -> None:
        self._descriptors, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.command_server", str(theirs.fileno())],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def run(self, arguments: Sequence[str], memory: int | None = None) -> Ended:
        """Run one command to its end, without input, and with this process's environment and umask."""
        return self.run_each([(arguments, os.devnull)], memory)[0]

    def run_with(self, arguments: Sequence[str], descriptors: tuple[int, int, int]) -> int:
        """Run one command with these as its standard input, output and error output, and return its exit code."""
        socket.send_fds(self._descriptors, [b"3"], descriptors)
        return self.run_each([(arguments, None)])[0].code

    def run_file(self, path: Path, *arguments: str) -> Ended:
        """Run a file as ``python -W error`` does."""
        return self.run([PYTHON, str(path), *arguments])

    def run_each(self, commands: Sequence[tuple[Sequence[str], str | None]], memory: int | None = None) -> list[Ended]:
        """Run commands one after the other, each with a file as its standard input.

        One that takes longer than all that a test waits for ends with -SIGALRM.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mask = os.umask(0o077)
        os.umask(mask)
        rest = math.ceil(find_limit()), memory, mask, dict(os.environ)
        print(json.dumps([commands, *rest]), file=self._process.stdin, flush=True)
        return [Ended(*each) for each in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._descriptors.close()


@cache
def command_server() -> CommandServer:
    """Return the server that all tests of this process share."""
    server = CommandServer()
    atexit.register(server.close)
    return server


def serve() -> None:
    """Answer requests until there are none."""
    descriptors = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # while all is imported, which stays
    main = importlib.import_module("bridge.cli").main
    for package in PACKAGES:  # imported before the fork, so that no child has to
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if module.name.rpartition(".")[2] not in {"pytest_plugin", "__main__"} and not {"spark", "adapters"} & {
                *module.name.split(".")
            }:
                importlib.import_module(module.name)
    for module_name in (
        "mcp.server",
        "bindings.auditing.spark.streaming",
        "bridge.daemon.config",
        "aiormq",
        "encodings.idna",
    ):
        with suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(module_name)
    _make_parsers()
    with suppress(ImportError):
        importlib.import_module("pyarrow").array([])  # imports pandas, if that is installed
    gc.collect()
    gc.freeze()  # else each child's first collection copies the pages of all that was imported
    gc.enable()
    for line in sys.stdin:
        commands, *rest = json.loads(line)
        given = socket.recv_fds(descriptors, 1, 3)[1] if commands[0][1] is None else []
        ended: list[tuple[int, str, str]] = []
        while len(ended) < len(commands):
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as codes:
                child = os.fork()
                if child == 0:
                    _run_each(main, commands[len(ended) :], given, out, err, codes, *rest)
                _, status = os.waitpid(child, 0)
                codes.seek(0)
                ended += map(tuple, map(json.loads, codes))
                if len(ended) < len(commands):
                    ended.append((os.waitstatus_to_exitcode(status), _take(out), _take(err)))
        for descriptor in given:
            os.close(descriptor)
        print(json.dumps(ended), flush=True)


def _make_parsers() -> None:
    """Have Lark compile the grammars of most commands, which otherwise each child does anew."""
    with tempfile.NamedTemporaryFile("w", suffix=".bindings") as file:
        file.write('exchange e: topic\nqueue q: partitioned kafka.murmur2 over 3\ne -> q: "a.*"\n')
        file.flush()
        importlib.import_module("bindings").load(file.name)
    importlib.import_module("exchange.selector").Selector.parse("a = 1")


def _take(file: IO[bytes]) -> str:
    """Return what was written to a file, and empty it."""
    file.seek(0)
    text = file.read().decode("utf-8", "backslashreplace")
    file.seek(0)
    file.truncate()
    return text


def _run_each(
    main: Main, commands: list[tuple[list[str], str]], given: list[int], out: IO[bytes], err: IO[bytes],
    codes: IO[bytes], seconds: int, memory: int | None, mask: int, environment: dict[str, str],
) -> NoReturn:  # fmt: skip
    """Run the commands in this process, and end it."""
    try:
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        os.umask(mask)
        os.environ.clear()
        os.environ.update(environment)
        for arguments, stdin in commands:
            opened = given or [os.open(stdin, os.O_RDONLY), out.fileno(), err.fileno()]
            for number, descriptor in enumerate(opened):
                os.dup2(descriptor, number)
            os.close(opened[0])
            signal.alarm(seconds)
            code = _run(_run_file if arguments[:1] == [PYTHON] else main, arguments)
            codes.write(json.dumps([code, _take(out), _take(err)]).encode() + b"\n")
            codes.flush()
    finally:
        os._exit(0)


def _run_file(arguments: list[str]) -> None:
    """Run a file as a program to which every warning is an error, and which has imported nothing of ours."""
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    for name in ("COLUMNS", "LINES"):  # which pytest-xdist sets, and no terminal
        os.environ.pop(name, None)
    warnings.simplefilter("error")
    sys.argv = arguments[1:]
    runpy.run_path(arguments[1], run_name="__main__")
    gc.collect()  # what is not closed warns when it is found


def _run(main: Main, arguments: list[str]) -> int:
    """Run a command and return the exit code that the interpreter would end with after ``main``."""
    code: object = 1
    try:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        main(arguments)
        code = 0
    except SystemExit as leave:
        code = leave.code
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return 0 if code is None else code if isinstance(code, int) else 1


if __name__ == "__main__":
    serve()
