"""A pass over an archive in parts: a task is some splits, read and counted where it runs, once and whole.

A task reads with the archive's own readers and counts what they yield on the spot, so no record goes any further. Its
results are a row for each study and one for its account; they count only if it ends, and a task that is tried again
begins with counters that know nothing of the first attempt. Nothing here needs Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa

from bindings.archive.reading import Bad, Format, Skipped, Split
from bindings.audit.account import Account, Accounting
from bindings.audit.selection import Selection
from bindings.audit.study import Counting, Study
from bindings.sources.files import make_folders
from exchange.errors import InputError

__all__ = [
    "ACCOUNT", "ROW", "Order", "Results", "Task", "TooManyBad", "added", "counting", "order_of", "packed", "perform",
    "rows_of",
]  # fmt: skip

ACCOUNT: Final = -1
"""In the place of a study's number, in the row of an account."""

ROW: Final = pa.schema([("task", pa.int64()), ("study", pa.int32()), ("value", pa.binary())])
"""What a task gives back."""

KEPT: Final = 4
"""Sets of counters that a worker keeps for tasks to come."""


class TooManyBad(InputError):
    """More records of an archive cannot be read than are allowed."""

    exit_code = 1


class Task(NamedTuple):
    """Parts of an archive that are read one after another."""

    number: int
    splits: tuple[tuple[Format, Split], ...]
    weight: int
    """About how many bytes it reads."""


class Order(NamedTuple):
    """What all tasks of a pass are told; small, but for the topologies."""

    studies: bytes
    """Pickled."""
    key: bytes
    """A hash of the studies, which tells whether counters are for them."""
    selection: Selection
    keep_bad: str | None = None
    """The folder for bad records."""
    max_bad: int | None = None


class Results(NamedTuple):
    """What was found in some part of an archive: of each study its value, and the account."""

    values: tuple[Any, ...]
    account: Account


def order_of(
    studies: Sequence[Study[Any]], selection: Selection, keep_bad: str | None = None, max_bad: int | None = None
) -> Order:
    """The order for some studies."""
    data = pickle.dumps(tuple(studies), pickle.HIGHEST_PROTOCOL)
    return Order(data, hashlib.sha256(data).digest(), selection, keep_bad, max_bad)


_idle: Final[dict[bytes, list[Counting[Any]]]] = {}
"""Counters that wait for the next task of their studies: what they have learned about keys is worth keeping."""


@contextmanager
def counting(order: Order) -> Iterator[list[Counting[Any]]]:
    """Counters for an order's studies, which have counted nothing. Those that a failure interrupts are thrown away."""
    counters = _idle.pop(order.key, None)
    if counters is None:
        studies: tuple[Study[Any], ...] = pickle.loads(order.studies)  # noqa: S301  made by the driver
        counters = [study.counter() for study in studies]
    yield counters
    _idle[order.key] = counters
    while len(_idle) > KEPT:
        del _idle[next(iter(_idle))]


def perform(tasks: Iterable[Task], order: Order) -> Results:
    """Read and count. Raises InputError for files that cannot be opened, TooManyBad if there are."""
    with counting(order) as counters:
        accounting = Accounting()
        columns = columns_of(counters, order.selection)
        for task in tasks:
            with _Aside(order.keep_bad, task.number) as aside:
                for form, split in task.splits:
                    for item in form.read_coded(split, columns):
                        if isinstance(item, Bad):
                            aside.put(item)
                            accounting.add_bad(item)
                            if order.max_bad is not None and accounting.bad_records > order.max_bad:
                                raise TooManyBad(too_many(accounting.account(), order.max_bad))
                        elif isinstance(item, Skipped):
                            accounting.skip(item.reason, item.records)
                        else:
                            count(item, counters, order.selection, accounting)
        return Results(tuple([counter.result() for counter in counters]), accounting.account())


def columns_of(counters: Sequence[Counting[Any]], selection: Selection) -> tuple[str, ...]:
    """The columns of the archive's records that are needed."""
    named = [name for counter in counters for name in counter.columns]
    return tuple(dict.fromkeys([*named, *selection.columns, "time"]))


def count(
    batch: pa.RecordBatch, counters: Sequence[Counting[Any]], selection: Selection, accounting: Accounting
) -> None:
    """Let all counters count what is selected of a batch."""
    batch, left_out = selection.apply(batch)
    for reason, records in left_out.items():
        accounting.skip(reason, records)
    if batch.num_rows:
        accounting.add(batch)
        for counter in counters:
            counter.add(batch.select(list(counter.columns)))


def too_many(account: Account, allowed: int) -> str:
    """What is said of more bad records than are allowed."""
    reason, facts = max(account.bad.items(), key=lambda each: each[1].records)
    where = facts.samples[0]
    return f"more than {allowed:,} bad records, such as that at {where.offset} in {where.source}: {reason}"


class _Aside:
    """Where bad records of a task are kept: a file of JSON lines, there only if there are some and the task ended."""

    def __init__(self, folder: str | None, number: int) -> None:
        self._folder = None if folder is None else Path(folder)
        self._number = number
        self._file: Any = None

    def put(self, bad: Bad) -> None:
        if self._folder is None:
            return
        try:
            if self._file is None:
                make_folders(self._folder)
                self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115  closed at the task's end
                    "w", encoding="utf-8", dir=self._folder, prefix=f".part-{self._number:05}.", delete=False
                )
            sample = bad.sample.decode("utf-8", "backslashreplace")
            line = {"source": bad.source, "offset": bad.offset, "reason": bad.reason, "sample": sample}
            self._file.write(json.dumps(line, ensure_ascii=True) + "\n")
        except OSError as error:
            raise InputError(f"{self._folder}: cannot be written: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._file is None or self._folder is None:
            return
        self._file.close()
        if kind is None:
            os.replace(self._file.name, self._folder / f"part-{self._number:05}.jsonl")  # noqa: PTH105
        else:
            os.unlink(self._file.name)  # noqa: PTH108


def rows_of(number: int, results: Results, studies: Sequence[Study[Any]]) -> pa.RecordBatch:
    """Results on their way to another process."""
    values = [packed(study.table_of(value)) for study, value in zip(studies, results.values, strict=True)]
    account = pickle.dumps(results.account, pickle.HIGHEST_PROTOCOL)
    count = len(values) + 1
    return pa.record_batch(
        [
            pa.array([number] * count, pa.int64()),
            pa.array([*range(len(values)), ACCOUNT], pa.int32()),
            pa.array([*values, account], pa.binary()),
        ],
        schema=ROW,
    )


def added(rows: Iterable[pa.RecordBatch], studies: Sequence[Study[Any]]) -> tuple[int | None, Results]:
    """The sum of the results in some rows, and the least number of their tasks; None if there are no rows."""
    values: list[Any] = [None] * len(studies)
    account = Account()
    least: int | None = None
    for batch in rows:
        for number, study, data in zip(*(batch.column(n) for n in range(3)), strict=True):
            task, place = number.as_py(), study.as_py()
            least = task if least is None else min(least, task)
            if place == ACCOUNT:
                account += pickle.loads(data.as_py())  # noqa: S301  made by a worker
                continue
            value = studies[place].value_of(pa.ipc.open_stream(data.as_buffer()).read_all())
            values[place] = value if values[place] is None else values[place] + value
    zeros = [study.zero() if value is None else value for study, value in zip(studies, values, strict=True)]
    return least, Results(tuple(zeros), account)


def packed(table: pa.Table) -> bytes:
    """A table as bytes, in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
