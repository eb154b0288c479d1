"""Follow an archive that grows: keep the sums of its studies up to date, and count each record exactly once.

A query of Structured Streaming watches the archive. Its rows are not records but splits: each row names a part of a
file that is complete and new (`bindings.auditing.spark.growth`). Each micro-batch is a pass over its splits, the same
job as a pass over a whole archive, and its counts go into a ledger under the number of the micro-batch
(`bindings.auditing.spark.ledger`). Spark's checkpoint keeps the number of the next micro-batch. An interrupted
micro-batch is run again with the same splits, and replaces what its first attempt wrote.

All state is in one folder, ``STATE/<epoch>/``. An epoch identifies what is counted: the studies with their topologies,
the selection and the field mapping. When one of these changes, a new epoch begins and reads the archive from its
beginning. The old epoch stays, and continues if its topology is used again.

    STATE/3f9c…/epoch.json      what is counted in this epoch, and of which archive
    STATE/3f9c…/checkpoint/     Spark's checkpoint
    STATE/3f9c…/files/          how far each file was taken (growth)
    STATE/3f9c…/account/, …/coverage/    the ledger
"""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Options
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bindings.archive.mapping import COLUMNS, USUAL, FieldMapping
from bindings.archive.places import read_file_size
from bindings.archive.reading import Format, Split
from bindings.auditing.local.planning import MIN_TASK_BYTES
from bindings.auditing.local.run import Pass
from bindings.auditing.local.selection import EVERYTHING, Selection
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import Results, Task, order_for
from bindings.auditing.spark import kafka
from bindings.auditing.spark.frames import run_on
from bindings.auditing.spark.gathering import run_tasks
from bindings.auditing.spark.growth import STEP_BYTES, Growth, MicroBatch, write_whole
from bindings.auditing.spark.ledger import BatchLedger, LedgerEntry
from bindings.auditing.spark.session import register_source
from bindings.sources.files import make_folders, open_file
from exchange.errors import InputError
from exchange.text.display import count_noun
from exchange.values.json_text import parse_leniently

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow  # noqa: PLC0414
except ImportError:  # before Spark 4.2, which asks for the latest offset once and stops there

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Marks a source that supports the trigger AvailableNow."""


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log: Final = logging.getLogger(__name__)

SPLIT_ROWS: Final = "split binary, notice string, open_files int"
"""Schema of the query. A row has a split, a notice, or the number of files that end in the middle of a record."""


class Update(NamedTuple):
    """The results up to and including a micro-batch."""

    batch: int
    total: Pass
    """Sum over the whole epoch so far."""
    records: int
    """Number of records read in this micro-batch, including skipped and bad ones."""
    notices: tuple[str, ...]
    """Notices for users of the counts: files that were replaced, cut or removed."""
    open_files: int
    """Number of files that end in what may be the beginning of a record; it is left for later."""


LATE: Final = "Python worker failed to connect back"
"""Words of Spark's error if a Python that it starts for the source does not answer in 10 s; no setting changes that."""
PATIENCE: Final = 600.0
"""Time for which the query is started again for that reason, without a micro-batch in between, in seconds."""


class Following:
    """A running audit; it continues in the background until it is stopped or the session ends."""

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        batches: _BatchCounter,
        begun: str | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.query = start()
        self.begun: str | None = begun
        """For a new epoch, a notice about it for the user; else None."""
        self._start = start
        self._batches = batches
        self._clock = clock
        self._late: tuple[int, float] | None = None
        """Number of micro-batches when a Python was `LATE`, and when that was first so with this number."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait up to ``seconds`` for the end; return whether the audit has ended. Raises the failure that ended it.

        A query that ended because a Python was `LATE` is started again, and continues with the next micro-batch.
        """
        begun = self._clock()
        while True:
            # Spark waits for ever at 0, and accepts fractions.
            left = None if seconds is None else max(begun + seconds - self._clock(), 0.001)
            try:
                ended = self.query.awaitTermination(left)  # type: ignore[arg-type]
                return left is None or bool(ended)
            except Exception as error:
                failure = self._batches.failure or error
                if LATE not in str(failure):
                    raise failure from error
                self._start_again(failure)

    def _start_again(self, error: Exception) -> None:
        counted, now = self._batches.counted, self._clock()
        minutes = f"{PATIENCE / 60:.0f} minutes"
        if self._late is None or self._late[0] != counted:
            self._late = counted, now
            log.warning("Spark's Python did not answer within 10 seconds; the query is started again, for %s", minutes)
        elif now - self._late[1] >= PATIENCE:
            raise InputError(
                f"Spark started a Python again and again for {minutes}, and none answered within 10 seconds, which no "
                "setting changes: the machine is overloaded; what was counted is kept, and the same command continues"
            ) from error
        self._batches.failure = None
        self.query = self._start()

    def stop(self) -> None:
        """Stop; an unfinished micro-batch is run again by the next `follow`."""
        self.query.stop()

    def total(self) -> Pass:
        """Return the sum over this epoch so far."""
        return self._batches.total()


