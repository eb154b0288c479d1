"""Tasks of a pass over an archive: a task reads some splits and counts them in the process where it runs.

A task reads with the archive's own readers and counts their records at once, so no record leaves the process. Its
results are one row per study, and one row for its account. Results are valid only if the task ends; a task that is run
again begins with counters at zero. Nothing here needs Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa

from bindings.archive.formats.recognition import Undetected
from bindings.archive.inspection import Account
from bindings.archive.reading import Bad, Format, Item, Split, read_split
from bindings.archive.sums import Detected, FileKind, Span, Unread
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.study import Counting, Study
from bindings.sources.files import make_folders
from exchange.errors import InputError, name_os_errors
from exchange.values.json_text import parse_leniently

ACCOUNT: Final = -1
"""Stands for the study's number in the row of the account, which belongs to no study."""

ROW: Final = pa.schema([("task", pa.int64()), ("study", pa.int32()), ("value", pa.binary())])
"""A row of a task's results: number of the task, number of a study, and the study's value as bytes."""

MAX_KEPT_COUNTERS: Final = 4
"""Maximum number of sets of counters that a worker keeps for later tasks."""


class TooManyBad(InputError):
    """More bad records were read than ``max_bad`` allows."""

    exit_code = 1


class Task(NamedTuple):
    """Splits of an archive that are read one after another in one process."""

    number: int
    splits: tuple[tuple[Format, Split], ...]
    weight: int
    """Approximate number of bytes that it reads."""


class PassSettings(NamedTuple):
    """The settings that all tasks of a pass share; small, except for the topologies in the studies."""

    studies: bytes
    """The studies, pickled."""
    key: bytes
    """Hash of the studies: the key of their idle counters."""
    selection: Selection
    keep_bad: str | None = None
    """Folder in which bad records are kept; None to keep none."""
    max_bad: int | None = None
    """Maximum number of bad records, above which a task fails; None for no limit."""


class Results(NamedTuple):
    """The results over a part of an archive: the value of each study, in order, and the account."""

    values: tuple[Any, ...]
    account: Account

    def plus(self, other: Results) -> Results:
        """Return the results over both parts."""
        values = [one + more for one, more in zip(self.values, other.values, strict=True)]
        return Results(tuple(values), self.account + other.account)


def order_for(
    studies: Sequence[Study[Any]], selection: Selection, keep_bad: str | None = None, max_bad: int | None = None
) -> PassSettings:
    """Return the order for these studies."""
    data = pickle.dumps(tuple(studies), pickle.HIGHEST_PROTOCOL)
    return PassSettings(data, hashlib.sha256(data).digest(), selection, keep_bad, max_bad)


_idle: Final[dict[bytes, list[Counting[Any]]]] = {}
"""Hash of studies -> idle counters for their next task; kept because they cache the classes of keys."""


@contextmanager
def borrow_counters(order: PassSettings) -> Iterator[list[Counting[Any]]]:
    """Yield counters at zero for an order's studies, and keep them for the next task afterwards.

    After a failure they are dropped, because they contain counts of an incomplete task.
    """
    counters = _idle.pop(order.key, None)
    if counters is None:
        studies: tuple[Study[Any], ...] = pickle.loads(order.studies)  # noqa: S301  made by the driver
        counters = [study.counter() for study in studies]
    yield counters
    _idle[order.key] = counters
    while len(_idle) > MAX_KEPT_COUNTERS:
        del _idle[next(iter(_idle))]


def count_tasks(
    tasks: Iterable[Task], order: PassSettings, step: Callable[[int], None] = lambda weight: None
) -> Results:
    """Read and count tasks in this process; ``step`` is called with the weight of each that was read.

    Raises InputError for files that cannot be opened, TooManyBad as soon as more records are bad than the order allows.
    """
    with borrow_counters(order) as counters:
        account = Account()
        columns = find_needed_columns(counters, order.selection)
        for task in tasks:
            with _BadRecordFile(order.keep_bad, task.number) as bad_records:
                for planned, split in task.splits:
                    form = _detect(planned, split, account.detected)
                    if form is None:
                        continue
                    for item in read_split(form, split, columns, coded=True):
                        if isinstance(item, Bad):
                            bad_records.write(item)
                        count_item(item, counters, order.selection, account)
                        if isinstance(item, Bad):
                            check_bad(account, order.max_bad)
            step(task.weight)
        return Results(tuple([counter.result() for counter in counters]), account)


def _detect(form: Format, split: Split, detected: Detected) -> Format | None:
    """Return the format of a split's file, None if it is empty; the first split adds what a report says of the file."""
    if not isinstance(form, Undetected):
        return form
    found = form.find(split.path)
    if found is not None and form.is_first:
        form.describe(split.path, found, detected)
    return found


def find_needed_columns(counters: Sequence[Counting[Any]], selection: Selection) -> tuple[str, ...]:
    """Return the columns of records that the counters and the selection read, and ``time``, which the account reads."""
    named = [name for counter in counters for name in counter.columns]
    return tuple(dict.fromkeys([*named, *selection.columns, "time"]))


def count_item(item: Item, counters: Sequence[Counting[Any]], selection: Selection, account: Account) -> None:
    """Count an item that a format yielded: the selected rows of a batch, or a bad or skipped record."""
    if isinstance(item, pa.RecordBatch):
        count_batch(item, counters, selection, account)
    else:
        account.add(item)


def count_batch(
    batch: pa.RecordBatch, counters: Sequence[Counting[Any]], selection: Selection, account: Account
) -> None:
    """Count the selected rows of a batch with all counters, and the other rows as skipped."""
    batch, left_out = selection.apply(batch)
    account.unread.skipped.update(left_out)
    if batch.num_rows:
        account.add(batch)
        for counter in counters:
            counter.add(batch.select(list(counter.columns)))


