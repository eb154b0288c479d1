"""`bindings.spark` in Spark: batches and streams, SQL, workers without the product, and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bindings.spark
from bindings.archive.mapping import FieldMapping
from bindings.archive.record import Record, build_batch
from exchange import Binding, Exchange, InputError, Message, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ROOT = Path(__file__).parents[3]
SECONDS = 900
TOPOLOGY = Topology(
    [Exchange("orders", "topic"), Exchange("docs", "headers")],
    [Queue("a"), Queue("b", partitioning=Partitioning.parse("kafka.murmur2 over 12 by word 2"))],
    [
        Binding.to_queue("orders", "a", "order.*"), Binding.to_queue("orders", "b", "#.eu"),
        Binding.to_queue("docs", "a", "", {"x-match": "all", "format": "pdf"}),
    ],
)  # fmt: skip
SCHEMA = "exch string, rkey string, hdrs map<string, string>, note int"
ROWS = [("orders", "order.eu", {}, 1), ("docs", "", {"format": "pdf"}, 2), ("docs", "", {}, 3), ("no", "", {}, 4)]
ANSWERS = [
    (["a", "b"], {"b": 10}, False, None),
    (["a"], {}, False, None),
    ([], {}, True, None),
    ([], {}, True, "404 NOT_FOUND - no exchange 'no' in vhost '/'"),
]


def answers_of(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row)[-4:] for row in sorted(rows, key=lambda row: row.note)]


def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def test_a_frame_keeps_its_columns_and_gets_the_answers(spark: SparkSession) -> None:
    routed = bindings.spark.route(frame(spark), TOPOLOGY)
    assert routed.columns == ["exch", "rkey", "hdrs", "note", "queues", "partitions", "unroutable", "error"]
    rows = routed.collect()
    assert answers_of(rows) == ANSWERS
    assert sorted((tuple(row)[:4] for row in rows), key=lambda row: row[3]) == ROWS
    assert [row.note for row in routed.where("unroutable").orderBy("note").collect()] == [3, 4]


def test_sql_has_a_function_with_the_same_answers(spark: SparkSession) -> None:
    bindings.spark.register(spark, TOPOLOGY)
    frame(spark).createOrReplaceTempView("messages")
    rows = spark.sql("SELECT note, hashstar_route(exch, rkey, hdrs) AS r FROM messages").selectExpr("note", "r.*")
    assert answers_of(rows.collect()) == ANSWERS
    assert spark.sql("SELECT hashstar_route('orders', 'order.eu').queues").first()[0] == ["a", "b"]  # type: ignore[index]


def test_an_archive_of_ours_is_routed_by_the_types_of_its_headers(spark: SparkSession, tmp_path: Path) -> None:
    binding = Binding.to_queue("docs", "a", "", {"x-match": "all", "copies": 2})
    topology = Topology([Exchange("docs", "headers")], [Queue("a")], [binding])
    messages = [Message("docs", "", {"copies": copies}) for copies in (2, "2", 3)]
    batch = build_batch([Record(message) for message in messages])
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "ours.parquet")
    rows = bindings.spark.route(spark.read.parquet(str(tmp_path / "ours.parquet")), topology).collect()
    assert [row.queues for row in rows] == [["a"], [], []]


def test_a_stream_has_the_same_answers(spark: SparkSession, tmp_path: Path) -> None:
    frame(spark).write.parquet(str(tmp_path / "in"))
    streamed = bindings.spark.route(spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in")), TOPOLOGY)
    assert streamed.isStreaming
    query = (
        streamed.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start(str(tmp_path / "out"))
    )  # fmt: skip
    query.awaitTermination()
    assert answers_of(spark.read.parquet(str(tmp_path / "out")).collect()) == ANSWERS


def test_what_cannot_be_routed_is_named_before_spark_runs(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="its columns are note; name them with"):
        bindings.spark.route(frame(spark).select("note"), TOPOLOGY)
    with pytest.raises(InputError, match="there is no column 'nothing'; there are: exch"):
        bindings.spark.route(frame(spark), TOPOLOGY, mapping=FieldMapping(columns=(("exchange", "nothing"),)))
    with pytest.raises(InputError, match="column exchange is of type map"):
        bindings.spark.route(frame(spark), TOPOLOGY, mapping=FieldMapping(columns=(("exchange", "hdrs"),)))
    with pytest.raises(InputError, match="there is a column error already"):
        bindings.spark.route(frame(spark).withColumnRenamed("note", "Error"), TOPOLOGY)


ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
import bindings.spark
from bindings.auditing.spark.session import is_connect
from pyspark.sql import SparkSession
from tests.bindings.spark.test_route import ANSWERS, TOPOLOGY, answers_of, frame
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
spark = (builder.remote if sys.argv[2] == "connect" else builder.master)(sys.argv[3]).getOrCreate()
assert is_connect(spark) == (sys.argv[2] == "connect")
assert answers_of(bindings.spark.route(frame(spark), TOPOLOGY).collect()) == ANSWERS
bindings.spark.register(spark, TOPOLOGY)
assert spark.sql("SELECT hashstar_route('orders', 'order.eu').queues").first()[0] == ["a", "b"]
print("equal")
spark.stop()
"""


@pytest.mark.live
@pytest.mark.parametrize(("kind", "address"), [("connect", "local[2]"), ("cluster", "local-cluster[1,1,512]")])
def test_workers_get_the_product(spark: SparkSession, tmp_path: Path, kind: str, address: str) -> None:
    """The session is the user's; the Python of the workers has the packages of this one, but not the product."""
    worker = tmp_path / "worker"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(worker)], check=True, timeout=SECONDS)
    (packages,) = worker.glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment.pop("PYTHONPATH", None)
    script = tmp_path / "script.py"
    script.write_text(ELSEWHERE)
    done = subprocess.run(
        [sys.executable, str(script), str(ROOT), kind, address], capture_output=True, text=True, timeout=SECONDS,
        check=False, cwd=tmp_path, env={**environment, "PYSPARK_PYTHON": str(worker / "bin" / "python")},
    )  # fmt: skip
    assert done.stdout.endswith("equal\n"), done.stderr[-3000:]
