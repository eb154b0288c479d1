"""Keep a running sum on disk: the counts of each batch of a stream, by its number, folded from time to time.

::

    account/batch=0000000007.json       account of a batch; written last, it puts the batch into the ledger
    coverage/batch=0000000007.parquet   what a study counted in that batch
    account/sum=0000000006.json         account of all batches up to this one; also written last
    coverage/sum=0000000006.parquet

If a stream is interrupted before it commits a batch, it repeats that batch, which then replaces what was written
before: so each batch is in the sum exactly once. Files are written atomically, and removed only after the file with
their sum exists, so the process may end at any moment.

A stream numbers its batches consecutively, and never repeats a batch after it has begun the next one. If a batch would
leave a gap in the ledger, or is already folded, the ledger belongs to another stream: InputError is raised, and nothing
is counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bindings.archive.inspection import Account
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import decode_account, encode_account
from bindings.auditing.spark.growth import write_whole
from bindings.sources.files import make_folders, open_file
from exchange.errors import InputError, name_os_errors
from exchange.values.json_text import parse_leniently

FOLDED: Final = 16
"""Minimum number of batches that are folded into one sum."""
ACCOUNT: Final = "account"


class LedgerEntry(NamedTuple):
    """The values that studies counted, and the account."""

    values: Mapping[str, Any]
    """Name of a study -> its value."""
    account: Account

    def __add__(self, other: object) -> LedgerEntry:
        if not isinstance(other, LedgerEntry):
            return NotImplemented
        values = {name: value + other.values[name] for name, value in self.values.items()}
        return LedgerEntry(values, self.account + other.account)


class BatchLedger:
    """The sum of a stream's batches, kept in a folder. Raises InputError if the folder cannot be used."""

    def __init__(self, folder: Path, studies: Mapping[str, Study[Any]], folded: int = FOLDED) -> None:
        self._folder = folder
        self._studies = studies
        self._fold_at = folded
        for name in (ACCOUNT, *studies):
            make_folders(folder / name)
        self._before: tuple[int, LedgerEntry] | None = None

    def put(self, batch: int, entry: LedgerEntry) -> LedgerEntry:
        """Write the counts of a batch, and return the sum up to and including it.

        Raises InputError, and writes nothing, if an earlier batch is missing or a later batch exists.
        """
        before = self._up_to(batch)
        self._write(f"batch={batch:010}", entry)
        total = before + entry
        self._before = batch + 1, total
        return total

    def total(self) -> tuple[int, LedgerEntry]:
        """Return the number of batches, and their sum."""
        summed, batches = self._scan()
        count = max([summed, *batches]) + 1
        return count, self._sum_of(summed, range(summed + 1, count))

    def fold(self, batch: int) -> None:
        """Fold this batch and all earlier ones, which the stream will not repeat, if they are enough."""
        summed, _ = self._scan()
        if batch - summed < self._fold_at:
            return
        self._write(f"sum={batch:010}", self._sum_of(summed, range(summed + 1, batch + 1)))
        self._tidy(batch)

    def _up_to(self, batch: int) -> LedgerEntry:
        """Return the sum of all batches before this one."""
        if self._before is not None and self._before[0] == batch:
            return self._before[1]
        summed, batches = self._scan()
        if batch <= summed:
            raise InputError(
                f"{self._folder}: batch {batch} was counted and folded long ago: the checkpoint was lost, or is of "
                "another stream; give a new folder for the state"
            )
        missing = set(range(summed + 1, batch)) - batches
        if missing:
            raise InputError(
                f"{self._folder}: what batch {min(missing)} counted is not there: the files were removed, or the "
                "checkpoint is of another stream; give a new folder for the state"
            )
        if max(batches, default=0) > batch:
            raise InputError(
                f"{self._folder}: batch {max(batches)} is there already, and batch {batch} comes: the checkpoint was "
                "lost, or is of another stream; give a new folder for the state"
            )
        return self._sum_of(summed, range(summed + 1, batch))

    def _scan(self) -> tuple[int, set[int]]:
        """Return the number of the last folded batch, -1 if there is none, and the numbers of later batches."""
        files = [path.stem.split("=") for path in (self._folder / ACCOUNT).glob("*=*.json") if path.name[0] != "."]
        summed = max([int(number) for kind, number in files if kind == "sum"], default=-1)
        self._tidy(summed)
        return summed, {int(number) for kind, number in files if kind == "batch" and int(number) > summed}

    def _sum_of(self, summed: int, batches: range) -> LedgerEntry:
        names = [f"sum={summed:010}"] if summed >= 0 else []
        total = LedgerEntry({name: study.zero() for name, study in self._studies.items()}, Account())
        for name in [*names, *(f"batch={batch:010}" for batch in batches)]:
            total += self._read(name)
        return total

    def _write(self, name: str, entry: LedgerEntry) -> None:
        with name_os_errors(self._folder, "written"):
            for study, value in entry.values.items():
                sink = pa.BufferOutputStream()
                pq.write_table(self._studies[study].table_of(value), sink, compression="zstd", write_page_checksum=True)
                write_whole(self._folder / study / f"{name}.parquet", sink.getvalue().to_pybytes())
            data = json.dumps(encode_account(entry.account)).encode()
            write_whole(self._folder / ACCOUNT / f"{name}.json", data)

    def _read(self, name: str) -> LedgerEntry:
        try:
            values = {}
            for study, reader in self._studies.items():
                path = self._folder / study / f"{name}.parquet"
                values[study] = reader.value_of(
                    pq.ParquetFile(path, page_checksum_verification=True).read(use_threads=False)
                )
            with open_file(self._folder / ACCOUNT / f"{name}.json") as file:
                account = decode_account(parse_leniently(file.read()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise InputError(f"{self._folder}: {name} cannot be read: {error}") from None
        return LedgerEntry(values, account)

    def _tidy(self, summed: int) -> None:
        """Remove the files of folded batches and older sums, accounts last."""
        for study in (*self._studies, ACCOUNT):
            for path in (self._folder / study).glob("*=*"):
                kind, _, number = path.stem.partition("=")
                if path.name[0] != "." and (int(number) < summed or (kind == "batch" and int(number) == summed)):
                    path.unlink(missing_ok=True)
