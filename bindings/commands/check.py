"""``hashstar check``: what is wrong with a topology, for people, for programs and for code hosts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from bindings.check.check import check, in_order
from bindings.check.finding import RULES, SEVERITIES, Finding, Part, Rule, Severity
from bindings.check.forms.as_json import to_json
from bindings.check.forms.sarif import to_sarif
from bindings.check.forms.text import text
from bindings.check.lines import lines
from bindings.check.report import Report, VhostFindings
from bindings.commands.messages import fail, show_status
from bindings.sources.definitions import Definitions
from bindings.sources.files import content, decoded
from bindings.sources.import_warnings import of_part
from bindings.sources.management import is_address
from bindings.sources.open import STDIN, Source, open_source
from exchange.commands.console import seconds_to_answer, timeout_option
from exchange.commands.route import profile_option
from exchange.errors import HashstarError, InputError
from exchange.topology.topology import Topology

__all__ = ["check_command"]

Write: TypeAlias = Callable[[Report, str], Iterator[str]]


def _json_lines(value: Any) -> Iterator[str]:
    yield json.dumps(value, ensure_ascii=False, indent=1)


FORMATS: Final[dict[str, Write]] = {
    "text": lambda report, uri: text(report),
    "json": lambda report, uri: _json_lines(to_json(report)),
    "sarif": lambda report, uri: _json_lines(to_sarif(report, uri)),
}


def _explain(context: click.Context, parameter: click.Parameter, code: str | None) -> None:
    if code is None or context.resilient_parsing:
        return
    rules = [rule for rule in RULES.values() if rule.code.startswith(code.upper())]
    if not rules:
        fail(InputError(_unknown(code)))
    click.echo("\n\n".join(map(_explained, rules)))
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
    try:
        selection = Selection(_codes(select), _codes(ignore))
        show_status("reading ...")
        given = open_source(source, vhost, seconds=seconds_to_answer())
        vhosts = given.vhosts if vhost is None else (given.topology(vhost).vhost,)
        found: list[VhostFindings] = []
        for name in vhosts:
            topology = given.topology(name, profile)
            show_status(f"checking {len(topology.bindings):,} bindings of '{name}' ...")
            findings = check(topology, given.expectations(name), optional=selection.optional)
            if not found:
                findings = in_order([*_of_file(given), *findings])
            found.append(VhostFindings(name, [finding for finding in findings if finding.code in selection]))
        chosen_by = given.chosen_by if profile is None else None
        report = Report(given.name, _with_lines(given, source, found), topology.profile.name, chosen_by)
    except HashstarError as error:
        fail(error)
    finally:
        show_status("")
    out = sys.stdout.buffer
    for line in FORMATS[form](report, _uri(given.name, source)):
        out.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    out.flush()
    counts = report.counts
    sys.exit(1 if any(counts[severity] for severity in SEVERITIES[SEVERITIES.index(fail_on) :]) else 0)


class Selection:
    """Which codes are asked for: those with a longer beginning in ``select`` than in ``ignore``."""

    def __init__(self, select: Sequence[str], ignore: Sequence[str]) -> None:
        self._select = select or ("HS",)
        self._ignore = ignore

    @property
    def optional(self) -> list[str]:
        """The optional ones, which must be named in full."""
        return [code for code, rule in RULES.items() if rule.optional and code in self._select]

    def __contains__(self, code: str) -> bool:
        return _longest(self._select, code) > _longest(self._ignore, code)


def _longest(beginnings: Sequence[str], code: str) -> int:
    return max((len(beginning) for beginning in beginnings if code.startswith(beginning)), default=0)


def _codes(given: Sequence[str]) -> list[str]:
    codes = [code.strip().upper() for text in given for code in text.split(",") if code.strip()]
    for code in codes:
        if not any(known.startswith(code) for known in RULES):
            raise InputError(_unknown(code))
    return codes


def _unknown(code: str) -> str:
    return f"no code begins with {code!r}; hashstar check --explain HS lists them all"


def _explained(rule: Rule) -> str:
    told = f"{rule.code} {rule.name} ({rule.severity})\n  {rule.says}\n  way out: {rule.way_out}"
    return f"{told}\n  looked for only with --select {rule.code}" if rule.optional else told


def _of_file(given: Source) -> Iterator[Finding]:
    """What reading the source warned of, but for what the check finds itself."""
    warnings = given.warnings
    known = {told for vhost in given.vhosts for told in _of_parts(given.topology(vhost))} if warnings else set()
    for warning in warnings:
        if not any(warning.endswith(told) for told in known):
            place = re.match(r"line (\d+)", warning)
            yield Finding("HS901", None, warning, line=int(place[1]) if place else None)


def _of_parts(topology: Topology) -> Iterator[str]:
    for parts in (topology.exchanges, topology.queues, topology.policies):
        for part in parts.values():
            yield from of_part(part)


def _with_lines(given: Source, source: str, found: Sequence[VhostFindings]) -> list[VhostFindings]:
    """The same findings, each with its line if that can be found out."""
    wanted = {(vhost, f.part) for vhost, findings in found for f in findings if f.part is not None}
    known: dict[tuple[str, Part], int | None] = {}
    if isinstance(given.content, Definitions):
        if wanted and source != STDIN and not is_address(source):
            known |= lines(decoded(content(source), given.name), wanted, given.content.default_vhost)
    else:
        known |= {(vhost, part): given.line_of(vhost, part) for vhost, part in wanted}

    def placed(vhost: str, finding: Finding) -> Finding:
        if finding.part is None or finding.line is not None:
            return finding
        return replace(finding, line=known.get((vhost, finding.part)))

    return [VhostFindings(vhost, [placed(vhost, finding) for finding in findings]) for vhost, findings in found]


def _uri(name: str, source: str) -> str:
    if source == STDIN:
        return "stdin"
    if is_address(source):
        return name
    path = Path(source)
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
