"""``python -m tests.support.core_only``: print all commands, made with nothing but what `hashstar` requires.

As a build of the package makes them for their man pages: other packages than click and lark are refused. With an
argument, standard input has command lines as JSON: each is run likewise, and answered with its exit code and errors.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import click

PERMITTED: Final = {"exchange", "bindings", "bridge", "click", "lark"}


class _Refusing(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in PERMITTED and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def list_commands(command: click.Command, name: str) -> Iterator[str]:
    """Yield the names of a command's own commands, each with those before it, and make them all."""
    if not isinstance(command, click.Group):
        yield name
        return
    with click.Context(command) as context:
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from list_commands(below, f"{name} {each}")


def run_command(main: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> tuple[object, str]:
    """Return the exit code of a command, and what it has written to standard error."""
    code: object = 0
    with redirect_stderr(io.StringIO()) as errors:
        try:
            main(arguments)
        except SystemExit as leave:
            code = leave.code
    return code, errors.getvalue()


if __name__ == "__main__":
    sys.meta_path.insert(0, _Refusing())
    from bridge.cli import hashstar, main

    if len(sys.argv) > 1:
        print(json.dumps([run_command(main, each) for each in json.load(sys.stdin)]))
    else:
        print("\n".join(list_commands(hashstar, "hashstar")))
