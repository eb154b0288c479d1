"""What audits write and print, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bindings.commands.audit_options import Outputs
from bindings.commands.messages import fail
from bindings.sources.files import make_folders, replacing
from exchange.commands.console import echo_error
from exchange.errors import HashstarError, InputError

if TYPE_CHECKING:
    from bindings.counts.tally import Tally
    from bindings.report.model import Report

__all__ = ["failing", "need_arrow", "progress", "put_out", "write_out"]


@contextmanager
def failing() -> Iterator[None]:
    """End with 1 for too many bad records, with 2 for all other errors that are the user's to mend."""
    try:
        yield
    except HashstarError as error:
        if type(error).__name__ == "TooManyBad":
            echo_error(error)
            sys.exit(1)
        fail(error)


def need_arrow() -> None:
    """Raise InputError if what every audit needs is not installed."""
    try:
        import numpy  # noqa: F401, ICN001
        import pyarrow  # noqa: F401, ICN001
    except ImportError as error:
        raise InputError(f"an audit needs {error.name}: pip install 'hashstar[spark]'") from None


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal that goes when it is done; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("starting", total=None)

        def step(done: int, of: int) -> None:
            progress.update(bar, completed=done, total=of or None, description="auditing" if of else "starting")

        yield step


def put_out(report: Report, tally: Tally, outputs: Outputs) -> None:
    """Write what is to be written, then print what is to be printed. Raises InputError."""
    write_out(report, tally, outputs)
    _print(report, outputs.form, whole=outputs.whole)


def write_out(report: Report, tally: Tally, outputs: Outputs) -> None:
    """Write what is to be written. Raises InputError."""
    from bindings.counts.tally_file import save_tally

    if outputs.save_tally is not None:
        _make_folder(outputs.save_tally)
        save_tally(tally, outputs.save_tally)
    if outputs.html is not None:
        from bindings.report.forms.html import html

        _write(outputs.html, html(report))
    if outputs.json is not None:
        from bindings.report.forms.as_json import written

        _write(outputs.json, written(report))
    if outputs.junit is not None:
        from bindings.report.forms.junit import junit

        _write(outputs.junit, junit(report))
    if outputs.tables is not None:
        from bindings.report.forms.tables import write_tables

        write_tables(report, outputs.tables)


def _make_folder(path: Path) -> None:
    try:
        make_folders(path.parent)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _write(path: Path, data: bytes) -> None:
    _make_folder(path)
    try:
        with replacing(path.resolve()) as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _print(report: Report, form: str, *, whole: bool) -> None:
    if form == "text":
        from bindings.report.forms.terminal import LISTED, show

        show(report, sys.maxsize if whole else LISTED)
        return
    from bindings.report.forms import as_json, junit, markdown

    forms: dict[str, Callable[[Report], bytes]] = {
        "json": as_json.written,
        "junit": junit.junit,
        "markdown": lambda report: _lines(markdown.markdown(report)),
        "total": lambda report: _lines(markdown.total(report)),
    }
    sys.stdout.buffer.write(forms[form](report).rstrip(b"\n") + b"\n")
    sys.stdout.flush()


def _lines(lines: Iterable[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "backslashreplace")