def follow(
    spark: SparkSession,
    archive: str,
    studies: Sequence[Study[Any]],
    state: str,
    *,
    every: float | None = None,
    selection: Selection = EVERYTHING,
    mapping: FieldMapping = USUAL,
    on_update: Callable[[Update], None] = lambda update: None,
    step_bytes: int = STEP_BYTES,
) -> Following:
    """Follow a file or folder that grows, or a topic of Kafka: read what is new once, or every ``every`` seconds.

    ``on_update`` is called after each micro-batch, once its sum is written to disk; after a restart it may be called
    again for the same micro-batch. A micro-batch reads about ``step_bytes`` of files. Raises InputError if the archive
    does not exist, or if the state belongs to another archive.
    """
    state = str(Path(state).absolute())  # absolute: the JVM and workers have their own working directories
    if archive.startswith(kafka.SCHEME):
        topic = kafka.parse_topic(archive)
        rows = kafka.read_rows_to_follow(spark, topic, headers=kafka.needs_headers(studies, selection, mapping))
        folder, begun = _epoch(f"{kafka.SCHEME}{topic.brokers}/{topic.name}", studies, state, selection, mapping)
        count = partial(_count_records, studies=studies, selection=selection, mapping=mapping)
    else:
        root = str(Path(archive).absolute())
        if not Path(root).exists():
            raise InputError(f"{archive}: there is no such file or folder")
        folder, begun = _epoch(root, studies, state, selection, mapping)
        register_source(spark, SplitSource)
        options = {"path": root, "state": str(folder / "files"), "step_bytes": str(step_bytes)} | encode_options(
            mapping
        )
        rows = spark.readStream.format(SplitSource.name()).options(**options).load()
        count = partial(_count_splits, studies=studies, selection=selection)
    batches = _BatchCounter(folder, studies, on_update, count)
    writer: DataStreamWriter = rows.writeStream.foreachBatch(batches).queryName(f"hashstar {folder.name}")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} seconds")
    return Following(writer.start, batches, begun)


class _BatchCounter:
    """Counts micro-batches, and writes their counts to the ledger."""

    def __init__(
        self,
        folder: Path,
        studies: Sequence[Study[Any]],
        on_update: Callable[[Update], None],
        count: Callable[[DataFrame], tuple[Results, MicroBatch]],
    ) -> None:
        self._names = _names_of(studies)
        self._studies = tuple(studies)
        self._ledger = BatchLedger(folder, dict(zip(self._names, studies, strict=True)))
        self._on_update = on_update
        self._count = count
        self.failure: Exception | None = None
        self.counted = 0
        """Number of micro-batches that were counted."""

    def __call__(self, rows: DataFrame, batch: int) -> None:
        try:
            self._ledger.fold(batch - 1)  # Spark has committed that one, else it would not run this one
            results, step = self._count(rows)
            entry = LedgerEntry(dict(zip(self._names, results.values, strict=True)), results.account)
            total = self._ledger.put(batch, entry)
            self._on_update(Update(batch, self._pass_of(total), entry.account.read, step.notices, step.open_files))
            self.counted += 1
        except Exception as error:
            self.failure = error
            raise

    def total(self) -> Pass:
        return self._pass_of(self._ledger.total()[1])

    def _pass_of(self, entry: LedgerEntry) -> Pass:
        values = [
            study.finish(entry.values[name], entry.account)
            for name, study in zip(self._names, self._studies, strict=True)
        ]
        return Pass(tuple(values), entry.account)


def _count_splits(rows: DataFrame, studies: Sequence[Study[Any]], selection: Selection) -> tuple[Results, MicroBatch]:
    """Run a pass over the splits in rows of `SplitSource`."""
    splits: list[tuple[Format, Split]] = []
    notices: list[str] = []
    open_files = 0
    for row in rows.collect():
        if row.split is not None:
            form, split = pickle.loads(row.split)  # noqa: S301  made by our own reader
            if Path(split.path).exists():
                splits.append((form, split))
            else:
                notices.append(f"{split.path}: it has gone before it was read")
        if row.notice is not None:
            notices.append(row.notice)
        open_files = row.open_files or open_files
    for notice in notices:
        log.warning(notice)
    results = run_tasks(rows.sparkSession, _tasks(splits), studies, order_for(studies, selection))
    return results, MicroBatch((), tuple(notices), open_files)


def _count_records(
    rows: DataFrame, studies: Sequence[Study[Any]], selection: Selection, mapping: FieldMapping
) -> tuple[Results, MicroBatch]:
    """Run a pass over rows of Kafka's connector."""
    passed = run_on(rows, studies, selection, read=partial(kafka.read, mapping=mapping))
    return Results(passed.values, passed.account), MicroBatch(())


def _tasks(splits: Sequence[tuple[Format, Split]]) -> list[Task]:
    """Return tasks of at least `MIN_TASK_BYTES` bytes each, except for the last one."""
    tasks: list[Task] = []
    group: list[tuple[Format, Split]] = []
    weight = 0
    for form, split in splits:
        group.append((form, split))
        weight += read_file_size(split.path) if split.end is None or not form.grows else split.end - split.start
        if weight >= MIN_TASK_BYTES:
            tasks.append(Task(len(tasks), tuple(group), weight))
            group, weight = [], 0
    if group:
        tasks.append(Task(len(tasks), tuple(group), weight))
    return tasks


