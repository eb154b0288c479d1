"""Of a folder that streaming queries of Spark write to, the files in the log of its sink are read, and no others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.formats.spark_sink import LOG
from bindings.auditing.spark.growth import Growth
from exchange.errors import InputError
from tests.support.archives.reads import read
from tests.support.cases import with_each
from tests.support.tiers import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL: Final = 3
"""Number of micro-batches after which this sink writes the whole log again."""


def read_keys(path: Path | str) -> list[str]:
    """Return the routing keys of an archive, sorted."""
    return sorted(
        record.message.routing_key for name, form in detect(str(path)).files for record in read(form, name).records
    )


class Sink:
    """A folder as Spark's sink leaves it: what was committed, what killed tasks left over, and the log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.committed: list[str] = []
        self._entries: list[dict[str, str]] = []
        self._files = 0
        (root / LOG).mkdir(parents=True)

    def write(self, keys: list[str], part: str) -> Path:
        """Write a file of rows, which does not count yet."""
        self._files += 1
        path = self.root / part / f"part-{self._files:05}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"exchange": ["x"] * len(keys), "routing_key": keys}), path)
        return path

    def commit(self, number: int, files: dict[Path, list[str]]) -> None:
        """Write the log of a micro-batch; of each third, with all that those before have."""
        added = [{"path": f"file://{quote(str(path), safe='/=')}", "action": "add"} for path in files]
        self._entries += added
        self.committed += [key for keys in files.values() for key in keys]
        is_compact = number % INTERVAL == INTERVAL - 1
        lines = ["v1", *[json.dumps(each) for each in (self._entries if is_compact else added)]]
        name = f"{number}.compact" if is_compact else str(number)
        (self.root / LOG / name).write_text("\n".join(lines))
        (self.root / LOG / f".{name}.crc").write_bytes(b"crc")
        if is_compact:  # Spark removes these when they are ten minutes old
            for old in range(number - INTERVAL):
                (self.root / LOG / str(old)).unlink(missing_ok=True)


@examples(12)
@given(seed=st.integers(0, 2**32))
def test_the_records_of_a_sink_are_those_that_were_committed(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Whatever killed tasks left over, how far the log goes, by what files are partitioned, and where a copy is."""
    chance = Random(seed)
    root = tmp_path_factory.mktemp("sink") / chance.choice(["rows", "day=1", "a b%20c"])
    parts = chance.choice([[""], ["day=1", "day=a b"], ["day=1/hour=%3A", "day=2/hour=1"]])
    sink = Sink(root)
    for part in parts:
        (root / part).mkdir(parents=True, exist_ok=True)
    for number in range(chance.randrange(1, 9)):
        files = {}
        for _ in range(chance.randrange(3)):
            keys = [f"k{chance.randrange(9)}"]
            files[sink.write(keys, chance.choice(parts))] = keys
            if chance.random() < 0.5:
                sink.write(keys, chance.choice(parts))  # of a task that was killed
        sink.commit(number, files)
    if chance.random() < 0.5:
        root = Path(shutil.copytree(root, root.parent / "copy"))
    if sink.committed:
        assert read_keys(root) == sorted(sink.committed)
        growth = Growth(str(root), root.parent / "state")
        assert growth.look()
        taken = [split.source for batch in growth.steps(0, growth.last) for _, split in batch.splits]
        assert sorted(taken) == sorted(str(name) for name, _ in detect(str(root)).files)
    else:
        with pytest.raises(InputError, match="there is nothing in it"):
            detect(str(root))


def test_what_spark_has_committed_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Over a log that was compacted, and partitions with names that are escaped twice."""
    name = "spark.sql.streaming.fileSink.log.compactInterval"
    spark.conf.set(name, "2")
    try:
        (tmp_path / "in").mkdir()
        for number in range(4):
            row = {"exchange": "x", "routing_key": f"k{number}", "day": f"a b/{number % 2}%"}
            pq.write_table(pa.Table.from_pylist([row]), tmp_path / "in" / f"{number}.parquet")
        rows = spark.readStream.schema("exchange string, routing_key string, day string")
        stream = rows.option("maxFilesPerTrigger", "1").parquet(str(tmp_path / "in"))
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.partitionBy("day").trigger(availableNow=True).start(str(tmp_path / "day=1")).awaitTermination()
    finally:
        spark.conf.unset(name)
    folder = tmp_path / "day=1"
    assert {path.name for path in (folder / LOG).glob("[0-9]*")} >= {"1.compact", "2", "3.compact"}
    for path in [*folder.glob("*/*.parquet")]:
        shutil.copy(path, path.with_name(f"left-over-{path.name}"))
    assert len([*folder.glob("*/*.parquet")]) == 8
    assert read_keys(folder) == [f"k{number}" for number in range(4)]
    with pytest.raises(InputError, match=r"it is a part of .*day=1: name that$"):
        detect(str(next(folder.glob("day=*"))))
    with pytest.raises(InputError, match="Spark's file sink, in which files may be left over"):
        detect(f"{folder}/*/*.parquet")


@with_each("data", [
    b"v2\n", b"", b"v1\n{", b"v1\n[]", b'v1\n{"path": 5, "action": "add"}',
    b'v1\n{"path": "file:///x", "action": "move"}', None,
])  # fmt: skip
def test_a_damaged_log_is_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes | None) -> None:
    sink = Sink(tmp_path_factory.mktemp("damaged") / "rows")
    for number in range(2):
        keys = [f"k{number}"]
        sink.commit(number, {sink.write(keys, ""): keys})
    sink.commit(3, {})
    log = sink.root / LOG
    if data is not None:
        (log / "2.compact").write_bytes(b"v1")
        (log / "3").write_bytes(data)
    error = "2 is missing" if data is None else "3: this log of Spark's file sink cannot be read"
    with pytest.raises(InputError, match=f"{error}, so which files count is not known"):
        detect(str(sink.root))
