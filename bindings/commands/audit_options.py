"""The options that several of the audit commands share, and what is done with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bindings.archive.times import to_microseconds
from bindings.report.forms import FORMS
from bindings.sources.files import open_file, save_form
from exchange.commands.options import RENAMED, ReportOption, allow_unread_option, redirect
from exchange.commands.output import choose_form, form_option, print_form
from exchange.errors import InputError
from exchange.text.numbers import explain_empty_range

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive
    from bindings.counts.tally import Tally
    from bindings.report.model import Report
    from bindings.report.thresholds import Settings


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The options for thresholds."""

    settings_file: Path | None
    stale_days: int | None
    allow_unread: bool
    limits: Mapping[str, str]
    """Name of a threshold -> the value of its option, for those that were given."""

    def settings(self) -> Settings:
        """Return the settings of the file, overridden by the other options. Raises InputError."""
        from bindings.report.settings import find_settings, load_settings, read_option
        from bindings.report.thresholds import Settings

        path = self.settings_file or find_settings(Path())
        settings = Settings() if path is None else load_settings(path)
        limits = settings.limits._replace(**{name: read_option(name, text) for name, text in self.limits.items()})
        days = settings.stale_days if self.stale_days is None else self.stale_days
        return replace(settings, limits=limits, stale_days=days)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The options for the forms of a report, and for its counts."""

    form: str
    """The form that is printed."""
    whole: bool
    """Whether lists are printed in full."""
    save_tally: Path | None
    files: Mapping[str, Path]
    """Name of a form -> the file or folder that it is written to."""

    def write(self, report: Report, tally: Tally) -> None:
        """Write the files that were asked for. Raises InputError."""
        if self.save_tally is not None:
            from bindings.counts.tally_file import save_tally

            save_tally(tally, self.save_tally)
        for form, path in self.files.items():
            save_form(FORMS[form], report, path=path, with_folders=True)

    def print(self, report: Report) -> None:
        """Print the report."""
        print_form(FORMS[self.form], report, whole=self.whole)


def refuse_outputs_in(archives: Iterable[Archive]) -> None:
    """Raise InputError if a file that the running command writes would replace one of an archive."""
    there = {os.path.realpath(path): path for path in _list_outputs() if Path(path).exists()}
    if not there:  # an archive may have a million files
        return
    for archive in archives:
        for file, _ in archive.all_files:
            if type(file) is str and (path := there.get(os.path.realpath(file))) is not None:
                raise InputError(f"{path}: is a file of the archive, too; give another file")


def refuse_outputs_within(archive: str) -> None:
    """Raise InputError if a file that the running command writes would be one of an archive that is read on."""
    from bindings.archive.formats.detect import refuse_within

    for path in _list_outputs():
        refuse_within(Path(path), [archive], "reports and tallies")


def _list_outputs() -> list[str]:
    context = click.get_current_context()
    options = [option.name or "" for option in context.command.params if isinstance(option, ReportOption)]
    return [path for path in map(context.params.get, options) if path is not None]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options for Spark, or to count in this process."""

    master: str | None
    remote: str | None
    conf: tuple[str, ...]
    no_spark: bool

    @property
    def asked(self) -> str:
        """Which option asks for Spark; "" if none does. Raises UsageError if others ask to do without it."""
        names = {"--master": self.master, "--remote": self.remote, "--conf": self.conf}
        name = next((name for name, value in names.items() if value), "")
        if name and self.no_spark:
            raise click.UsageError(f"{name} is for Spark, and --no-spark does without it")
        return name

    def check(self, jobs: int | None = None, cache: str | None = None) -> None:
        """Raise UsageError for options that do not go together, InputError for a setting that is none."""
        if self.asked and (jobs is not None or cache is not None):
            why = "which uses no --cache" if jobs is None else "and --jobs does without it"
            raise click.UsageError(f"{self.asked} is for Spark, {why}")
        self.settings  # noqa: B018  the property checks them

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Spark, by name. Raises InputError."""
        settings = {}
        for text in self.conf:
            name, equals, value = text.partition("=")
            if not equals:
                raise InputError(f"--conf: a setting of Spark such as spark.driver.memory=4g, not {text!r}")
            settings[name.strip()] = value.strip()
        return settings


def _gather(
    name: str, options: Mapping[str, Callable[[Any], Any]], make: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options to a command, which gets their values as one argument, ``name``.

    ``options`` maps a parameter of ``make`` to its option; ``make`` returns the argument.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(**values: Any) -> None:
            values[name] = make(**{option: values.pop(option) for option in options})
            command(**values)

        decorated: Callable[..., None] = call
        for option in reversed([*options.values()]):
            decorated = option(decorated)
        return decorated

    return add


def _make_thresholds(
    settings_file: Path | None, stale_days: int | None, allow_unread: bool, **limits: str | None
) -> Thresholds:
    given = {name: text for name, text in limits.items() if text is not None}
    return Thresholds(settings_file, stale_days, allow_unread, given)


def _make_outputs(
    form: str | None, json: str | None, whole: bool, save_tally: Path | None, **files: Path | None
) -> Outputs:
    if json:
        files["json"] = Path(json)
    form = choose_form(FORMS, form, as_json=json == PRINTED)
    return Outputs(form, whole, save_tally, {name: path for name, path in files.items() if path is not None})


class _JsonOption(click.Option):
    """``--json``, short for ``--format json``; until the next release also ``--json FILE``, which writes a file.

    What follows is a FILE if its name ends with .json, and it is not there yet or has a report; else it is an argument.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)

        def process(value: Any, state: Any) -> None:
            is_given = isinstance(value, str)
            is_file = is_given and _may_be_report(value)
            if is_given and not is_file:
                state.largs.append(value)
            if is_file:
                note = (
                    f"--json {value} is --format json --output {value} now; the old form works until the next release"
                )
                ctx.meta.setdefault(RENAMED, []).append(note)
            state.opts[self.name] = value if is_file else PRINTED
            state.order.append(self)

        redirect(self, parser, process)


