"""A pass on Spark, whole or in parts, gives the counts of a pass without Spark: what each message does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.inspection import Account
from bindings.archive.mapping import FieldMapping, parse_columns
from bindings.archive.record import Record, build_batch
from bindings.archive.sums import Span, Unread
from bindings.auditing.local import planning, tasks
from bindings.auditing.local.run import Pass, run_here
from bindings.auditing.local.selection import OTHER_VHOST, OUTSIDE, UNTIMED, Selection
from bindings.auditing.local.studies import CompareStudy, CoverageStudy, VerifyStudy
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import TooManyBad
from bindings.auditing.spark import gathering, job
from bindings.auditing.spark.frames import run_on
from bindings.auditing.spark.job import run
from exchange import LATEST_PROFILE, PROFILES, Binding, Exchange, InputError, Message, Queue, Topology
from tests.bindings.counts.test_tally import slow_tally
from tests.support import topologies
from tests.support.archives.lines import Stumbling, records_for, topology_for, write_lines, write_parquet
from tests.support.bindings.exact import exact
from tests.support.tiers import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = st.integers(0, 2**32)
PROFILE = st.sampled_from(list(PROFILES.values()))
SOME = examples(4)
QUEUE = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", "a.#")])
COVERAGE = CoverageStudy(QUEUE)


def studies_for(rng: Random, topology: Topology) -> list[Study[Any]]:
    after = topology
    for _ in range(3):
        after = topologies.edit(rng, after)
    return [CoverageStudy(topology), VerifyStudy(topology), CompareStudy(topology, after)]


@contextmanager
def in_parts(task_bytes: int, last: int = 2) -> Iterator[None]:
    """Make tasks small and many, and let results be added two at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MIN_TASK_BYTES", task_bytes)
        patch.setattr(planning, "MAX_TASK_BYTES", task_bytes)
        patch.setattr(gathering, "MAX_DRIVER_RESULTS", last)
        patch.setattr(gathering, "FAN_IN", 2)
        yield


@SOME
@given(SEED, PROFILE)
def test_spark_counts_what_each_message_does(spark: SparkSession, seed: int, profile: Any) -> None:
    """With three studies in one pass, two formats in one archive, one task or many."""
    rng = Random(seed)
    topology = topology_for(rng, profile)
    records = records_for(rng, topology, 30)
    studies = studies_for(rng, topology)
    with TemporaryDirectory() as folder:
        write_lines(Path(folder, "a.jsonl"), records[:20])
        write_parquet(Path(folder, "b"), records[20:])
        archive = detect(folder)
        alone = run_here(archive, studies)
        assert exact(alone.values[0]) == slow_tally(topology, records)
        with in_parts(1 << 30):
            assert exact(run(spark, archive, studies)) == exact(alone)
        with in_parts(2000):
            assert exact(run(spark, archive, studies)) == exact(alone)
            assert exact(run_here(archive, studies)) == exact(alone)


def frame(spark: SparkSession, folder: str, records: Sequence[Record]) -> DataFrame:
    write_parquet(Path(folder), records)
    return spark.read.parquet(folder)


@SOME
@given(SEED, st.booleans())
def test_records_that_spark_reads_are_counted_alike(spark: SparkSession, seed: int, by_key: bool) -> None:
    """Row by row, or counted first where only keys decide; with CC and BCC."""
    rng = Random(seed)
    topology = topology_for(rng, LATEST_PROFILE, by_key=by_key)
    records = records_for(rng, topology, 30)
    selection = Selection(rng.choice((None, "/")), rng.choice((None, 0)), rng.choice((None, 5 * 10**7, 5 * 10**12)))
    coverage = CoverageStudy(topology)
    studies = [coverage] if by_key else studies_for(rng, topology)
    assert not by_key or coverage.counter().by_key
    with TemporaryDirectory() as folder:
        rows = frame(spark, folder, records)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "require_records", lambda archive, account, max_bad: None)
            patch.setattr("bindings.auditing.local.run.require_records", lambda archive, account, max_bad: None)
            alone = exact(run_here(detect(folder), studies, selection))
        assert exact(run_on(rows.repartition(3), studies, selection, count_first=False)) == alone
        assert exact(run_on(rows.coalesce(1), studies, selection, count_first=True)) == alone
        assert exact(run_on(rows, studies, selection)) == alone


