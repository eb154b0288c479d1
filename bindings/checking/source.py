"""Check all topologies of a source, a file or a broker, and find the lines of what the findings are about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Final

from bindings.checking.baseline import BaselineRun
from bindings.checking.check import find_all, list_findings
from bindings.checking.lines import with_lines
from bindings.checking.report import SourceReport, VhostFindings
from bindings.checking.rules import tasks
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import RULES
from bindings.sources.applications.celery import read_app
from bindings.sources.definitions.import_warnings import FILE_CODES, FILE_ONLY, NOT_READ, SourceWarning
from bindings.sources.open import Source
from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.profile import Profile
from exchange.topology.topology import Topology
from exchange.topology.unread import format_not_proved

POSITION: Final = re.compile(r"(?<=\bline )[0-9]+|(?<=[a-z]\[)[0-9]+(?=\])")
"""The parts of a warning's text that change when something else in the file does: ``line 4``, ``queues[3]``."""


def check_source(
    source: Source,
    *,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    codes: Container[object] = RULES,
    optional: Iterable[str] = (),
    known: BaselineRun | None = None,
    file: str = "",
    progress: Callable[[Topology], None] = lambda topology: None,
    app: object = None,
) -> SourceReport:
    """Return the findings about a source: about one virtual host, or about all.

    ``profile`` names the RabbitMQ release whose rules apply; None for that of the source. Findings whose codes are not
    in ``codes`` are left out; ``optional`` are the codes of optional rules to apply as well. Those of ``file``, as the
    user names it, that are ``known`` are only counted; of the others the report lists the first of each kind (see
    `bindings.checking.check.check`). ``progress`` is called with each topology before it is checked. ``app`` is a
    Celery app: the ways of its tasks through each topology are checked, too. Those of a source that is an app always
    are.

    Raises InputError if there is no such virtual host, or if a definitions file cannot be read a second time, to find
    the lines.
    """
    names = source.vhosts if vhost is None else (source.topology(vhost).vhost,)
    checked: list[VhostFindings] = []
    subtracted = 0
    for name in names:
        topology = source.topology(name, profile)
        progress(topology)
        application = source.application if app is None else read_app(app, topology)
        filled_in = frozenset() if application is None else application.filled_in
        found = find_all(topology, source.expectations(name), optional=optional, filled_in=filled_in)
        # Those about parts of the file go with the file, where they have lines.
        findings = [each for each in found if each.code != NOT_READ or each.part is not None]
        if not checked:  # findings about the whole file go with the first virtual host
            findings = [*_file_findings(source, topology.profile), *findings]
        if application is not None:
            findings += tasks.find(application)
        findings = [finding for finding in findings if finding.code in codes]
        kept = findings if known is None else known.subtract(file, name, findings)
        subtracted += len(findings) - len(kept)
        tally = Counter(finding.code for finding in kept)
        checked.append(VhostFindings(name, list_findings(kept, topology), tally))
    chosen_by = source.chosen_by if profile is None else None
    caveat = topology.profile.caveat or None
    found_lines = with_lines(source, {of.vhost: of.findings for of in checked})
    vhosts = [of._replace(findings=found_lines[of.vhost]) for of in checked]
    return SourceReport(source.name, vhosts, topology.profile.name, chosen_by, source.path, caveat, subtracted)


def _file_findings(source: Source, profile: Profile) -> Iterator[Finding]:
    """Yield the warnings of reading the source, except those about parts that the rules find themselves."""
    for warning in source.warnings_under(profile):
        if warning.unread is not None:
            if not source.allows_unread:
                message = f"{warning.text}; {format_not_proved(source.unread)}"
                yield Finding(NOT_READ, None, message, line=warning.line, detail=POSITION.sub("", warning.text))
        elif warning.code in FILE_CODES or not _has(source, warning):
            code = warning.code if warning.code in FILE_CODES else FILE_ONLY
            yield Finding(code, None, warning.text, line=warning.line, detail=POSITION.sub("", warning.text))


def _has(source: Source, warning: SourceWarning) -> bool:
    """Return whether the topology has the part of a warning: of several parts with one name, it has only one."""
    topology, part = source.topology(warning.vhost), warning.part
    if isinstance(part, Exchange):
        return topology.exchanges.get(part.name) == part
    if isinstance(part, Policy):
        return topology.policies.get(part.name) == part
    if isinstance(part, Queue) and part.name in topology.queues:  # definitions hold its partitioning in another section
        return replace(topology.queues[part.name], partitioning=None) == replace(part, partitioning=None)
    return False
