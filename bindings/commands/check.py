"""``hashstar check``: what is wrong with topologies, for people, programs and CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import click

from bindings.checking.baseline import Baseline
from bindings.checking.forms import FORMS
from bindings.checking.forms.text import explain_rule, format_baseline
from bindings.checking.report import CheckResult
from bindings.checking.rules.table import NEVER, SEVERITIES, Severity
from bindings.checking.run import check_sources
from bindings.checking.selection import CodeSelection, find_rules
from bindings.fix.fix import FailedFile, NotFixable, diff_lines, fix_files, format_fixes, save_fixed
from bindings.sources.applications.open import import_celery
from bindings.sources.files import save_form
from exchange.commands.completion import SOURCE
from exchange.commands.console import echo_error, echo_line, echo_lines, exit_on_error, fail, show_status, show_warnings
from exchange.commands.options import (
    STDOUT,
    accept_old_name,
    allow_unread_option,
    command,
    read_timeout,
    timeout_option,
    topology_option,
)
from exchange.commands.output import OutputOption, form_options, print_form
from exchange.commands.release import profile_option
from exchange.errors import InputError

ROOTS: Final = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Environment variables with which GitHub and GitLab name the root of the repository in a job."""
WITH_STATISTICS: Final = ("text", "json")
"""Forms that have statistics."""


def _explain(context: click.Context, parameter: click.Parameter, code: str | None) -> None:
    if code is None or context.resilient_parsing:
        return
    try:
        rules = find_rules(code)
    except InputError as error:
        fail(error)
    click.echo("\n\n".join(map(explain_rule, rules)))
    context.exit()


@command(
    "check", example="hashstar check shop.bindings", needs={"--dry-run": "--fix", "--write-baseline": "--baseline"}
)
@form_options(FORMS)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Report these codes or prefixes only, such as HS1,HS205."
)
@click.option(
    "--ignore", multiple=True, metavar="CODES",
    help="Do not report these; of --select and --ignore the longer prefix wins.",
)  # fmt: skip
@click.option(
    "--fail-on", type=click.Choice([*SEVERITIES, NEVER]), default="error", show_default=True,
    help="Lowest severity that makes the exit code 1; never: none.",
)  # fmt: skip
@click.option("--vhost", help="Check this virtual host only.")
@profile_option()
@click.option(
    "--explain", metavar="CODE", callback=_explain, is_eager=True, expose_value=False,
    help="Print the meaning of CODE, or of all codes with a prefix, and exit.",
)  # fmt: skip
@click.option(
    "--baseline", metavar="FILE", help="Do not report the findings that FILE records, wherever their lines are now."
)
@click.option("--write-baseline", is_flag=True, help="Record all findings in the file of --baseline, and report none.")
@click.option(
    "--fix", is_flag=True, help="Remove from the files what decides nothing, if it is proved that no route changes."
)
@click.option("--dry-run", is_flag=True, help="With --fix: print what would change, and change nothing.")
@accept_old_name("--diff", "--fix=", "--dry-run=", flag=True)
@click.option(
    "--tasks", "app_name", metavar="PACKAGE.MODULE:APP",
    help="Check also that the tasks of this Celery app get to their queues in each topology. Imports the app.",
)  # fmt: skip
@click.option(
    "--output",
    "-o",
    cls=OutputOption,
    metavar="FILE",
    help="Write the output format to FILE, and print the findings as text.",
)  # fmt: skip
@accept_old_name("--output-file", "--output")
@click.option("--statistics", is_flag=True, help="Print the number of findings of each code, in text in place of them.")
@allow_unread_option
@timeout_option
@topology_option
@click.argument("sources", type=SOURCE, metavar="TOPOLOGY...", nargs=-1, required=True)
def check_command(
    form: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: Severity | Literal["never"],
    vhost: str | None,
    profile: str | None,
    baseline: str | None,
    write_baseline: bool,
    fix: bool,
    dry_run: bool,
    app_name: str | None,
    output: str | None,
    statistics: bool,
    allow_unread: bool,
    sources: tuple[str, ...],
) -> None:
    """Find mistakes in topologies.

    Errors are wrong for sure, warnings most likely, notes are worth knowing. HS205 (unroutable keys) is checked only
    when it is named: --select HS,HS205.

    TOPOLOGY is a .bindings file, whose expectations are checked, too, definitions.json (also gzipped), another format
    that hashstar convert reads, - for standard input, or a live broker, http://HOST:15672[/VHOST]. Of a folder, all
    topologies below it are checked. celery:PACKAGE.MODULE:APP and faststream:PACKAGE.MODULE:BROKER import an
    application.

    --fix removes from files what is proved to be needless: duplicate, covered and impossible bindings, and unreachable
    exchanges. The rest stays, with the reason.

    Exit codes, over all files: 0 no finding at or above --fail-on; 1 such a finding, or with --fix --dry-run a file to
    fix; 2 bad usage, or a file that cannot be read.
    """
    if dry_run and (form != "text" or output is not None or statistics or write_baseline):
        raise click.UsageError(
            "--fix --dry-run prints a patch: omit --format, --output, --statistics, --write-baseline"
        )
    if statistics and form not in WITH_STATISTICS:
        raise click.UsageError(f"--statistics is printed by --format {' and '.join(WITH_STATISTICS)} only")
    with exit_on_error():
        selection = CodeSelection(select, ignore)
        if dry_run:
            sys.exit(_show_fixes(sources, selection, vhost, profile))
        if fix:
            _fix(sources, selection, vhost, profile)
    with exit_on_error(), show_status("reading ...") as show:
        result = check_sources(
            sources,
            selection,
            vhost=vhost,
            profile=profile,
            baseline=None if baseline is None else Baseline.open(baseline, may_be_new=write_baseline),
            record=write_baseline,
            seconds=read_timeout(),
            show=show,
            app=None if app_name is None else import_celery(app_name),
            allow_unread=allow_unread,
        )
    result = result._replace(fail_on=fail_on, statistics=statistics, root=_find_root(os.environ))
    for report in result.reports:
        if report.caveat and profile is None:  # else the option has shown it
            show_warnings(report.name, [report.caveat])
    output = None if output == STDOUT else output
    if output is not None:
        with exit_on_error():
            save_form(FORMS[form], result, path=Path(output))
    if result.reports or result.several:
        print_form(FORMS[form if output is None else "text"], result)
    _report_to_user(result, write_baseline)
    sys.exit(result.exit_code)