@examples(8)
@given(SEED, st.booleans(), st.booleans(), st.booleans())
def test_keys_in_headers_count_where_their_columns_are_missing_or_empty(
    spark: SparkSession, seed: int, by_key: bool, missing: bool, count_first: bool
) -> None:
    """Row by row, or counted first; a header CC that is no array makes a bad record, whatever is selected."""
    from pyspark.sql import functions

    rng = Random(seed)
    topology = topology_for(rng, LATEST_PROFILE, by_key=by_key)
    records = records_for(rng, topology, 20)
    records += [Record(replace(each.message, headers={"CC": ["a.b"], "BCC": ["b", 7]}), each.time) for each in records]
    selection = Selection(None, rng.choice((None, 0)), None)
    studies = [CoverageStudy(topology)] if by_key else studies_for(rng, topology)
    refused = "map('CC', struct('longstr' as type, 'a' as value)) as headers"
    with TemporaryDirectory() as folder:
        rows = frame(spark, folder, records)
        alone = run_here(detect(folder), studies, selection)
        bad = rows.limit(3).selectExpr("* except (headers)", refused).withColumn("cc", functions.lit(None))
        mixed = "case pmod(offset, 3) when 0 then {0} when 1 then null else array() end"
        for name in ("cc", "bcc"):
            rows = rows.withColumn(name, functions.expr(mixed.format(name)))
        rows = rows.unionByName(bad)
        found = run_on(rows.drop("cc", "bcc") if missing else rows, studies, selection, count_first=count_first)
    assert found.account.unread.bad == {'invalid message: {unacceptable_type_in_header,"CC",longstr}': 3}
    assert found.account.span == alone.account.span
    tally, *others = found.values
    assert exact(replace(tally, unread=alone.values[0].unread)) == exact(alone.values[0])
    assert exact(tuple(others)) == exact(alone.values[1:])


@pytest.mark.parametrize(("seconds", "width"), [(180, 1), (86_400, 300), (40 * 86_400, 3_600)])
def test_messages_that_spark_counts_first_have_the_slots_of_the_window(
    spark: SparkSession, seconds: int, width: int
) -> None:
    """Slots have no fixed width, and records that are left out, by key, virtual host or time, do not count for it."""
    messages = [Message("amq.topic", f"a.{number % 3}") for number in range(1_111)]
    step = seconds * 1_000_000 // len(messages)
    records = [Record(message, number * step, "/") for number, message in enumerate(messages)]
    others = [Record(messages[0], 10**15, "other"), Record(messages[0], -(10**15), "/"), Record(messages[0], None, "/")]
    with TemporaryDirectory() as folder:
        rows = frame(spark, folder, [*others, *records])
        for since in (None, 0):
            selection = Selection("/", since)
            alone = run_here(detect(folder), [COVERAGE], selection)
            for first in (True, False):
                assert exact(run_on(rows, [COVERAGE], selection, count_first=first)) == exact(alone)
            if since is not None:
                assert alone.values[0].timeline.width == width * 1_000_000


def test_spark_counts_first_where_keys_repeat(spark: SparkSession) -> None:
    from bindings.auditing.spark.frames import _repeats

    same = spark.range(1000).selectExpr("'amq.topic' as exchange", "concat('a.', id % 7) as routing_key")
    other = spark.range(1000).selectExpr("'amq.topic' as exchange", "concat('a.', id) as routing_key")
    assert _repeats(same)
    assert not _repeats(other)
    tallies = [run_on(rows, [COVERAGE]).values[0] for rows in (same, other)]
    assert [tally.messages for tally in tallies] == [1000, 1000]


