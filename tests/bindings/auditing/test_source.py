"""The data source gives the records of the archive readers with Spark's types, with any options."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bindings.archive.formats.connect import Connect
from bindings.archive.formats.detect import MOST_DETECTED, detect
from bindings.archive.formats.parquet import Parquet, ParquetWriter
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Bias, Split
from bindings.archive.record import SCHEMA, Record, build_batch
from bindings.auditing.spark.source import RowOptions, Wanted, _ArchiveReader, _PruningReader, prune
from exchange import Message
from exchange.values.field_values import Typed
from tests.support.archives.growing import make_growing_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = 86_400_000_000
MESSAGE = Message("orders", "a.b", {"CC": ["c"], "n": Typed("short", 1), "v": None}, {"priority": 5}, b"\xff")
RECORDS = [
    Record(MESSAGE, 1, "/", routed_queues=("q",), source="s", offset=7),
    Record(Message("events", "\udcff"), None, has_body=False),
    Record(Message("billing", "x"), 2 * DAY),
]


def source(spark: SparkSession, **options: str) -> Any:
    from bindings.auditing.spark.source import HashstarSource

    spark.dataSource.register(HashstarSource)
    return spark.read.format("hashstar").options(**options)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    with ParquetWriter(folder, Bias.EVERYTHING) as writer:
        writer.write(build_batch(RECORDS))
    return folder


def test_all_columns_have_what_the_archive_has(spark: SparkSession, parquet: Path) -> None:
    rows = source(spark).load(str(parquet)).toArrow().drop_columns("_corrupt_record").cast(SCHEMA).sort_by("exchange")
    read = [item for form, split in detect(str(parquet)).plan() for item in form.read(split)]
    assert rows.equals(pa.Table.from_batches(read).cast(SCHEMA).sort_by("exchange"))
    assert source(spark).load(str(parquet)).where("headers['n'].value = '1'").count() == 1


def test_an_archive_of_all_formats_is_read_completely(spark: SparkSession, tmp_path: Path) -> None:
    for file in make_growing_files(Random(8), tmp_path / "a", 30):
        file.write(len(file.content))
    columns = ["exchange", "routing_key", "source", "offset"]
    items = [item for form, split in detect(str(tmp_path / "a")).plan() for item in form.read(split, columns)]
    read = pa.Table.from_batches([item for item in items if isinstance(item, pa.RecordBatch)])
    found = source(spark, columns=",".join(columns), mode="DROPMALFORMED").load(str(tmp_path / "a")).toArrow()
    order = [("source", "ascending"), ("offset", "ascending")]
    assert found.cast(read.schema).sort_by(order).equals(read.sort_by(order))


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "m.jsonl"
    file.write_text('{"exchange": "e", "routing_key": "k"}\n{broken\n')
    return file


def test_the_mode_decides_what_becomes_of_bad_records(spark: SparkSession, broken: Path) -> None:
    (bad,) = source(spark).load(str(broken)).where("exchange is null").collect()
    assert (bad.source, bad.offset) == (str(broken), 38)
    assert bad._corrupt_record.startswith("not JSON: ")
    assert bad._corrupt_record.endswith(": {broken\n")
    named = source(spark, columnNameOfCorruptRecord="bad", columns="exchange, bad").load(str(broken))
    assert (named.columns, named.count()) == (["exchange", "bad"], 2)
    assert source(spark, mode="dropmalformed").load(str(broken)).count() == 1
    with pytest.raises(Exception, match="not JSON"):
        source(spark, mode="FAILFAST").load(str(broken)).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "exchange,key"}, "there is no column 'key'"),
        ({"mode": "LENIENT"}, "PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"exchange": "nowhere"}, "is no place for an exchange"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str, spark: SparkSession, broken: Path) -> None:
    with pytest.raises(Exception, match=message):
        source(spark, **options).load(str(broken)).collect()


def test_pushed_filters_do_not_change_the_result(spark: SparkSession, parquet: Path) -> None:
    conf = "spark.sql.python.filterPushdown.enabled"
    if spark.version < "4.1":
        pytest.skip("Spark pushes filters to Python since 4.1")
    spark.conf.set(conf, "true")
    try:
        for condition in ("exchange = 'orders'", "exchange in ('billing', 'x')", "time < '2000-01-01'", "time is null"):
            frames: list[DataFrame] = [
                source(spark, filterPushdown=flag, columns="exchange,time").load(str(parquet)).where(condition)
                for flag in ("true", "false")
            ]
            assert sorted(frames[0].collect()) == sorted(frames[1].collect())
            assert frames[0].count() >= 1
        none = source(spark, filterPushdown="true", columns="exchange").load(str(parquet)).where("exchange = 'zzz'")
        assert none.count() == 0
    finally:
        spark.conf.unset(conf)


def test_row_groups_that_cannot_match_are_left_out(parquet: Path) -> None:
    left = {
        name: [
            form.read(split)
            for path, form in detect(str(parquet)).files
            for split in prune(form, path, form.plan(path), wanted)
        ]
        for name, wanted in {
            "all": Wanted(), "orders": Wanted().with_exchanges(["orders"]),
            "late": Wanted().since(DAY), "early": Wanted().until(DAY),
        }.items()
    }  # fmt: skip
    found = {
        name: sum(len(item) for items in reads for item in items if isinstance(item, pa.RecordBatch))
        for name, reads in left.items()
    }
    assert found == {"all": 3, "orders": 1, "late": 2, "early": 2}  # the one without a time says nothing of it


def test_topics_that_are_not_wanted_are_left_out() -> None:
    wanted = Wanted().with_exchanges(["orders"])
    for form, path, others in (
        (KafkaSegment, "/a/orders-3/0.log", "/a/bills-3/0.log"), (Connect, "/a/orders+3+0.json", "/a/bills+3+0.json"),
    ):  # fmt: skip
        assert prune(form(), path, [Split(path)], wanted) == [Split(path)]
        assert prune(form(), others, [Split(others)], wanted) == []
        assert prune(form(FieldMapping("header:x")), others, [Split(others)], wanted) == [Split(others)]
        assert prune(form(FieldMapping("=orders")), others, [Split(others)], wanted) == [Split(others)]
        assert prune(form(FieldMapping("=bills")), path, [Split(path)], wanted) == []
    assert prune(Parquet(), "/nowhere", [Split("/nowhere")], wanted) == [Split("/nowhere")]


def test_records_can_be_streamed(spark: SparkSession, tmp_path: Path) -> None:
    source(spark)
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "m.jsonl"
    counts = []
    for n in range(2):
        with file.open("a") as opened:
            opened.write(f'{{"exchange": "e{n}", "routing_key": "k"}}\n' * 10 + '{"torn"' * (1 - n))
        stream = spark.readStream.format("hashstar").option("state", str(tmp_path / "state"))
        query = (
            stream.option("columns", "exchange").load(str(tmp_path / "a")).writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )  # fmt: skip
        query.awaitTermination()
        counts.append(spark.read.parquet(str(tmp_path / "out")).count())
        file.write_text(file.read_text().removesuffix('{"torn"'))
    assert counts == [10, 20]


def test_times_are_those_of_the_archive(spark: SparkSession, parquet: Path) -> None:
    rows = source(spark, columns="time").load(str(parquet)).where("time is not null").toArrow()
    assert min(rows.column("time").to_pylist()).astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


def test_rows_are_the_same_if_files_are_looked_at_when_they_are_read(tmp_path: Path) -> None:
    """Of many files, the source looks at the first; with filters, at all, which it may leave out."""
    for number in range(MOST_DETECTED + 2):
        name = ("lines.jsonl", "README", "theirs.csv")[number % 3]
        data = (b'{"exchange": "x", "routing_key": "k"}\n', b"no archive", b"exch,rkey\nx,k\nx,l\n")[number % 3]
        (tmp_path / f"{number:03}-{name}").write_bytes(data)
    found = []
    for kind in (_ArchiveReader, _PruningReader):
        reader = kind(str(tmp_path), {}, RowOptions.read({}))
        parts = reader.partitions()
        looked = {type(form).__name__ for part in parts for form, _ in part.value}
        assert ("Undetected" in looked) is (kind is _ArchiveReader)
        rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        found.append(sorted(rows, key=lambda row: (row["source"], row["offset"])))
    assert found[0] == found[1]
    assert len(found[0]) == MOST_DETECTED + 2 + (MOST_DETECTED + 2) // 3
