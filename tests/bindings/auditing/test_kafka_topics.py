"""A topic of a real Kafka, through Spark's own connector: the records are those that the segment reader would read.

The connector's jars, which Spark needs when it starts, are those in the folder ``HASHSTAR_SPARK_KAFKA_JARS``, else
Spark fetches them by ``--packages``, else the tests are skipped with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Bad
from bindings.archive.record import SCHEMA, Record, to_records
from bindings.auditing.spark.kafka import SubscribedTopic, parse_topic, read, run_on_topic
from bindings.auditing.spark.streaming import follow
from exchange import InputError, Message
from tests.support.archives.growing import STUDY
from tests.support.archives.reads import facts
from tests.support.servers import Server, missing
from tests.support.waiting import find_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]

SCRIPT = """
import json, os, sys
from pathlib import Path
from bindings.archive.mapping import FieldMapping
from bindings.auditing.spark.kafka import parse_topic, run_on_topic
from bindings.auditing.spark.session import open_session
from bindings.auditing.spark.streaming import follow
from tests.support.archives.growing import STUDY

url, state, jars, packages = sys.argv[1:]
conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
conf |= {"spark.jars": ",".join(map(str, Path(jars).glob("*.jar")))} if jars else {"spark.jars.packages": packages}
mapping = FieldMapping("header:exchange", "key")
with open_session("local[2]", conf=conf) as spark:
    for line in sys.stdin:
        if line.strip() == "batch":
            found = run_on_topic(spark, parse_topic(url), [STUDY], mapping=mapping)
        else:
            following = follow(spark, url, [STUDY], state, mapping=mapping)
            following.wait()
            found = following.total()
        tally, account = found.values[0], found.account
        outcomes = sorted([[o.exchange, list(o.queues), f.messages] for o, f in tally.facts.items()])
        bad = dict(account.unread.bad)
        found = {"records": account.records, "window": account.window, "bad": bad, "outcomes": outcomes}
        print(json.dumps(found), flush=True)
"""


NOT_THERE = ("not installed", "unresolved dependency", "UNRESOLVED DEPENDENCIES")
"""Parts of the errors of a process without the connector."""


class Audit:
    """A process with a Spark that has the connector."""

    def __init__(self, url: str, state: Path) -> None:
        import pyspark

        jars = os.environ.get("HASHSTAR_SPARK_KAFKA_JARS", "")
        packages = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
        self._log = state.with_suffix(".log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, url, str(state), jars, packages],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    def ask(self, what: str) -> dict[str, Any]:
        """Return what the process counts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            text = self._log.read()
            if any(words in text for words in NOT_THERE):
                missing("Spark's connector for Kafka cannot be had; HASHSTAR_SPARK_KAFKA_JARS can name its folder")
            pytest.fail(text[-3000:])
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()


@pytest.fixture
def topic(kafka: Server) -> Iterator[str]:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    name = f"audit-{os.getpid()}"
    admin = AdminClient({"bootstrap.servers": kafka.url})
    for future in admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "-1"})]).values():
        future.result(find_limit())
    yield name
    for future in admin.delete_topics([name]).values():
        future.result(find_limit())


def produce(kafka: Server, topic: str, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.url})
    for n in range(count):
        exchange = [("exchange", b"billing"), ("exchange", b"orders")] if n % 5 else [("exchange", b"events")]
        key = b"order.new.eu" if n % 2 else b"paid"
        headers: list[tuple[str, str | bytes | None]] = [*exchange, ("region", b"eu")]
        producer.produce(topic, b"body", key=key, headers=headers, timestamp=1_700_000_000_000 + n)
    without_key: list[tuple[str, str | bytes | None]] = [("exchange", b"orders"), ("region", b"eu")]
    producer.produce(topic, b"body", headers=without_key, timestamp=1_700_000_000_000)
    producer.flush(find_limit())


