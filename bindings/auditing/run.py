"""Run an audit: read archives, count the outcomes of their messages in a topology, build the report.

`audit` runs all steps. The command calls `open_traffic`, `count` and `report_on` itself, because it prints, saves, and
asks Spark for a session between them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from bindings.archive.formats.detect import Archive, detect, drop_repeats, refuse_within
from bindings.archive.formats.recognition import recognise_format
from bindings.archive.inspection import Account
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.sums import Detected
from bindings.auditing.engine import Engine, choose_engine, find_active_session
from bindings.auditing.local.recognised import FormatMemory
from bindings.auditing.local.run import Pass, run_here
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CompareStudy, CoverageStudy, VerifyStudy
from bindings.auditing.local.study import Study
from bindings.checking.check import check
from bindings.checking.rules.finding import Finding
from bindings.counts.changes import list_changes
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.tally_file import check_fit, load_tally
from bindings.report.build import USUAL as NO_THRESHOLDS
from bindings.report.build import Sources, build_report
from bindings.report.model import Archived, Compared, Report
from bindings.report.thresholds import Settings
from bindings.sources.language.expectations import Expectation
from bindings.sources.open import Source, open_source
from bindings.sources.section import Listing
from exchange.errors import InputError
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC: Final = "kafka://"

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Subject:
    """A topology to audit, and optionally another one to compare it with."""

    topology: Topology
    name: str = "topology"
    """Name of the topology in the report."""
    expectations: tuple[Expectation, ...] = ()
    listing: Listing | None = None
    """Text of the topology, if it is a .bindings file."""
    other: Topology | None = None
    """Topology to compare with, over the same messages; None to compare nothing."""
    other_name: str = "other"
    verify: bool = False
    """Whether to compare with the queues in which the broker put the messages, where the archive records them."""

    @classmethod
    def from_source(cls, source: Source, vhost: str | None = None, profile: str | None = None) -> Subject:
        """Return the topology of a virtual host and its expectations. Raises InputError as `Source.topology` does."""
        topology = source.topology(vhost, profile)
        vhost = topology.vhost
        return cls(topology, source.name, source.expectations(vhost), source.listing(vhost))

    def compared_with_release(self, profile: str) -> Subject:
        """Return the subject with its own topology on another release of RabbitMQ to compare it with."""
        other = self.topology.with_profile(profile)
        return replace(self, other=other, other_name=f"{self.name} on {other.profile.name}")

    @property
    def findings(self) -> list[Finding]:
        """Findings of the check of the topology, with their lines where these are known."""
        listing, findings = self.listing, check(self.topology, self.expectations)
        if listing is None:
            return findings
        return [
            each if each.part is None or each.line is not None else replace(each, line=listing.line_of(each.part))
            for each in findings
        ]

    @property
    def studies(self) -> list[Study[Any]]:
        """Studies to count, in the order in which `report_on` takes their values."""
        studies: list[Study[Any]] = [CoverageStudy(self.topology)]
        if self.verify:
            studies.append(VerifyStudy(self.topology))
        if self.other is not None:
            studies.append(CompareStudy(self.topology, self.other))
        return studies


@dataclass(frozen=True, slots=True)
class AuditInput:
    """Archives with their detected formats, and topics of Kafka; at least one archive or topic."""

    archives: tuple[Archive, ...]
    topics: tuple[str, ...]
    mapping: FieldMapping = USUAL
    notices: tuple[str, ...] = ()
    """What was taken of archives: those that were given several times are read once; which columns are which fields;
    what a mapping says in vain."""

    @property
    def files(self) -> Archive | None:
        """All archives joined into one; None if there are only topics."""
        if not self.archives:
            return None
        return replace(
            self.archives[0],
            path=", ".join([each.path for each in self.archives]),
            files=tuple([file for each in self.archives for file in each.files]),
            others=tuple([other for each in self.archives for other in each.others]),
        )

    def choose_engine(self, *, asked: str = "", refused: str = "", jobs: int | None = None) -> Engine:
        """Return what counts this traffic; see `bindings.auditing.engine.choose_engine`."""
        return choose_engine(None if self.topics else self.files, asked=asked, refused=refused, jobs=jobs)

    def check(self, *, spark: bool, keep_bad: str | None, refused: str = "") -> None:
        """Raise InputError if topics are given without Spark, which reads them, or together with ``keep_bad``.

        The same for a folder of ``keep_bad`` inside of an archive.

        ``refused`` is the option by which Spark is not used; "" for none.
        """
        if self.topics and not spark:
            way_out = f"omit {refused}" if refused else "give a session that has its connector for Kafka"
            raise InputError(f"{self.topics[0]}: a topic can be read by Spark only; {way_out}")
        if self.topics and keep_bad is not None:
            raise InputError(f"{self.topics[0]}: bad records of a topic cannot be kept; omit --keep-bad")
        if keep_bad is not None:
            refuse_within(FilePath(keep_bad), [archive.path for archive in self.archives], "bad records")

    def describe(self, account: Account) -> tuple[Archived, ...]:
        """Return archives and topics as the report on this account describes them."""
        return (
            *[Archived.from_archive(each, account.detected) for each in self.archives],
            *[describe_archive(topic, self.mapping) for topic in self.topics],
        )


def audit(
    topology: Topology | Path,
    archives: Path | Sequence[Path],
    *,
    vhost: str | None = None,
    profile: str | None = None,
    compare: Topology | Path | None = None,
    compare_profile: str | None = None,
    verify: bool = False,
    selection: Selection | None = None,
    mapping: FieldMapping = USUAL,
    settings: Settings = NO_THRESHOLDS,
    spark: SparkSession | None = None,
    jobs: int | None = None,
    cache: Path | None = None,
    keep_bad: str | None = None,
    max_bad: int | None = None,
    step: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Audit archives against a topology, and return the report.

    A topology given as text or path is opened by `open_source`: a file, ``-`` or a broker's address; ``vhost`` and
    ``profile`` apply to these only. ``compare_profile`` is the release of the topology to compare with, which is the
    same topology if ``compare`` is None. ``archives`` are files and folders, and with a Spark session also topics,
    ``kafka://HOST:PORT/TOPIC``. Without a session, at most ``jobs`` processes of this machine count everything, by
    default as many as it has cores, with the same result, unless there is a session already or the archive is large:
    `bindings.auditing.engine` chooses, as for the command. By default, the
    messages of the topology's own virtual host are selected; a ``selection`` names its own, or selects all. ``step`` is
    as in `count`.

    >>> report = audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl")
    >>> [(row.exchange, row.messages) for row in report.unroutable]
    [('documents', 5), ('amq.topic', 4)]

    Raises InputError for inputs that cannot be read, and `bindings.auditing.local.tasks.TooManyBad` as soon as more
    than ``max_bad`` records are bad. ``keep_bad`` is a new folder in which to keep bad records. ``cache`` is a folder
    that keeps what was counted in each file, so that a later audit, also of an edited topology, reads less.
    """
    if not isinstance(mapping, FieldMapping):
        raise TypeError(
            f"audit: mapping must be a FieldMapping, not {type(mapping).__name__}; "
            'such as FieldMapping(columns=(("exchange", "exch"),))'
        )
    subject = _open_subject(topology, vhost, profile)
    if compare is not None:
        other = _open_subject(compare, vhost, profile)
        after = other.topology if compare_profile is None else other.topology.with_profile(compare_profile)
        subject = replace(subject, other=after, other_name=other.name)
    elif compare_profile is not None:
        subject = subject.compared_with_release(compare_profile)
    subject = replace(subject, verify=verify)
    paths = [archives] if isinstance(archives, (str, os.PathLike)) else archives
    if not isinstance(paths, Sequence) or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(f"audit: archives must be a path or a sequence of paths, not {archives!r:.60}")
    if not paths:
        raise InputError("audit: there are no archives in the sequence; give a file or a folder at least")
    traffic = open_traffic([os.fspath(path) for path in paths], mapping, cache)
    taken = Selection(subject.topology.vhost) if selection is None else selection
    with ExitStack() as stack:
        processes = 1
        # A topic needs a session with Spark's connector, which only the caller can start.
        if spark is None and (not traffic.topics or find_active_session() is not None):
            engine = traffic.choose_engine(refused="" if cache is None else "a cache", jobs=jobs)
            processes = engine.jobs
            if engine.spark:
                from bindings.auditing.spark.session import open_session

                spark = stack.enter_context(open_session())
        passed = count(
            traffic, subject.studies, taken, spark=spark, jobs=processes, cache=cache, keep_bad=keep_bad,
            max_bad=max_bad, step=step,
        )  # fmt: skip
    return report_on(subject, traffic.describe(passed.account), passed, taken, settings)


