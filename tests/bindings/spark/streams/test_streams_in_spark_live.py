"""Streams of a real RabbitMQ in Spark: each message once in Parquet, over restarts, and what may go wrong is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bindings
import bindings.spark
from exchange import Binding, Exchange, Queue, Topology
from tests.support.bindings.live_streams import Streams
from tests.support.pages import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPOLOGY = Topology(
    [Exchange("orders", "topic")], [Queue("eu"), Queue("all")],
    [Binding.to_queue("orders", "eu", "order.eu"), Binding.to_queue("orders", "all", "#")],
)  # fmt: skip


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    bindings.spark.register_streams(spark)
    return spark.readStream.format("rabbitmq-stream").option("url", url).options(mode="FAILFAST", **options).load()


def run(rows: DataFrame, folder: Path) -> list[Any]:
    """Write what there is into Parquet, and return the numbers of rows of the micro-batches."""
    query = (
        rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True).start(str(folder / "rows"))
    )  # fmt: skip
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_each_message_of_a_stream_is_in_parquet_once_over_restarts(
    streams: Streams, spark: SparkSession, tmp_path: Path
) -> None:
    """Each run is a query of its own, in a session of its own, with the same checkpoint."""
    stream = streams.declare("once")
    streams.publish(stream, range(500))
    counts = []
    for upto in (500, 500, 700):
        streams.publish(stream, range(500, upto))
        rows = load(spark.newSession(), streams.url, stream=stream, maxOffsetsPerTrigger="200")
        counts.append([count for count in run(bindings.spark.route(rows, TOPOLOGY), tmp_path) if count])
    assert counts == [[200, 200, 100], [], [200]]
    written = spark.read.parquet(str(tmp_path / "rows"))
    found = [(row.offset, bytes(row.body), row.source) for row in written.collect()]
    assert sorted(found) == [(number, b"%d" % number, stream) for number in range(700)]
    # The files are an archive: the audit counts what the query has written.
    report = bindings.audit(TOPOLOGY, str(tmp_path / "rows"))
    assert report.audited.records.counted == 700


def test_the_partitions_of_a_super_stream_are_read_side_by_side_and_in_order(
    streams: Streams, spark: SparkSession, tmp_path: Path
) -> None:
    names = [streams.declare(f"parts-{number}") for number in range(2)]
    for number, name in enumerate(names):
        streams.publish(name, range(100 * number, 100 * number + 40 + number))
    name = f"{streams.prefix}-parts"
    bindings.spark.register_streams(spark)
    whole = spark.read.format("rabbitmq-stream").options(
        url=streams.url,
        superStream=name,
        columns="source,offset,headers,time",
        startingOffsets="10",
        endingOffsets="30",
    )
    rows = whole.load().collect()
    assert [(row.source, row.offset) for row in rows] == [(each, at) for each in names for at in range(10, 30)]
    assert rows[0].headers["n"].asDict() == {"type": "signedint", "value": "10"}
    assert rows[0].time.timestamp() == 1_700_000_010
    run(load(spark, streams.url, superStream=name), tmp_path)
    names.append(streams.declare("parts-2"))
    streams.publish(names[2], range(200, 250))
    run(load(spark, streams.url, superStream=name), tmp_path)
    files = spark.read.parquet(str(tmp_path / "rows")).selectExpr("source", "offset", "input_file_name() AS file")
    found = files.collect()
    assert sorted((row.source, row.offset) for row in found) == sorted(
        (each, at) for each, count in zip(names, (40, 41, 50), strict=True) for at in range(count)
    )
    assert {file: {row.source for row in found if row.file == file} for file in {row.file for row in found}}


def test_the_snippet_of_the_guide_routes_a_super_stream(
    streams: Streams, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [snippet] = [each.text for each in blocks(ROOT / "docs" / "audit.md") if "readStream" in each.text]
    streams.publish(streams.declare("guide-0"), range(30))
    shutil.copy(ROOT / "examples" / "orders" / "orders.bindings", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = snippet.replace("amqp://reader:PASSWORD@rabbit.example/shop", streams.url)
    text = text.replace('"orders")', f'"{streams.prefix}-guide")')
    for folder in ("checkpoints/orders", "archive/orders"):
        text = text.replace(folder, str(tmp_path / folder))
    exec(text, {"spark": spark})  # noqa: S102 - our own page
    assert spark.read.parquet(str(tmp_path / "archive" / "orders")).count() == 30


def test_what_goes_wrong_is_told_without_the_password(streams: Streams, spark: SparkSession) -> None:
    stream = streams.declare("wrong")
    streams.publish(stream, range(3))
    bindings.spark.register_streams(spark)
    host = streams.url.rpartition("@")[2]

    def fails(url: str = streams.url, **options: str) -> str:
        with pytest.raises(Exception) as raised:  # noqa: PT011  whatever Spark makes of it
            spark.read.format("rabbitmq-stream").options(url=url, **options).load().collect()
        return str(raised.value)

    assert "there is no stream 'nothing'" in fails(stream="nothing")
    assert "there is no option 'strem'; did you mean 'stream'?" in fails(strem=stream)
    login = {"user": "nobody", "password": "hunter2"}
    for error in (fails(f"amqp://nobody:hunter2@{host}", stream=stream), fails(stream=stream, **login)):
        assert "the broker refuses the user or the password" in error
        assert "hunter2" not in error
    rows = load(spark, streams.url, stream=stream)
    assert "guest:guest" not in rows._jdf.queryExecution().toString()