def test_a_frame_without_exchange_or_key_is_refused(spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("'amq.topic' as exchange", "id")
    with pytest.raises(InputError, match="no column routing_key; their columns are exchange, id"):
        run_on(rows, [COVERAGE])
    rows = spark.range(3).selectExpr("1 as exchange", "'a' as routing_key")
    with pytest.raises(InputError, match="column exchange is of type int; a record has string"):
        run_on(rows, [COVERAGE])


@pytest.mark.parametrize("count_first", [True, False])
def test_rows_without_a_key_are_bad(spark: SparkSession, count_first: bool) -> None:
    rows = spark.range(10).selectExpr("'amq.topic' as exchange", "if(id < 3, null, 'a.b') as routing_key")
    found = run_on(rows, [COVERAGE], count_first=count_first)
    assert found.values[0].unread.bad == {"no exchange or no routing key": 3}
    assert found.values[0].messages == found.account.untimed == 7
    with pytest.raises(TooManyBad, match="more than 2 bad records"):
        run_on(rows, [COVERAGE], count_first=count_first, max_bad=2)


def test_a_frame_without_rows_gives_zero(spark: SparkSession) -> None:
    rows = spark.range(0).selectExpr("'amq.topic' as exchange", "'a' as routing_key")
    for count_first in (True, False):
        assert run_on(rows, [COVERAGE], count_first=count_first) == Pass((COVERAGE.zero(),), Account())


def test_headers_may_be_maps_of_texts(spark: SparkSession) -> None:
    arguments = {"x-match": "all", "h": "1"}
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.headers", "q", "", arguments)])
    rows = spark.range(4).selectExpr(
        "'amq.headers' as exchange", "'' as routing_key", "map('h', string(id)) as headers"
    )
    tally = run_on(rows, [CoverageStudy(topology)]).values[0]
    assert sorted((outcome.queues, facts.messages) for outcome, facts in tally.facts.items()) == [((), 3), (("q",), 1)]


def test_a_task_that_runs_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each task fails after it has counted everything, in a worker that goes on working."""
    rng = Random(1)
    topology = topology_for(rng, LATEST_PROFILE)
    records = records_for(rng, topology, 40)
    write_lines(tmp_path / "a.jsonl", records)
    archive = detect(str(tmp_path))
    stumbled = tmp_path / "stumbled"
    stumbled.mkdir()
    aside = tmp_path / "aside"
    with in_parts(4000):
        found = run(spark, Stumbling.over(archive, stumbled), [CoverageStudy(topology)], keep_bad=str(aside))
    places = len(list(stumbled.iterdir()))
    assert places > 1
    tally = found.values[0]
    assert tally.unread.bad == tally.unread.skipped == {"told before it failed": places}
    assert exact(replace(tally, unread=Unread())) == slow_tally(topology, records)
    assert len([line for path in aside.iterdir() for line in path.read_text().splitlines()]) == places
    assert all(path.name.startswith("part-") for path in aside.iterdir())


def test_the_next_task_counts_nothing_of_a_failed_one(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [Record(Message("amq.topic", "a"))])
    order = tasks.order_for([COVERAGE], Selection())
    (task,) = planning.plan_tasks(detect(str(tmp_path)), 1)
    with suppress(ZeroDivisionError), tasks.borrow_counters(order) as counters:
        counters[0].add(build_batch([Record(Message("amq.topic", "a"))]))
        raise ZeroDivisionError
    for _ in range(2):
        assert tasks.count_tasks([task], order).values[0].messages == 1


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """Write an archive of which some lines cannot be read."""
    path = tmp_path / "spoilt.jsonl"
    records = [Record(Message("amq.topic", f"a.{n}"), 1_000 * n) for n in range(60)]
    write_lines(path, records, [b"{", b"[]", b"\xff", b"{}"])
    return path


def test_bad_records_are_counted_and_written_to_a_folder(spark: SparkSession, spoilt: Path, tmp_path: Path) -> None:
    archive = detect(str(spoilt))
    aside = tmp_path / "aside"
    with in_parts(400):
        found = run(spark, archive, [COVERAGE], keep_bad=str(aside), max_bad=4)
    assert exact(found) == exact(run_here(archive, [COVERAGE]))
    account = found.account
    assert (account.records, account.unread.bad_records, account.read) == (60, 4, 64)
    assert account.window == (0, 59_000)
    assert sum(found.values[0].unread.bad.values()) == 4
    kept = [json.loads(line) for path in sorted(aside.iterdir()) for line in path.read_text().splitlines()]
    samples = [bad for listed in account.unread.samples.values() for bad in listed]
    assert sorted(each["offset"] for each in kept) == sorted(bad.offset or 0 for bad in samples)
    assert {each["source"] for each in kept} == {str(spoilt)}
    with pytest.raises(InputError, match="exists already"):
        run(spark, archive, [COVERAGE], keep_bad=str(aside))


@pytest.mark.parametrize("task_bytes", [400, 1 << 30])
def test_too_many_bad_records_stop_the_job(spark: SparkSession, spoilt: Path, task_bytes: int) -> None:
    archive = detect(str(spoilt))
    with in_parts(task_bytes):
        with pytest.raises(TooManyBad, match=r"more than 1 bad records, .*spoilt\.jsonl"):
            run(spark, archive, [COVERAGE], max_bad=1)
        with pytest.raises(TooManyBad, match="more than 3 bad records"):
            run_here(archive, [COVERAGE], max_bad=3)


def test_a_missing_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / f"{name}.jsonl", [Record(Message("amq.topic", "a"))])
    archive = detect(str(tmp_path))
    order = tasks.order_for([COVERAGE], Selection())
    found = planning.plan_tasks(archive, 1)
    (tmp_path / "b.jsonl").unlink()
    with pytest.raises(InputError, match=r"b\.jsonl: cannot be read"):
        gathering.run_tasks(spark, found, [COVERAGE], order)
    with pytest.raises(InputError, match=r"b\.jsonl: cannot be read"):
        run(spark, archive, [COVERAGE])


def test_an_archive_without_records_cannot_be_audited(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [Record(Message("amq.topic", "a"), vhost="other")])
    archive = detect(str(tmp_path))
    for made in (lambda *given: run(spark, *given), run_here):
        with pytest.raises(InputError, match="no record of it can be audited, of 1 record read: 1: in another"):
            made(archive, [COVERAGE], Selection("/"))
    (tmp_path / "a.jsonl").write_bytes(b"\n")
    for kind, max_bad in ((InputError, None), (TooManyBad, 0)):
        with pytest.raises(kind, match="there are no records in it"):
            run(spark, archive, [COVERAGE], max_bad=max_bad)
        with pytest.raises(kind, match="there are no records in it"):
            run_here(archive, [COVERAGE], max_bad=max_bad)


def test_records_that_are_not_selected_are_counted_as_skipped(spark: SparkSession, tmp_path: Path) -> None:
    times = [None, 5, 10, 19, 20, 25]
    records = [Record(Message("amq.topic", "a"), time, vhost) for time in times for vhost in (None, "/", "other")]
    write_lines(tmp_path / "a.jsonl", records)
    archive = detect(str(tmp_path))
    found = run(spark, archive, [COVERAGE], Selection("/", 10, 20))
    assert found.account == Account(Span(4, 10, 19), 0, Unread(Counter({OTHER_VHOST: 6, UNTIMED: 2, OUTSIDE: 6})))
    assert found.values[0].unread == found.account.unread
    assert exact(found) == exact(run_here(archive, [COVERAGE], Selection("/", 10, 20)))


def test_columns_of_other_programs_are_counted_by_spark_as_here(spark: SparkSession, tmp_path: Path) -> None:
    """With headers in JSON, and rows that are none; a split on a worker has the same mapping."""
    headers = [json.dumps({"n": row % 3}) if row % 7 else "no json" for row in range(500)]
    table = pa.table({"e": ["h"] * 500, "k": ["a"] * 500, "meta": headers, "at": [*range(500)]})
    pq.write_table(table, tmp_path / "m.parquet", row_group_size=100)
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    bindings = [Binding.to_queue("h", f"q{n}", "", {"n": n}) for n in range(3)]
    topology = Topology([Exchange("h", "headers")], [Queue(f"q{n}") for n in range(3)], bindings)
    columns = parse_columns(["exchange=e", "routing_key=k", "headers=meta", "timestamp=at"])
    archive = detect(str(tmp_path), FieldMapping(columns=columns))
    here = run_here(archive, [CoverageStudy(topology)], Selection())
    assert exact(run(spark, archive, [CoverageStudy(topology)], Selection())) == exact(here)
    assert (here.account.records, here.account.unread.bad_records) == (856, 144)
