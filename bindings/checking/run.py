"""Check many sources: files, folders, standard input, brokers. One that cannot be read does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bindings.checking.baseline import Baseline, BaselineRun
from bindings.checking.report import BaselineUse, CheckResult, SourceError, SourceReport
from bindings.checking.selection import CodeSelection
from bindings.checking.source import check_source
from bindings.sources.open import open_source
from bindings.sources.tree import SkippedFile, TopologyFile, asks_for_several, find_files, find_reason_to_skip
from exchange.entities.profile import Profile
from exchange.errors import HashstarError, InputError
from exchange.limits import ANSWER_SECONDS
from exchange.text.display import count_noun, hide_logins
from exchange.topology.topology import Topology

Show = Callable[[str], None]


def check_sources(
    names: Sequence[str],
    selection: CodeSelection,
    *,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    baseline: Baseline | None = None,
    record: bool = False,
    seconds: float = ANSWER_SECONDS,
    show: Show = lambda text: None,
    app: object = None,
    allow_unread: bool = False,
) -> CheckResult:
    """Return the findings about all sources that ``names`` stand for; see `bindings.sources.tree.find_files`.

    ``selection``, ``vhost`` and ``profile`` hold for each source, as in `check_source`; ``seconds`` for each answer of
    a broker. ``show`` is called with the text of what is being done. A source that cannot be read is an error of the
    result, and so is a folder without any topology. Files below a folder that are no topologies, or that do not have
    the virtual host, are skipped. ``app`` is a Celery app, as in `check_source`. With ``allow_unread``, parts of a
    source that were not read are no findings.

    Findings that ``baseline`` has are not reported, and among several files its own is left out. With ``record``, no
    finding is reported, and the baseline is written anew with all of them, unless there are errors. Raises InputError
    if a pattern matches no file, or the baseline cannot be written.
    """
    show("looking for files ...")
    several = asks_for_several(names)
    own = Path(baseline.name).absolute() if baseline is not None and several else None
    files = [file for file in find_files(names) if Path(file.name).absolute() != own]
    applied = selection.applied
    known = None if baseline is None else BaselineRun(baseline, applied, vhost, record=record)
    check = _Check(selection, applied, vhost, profile, known, seconds, show, app, allow_unread)
    reports: list[SourceReport] = []
    errors: list[SourceError] = []
    skipped: list[SkippedFile] = []
    for file in files:
        try:
            outcome = file if isinstance(file, SkippedFile) else check.check_file(file)
        except HashstarError as error:
            errors.append(SourceError(hide_logins(file.name), error))
        else:
            if isinstance(outcome, SkippedFile):
                skipped.append(outcome)
            else:
                reports.append(outcome)
    read = {*(report.name for report in reports), *(error.name for error in errors)}
    productive = {file.folder for file in files if isinstance(file, TopologyFile) and file.name in read}
    errors += _missing_topologies([name for name in names if Path(name).is_dir() and name not in productive], vhost)
    use = None
    if baseline is not None and known is not None:
        written = record and not errors
        if written:
            known.recorded().save()
        use = BaselineUse(baseline.name, sum(report.known for report in reports), [] if written else known.find_gone())
    return CheckResult(reports, errors, skipped, several, applied, baseline=use)


@dataclass(frozen=True, slots=True)
class _Check:
    """What is asked of each file."""

    selection: CodeSelection
    codes: Collection[str]
    vhost: str | None
    profile: Profile | str | None
    known: BaselineRun | None
    seconds: float
    show: Show
    app: object
    allow_unread: bool

    def check_file(self, file: TopologyFile) -> SourceReport | SkippedFile:
        """Return the report about a file, or why it is skipped. Raises HashstarError if it cannot be read."""
        self.show(f"reading {hide_logins(file.name)} ...")
        if file.folder is not None:
            reason = find_reason_to_skip(file.name)
            if reason is not None:
                return SkippedFile(file.name, reason)
        source = open_source(file.name, self.vhost, seconds=self.seconds).allowing_unread(self.allow_unread)
        if file.folder is not None and self.vhost not in (None, *source.vhosts):
            return SkippedFile(file.name, f"no virtual host '{self.vhost}'")
        return check_source(
            source,
            vhost=self.vhost,
            profile=self.profile,
            codes=self.codes,
            optional=self.selection.optional,
            known=self.known,
            file=file.name,
            progress=self._show_topology,
            app=self.app,
        )

    def _show_topology(self, topology: Topology) -> None:
        self.show(f"checking {count_noun(len(topology.bindings), 'binding')} of '{topology.vhost}' ...")


def _missing_topologies(folders: Iterable[str], vhost: str | None) -> list[SourceError]:
    wanted = "topology" if vhost is None else f"topology with a virtual host '{vhost}'"
    text = f"no {wanted} below this folder, such as a .bindings file or definitions"
    return [SourceError(folder, InputError(f"{folder}: {text}")) for folder in folders]
