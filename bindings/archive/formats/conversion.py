"""Convert an archive of any format to hashstar's own: Parquet files by day, or JSON lines.

The target appears only when everything is written. Records that cannot be read are left out and counted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from bindings.archive.formats.detect import Archive
from bindings.archive.formats.json_lines import encode_line
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.inspection import Inspection
from bindings.archive.reading import COPIES, Bad, Bias, Item, read_split
from bindings.archive.record import to_records_or_bad
from bindings.archive.sums import Span
from bindings.sources.files import PRIVATE_FOLDER, make_folders, save_lines
from exchange.errors import InputError, name_os_errors
from exchange.text.display import count_noun


class ConversionError(InputError):
    """An archive was not converted, because it has no records or too many bad ones."""

    def __init__(self, text: str, inspection: Inspection, exit_code: int) -> None:
        super().__init__(text)
        self.inspection: Final = inspection
        self.exit_code = exit_code  # type: ignore[misc]  # of each such error


def convert(
    archive: Archive,
    target: Path,
    *,
    json_lines: bool = False,
    max_bad: int | None = None,
    step: Callable[[int, int], None] = lambda done, total: None,
) -> Inspection:
    """Write an archive to a new folder of Parquet files, or to a new file of JSON lines; return what was read.

    ``step`` is called with the numbers of splits that are read and to read. Raises InputError if the archive cannot be
    read or the target is there or cannot be written, ConversionError if there is no record or there are more than
    ``max_bad`` bad ones.
    """
    if target.exists():
        raise InputError(f"{target}: exists already; remove it or choose another name")
    reading = _Reading(archive, max_bad, step)
    if json_lines:
        with name_os_errors(target, "written"):
            make_folders(target.parent)
        save_lines(str(target), reading.lines())
    else:
        _write_parquet(reading.items(), archive, target)
    return reading.inspection


class _Reading:
    """Reads an archive once, and inspects it at the same time."""

    def __init__(self, archive: Archive, max_bad: int | None, step: Callable[[int, int], None]) -> None:
        self.inspection: Final = Inspection()
        self._archive = archive
        self._max_bad = max_bad
        self._step = step

    def items(self) -> Iterator[Item]:
        splits = self._archive.plan()
        for number, (form, split) in enumerate(splits):
            self._step(number, len(splits))
            for item in read_split(form, split):
                self._add(item)
                yield item
        if not self.inspection.records:
            self._refuse_nothing()

    def lines(self) -> Iterator[str]:
        for item in self.items():
            if not isinstance(item, pa.RecordBatch):
                continue
            for record in to_records_or_bad(item):
                if isinstance(record, Bad):  # uncount it: its batch was counted as records
                    self.inspection.span += Span(-1)
                    self._add(record)
                else:
                    yield encode_line(record).decode()

    def _add(self, item: Item) -> None:
        self.inspection.add(item)
        if self._max_bad is not None and self.inspection.unread.bad_records > self._max_bad:
            self._refuse_bad()

    def _refuse_nothing(self) -> None:
        if self._max_bad == 0:  # max_bad=0 asks that everything was read, and an archive without records was not
            self._refuse_bad()
        text = f"{self._archive.path}: {explain_nothing(self.inspection)}; nothing was written"
        raise ConversionError(text, self.inspection, 2)

    def _refuse_bad(self) -> None:
        text = f"{self._archive.path}: more than {self._max_bad} bad records; nothing was written"
        raise ConversionError(text, self.inspection, 1)


def explain_nothing(inspection: Inspection) -> str:
    """Return why an inspection has no records."""
    unread = inspection.unread
    if not unread.bad:
        return "there are no records in it"
    reason, count = unread.bad.most_common(1)[0]
    return f"no record can be audited; of {count_noun(count, 'record')}: {unread.explain(reason)}"


def _write_parquet(items: Iterator[Item], archive: Archive, target: Path) -> None:
    partial = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    contents = archive.list_contents()
    biases = contents.biases
    try:
        make_folders(partial.parent)
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed; a link stays, and then mkdir raises
        partial.mkdir(PRIVATE_FOLDER)
        bias = biases[0] if len(biases) == 1 else Bias.UNKNOWN
        with ParquetWriter(partial, bias, copies=COPIES in contents.notes) as writer:
            for item in items:
                if isinstance(item, pa.RecordBatch):
                    writer.write(item)
        partial.rename(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
