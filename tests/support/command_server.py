"""Run commands of ``hashstar``, each in a process of its own, without starting a Python for each.

The server imports the program once and forks for every command: a child has its own descriptors, folder, environment,
limits and exit code, as a command of the shell has. To start a Python and import the program takes about a second of a
processor; a fork takes some milliseconds. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
SECONDS = 120
"""Maximum duration of a command, in seconds by the clock; past it the child ends with -SIGALRM."""
MEMORY = 6 << 30
"""Maximum address space of a command whose input is hostile, in bytes."""
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
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.command_server"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(
        self, arguments: Sequence[str], stdin: str = os.devnull, folder: Path = ROOT, memory: int | None = None
    ) -> Ended:
        """Run one command to its end, with a file as its standard input, and this process's environment and umask."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mask = os.umask(0o077)
        os.umask(mask)
        request = [list(arguments), stdin, str(folder), memory, mask, dict(os.environ)]
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return Ended(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@cache
def command_server() -> CommandServer:
    """Return the server that all tests of this process share."""
    server = CommandServer()
    atexit.register(server.close)
    return server


def serve() -> None:
    """Answer requests until there are none."""
    main = importlib.import_module("bridge.cli").main
    for package in ("exchange", "bindings", "bridge"):  # imported before the fork, so that no child has to
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if module.name.rpartition(".")[2] not in {"pytest_plugin", "__main__"} and not {"spark", "adapters"} & {
                *module.name.split(".")
            }:
                importlib.import_module(module.name)
    for module_name in (
        "mcp.server",
        "bindings.audit.spark.streaming",
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
    for line in sys.stdin:
        arguments, *rest = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _run(main, arguments, out.fileno(), err.fileno(), *rest)
            _, status = os.waitpid(child, 0)
            printed = []
            for file in (out, err):
                file.seek(0)
                printed.append(file.read().decode("utf-8", "backslashreplace"))
        print(json.dumps([os.waitstatus_to_exitcode(status), *printed]), flush=True)


def _make_parsers() -> None:
    """Have Lark compile the grammars of most commands, which otherwise each child does anew."""
    with tempfile.NamedTemporaryFile("w", suffix=".bindings") as file:
        file.write('exchange e: topic\nqueue q: partitioned kafka.murmur2 over 3\ne -> q: "a.*"\n')
        file.flush()
        importlib.import_module("bindings").load(file.name)
    importlib.import_module("exchange.selector").Selector.parse("a = 1")


def _run(
    main: Main, arguments: list[str], out: int, err: int, stdin: str, folder: str, memory: int | None, mask: int,
    environment: dict[str, str],
) -> NoReturn:  # fmt: skip
    """Run the command in this process, and end it as the interpreter would after ``main``."""
    code: object = 1
    try:
        signal.alarm(SECONDS)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        os.umask(mask)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        for number, descriptor in enumerate((os.open(stdin, os.O_RDONLY), out, err)):
            os.dup2(descriptor, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        main(arguments)
        code = 0
    except SystemExit as leave:
        code = leave.code
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if code is None else code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve()