def _open_subject(topology: Topology | Path, vhost: str | None, profile: str | None) -> Subject:
    if isinstance(topology, Topology):
        return Subject(topology)
    return Subject.from_source(open_source(topology, vhost), vhost, profile)


def open_traffic(paths: Sequence[str], mapping: FieldMapping = USUAL, cache: Path | None = None) -> AuditInput:
    """Detect the formats of archives. Raises InputError for a path whose format is unknown."""
    topics = tuple([path for path in paths if path.startswith(TOPIC)])
    memory = None
    if cache is not None:
        refuse_within(FilePath(cache), paths, "kept results")
        memory = FormatMemory(FilePath(cache))
    recognise = recognise_format if memory is None else memory.recognise
    found = drop_repeats([detect(path, mapping, recognise, late=True) for path in paths if path not in topics])
    if memory is not None:
        memory.save()
    repeats = tuple([f"{archive.path}: {note}" for archive in found if (note := archive.repeated_note)])
    taken = [f"{archive.path}: {note}" for archive in found if (note := archive.taken)]
    kept = tuple([archive for archive in found if archive.all_files])
    unused = [f"{archive.path}: {each}" for archive in found for each in archive.unused]
    return AuditInput(kept, topics, mapping, (*repeats, *taken, *unused))


def count(
    traffic: AuditInput,
    studies: Sequence[Study[Any]],
    selection: Selection,
    *,
    spark: SparkSession | None = None,
    jobs: int = 1,
    cache: Path | None = None,
    keep_bad: str | None = None,
    max_bad: int | None = None,
    most_bytes: int | None = None,
    step: Callable[[int, int], None] = lambda done, of: None,
) -> Pass:
    """Read everything once, on the workers of a Spark session or in ``jobs`` processes; raises as `audit`.

    Without Spark, parts of ``most_bytes`` altogether are read, drawn by chance; None for all. ``step`` is called with
    the number of bytes that were read so far, and the total number. It is not called when Spark reads.
    """
    traffic.check(spark=spark is not None, keep_bad=keep_bad)
    files = traffic.files
    if spark is None:
        if files is None:
            raise InputError("there is no archive to audit")
        return run_here(
            files, studies, selection, jobs=jobs, keep_bad=keep_bad, max_bad=max_bad, most_bytes=most_bytes,
            cache=None if cache is None else FilePath(cache), step=step,
        )  # fmt: skip
    if cache is not None:
        raise InputError(f"{os.fspath(cache)}: a cache is used without Spark only")
    from bindings.auditing.spark.job import run
    from bindings.auditing.spark.kafka import parse_topic, run_on_topic
    from bindings.auditing.spark.session import ship_packages

    ship_packages(spark)
    passes = [] if files is None else [run(spark, files, studies, selection, keep_bad=keep_bad, max_bad=max_bad)]
    topics = [parse_topic(url) for url in traffic.topics]
    passes += [run_on_topic(spark, each, studies, selection, traffic.mapping, max_bad=max_bad) for each in topics]
    total = passes[0]
    for each in passes[1:]:
        values = tuple([one + other for one, other in zip(total.values, each.values, strict=True)])
        total = total._replace(values=values, account=total.account + each.account)
    return total