def _epoch(
    archive: str, studies: Sequence[Study[Any]], state: str, selection: Selection, mapping: FieldMapping
) -> tuple[Path, str | None]:
    """Return the folder of an epoch, and a notice if the epoch is new, else None."""
    counted = {
        "studies": {name: _identity(study) for name, study in zip(_names_of(studies), studies, strict=True)},
        "selection": [selection.vhost, selection.since, selection.until],
        "mapping": [mapping.exchange, mapping.routing_key],
    }
    name = hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()[:16]
    folder = Path(state) / name
    file = folder / "epoch.json"
    try:
        others = [path for path in Path(state).glob("*/epoch.json") if path != file]
        if file.exists():
            with open_file(file) as opened:
                known = parse_leniently(opened.read())["archive"]
            if known != archive:
                raise InputError(f"{state}: this is the state of {known}; give another folder to follow {archive}")
            return folder, None
        make_folders(folder)
        write_whole(file, json.dumps(counted | {"archive": archive}, indent=2).encode())
    except OSError as error:
        raise InputError(f"{state}: cannot be used for the state: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{file}: damaged, and without it what was counted is not known; give a new folder") from None
    if not others:
        return folder, f"{folder}: a new epoch begins, with all that is in the archive"
    return folder, (
        f"{folder}: a new epoch begins, since the topology, the studies or the selection are not those of "
        f"{count_noun(len(others), 'earlier one')}; it counts all that is in the archive; the others stay as they are"
    )


def _names_of(studies: Sequence[Study[Any]]) -> list[str]:
    """Return a name for each study: its kind, with a number if several studies have the same kind."""
    kinds = [type(study).__name__.removesuffix("Study").lower() for study in studies]
    return [kind if kinds.count(kind) == 1 else f"{kind}-{n}" for n, kind in enumerate(kinds)]


def _identity(study: Study[Any]) -> dict[str, str]:
    """Return the metadata of a study's tables, which identify it: version and fingerprints of topologies."""
    metadata = study.table_of(study.zero()).schema.metadata or {}
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in metadata.items()}


COLUMN: Final = "column_"
"""Begins an option with the column of a field."""


def encode_options(mapping: FieldMapping) -> dict[str, str]:
    """Return a mapping as options of a data source."""
    columns = {f"{COLUMN}{field}": place for field, place in mapping.columns}
    return {"exchange": mapping.exchange, "routing_key": mapping.routing_key, **columns}


def decode_mapping(options: Options[str, str]) -> FieldMapping:
    """Return the mapping in the options of a data source. Raises InputError for an invalid mapping."""
    columns = [(field, place) for field in COLUMNS if (place := options.get(COLUMN + field, ""))]
    return FieldMapping(
        options.get("exchange", USUAL.exchange), options.get("routing_key", USUAL.routing_key), tuple(sorted(columns))
    )


class SplitSource(DataSource):
    """A source of the splits of a growing archive, as they become complete; for `follow`."""

    @classmethod
    def name(cls) -> str:
        return "hashstar-splits"

    def schema(self) -> str:
        return SPLIT_ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        raise InputError("hashstar-splits can only be followed: use spark.readStream")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        growth = Growth(
            self.options["path"], Path(self.options["state"]), decode_mapping(self.options),
            int(self.options.get("step_bytes", STEP_BYTES)),
        )  # fmt: skip
        return _SplitReader(growth)


class StepReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the steps of a growing archive as a stream whose offsets are the numbers of steps."""

    def __init__(self, growth: Growth) -> None:
        self.growth = growth
        self._target: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self.growth.look()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"step": 0}

    def latestOffset(self, start: dict[str, int] | None = None, limit: object = None) -> dict[str, int]:  # noqa: N802
        """Return the offset of the next step; of the last step for Spark before 4.2, which does not pass ``start``."""
        last = self.growth.look() if self._target is None else self._target
        return {"step": last if start is None else min(start["step"] + 1, last)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self.parts_of(self.growth.steps(start["step"], end["step"]))

    def parts_of(self, steps: list[MicroBatch]) -> Sequence[InputPartition]:
        """Return the partitions that workers read for these steps."""
        raise NotImplementedError

    def commit(self, end: dict[str, int]) -> None:
        self.growth.forget(end["step"])


class _SplitReader(StepReader):
    """Reads the splits of steps as rows, not their records."""

    def parts_of(self, steps: list[MicroBatch]) -> Sequence[InputPartition]:
        rows: list[tuple[bytes | None, str | None, int]] = []
        for step in steps:
            rows += [(pickle.dumps(split, pickle.HIGHEST_PROTOCOL), None, 0) for split in step.splits]
            rows += [(None, notice, 0) for notice in step.notices]
            rows.append((None, None, step.open_files))
        return [InputPartition(rows)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(partition.value)