def _may_be_report(name: str) -> bool:
    if not name.endswith(".json"):
        return False
    try:
        with open_file(name) as file:
            return file.read(64).lstrip().startswith(b'{"version"') or not file.read(1)
    except FileNotFoundError:
        return True
    except OSError:
        return False


PRINTED: Final = ""
"""Value of --json where the report is printed."""
PATH: Final = click.Path(path_type=Path)
LIMITS: Final = {
    "fail_under": ("PERCENT", "Minimum binding coverage: bindings hit, of those that can be."),
    "fail_under_messages": ("PERCENT", "Minimum message coverage: messages that reach a queue."),
    "max_unroutable": ("N", "Maximum number or share of unroutable messages: 100, or 0.5%."),
}
"""Threshold that has an option -> what the help calls its value, and the help."""

spark_options = _gather(
    "where",
    {
        "master": click.option(
            "--master", metavar="URL", help="Count by Spark, with this master: local[*] or spark://HOST:7077."
        ),
        "remote": click.option("--remote", metavar="URL", help="Count by a server of Spark Connect, sc://HOST:15002."),
        "conf": click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", help="Setting of Spark, as for spark-submit; repeatable."
        ),
        "no_spark": click.option(
            "--no-spark",
            is_flag=True,
            help="Count without Spark, whatever the archive's size.  [default: below 32 GiB]",
        ),
    },
    SparkOptions,
)
threshold_options = _gather(
    "thresholds",
    {
        "settings_file": click.option(
            "--settings",
            "settings_file",
            type=PATH,
            metavar="FILE",
            help="Thresholds and ignored bindings.  [default: [audit] of ./hashstar.toml, else [tool.hashstar.audit] "
            "of ./pyproject.toml]",
        ),
        **{
            name: click.option(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
            for name, (metavar, text) in LIMITS.items()
        },
        "stale_days": click.option(
            "--stale-days",
            type=click.IntRange(1),
            metavar="N",
            help="Days without a message after which a binding is stale.  [default: 30]",
        ),
        "allow_unread": allow_unread_option,
    },
    _make_thresholds,
)
output_options = _gather(
    "outputs",
    {
        "form": form_option(FORMS),
        "json": click.option(
            "--json", cls=_JsonOption, is_flag=False, flag_value=PRINTED, metavar="", help="Short for --format json."
        ),
        "whole": click.option("--all", "whole", is_flag=True, help="Print lists in full, not their first rows only."),
        **{
            name: click.option(
                f"--{name}", cls=ReportOption, type=PATH, metavar="DIR" if form.is_folder else "FILE", help=form.option
            )
            for name, form in FORMS.items()
            if form.option and name != "json"
        },
        "save_tally": click.option(
            "--save-tally",
            cls=ReportOption,
            type=PATH,
            metavar="FILE",
            help="Save the counts, for hashstar audit merge.",
        ),
    },
    _make_outputs,
)


def parse_window(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Return the times of ``--since`` and ``--until``. Raises InputError, also if no time is between them."""
    window = _parse_time("--since", since), _parse_time("--until", until)
    if (problem := explain_empty_range(*window, "--since")) is not None:
        raise InputError(f"--until: {problem}")
    return window


def _parse_time(option: str, text: str | None) -> int | None:
    """Return an ISO date or time as microseconds since 1970; it is in UTC unless it names a zone. Raises InputError."""
    if text is None:
        return None
    try:
        return to_microseconds(datetime.fromisoformat(text))
    except ValueError:
        raise InputError(f"{option}: a time such as 2026-11-21 or 2026-11-21T09:30:00Z, not {text!r}") from None