def report_on(
    subject: Subject,
    archives: Sequence[Archived],
    passed: Pass,
    selection: Selection,
    settings: Settings = NO_THRESHOLDS,
) -> Report:
    """Build the report on a subject from the pass that `count` returned for its studies."""
    sources = Sources(
        subject.name, tuple(archives), since=selection.since, until=selection.until, listing=subject.listing
    )
    tally, *more = passed.values
    verification = more.pop(0) if subject.verify else None
    comparison = None
    if subject.other is not None:
        compared = more.pop(0)
        moved = list_changes(compared, subject.topology, subject.other)
        comparison = Compared(
            subject.other_name, compared.after, moved, find_unread(subject.other), subject.other.profile.caveat
        )
    return build_report(
        subject.topology, tally, sources, _now(), settings=settings, findings=subject.findings,
        verification=verification, comparison=comparison,
    )  # fmt: skip


def merge(subject: Subject, paths: Sequence[Path], settings: Settings = NO_THRESHOLDS) -> tuple[Tally, Report]:
    """Return the sum of saved tallies, and the report on that sum.

    Raises InputError for a file that cannot be read, that is there twice, or holds no tally for this topology.
    """
    given: dict[str, Path] = {}
    for path in paths:
        if (first := given.setdefault(os.path.realpath(path), path)) is not path:
            raise InputError(f"{path}: the same file as {first}, and its counts would be added twice; give it once")
    total = Tally(compute_fingerprint(subject.topology), routed_by=subject.topology)
    for path in paths:
        tally = load_tally(FilePath(path))
        if tally.topology != total.topology:
            raise InputError(
                f"{path}: a tally for another topology ({tally.topology[:12]}), or for {subject.name} as it was: audit "
                "that archive again, or give the topology that it was made with"
            )
        check_fit(tally, subject.topology, os.fspath(path))
        total += tally
    sources = Sources(subject.name, tallies=tuple([os.fspath(path) for path in paths]), listing=subject.listing)
    return total, build_report(subject.topology, total, sources, _now(), settings=settings, findings=subject.findings)


def describe_archive(path: str, mapping: FieldMapping) -> Archived:
    """Describe an archive or a topic of Kafka for the report; its messages are not read."""
    if path.startswith(TOPIC):
        return Archived(path, ("topic of Kafka",), 0, (KafkaSegment.bias,), (KafkaSegment.note,))
    return Archived.from_archive(detect(path, mapping), Detected())


def _now() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1_000
