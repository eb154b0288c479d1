"""Run the program in the process of the test, which saves its start."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner, Result

from bridge.cli import hashstar, main


class Done(NamedTuple):
    """The exit code of the program and its output."""

    returncode: object
    stdout: str
    stderr: str


def run_program(*arguments: str, given: str = "") -> Done:
    """Run the program with this standard input; what it lets through is raised."""
    code: object = 0
    stdout, stderr = io.BytesIO(), io.BytesIO()
    out, err = io.TextIOWrapper(stdout, "utf-8"), io.TextIOWrapper(stderr, "utf-8")
    with patch("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode()))), redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as leave:
            code = leave.code
    out.flush()
    err.flush()
    return Done(code, stdout.getvalue().decode(), stderr.getvalue().decode())


def invoke(*arguments: object, given: str | None = None) -> Result:
    """Run a command of the program, with this standard input; what it raises is raised."""
    return CliRunner().invoke(hashstar, [*map(str, arguments)], input=given, catch_exceptions=False)
