"""``hashstar bridge check``: the findings of each endpoint about its system, and a verdict.

No endpoint is opened, since an open source takes messages. Instead, `Endpoint.check` of all endpoints is called, all at
the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from bridge.client_errors import explain
from bridge.daemon.config import DEAD_LETTERS, Config
from bridge.endpoint import Endpoint, Finding, Level
from bridge.pump.policy import Policy
from exchange.text.display import count_noun, hide_logins
from exchange.values.documents import document, encode_as

SECONDS: Final = 20.0
"""Maximum number of seconds for the check of an endpoint."""

GRACE: Final = 1.0
"""Seconds that a cancelled check may take to end; then it is left running."""


class Checked(NamedTuple):
    """An endpoint, or the file itself, with the findings about it."""

    table: str
    """Its table in the file, ``targets.kafka``; "" for the file itself."""
    endpoint: str
    """Its name in logs and metrics; "" for the file itself."""
    findings: Sequence[Finding]


class CheckReport(NamedTuple):
    """The check of a bridge's configuration: all findings, in its order."""

    path: str
    """The file."""
    sources: int
    targets: int
    offline: bool
    """Whether only the file was checked."""
    checked: Sequence[Checked]

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


async def check(config: Config, *, offline: bool = False, seconds: float = SECONDS) -> CheckReport:
    """Check a configuration: the file alone and, unless offline, each endpoint, for at most ``seconds``."""
    endpoints = list(_endpoints_by_table(config))
    tables = dict.fromkeys([table for table, _ in endpoints])
    results: Sequence[Sequence[Finding]] = [[Finding("not checked", "its system: --offline")]] * len(endpoints)
    if not offline:
        results = await asyncio.gather(*[_check_endpoint(endpoint, seconds) for _, endpoint in endpoints])
    known: dict[str, list[Finding]] = {"": [], **{table: [] for table in tables}}
    for warned in config.warnings:
        # A warning about a table within an endpoint's table, such as its policy, belongs to the endpoint.
        # The name of an endpoint may itself have dots, so the longest of them is the right one.
        around = [each for each in tables if f"{warned.table}.".startswith(f"{each}.")]
        table = max(around, key=len, default="")
        known[table].append(Finding("warning", warned.text, warned.key))
    for table, policy in _policies_by_table(config):
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
    for (table, endpoint), findings in zip(endpoints, results, strict=True):
        hidden = [each._replace(text=hide_logins(each.text)) for each in findings]
        checked.append(Checked(table, endpoint.name, [*known.pop(table, ()), *hidden]))
    return CheckReport(config.path, len(config.inlets), len({*config.targets.values()}), offline, checked)


def _endpoints_by_table(config: Config) -> Iterator[tuple[str, Endpoint]]:
    """Yield all endpoints with the table of the file that each is made of; a table may make two."""
    for inlet in config.inlets:
        name = inlet.source.name
        yield (name if inlet.replies_of is not None else f"sources.{name}"), inlet.source
        if (callers := config.replies.callers.get(name)) is not None:
            yield f"sources.{name}", callers.target
    for target in dict.fromkeys(config.targets.values()):
        yield f"targets.{target.name}", target
    if config.dead_letters is not None:
        yield DEAD_LETTERS, config.dead_letters


def _policies_by_table(config: Config) -> Iterator[tuple[str, Policy]]:
    """Yield the policy for dead letters with the table that it is about: the general one, and others of sources."""
    if config.dead_letters is not None:
        yield DEAD_LETTERS, config.policy
        for inlet in config.inlets:
            own = inlet.policy
            if own is not None and own.max_dead_letters != config.policy.max_dead_letters:
                yield f"sources.{inlet.source.name}", own


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
        text = str(error) or type(error).__name__
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
        return f"not ready: {', '.join([count_noun(report.errors, 'error'), *warnings])}"
    counts = [count_noun(report.sources, "source"), count_noun(report.targets, "target"), *warnings]
    state = "the file is right, and nothing was connected to" if report.offline else "ready to run"
    return f"{state}: {', '.join(counts)}"


@document("FindingJson", "checked.table, checked.endpoint, finding.level, finding.text, finding.key")
class LocatedFinding(NamedTuple):
    """A finding about a bridge."""

    checked: Checked
    finding: Finding


def _findings(report: CheckReport) -> list[LocatedFinding]:
    return [LocatedFinding(each, finding) for each in report.checked for finding in each.findings]


def _version(_: CheckReport) -> Literal[1]:
    return 1


document(
    "CheckJson",
    "version, config = path, offline, ready, sources, targets, errors, warnings, not_checked, findings",
    version=_version,
    findings=_findings,
)(CheckReport)


def encode_report(report: CheckReport) -> Any:
    """Return the report as a JSON object; docs/bridge.md describes it."""
    return encode_as(CheckReport, report)
