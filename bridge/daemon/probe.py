"""``hashstar bridge check``: the findings of each endpoint about its system, and a verdict.

No endpoint is opened, since an open source takes messages. Instead, `Endpoint.check` of all endpoints is called, all at
the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bridge.client_errors import explain
from bridge.daemon.config import Config, explain_no_pipeline
from bridge.daemon.keys import PIPELINES, REGISTRY
from bridge.daemon.reading.pipeline import DEAD_LETTERS
from bridge.endpoint import Endpoint, Finding, Level
from bridge.pump.policy import Policy
from exchange.errors import InputError
from exchange.text.display import count_noun, escape_line, hide_logins, list_some, read_first_line
from exchange.values.documents import document, encode_as

SECONDS: Final = 20.0
"""Maximum number of seconds for the check of an endpoint."""

GRACE: Final = 1.0
"""Seconds that a cancelled check may take to end; then it is left running."""

MAX_LISTED_PIPELINES: Final = 5
"""Maximum number of pipelines that the verdict names."""


class Checked(NamedTuple):
    """An endpoint, a pipeline or the file itself, with the findings about it."""

    table: str
    """Its table in the file, ``targets.kafka``, of several pipelines ``pipelines.orders.targets.kafka``; "" for the
    file itself."""
    endpoint: str
    """Its name in logs and metrics; "" for a pipeline or the file itself."""
    findings: Sequence[Finding]
    pipeline: str | None = None
    """The pipeline; absent for the file itself, what its pipelines share, and if it has only one."""

    @property
    def has_error(self) -> bool:
        """Whether one of the findings keeps the bridge from working."""
        return any(finding.level == "error" for finding in self.findings)


class CheckReport(NamedTuple):
    """The check of a bridge's configuration: all findings, in its order."""

    path: str
    """The file."""
    sources: int
    targets: int
    offline: bool
    """Whether only the file was checked."""
    checked: Sequence[Checked]
    pipelines: int | None = None
    """Number of pipelines; absent if the file has only one, without a name."""

    @property
    def ready(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def not_checked(self) -> int:
        """Number of findings about what was not checked, and why."""
        return self._count("not checked")

    @property
    def errors(self) -> int:
        """Number of findings that keep the bridge from working."""
        return self._count("error")

    @property
    def warnings(self) -> int:
        """Number of findings that do not keep the bridge from working, but will become a problem."""
        return self._count("warning")

    def _count(self, level: Level) -> int:
        return sum(finding.level == level for each in self.checked for finding in each.findings)


def choose_pipeline(config: Config, name: str) -> Config:
    """Return a configuration of several pipelines with one of them, and the warnings about it. Raises InputError."""
    names = [each.name for each in config.pipelines]
    if name not in names:
        raise InputError(f"{config.path}: {explain_no_pipeline(name, names)}")
    [chosen] = [each for each in config.pipelines if each.name == name]
    tables = (f"{PIPELINES.name}.{name}.", *([f"{DEAD_LETTERS}."] if chosen.shares_dead_letters else []))
    own = tuple([each for each in config.warnings if f"{each.table}.".startswith(tables)])
    return replace(config, pipelines=(chosen,), warnings=own)


async def check(config: Config, *, offline: bool = False, seconds: float = SECONDS) -> CheckReport:
    """Check a configuration: the file alone and, unless offline, each endpoint, for at most ``seconds``."""
    sharing = [part for part in config.parts if part.shares_dead_letters]
    letters = sharing[0].dead_letters if sharing else None
    endpoints: list[tuple[str, Endpoint]] = [] if letters is None else [(DEAD_LETTERS, letters)]
    endpoints += [each for part in config.parts for each in _endpoints_by_table(part)]
    tables = dict.fromkeys([table for table, _ in endpoints])
    pipelines = {f"{PIPELINES.name}.{part.name}": part.name for part in config.pipelines}
    results: Sequence[Sequence[Finding]] = [[Finding("not checked", "its system: --offline")]] * len(endpoints)
    if not offline:
        results = await asyncio.gather(*[_check_endpoint(endpoint, seconds) for _, endpoint in endpoints])
    known: dict[str, list[Finding]] = {table: [] for table in ("", *pipelines, *tables)}
    for warned in config.warnings:
        # A warning about a table within an endpoint's table, such as its policy, belongs to the endpoint.
        # The name of an endpoint may itself have dots, so the longest of them is the right one.
        around = [each for each in known if each and f"{warned.table}.".startswith(f"{each}.")]
        table = max(around, key=len, default="")
        known[table].append(Finding("warning", warned.text, warned.key))
    alike = len({part.policy.max_dead_letters for part in sharing}) == 1
    policies = [each for part in config.parts for each in _policies_by_table(part, alike=alike)]
    for table, policy in {(table, policy.max_dead_letters): (table, policy) for table, policy in policies}.values():
        if policy.max_dead_letters < 1:
            text = (
                f"messages wait when more than {policy.max_dead_letters:.0%} of a source's latest messages for one "
                "queue, and more than ten, would become dead letters"
            )
            known[table].append(Finding("ok", text))
        else:
            text = "1 lets all messages become dead letters, if a wrong limit of a broker refuses them; write a share"
            known[table].append(Finding("warning", text, "max_dead_letters"))
    checked = [Checked("", "", known[""])] if known[""] else []
    last = ""
    for (table, endpoint), findings in zip(endpoints, results, strict=True):
        own = next((each for each in pipelines if table.startswith(f"{each}.")), "")
        if own != last and known[own]:
            checked.append(Checked(own, "", known[own], pipelines[own]))
        last = own
        hidden = [each._replace(text=escape_line(hide_logins(each.text))) for each in findings]
        checked.append(Checked(table, endpoint.name, [*known.pop(table, ()), *hidden], pipelines.get(own)))
    targets = sum([len({*part.targets.values()}) for part in config.parts])
    return CheckReport(
        config.path, sum([len(part.inlets) for part in config.parts]), targets, offline, checked, len(pipelines) or None
    )


def _endpoints_by_table(config: Config) -> Iterator[tuple[str, Endpoint]]:
    """Yield all endpoints with the table of the file that each is made of; a table may make two."""
    before = _begin_table(config)
    for inlet in config.inlets:
        name = inlet.source.name
        yield before + (name if inlet.replies_of is not None else f"sources.{name}"), inlet.source
        if (callers := config.replies.callers.get(name)) is not None:
            yield f"{before}sources.{name}", callers.target
    for target in dict.fromkeys(config.targets.values()):
        yield f"{before}targets.{target.name}", target
    if config.registry is not None:
        yield before + REGISTRY.name, config.registry
    if config.dead_letters is not None and not config.shares_dead_letters:
        yield before + DEAD_LETTERS, config.dead_letters


def _begin_table(config: Config) -> str:
    """Return what the tables of a pipeline begin with."""
    return f"{PIPELINES.name}.{config.name}." if config.name else ""


def _policies_by_table(config: Config, *, alike: bool) -> Iterator[tuple[str, Policy]]:
    """Yield the policy for dead letters with the table that it is about: the general one, and others of sources.

    ``alike``: all pipelines that share dead letters have the same one, which is about their table.
    """
    if config.dead_letters is not None:
        shared = DEAD_LETTERS if alike else f"{PIPELINES.name}.{config.name}"
        yield shared if config.shares_dead_letters else _begin_table(config) + DEAD_LETTERS, config.policy
        for inlet in config.inlets:
            own = inlet.policy
            if own is not None and own.max_dead_letters != config.policy.max_dead_letters:
                yield f"{_begin_table(config)}sources.{inlet.source.name}", own


async def _check_endpoint(endpoint: Endpoint, seconds: float) -> Sequence[Finding]:
    """Return the findings of an endpoint; any exception, or no answer in time, is an error finding."""
    checking = asyncio.ensure_future(endpoint.check())
    await asyncio.wait([checking], timeout=seconds)
    if not checking.done():
        checking.cancel()
        await asyncio.wait([checking], timeout=GRACE)
        return [Finding("error", f"no answer in {seconds:g} s")]
    try:
        return checking.result() or [Finding("not checked", "its system: this kind of endpoint has no check")]
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  the error is a finding
        text = read_first_line(str(error)) or type(error).__name__
        return [Finding("error", explain(text.removeprefix(f"{endpoint.name}: ")))]


def format_report(report: CheckReport) -> Iterator[str]:
    """Yield the lines of the report for people: the findings by endpoint, then the verdict."""
    for each in report.checked:
        yield f"[{each.table}]" if each.table else report.path
        for finding in each.findings:
            where = f"[{each.table}] " if each.table else ""
            key = f"{where}{finding.key}: " if finding.key else where
            text = finding.text if finding.level in ("ok", "not checked") else key + finding.text
            yield f"  {finding.level:11}  {text}"
    yield format_verdict(report)


def format_verdict(report: CheckReport) -> str:
    """Return the last line: whether the bridge can run, with counts."""
    warnings = [count_noun(report.warnings, "warning")] if report.warnings else []
    if report.not_checked and not report.offline:
        warnings.append(f"{report.not_checked} not checked")
    if report.errors:
        wrong = dict.fromkeys([each.pipeline for each in report.checked if each.pipeline and each.has_error])
        where = f" (in {list_some([*wrong], MAX_LISTED_PIPELINES)})" if wrong else ""
        return f"not ready: {', '.join([count_noun(report.errors, 'error') + where, *warnings])}"
    pipelines = [count_noun(report.pipelines, "pipeline")] if report.pipelines else []
    counts = [*pipelines, count_noun(report.sources, "source"), count_noun(report.targets, "target"), *warnings]
    state = "the file is right, and nothing was connected to" if report.offline else "ready to run"
    return f"{state}: {', '.join(counts)}"


@document(
    "FindingJson", "checked.pipeline if any, checked.table, checked.endpoint, finding.level, finding.text, finding.key"
)
class LocatedFinding(NamedTuple):
    """A finding about a bridge."""

    checked: Checked
    finding: Finding


def _findings(report: CheckReport) -> list[LocatedFinding]:
    return [LocatedFinding(each, finding) for each in report.checked for finding in each.findings]


document(
    "CheckJson",
    "version = 1, config = path, offline, ready, pipelines if any, sources, targets, errors, warnings, not_checked, "
    "findings",
    findings=_findings,
)(CheckReport)


def encode_report(report: CheckReport) -> Any:
    """Return the report as a JSON object; docs/bridge.md describes it."""
    return encode_as(CheckReport, report)