def check_bad(account: Account, allowed: int | None) -> None:
    """Raise TooManyBad if more records are bad than allowed; None allows any number."""
    if allowed is None or account.unread.bad_records <= allowed:
        return
    (reason, _), *_ = account.unread.bad.most_common(1)
    first = account.unread.samples[reason][0]
    place = first.source if first.offset is None else f"at {first.offset} in {first.source}"
    such = f", such as that {place}" if place else ""
    raise TooManyBad(f"more than {allowed:,} bad records{such}: {account.unread.explain(reason)}")


class _BadRecordFile:
    """Writes the bad records of a task as JSON lines; the file appears when the task ends, if it has any."""

    def __init__(self, folder: str | None, number: int) -> None:
        self._folder = None if folder is None else Path(folder)
        self._number = number
        self._file: Any = None

    def write(self, bad: Bad) -> None:
        if self._folder is None:
            return
        with name_os_errors(self._folder, "written"):
            if self._file is None:
                make_folders(self._folder)
                self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115  closed at the task's end
                    "w", encoding="utf-8", dir=self._folder, prefix=f".part-{self._number:05}.", delete=False
                )
            sample = bad.sample.decode("utf-8", "backslashreplace")
            line = {"source": bad.source, "offset": bad.offset, "reason": bad.reason, "sample": sample}
            self._file.write(json.dumps(line, ensure_ascii=True) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._file is None or self._folder is None:
            return
        try:
            self._file.close()
            if kind is None:
                os.replace(self._file.name, self._folder / f"part-{self._number:05}.jsonl")  # noqa: PTH105
        except OSError as problem:
            if kind is None:
                raise InputError(f"{self._folder}: cannot be written: {problem.strerror}") from None
        finally:
            Path(self._file.name).unlink(missing_ok=True)


def encode_results(number: int, results: Results, studies: Sequence[Study[Any]]) -> pa.RecordBatch:
    """Encode the results of a task as rows of `ROW`, to send them to another process."""
    values = [_to_bytes(study.table_of(value)) for study, value in zip(studies, results.values, strict=True)]
    account = json.dumps(encode_account(results.account)).encode()
    count = len(values) + 1
    return pa.record_batch(
        [
            pa.array([number] * count, pa.int64()),
            pa.array([*range(len(values)), ACCOUNT], pa.int32()),
            pa.array([*values, account], pa.binary()),
        ],
        schema=ROW,
    )


def add_results(rows: Iterable[pa.RecordBatch], studies: Sequence[Study[Any]]) -> tuple[int | None, Results]:
    """Add up results in rows of `ROW`; return the smallest task number, None if there are no rows, and the sum."""
    values: list[Any] = [None] * len(studies)
    account = Account()
    least: int | None = None
    for batch in rows:
        for number, study, data in zip(*(batch.column(n) for n in range(3)), strict=True):
            task, which = number.as_py(), study.as_py()
            least = task if least is None else min(least, task)
            if which == ACCOUNT:
                account += _read_account(data.as_py())
                continue
            value = studies[which].value_of(pa.ipc.open_stream(data.as_buffer()).read_all())
            values[which] = value if values[which] is None else values[which] + value
    sums = [study.zero() if value is None else value for study, value in zip(studies, values, strict=True)]
    return least, Results(tuple(sums), account)


def _read_account(data: bytes) -> Account:
    try:
        return decode_account(parse_leniently(data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"results of a task cannot be read: {error}") from None


def encode_account(account: Account) -> dict[str, Any]:
    """Return an account as JSON."""
    span, unread = account.span, account.unread
    bad = {
        reason: [
            records,
            [[*bad[:3], b64encode(bad.sample).decode(), bad.records] for bad in unread.samples.get(reason, ())],
        ]
        for reason, records in unread.bad.items()
    }
    return {
        "records": span.messages, "first": span.first, "last": span.last, "untimed": account.untimed,
        "skipped": dict(unread.skipped), "bad": bad, "uncounted": dict(unread.uncounted),
        "kinds": [[*kind, *files] for kind, files in account.detected.kinds.items()],
        "others": account.detected.others,
    }  # fmt: skip


def decode_account(value: Mapping[str, Any]) -> Account:
    """Return the account that `encode_account` encoded. Raises ValueError, TypeError or KeyError for another value."""
    counts = [value["records"], value["untimed"], *dict(value["skipped"]).values()]
    bad = {reason: records for reason, (records, _) in value["bad"].items()}
    uncounted = dict(value.get("uncounted", {}))  # earlier releases have none
    counts += [*bad.values(), *uncounted.values()]
    times = [value["first"], value["last"]]
    if not all(type(count) is int and count >= 0 for count in counts) or not {*map(type, times)} <= {int, NoneType}:
        raise ValueError("a count or a time that is none")
    samples = {
        reason: tuple(
            [
                Bad(str(source), None if at is None else int(at), str(why), b64decode(data), *lost)
                for source, at, why, data, *lost in listed
            ]
        )
        for reason, (_, listed) in value["bad"].items()
    }
    span = Span(value["records"], value["first"], value["last"])
    detected = Detected(others=[(str(archive), str(path)) for archive, path in value.get("others", ())])
    for *kind, files, first in value.get("kinds", ()):
        detected.add(FileKind(*map(str, kind)), str(first), int(files))
    return Account(span, value["untimed"], Unread.from_counts(value["skipped"], bad, uncounted, samples), detected)


def _to_bytes(table: pa.Table) -> bytes:
    """Encode a table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
