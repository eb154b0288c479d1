"""The output of commands: in which form, to which file. --format, --json and --output are defined once, and here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from io import TextIOWrapper
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

import click

from exchange.commands.console import Failed, fail, is_quiet
from exchange.commands.options import STDOUT, ReportOption
from exchange.errors import InputError
from exchange.files.replacing import replace_file
from exchange.text.display import suggest
from exchange.values.forms import Form, Forms, Screen, find_by_suffix

Function = TypeVar("Function", bound=Callable[..., Any])

COLOUR: Final = "hashstar.color"
"""Key of the click context that has the value of --color."""
KEPT: Final = (None, 0, 1)
"""Exit codes of commands whose output is whole, unless an error ends them: such as more bad records than --max-bad."""
USUAL_MODE: Final = 0o666
"""Mode of a new file with the output of a command, which the umask narrows, as for the files of a shell."""


class OutputOption(ReportOption):
    """An option with the file that gets the output of a command, unless a form is named in that of its suffix."""


class FormType(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """The type of an option that names a form; what is misspelt is answered with the name that it may mean."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name if there is such a form; else end the command."""
        if value not in self.choices:
            names = ", ".join(map(repr, self.choices))
            self.fail(f"{value!r} is not one of {names}{suggest(value, self.choices)}", param, ctx)
        return value


def form_option(forms: Forms) -> Callable[[Function], Function]:
    """Return the option --format of a command with these forms, with --color if one of them is coloured."""
    names = [name for name, form in forms.items() if form.is_printed]
    default = "by --output's suffix, else " if any(form.suffixes for form in forms.values()) else ""
    help_text = f"Output format.  [default: {default}{names[0]}]"
    option = click.option("--format", "form", type=FormType(names), help=help_text)
    if not any(form.is_coloured for form in forms.values()):
        return option
    return lambda function: option(_color_option(function))


_color_option: Final = click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True, expose_value=False,
    callback=lambda context, _, value: context.meta.update({COLOUR: value}),
    help="Colours: auto is on terminals, unless NO_COLOR is set; FORCE_COLOR has them elsewhere, too.",
)  # fmt: skip


def choose_form(forms: Forms, name: str | None, *, as_json: bool = False, any_suffix: bool = True) -> str:
    """Return the form that a user wants: that of --format or --json, else of the suffix of --output, else the first.

    Raises UsageError if --json contradicts --format; and unless ``any_suffix``, ends the command for a suffix that no
    form has.
    """
    if as_json and name not in (None, "json"):
        raise click.UsageError(f"--json is --format json, and not --format {name}")
    if as_json or name is not None:
        return name or "json"
    context = click.get_current_context()
    path = PurePath(_find_output(context))
    found = None if str(path) == STDOUT else find_by_suffix(forms, path)
    if found is None and str(path) != STDOUT and not any_suffix:
        suffixes = ", ".join([each for form in forms.values() for each in form.suffixes if each])
        fail(InputError(
            f"{path}: no form has the suffix {path.suffix}: there are {suffixes}; --format {'|'.join(forms)} writes "
            "that form, whatever the suffix"
        ))  # fmt: skip
    return found or next(iter(forms))


def form_options(forms: Forms, *, any_suffix: bool = True) -> Callable[[Function], Function]:
    """Add --format, and --json for --format json; the command gets ``form``, as `choose_form` returns it."""

    def add(function: Function) -> Function:
        @wraps(function)
        def call(*arguments: Any, form: str | None, as_json: bool = False, **values: Any) -> Any:
            chosen = choose_form(forms, form, as_json=as_json, any_suffix=any_suffix)
            return function(*arguments, form=chosen, **values)

        json_option = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
        made: Any = form_option(forms)(json_option(call) if "json" in forms else call)
        return made  # type: ignore[no-any-return]

    return add


def print_form(form: Form, *result: Any, whole: bool = False, err: bool = False, **more: Any) -> None:
    """Print a result in a form, in UTF-8, whatever the terminal's encoding; to standard error if notes are wanted.

    Forms for people are as wide as the terminal, in colours if `--color` says so, and shorten lists unless ``whole``.
    """
    if err and is_quiet():
        return
    stream = sys.stderr if err else sys.stdout
    is_coloured = form.is_coloured and _wants_colour(stream)
    screen = Screen(shutil.get_terminal_size((Screen().width, 24)).columns, is_coloured, whole)
    data = form.encode(*result, screen=screen, **more)
    stream.flush()
    stream.buffer.write(data if data.endswith(b"\n") or not data else data + b"\n")
    stream.flush()


def _wants_colour(stream: Any) -> bool:
    """Return whether what is printed has colours: as --color says, else the environment, else on terminals."""
    context = click.get_current_context(silent=True)
    asked = None if context is None else context.meta.get(COLOUR)
    if asked in ("always", "never"):
        return bool(asked == "always")
    if os.environ.get("NO_COLOR"):
        return False
    is_forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
    return bool(stream.isatty()) or (is_forced and (context is None or _find_output(context) == STDOUT))


def _find_output(context: click.Context) -> str:
    """Return the file that a command writes to."""
    name = next((each.name or "" for each in context.command.params if isinstance(each, OutputOption)), "")
    return str(context.params.get(name) or STDOUT)


def output_option(function: Function) -> Function:
    """Add --output: what the command prints goes to a file, which appears or is replaced when all is written."""

    @wraps(function)
    def call(*arguments: Any, output: str | None, **values: Any) -> Any:
        if output is None or output == STDOUT:
            return function(*arguments, **values)
        with _written_to(Path(output)):
            return function(*arguments, **values)

    made: Any = click.option(
        "--output", "-o", cls=OutputOption, metavar="FILE",
        help="Write to FILE instead of standard output.",
    )(call)  # fmt: skip
    return made  # type: ignore[no-any-return]


@contextmanager
def _written_to(path: Path) -> Iterator[None]:
    """Send standard output to a file, which is kept unless an exception or an error ends the command."""
    leaving = None
    try:
        with (
            replace_file(path, mode=USUAL_MODE) as raw,
            TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n") as file,
        ):
            try:
                with redirect_stdout(file):
                    yield
            except SystemExit as exit_:
                if isinstance(exit_, Failed) or exit_.code not in KEPT:
                    raise
                leaving = exit_
    except OSError as error:
        fail(InputError(f"{path}: cannot be written: {error.strerror or error}"))
    if leaving is not None:
        raise leaving
