"""``hashstar check``: what is wrong with a topology, as text, JSON or SARIF."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from bindings.check.forms.as_json import to_json
from bindings.check.forms.sarif import to_sarif
from bindings.check.forms.text import to_text
from bindings.check.report import Report
from bindings.check.rules.finding import RULES, SEVERITIES, Rule, Severity
from bindings.check.source import check_source
from bindings.sources.management import is_address
from bindings.sources.open import Source, open_source
from exchange.commands.console import exit_on_error, fail, seconds_to_answer, status, timeout_option
from exchange.commands.route import profile_option
from exchange.errors import InputError

__all__ = ["check_command"]

Write: TypeAlias = Callable[[Report, str], Iterator[str]]


def _json_lines(value: Any) -> Iterator[str]:
    yield json.dumps(value, ensure_ascii=False, indent=1)


FORMATS: Final[dict[str, Write]] = {
    "text": lambda report, uri: to_text(report),
    "json": lambda report, uri: _json_lines(to_json(report)),
    "sarif": lambda report, uri: _json_lines(to_sarif(report, uri)),
}


def _explain(context: click.Context, parameter: click.Parameter, code: str | None) -> None:
    if code is None or context.resilient_parsing:
        return
    rules = [rule for rule in RULES.values() if rule.code.startswith(code.upper())]
    if not rules:
        fail(InputError(_unknown_code(code)))
    click.echo("\n\n".join(map(_explanation, rules)))
    context.exit()


@click.command("check")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True,
              help="Output format.")  # fmt: skip
@click.option(
    "--select", multiple=True, metavar="CODES", help="Report these codes or prefixes only, such as HS1,HS205."
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODES",
    help="Do not report these; of --select and --ignore the longer prefix wins.",
)
@click.option(
    "--fail-on",
    type=click.Choice(list(SEVERITIES)),
    default="error",
    show_default=True,
    help="Lowest severity that makes the exit code 1.",
)
@click.option("--vhost", help="Check this virtual host only.")
@profile_option()
@click.option(
    "--explain",
    metavar="CODE",
    callback=_explain,
    is_eager=True,
    expose_value=False,
    help="Print the meaning of CODE, or of all codes with a prefix, and exit.",
)
@timeout_option
@click.argument("source", metavar="TOPOLOGY")
def check_command(
    form: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: Severity,
    vhost: str | None,
    profile: str | None,
    source: str,
) -> None:
    """Find mistakes in a topology.

    Errors are wrong for sure, warnings most likely, notes are worth knowing.

    TOPOLOGY is a .bindings file, definitions.json (also gzipped), - for standard input, or a live broker's management
    API, http://HOST:15672[/VHOST]. The expectations of a .bindings file are checked, too.

    HS205 (unroutable keys), which many sound topologies have, is checked only when --select names it in full:
    --select HS,HS205 adds it to the others. --explain HS lists all codes.

    Exit codes: 0 no finding at or above --fail-on; 1 such a finding; 2 bad usage or input.
    """
    with exit_on_error(), status("reading ...") as show:
        selection = Selection(_read_codes(select), _read_codes(ignore))
        opened = open_source(source, vhost, seconds=seconds_to_answer())
        report = check_source(
            opened,
            vhost=vhost,
            profile=profile,
            codes=selection,
            optional=selection.optional,
            progress=lambda topology: show(f"checking {len(topology.bindings):,} bindings of '{topology.vhost}' ..."),
        )
    out = sys.stdout.buffer
    for line in FORMATS[form](report, _uri(opened)):
        out.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    out.flush()
    counts = report.counts
    sys.exit(1 if any(counts[severity] for severity in SEVERITIES[SEVERITIES.index(fail_on) :]) else 0)


class Selection:
    """The codes to report: those with a longer prefix in ``select`` than in ``ignore``."""

    def __init__(self, select: Sequence[str], ignore: Sequence[str]) -> None:
        self._select = select or ("HS",)
        self._ignore = ignore

    @property
    def optional(self) -> list[str]:
        """The selected codes of optional rules, which must be named in full."""
        return [code for code, rule in RULES.items() if rule.optional and code in self._select]

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and _longest(self._select, code) > _longest(self._ignore, code)


def _longest(prefixes: Sequence[str], code: str) -> int:
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=0)


def _read_codes(given: Sequence[str]) -> list[str]:
    codes = [code.strip().upper() for text in given for code in text.split(",") if code.strip()]
    for code in codes:
        if not any(known.startswith(code) for known in RULES):
            raise InputError(_unknown_code(code))
    return codes


def _unknown_code(code: str) -> str:
    return f"no code begins with {code!r}; hashstar check --explain HS lists them all"


def _explanation(rule: Rule) -> str:
    text = f"{rule.code} {rule.name} ({rule.severity})\n  {rule.meaning}\n  way out: {rule.way_out}"
    return f"{text}\n  looked for only with --select {rule.code}" if rule.optional else text


def _uri(opened: Source) -> str:
    """Return what SARIF calls the source: a path relative to the current directory where it is below that."""
    if opened.path is None:
        return opened.name if is_address(opened.name) else "stdin"
    path, here = Path(opened.path), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
