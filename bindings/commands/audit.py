"""``hashstar audit``: what the messages in archives do in a topology."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bindings.commands.archive import MappingOptions, max_bad_option, with_mapping
from bindings.commands.audit_options import (
    Outputs,
    SparkOptions,
    Thresholds,
    output_options,
    parse_window,
    refuse_outputs_in,
    refuse_outputs_within,
    spark_options,
    threshold_options,
)
from bindings.commands.route import topology_options
from bindings.sources.glob_pattern import is_pattern
from bindings.sources.open import open_source
from bindings.sources.tree import expand_patterns
from exchange.commands.completion import SOURCE
from exchange.commands.console import echo_line, exit_on_error, show_caveat, show_progress, show_warnings
from exchange.commands.options import CommandGroup, Duration, read_timeout
from exchange.commands.output import output_option, print_form
from exchange.commands.release import ProfileType
from exchange.errors import InputError
from exchange.text.display import count_noun
from exchange.topology.topology import Topology
from exchange.values.forms import Form, Forms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bindings.auditing.local.selection import Selection
    from bindings.auditing.run import AuditInput, Subject
    from bindings.auditing.spark.streaming import Update

ANY: Final = "*"
EXTRA: Final = "audit"
"""The extra that brings all that an audit in one process needs."""
ESTIMATE_FORMS: Final[Forms] = {
    "text": Form("bindings.auditing.estimate:to_lines", (".txt",)),
    "json": Form("bindings.auditing.estimate:Estimate", (".json",)),
}
"""The forms of an estimate."""


@click.group(
    "audit", cls=CommandGroup, example="hashstar audit shop.bindings archive/ --html audit.html", default="run"
)
def audit_command() -> None:
    """Report what archived messages do in a topology.

    Which bindings they use, which bindings are dead, and which messages no queue gets.

    hashstar audit orders.bindings archive/ is short for hashstar audit run; "audit run --help" has its options.
    """


@audit_command.command("run", example="hashstar audit run shop.bindings archive/ --html audit.html")
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
@topology_options
@with_mapping
@click.option(
    "--compare", metavar="SOURCE", help="Topology to compare with: report the messages that it routes differently."
)
@click.option(
    "--compare-profile", type=ProfileType(), metavar="RELEASE",
    help="RabbitMQ release of the topology to compare with; without --compare, the same topology on that release.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Compare with what the broker did, where the archive has recorded it.")
@click.option("--since", metavar="TIME", help="Start of the window, inclusive: 2026-11-01, or 2026-11-01T06:00:00Z.")
@click.option("--until", metavar="TIME", help="End of the window, exclusive.")
@click.option(
    "--archive-vhost", metavar="NAME", help="Virtual host of the messages; * for all.  [default: the topology's]"
)
@max_bad_option
@click.option(
    "--keep-bad", type=click.Path(), metavar="DIR", help="New folder for a copy of the records that cannot be read."
)
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N",
    help="Maximum number of processes that count, without Spark; the report is the same.  [default: one per core]",
)  # fmt: skip
@click.option(
    "--cache", type=click.Path(), metavar="DIR",
    help="Folder that keeps what was counted in each file: a later audit reads only what is new or counts differently.",
)  # fmt: skip
@click.option(
    "--estimate", "is_estimate", is_flag=True,
    help="Print how long the audit would take, by a sample of the archive, and end.",
)  # fmt: skip
@spark_options
@threshold_options
@output_options
@output_option
@click.argument("archives", metavar="ARCHIVE...", nargs=-1, required=True)
def run_command(
    source: str,
    vhost: str | None,
    profile: str | None,
    mapped: MappingOptions,
    compare: str | None,
    compare_profile: str | None,
    verify: bool,
    since: str | None,
    until: str | None,
    archive_vhost: str | None,
    max_bad: int | None,
    keep_bad: str | None,
    jobs: int | None,
    cache: str | None,
    is_estimate: bool,
    where: SparkOptions,
    thresholds: Thresholds,
    outputs: Outputs,
    archives: tuple[str, ...],
) -> None:
    """Audit archives.

    ARCHIVE is a file or folder of messages, in any format that hashstar archive inspect knows.

    ARCHIVE may also be a topic, kafka://HOST:PORT/TOPIC, if Spark has its connector for Kafka: --conf
    spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION.

    Exit codes: 0 every threshold kept; 1 a threshold missed, or more bad records than --max-bad; 2 bad usage or input.
    """
    with exit_on_error():  # usage first: what counts takes a second to import
        where.check(jobs, cache)
        window = parse_window(since, until)
    if is_estimate and (outputs.form not in ESTIMATE_FORMS or outputs.files or outputs.save_tally):
        raise click.UsageError(f"--estimate makes no report: it is printed as {' or '.join(ESTIMATE_FORMS)} alone")
    if is_estimate and (keep_bad is not None or max_bad is not None):
        option = "--max-bad" if keep_bad is None else "--keep-bad"
        raise click.UsageError(f"{option} is about all records, and --estimate reads a sample: omit one of them")
    if outputs.save_tally is not None and (verify or compare is not None or compare_profile is not None):
        option = "--verify" if verify else "--compare" if compare is not None else "--compare-profile"
        raise click.UsageError(
            f"--save-tally keeps counts of one topology, nothing of {option}: audit twice, with --cache to read once"
        )
    with exit_on_error(EXTRA):
        from bindings.auditing.local.selection import Selection
        from bindings.auditing.run import count, open_traffic, report_on

        settings = thresholds.settings()
        subject = replace(_open_subject(source, vhost, profile, thresholds), verify=verify)
        if compare is not None:
            other = open_source(compare, vhost, seconds=read_timeout()).allowing_unread(thresholds.allow_unread)
            topology = other.topology(vhost, compare_profile or profile)
            subject = replace(subject, other=topology, other_name=other.name)
        elif compare_profile is not None:
            subject = subject.compared_with_release(compare_profile)
        vhost_taken = _vhost_taken(archive_vhost, subject.topology)
        selection = Selection(vhost_taken, *window)
        traffic = open_traffic(archives, mapped.mapping(), cache)
        refuse_outputs_in(traffic.archives)
        for notice in traffic.notices:
            echo_line(notice, err=True)
        refused = "--no-spark" if where.no_spark else "--jobs" if jobs else "--cache" if cache is not None else ""
        engine = traffic.choose_engine(asked=where.asked, refused=refused, jobs=jobs)
        traffic.check(spark=engine.spark, keep_bad=keep_bad, refused=refused)
        if is_estimate:
            _print_estimate(traffic, subject, selection, None if engine.spark else engine.jobs, outputs)
            return
        if not where.no_spark:
            echo_line(str(engine), err=True)
        with show_progress("auditing") as step, _session(where, step, with_spark=engine.spark) as spark:
            passed = count(
                traffic, subject.studies, selection, spark=spark, jobs=engine.jobs, cache=cache, keep_bad=keep_bad,
                max_bad=max_bad, step=step,
            )  # fmt: skip
        if cache is not None and traffic.files is not None:
            files = count_noun(len(traffic.files.all_files), "file")
            echo_line(f"{cache}: {passed.reused:,} of {files} counted before", err=True)
            if passed.fault:
                echo_line(f"not kept: {passed.fault}", err=True)
        report = report_on(subject, traffic.describe(passed.account), passed, selection, settings)
        outputs.write(report, passed.values[0])
        outputs.print(report)
    sys.exit(report.exit_code)


@audit_command.command("merge", example="hashstar audit merge shop.bindings monday.tally tuesday.tally")
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
@topology_options
@threshold_options
@output_options
@output_option
@click.argument("tallies", metavar="TALLY...", nargs=-1, required=True, type=SOURCE)
def merge_command(
    source: str,
    vhost: str | None,
    profile: str | None,
    thresholds: Thresholds,
    outputs: Outputs,
    tallies: tuple[str, ...],
) -> None:
    """Report on the sum of saved tallies.

    TALLY is a file of --save-tally; the report is that of all their archives together.

    Exit codes: as hashstar audit run.
    """
    with exit_on_error(EXTRA):
        from bindings.auditing.run import merge

        settings = thresholds.settings()
        paths = [*map(Path, expand_patterns(tallies))]
        tally, report = merge(_open_subject(source, vhost, profile, thresholds), paths, settings)
        outputs.write(report, tally)
        outputs.print(report)
    sys.exit(report.exit_code)


@audit_command.command("follow", example="hashstar audit follow shop.bindings archive/ --state audit-state")
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
@topology_options
@with_mapping
@click.option("--state", required=True, metavar="DIR", help="Folder for the counts, and for how far they go.")
@click.option(
    "--every", type=Duration(least=0.001), metavar="TIME",
    help="Continue until Ctrl-C, looking for new records at this interval.",
)  # fmt: skip
@click.option(
    "--archive-vhost", metavar="NAME", help="Virtual host of the messages; * for all.  [default: the topology's]"
)
@spark_options
@threshold_options
@output_options
@output_option
@click.argument("archive", metavar="ARCHIVE")
def follow_command(
    source: str,
    vhost: str | None,
    profile: str | None,
    mapped: MappingOptions,
    state: str,
    every: float | None,
    archive_vhost: str | None,
    where: SparkOptions,
    thresholds: Thresholds,
    outputs: Outputs,
    archive: str,
) -> None:
    """Audit what is new in an archive that grows.

    This needs Spark. ARCHIVE may also be a topic, kafka://HOST:PORT/TOPIC; the report is about everything until now.
    The counts are kept in --state: run the command again, every night or after a crash, and it continues there; each
    record counts once. With --every it keeps running, and rewrites the files of --html, --junit, --tables and
    --save-tally whenever there are new records; what is printed, also to --output, comes at the end.

    Exit codes: as hashstar audit run.
    """
    with exit_on_error():
        where.check()
        if where.no_spark:
            raise InputError("--no-spark: hashstar audit follow needs Spark; hashstar audit run works without it")
        if is_pattern(archive):
            raise InputError(f"{archive}: a pattern, and new files are looked for in one folder: name the folder")
    with exit_on_error("spark"):
        from bindings.auditing.local.selection import Selection
        from bindings.auditing.run import describe_archive, report_on
        from bindings.auditing.spark.session import open_session
        from bindings.auditing.spark.streaming import follow

        settings = thresholds.settings()
        refuse_outputs_within(archive)
        subject = _open_subject(source, vhost, profile, thresholds)
        selection = Selection(_vhost_taken(archive_vhost, subject.topology))
        mapping = mapped.mapping()

        def show_update(update: Update) -> None:
            for notice in update.notices:
                echo_line(f"{archive}: {notice}", err=True)
            echo_line(f"{archive}: {update.records:,} new; {update.total.account.read:,} in all", err=True)
            if every is not None:
                archives = [describe_archive(archive, mapping)]
                report = report_on(subject, archives, update.total, selection, settings)
                outputs.write(report, update.total.values[0])

        with open_session(where.master, where.remote, where.settings) as spark:
            following = follow(
                spark, archive, subject.studies, state, every=every, selection=selection, mapping=mapping,
                on_update=show_update,
            )  # fmt: skip
            if following.begun is not None:
                echo_line(following.begun, err=True)
            try:
                following.wait()
            except KeyboardInterrupt:
                following.stop()
            total = following.total()
        report = report_on(subject, [describe_archive(archive, mapping)], total, selection, settings)
        outputs.write(report, total.values[0])
        outputs.print(report)
    sys.exit(report.exit_code)


def _print_estimate(
    traffic: AuditInput, subject: Subject, selection: Selection, jobs: int | None, outputs: Outputs
) -> None:
    """Print what an audit would take. Raises InputError, also for topics of Kafka."""
    from bindings.auditing.estimate import estimate_audit

    if traffic.topics or traffic.files is None:
        raise InputError(f"{traffic.topics[0]}: of a topic, no sample can be drawn; omit --estimate")
    print_form(ESTIMATE_FORMS[outputs.form], estimate_audit(traffic.files, subject.studies, selection, jobs))


def _open_subject(source: str, vhost: str | None, profile: str | None, thresholds: Thresholds) -> Subject:
    """Read the topology to audit, and print what it is warned of. Raises InputError."""
    from bindings.auditing.run import Subject

    opened = open_source(source, vhost, seconds=read_timeout()).allowing_unread(thresholds.allow_unread)
    subject = Subject.from_source(opened, vhost, profile)
    if profile is None:  # else the option has shown it
        show_caveat(subject.topology.profile)
    show_warnings(opened.name, opened.warnings)
    return subject


def _vhost_taken(archive_vhost: str | None, topology: Topology) -> str | None:
    """Return the virtual host whose messages are taken; None for those of all."""
    return topology.vhost if archive_vhost is None else None if archive_vhost == ANY else archive_vhost


@contextmanager
def _session(
    where: SparkOptions, step: Callable[[int, int], None], *, with_spark: bool
) -> Iterator[SparkSession | None]:
    """Start Spark and show its progress; None without it."""
    if not with_spark:
        yield None
        return
    from bindings.auditing.spark.session import open_session, watch_progress

    with open_session(where.master, where.remote, where.settings) as spark, watch_progress(spark, step):
        yield spark
