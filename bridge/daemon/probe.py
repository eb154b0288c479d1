"""``hashstar bridge check``: what each endpoint finds out about its system from outside, and a verdict.

Nothing is opened here, as opening a source takes messages: endpoints look by `Endpoint.check`, all at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bridge.daemon.config import DEAD_LETTERS, Config
from bridge.endpoint import Endpoint, Finding
from bridge.table import hide_logins

__all__ = ["Checked", "Report", "as_object", "as_text", "check"]

SECONDS: Final = 20.0
"""How long an endpoint may look."""

GRACE: Final = 1.0
"""How long it may take to end when that time is over; then it is left behind."""

VERSION: Final = 1
"""Of the JSON object."""


class Checked(NamedTuple):
    """An endpoint, or the file itself, and what was found about it."""

    table: str
    """Its table in the file, ``targets.kafka``; "" for the file itself."""
    endpoint: str
    """Its name in logs and metrics; "" for the file itself."""
    findings: Sequence[Finding]


class Report(NamedTuple):
    """All findings of a check, in the order of the configuration."""

    path: str
    sources: int
    targets: int
    offline: bool
    checked: Sequence[Checked]

    @property
    def errors(self) -> int:
        """Number of findings that keep the bridge from working."""
        return sum(finding.level == "error" for each in self.checked for finding in each.findings)

    @property
    def warnings(self) -> int:
        """Number of findings that will cost something one day."""
        return sum(finding.level == "warning" for each in self.checked for finding in each.findings)


async def check(config: Config, *, offline: bool = False, seconds: float = SECONDS) -> Report:
    """Return what the file alone shows and, unless offline, what each endpoint finds within that time."""
    tables: dict[str, Endpoint] = {f"sources.{inlet.source.name}": inlet.source for inlet in config.inlets}
    tables |= {f"targets.{target.name}": target for target in dict.fromkeys(config.targets.values())}
    if config.dead_letters is not None:
        tables[DEAD_LETTERS] = config.dead_letters
    looked: Sequence[Sequence[Finding]] = [()] * len(tables)
    if not offline:
        looked = await asyncio.gather(*[_look(endpoint, seconds) for endpoint in tables.values()])
    known: dict[str, list[Finding]] = {"": [], **{table: [] for table in tables}}
    for warned in config.warnings:
        # A policy's table is a part of its source's.
        table = next((each for each in tables if f"{warned.table}.".startswith(f"{each}.")), "")
        known[table].append(Finding("warning", warned.text, warned.key))
    checked = [Checked("", "", known[""])] if known[""] else []
    for (table, endpoint), findings in zip(tables.items(), looked, strict=True):
        hidden = [each._replace(text=hide_logins(each.text)) for each in findings]
        checked.append(Checked(table, endpoint.name, [*known[table], *hidden]))
    return Report(config.path, len(config.inlets), len({*config.targets.values()}), offline, checked)


async def _look(endpoint: Endpoint, seconds: float) -> Sequence[Finding]:
    """Return what an endpoint finds; whatever it raises, and that it does not answer, is an error finding."""
    looking = asyncio.ensure_future(endpoint.check())
    await asyncio.wait([looking], timeout=seconds)
    if not looking.done():
        looking.cancel()
        await asyncio.wait([looking], timeout=GRACE)
        return [Finding("error", f"no answer in {seconds:g} s")]
    try:
        return looking.result()
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  it is what was found
        words = str(error) or type(error).__name__
        return [Finding("error", words.removeprefix(f"{endpoint.name}: "))]


def as_text(report: Report) -> Iterator[str]:
    """Yield lines for people: what was found by endpoint, then the verdict."""
    for each in report.checked:
        yield f"[{each.table}]" if each.table else report.path
        for finding in each.findings:
            where = f"[{each.table}] " if each.table else ""
            key = f"{where}{finding.key}: " if finding.key else where if finding.level != "ok" else ""
            yield f"  {finding.level:7}  {finding.text if finding.level == 'ok' else key + finding.text}"
        if not each.findings:
            yield "  not looked at" if report.offline else "  nothing to find"
    yield verdict(report)


def verdict(report: Report) -> str:
    """Return the last line: whether the bridge can run."""
    warnings = _count(report.warnings, "warning")
    if report.errors:
        wrong = [_count(report.errors, "error"), *([warnings] if report.warnings else [])]
        return f"not ready: {', '.join(wrong)}"
    parts = [
        _count(report.sources, "source"),
        _count(report.targets, "target"),
        *([warnings] if report.warnings else []),
    ]
    state = "the file is right, and nothing was connected to" if report.offline else "ready to run"
    return f"{state}: {', '.join(parts)}"


def as_object(report: Report) -> dict[str, Any]:
    """Return the report as a JSON object; docs/bridge.md describes it."""
    return {
        "version": VERSION,
        "config": report.path,
        "offline": report.offline,
        "ready": not report.errors,
        "sources": report.sources,
        "targets": report.targets,
        "errors": report.errors,
        "warnings": report.warnings,
        "findings": [
            {"table": each.table, "endpoint": each.endpoint, **finding._asdict()}
            for each in report.checked
            for finding in each.findings
        ],
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