def _show_fixes(sources: Sequence[str], selection: CodeSelection, vhost: str | None, profile: str | None) -> int:
    """Print what would be fixed as unified diffs, which can be applied, and return the exit code."""
    code = 0
    with show_status("reading ...") as show:
        for outcome in fix_files(sources, selection, vhost=vhost, profile=profile, show=show):
            show("")
            if isinstance(outcome, FailedFile):
                if not outcome.passed_over:
                    echo_error(outcome.error)
                    code = max(code, outcome.error.exit_code)
                continue
            code = max(code, int(outcome.before != outcome.after))
            for line in diff_lines(outcome):
                if sys.stdout.isatty():
                    echo_line(line.removesuffix("\n"))
                else:
                    sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()
            echo_lines(format_fixes(outcome.name, outcome.left), err=True)
    return code


def _fix(sources: Sequence[str], selection: CodeSelection, vhost: str | None, profile: str | None) -> None:
    """Fix files, and print what was fixed and what was not.

    Raises InputError for a file that cannot be written, or is not to be fixed; the check reports what cannot be read.
    """
    with show_status("reading ...") as show:
        for outcome in fix_files(sources, selection, vhost=vhost, profile=profile, show=show):
            show("")
            if isinstance(outcome, FailedFile):
                if isinstance(outcome.error, NotFixable) and not outcome.passed_over:
                    raise outcome.error
                continue
            save_fixed(outcome)
            echo_lines(format_fixes(outcome.name, [*outcome.done, *outcome.left]), err=True)


def _report_to_user(result: CheckResult, written: bool) -> None:
    """Print to standard error what was not checked, and what became of the baseline."""
    for _, error in result.errors:
        echo_error(error)
    echo_lines(format_baseline(result, written), err=True)


def _find_root(environment: Mapping[str, str]) -> Path:
    """Return the folder to which code hosts want paths to be relative: the one that CI names, if we are in it."""
    here = Path.cwd()
    named = (Path(environment[name]) for name in ROOTS if environment.get(name))
    return next((root for root in named if here.is_relative_to(root)), here)