@pytest.mark.smoke
@pytest.mark.live
def test_a_topic_is_audited_whole_and_as_it_grows(kafka: Server, topic: str, tmp_path: Path) -> None:
    audit = Audit(f"kafka://{kafka.url}/{topic}", tmp_path / "state")
    try:
        produce(kafka, topic, 100)
        whole = audit.ask("batch")
        assert whole["records"] == 101
        assert whole["window"] == [1_700_000_000_000_000, 1_700_000_000_099_000]
        assert whole["bad"] == {}
        assert whole["outcomes"] == [["events", ["eu"], 20], ["orders", [], 41], ["orders", ["all", "new"], 40]]
        assert audit.ask("follow") == whole
        produce(kafka, topic, 50)
    finally:
        audit.kill()
    audit = Audit(f"kafka://{kafka.url}/{topic}", tmp_path / "state")
    try:
        grown = audit.ask("follow")
        assert grown == audit.ask("batch")
        assert grown["records"] == 152
    finally:
        audit.kill()


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(*records: dict[str, Any]) -> pa.RecordBatch:
    """Return rows as the connector gives them, of one topic, with a time each millisecond."""
    return pa.record_batch({
        "topic": pa.array(["orders"] * len(records)),
        "partition": pa.array([record.get("partition", 0) for record in records], pa.int32()),
        "offset": pa.array(range(len(records)), pa.int64()),
        "timestamp": pa.array([1000 * n for n in range(len(records))], pa.timestamp("us", "UTC")),
        "key": pa.array([record.get("key") for record in records], pa.binary()),
        "value": pa.array([record.get("value") for record in records], pa.binary()),
        "headers": pa.array([record.get("headers") for record in records], HEADERS),
    })  # fmt: skip


def header(name: str, value: bytes | None) -> dict[str, Any]:
    return {"key": name, "value": value}


@pytest.mark.parametrize("start", range(4))
def test_rows_of_the_connector_are_records_as_in_a_segment(start: int) -> None:
    batch = rows(
        {"key": b"a.b", "value": b"body", "headers": [header("x", b"1"), header("x", b"2")]},
        {"key": b"", "headers": None},
        {"key": b"\xff", "value": b"", "headers": [header("n", None)], "partition": 2},
        {"value": b"lost", "partition": 2},
    ).slice(start)
    items = list(read(batch, SCHEMA.names))
    records = [record for item in items if isinstance(item, pa.RecordBatch) for record in to_records(item)]
    tombstone = {"x-kafka-topic": "orders", "x-kafka-key": "", "x-kafka-tombstone": True}
    without_key = {"x-kafka-key": None, "x-kafka-topic": "orders"}
    expected = [
        Record(Message("orders", "a.b", {"x": "2"}, {}, b"body"), 0, None, 4, source="kafka:orders-0", offset=0),
        Record(Message("orders", "", tombstone, {}, b""), 1000, None, 0, False, source="kafka:orders-0", offset=1),
        Record(Message("orders", "\udcff", {"n": None}, {}, b""), 2000, None, 0, source="kafka:orders-2", offset=2),
        Record(Message("orders", "", without_key, {}, b"lost"), 3000, None, 4, source="kafka:orders-2", offset=3),
    ]
    assert [facts(record) for record in records] == [facts(record) for record in expected[start:]]
    assert not [item for item in items if isinstance(item, Bad)]


def test_a_header_can_be_the_exchange_without_reading_the_others() -> None:
    batch = rows({"key": b"k", "headers": [header("e", b"orders")]}, {"key": b"k"})
    bad, records = read(batch, ["exchange", "routing_key"], FieldMapping("header:e"))
    assert isinstance(bad, Bad)
    assert isinstance(records, pa.RecordBatch)
    assert records.to_pylist() == [{"exchange": "orders", "routing_key": "k"}]


@pytest.mark.parametrize("url", ["kafka://host:1", "kafka:///t", "http://h/t", "kafka://h/a/b"])
def test_a_url_without_a_topic_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="kafka://localhost:9092/orders"):
        parse_topic(url)


def test_a_missing_connector_is_named_with_the_way_to_get_it(spark: SparkSession, tmp_path: Path) -> None:
    package = f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    with pytest.raises(InputError, match=package):
        run_on_topic(spark, parse_topic("kafka://localhost:1/orders"), [STUDY])
    with pytest.raises(InputError, match=package):
        follow(spark, "kafka://localhost:1/orders", [STUDY], str(tmp_path))


def test_a_url_has_brokers_topic_and_options() -> None:
    assert parse_topic("kafka://a:1,b:2/orders?startingOffsets=latest") == SubscribedTopic(
        "a:1,b:2", "orders", (("startingOffsets", "latest"),)
    )
