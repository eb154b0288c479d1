"""Damaged copies of archives, and what must hold of reading them: nothing invented, nothing hidden, nothing untold.

A copy is pieces of the file that was there, with bits flipped, bytes cut out, and blocks doubled or swapped. What was
there are units: a line, an entry, a batch of Kafka, a record of RocketMQ, the rows of Parquet. So it is known of each
unit whether it stands in the copy unchanged, and where.
"""

from __future__ import annotations

import json
import random
import re
import struct
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import encode_line
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.kafka.header import read_header
from bindings.archive.mapping import FieldMapping as Places
from bindings.archive.reading import SPLIT_BYTES, Bad, Bias, Skipped, Split
from bindings.archive.record import Record, build_batch, to_records_or_bad
from bindings.archive.rocketmq.log import BLANK, COMMITTED, OWN_TOPICS, TRANSACTION, LogRecord, read_log
from exchange.errors import InputError
from exchange.rocketmq.stored_record import BATCH, split_batch, unpack_body
from tests.bindings.archive.test_traces import TRACED, text_entry
from tests.recorders import golden

PLACES: Final = Places("topic", "=k")
KINDS: Final = ("flipped", "cut", "doubled", "swapped")


class Unit(NamedTuple):
    """Bytes whose records are read or lost together."""

    start: int
    end: int
    records: int
    """Number of records that are read of it, or skipped, while it is intact."""


class Original(NamedTuple):
    """A file of an archive."""

    name: str
    path: str
    """Path in the folder of the archive."""
    data: bytes
    law: Callable[[Original, Copy, Outcome], None]
    units: tuple[Unit, ...] = ()
    contents: Mapping[str, int] = {}
    """Content of a record, without its place -> number of such records."""
    offsets: Mapping[Unit, tuple[int, int]] = {}
    """For Kafka: first offset of a batch, and the one behind its last."""
    is_read: bool = True
    """Whether all of its records are read, none of them being in a transaction."""


class Copy(NamedTuple):
    """A damaged copy."""

    data: bytes
    kind: str
    intact: tuple[tuple[int, Unit], ...]
    """Units that stand in it unchanged, each with the byte at which it does, in the order of the copy."""


class Outcome(NamedTuple):
    """The result of reading a copy."""

    records: list[Record]
    skipped: int
    bad: list[Bad]

    @property
    def contents(self) -> Counter[str]:
        """Content of a record, without its place -> number of such records."""
        return Counter(content_of(record) for record in self.records)


def content_of(record: Record) -> str:
    """All of a record but where it was read."""
    return encode_line(record._replace(source="", offset=0)).decode()


def make_damaged_copy(original: Original, chance: random.Random) -> Copy:
    """Return a copy of a file with random damage."""
    data, kind = original.data, chance.choice(KINDS)
    size = len(data)
    start = _near_an_edge(original, chance) if chance.random() < 0.3 else chance.randrange(size)
    length = min(chance.choice((1, 8, 64, 512, 4096)) + chance.randrange(64), size - start)
    if kind == "flipped":
        changed = bytearray(data)
        places = {min(start + chance.randrange(16), size - 1) for _ in range(chance.choice((1, 1, 1, 2, 8)))}
        for place in places:
            changed[place] ^= 1 << chance.randrange(8)
        kept = [(unit.start, unit) for unit in original.units if not any(unit.start <= n < unit.end for n in places)]
        return Copy(bytes(changed), kind, tuple(kept))
    if chance.random() < 0.3 and original.units:  # whole units, whose own checksums stay right
        first = chance.randrange(len(original.units))
        last = min(first + chance.randrange(1, 4), len(original.units)) - 1
        start, length = original.units[first].start, original.units[last].end - original.units[first].start
    end = start + length
    if kind == "cut":
        pieces = [(0, start), (end if chance.random() < 0.7 else size, size)]
    elif kind == "doubled":
        pieces = [(0, end), (start, size)]
    else:
        behind = min(end + max(length, 1), size)
        pieces = [(0, start), (end, behind), (start, end), (behind, size)]
    return Copy(b"".join([data[a:b] for a, b in pieces]), kind, tuple(_keep_intact(original.units, _join(pieces))))


def _near_an_edge(original: Original, chance: random.Random) -> int:
    unit = chance.choice(original.units) if original.units else Unit(0, len(original.data), 0)
    return min(max(chance.choice((unit.start, unit.end)) + chance.randrange(-8, 24), 0), len(original.data) - 1)


def _join(pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in pieces:
        if start == end:
            continue
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _keep_intact(units: Sequence[Unit], pieces: Sequence[tuple[int, int]]) -> list[tuple[int, Unit]]:
    kept, place = [], 0
    for start, end in pieces:
        kept += [(place + unit.start - start, unit) for unit in units if start <= unit.start and unit.end <= end]
        place += end - start
    return kept


def read_archive(folder: Path, split_bytes: int) -> Outcome:
    """Read the archive in a folder, split by split; a folder without an archive has one bad record."""
    try:
        archive = detect(str(folder), PLACES)
    except InputError as error:
        return Outcome([], 0, [Bad(str(folder), 0, str(error))])
    records: list[Record] = []
    bad: list[Bad] = []
    skipped = 0
    for form, split in archive.plan(split_bytes):
        for item in form.read(split):
            if isinstance(item, Bad):
                bad.append(item)
            elif isinstance(item, Skipped):
                skipped += item.records
            else:
                assert isinstance(item, pa.RecordBatch)
                for record in to_records_or_bad(item):
                    (bad if isinstance(record, Bad) else records).append(record)  # type: ignore[arg-type]
    return Outcome(records, skipped, bad)


def check(original: Original, copy: Copy, outcome: Outcome) -> None:
    """Assert what must hold whatever the format, and the format's law."""
    is_whole = len(original.units) == 1  # Parquet, of which what stands before or behind the file that is read is none
    if not is_whole and _count_read(outcome) < sum(unit.records for _, unit in copy.intact):
        assert outcome.bad, "records are missing and nothing is reported"
    original.law(original, copy, outcome)


def _count_read(outcome: Outcome) -> int:
    return len(outcome.records) + outcome.skipped


def _count_changed(original: Original, copy: Copy) -> int:
    """Units that do not stand in the copy as they were."""
    return len(original.units) - len({unit for _, unit in copy.intact})


def _count_strange(original: Original, copy: Copy, outcome: Outcome) -> int:
    """Return the number of records that were never in the file, or are read more often than they are in the copy."""
    times = 2 if copy.kind == "doubled" else 1
    return (outcome.contents - Counter({text: times * count for text, count in original.contents.items()})).total()


def law_of_lines(original: Original, copy: Copy, outcome: Outcome) -> None:
    """Check that each line is read, skipped or reported, none more than once; a line has no checksum."""
    lines = [line for line in copy.data.split(b"\n") if line.strip()]
    assert _count_read(outcome) + len(outcome.bad) == max(len(lines), 1)
    assert _count_read(outcome) >= sum(copy.data[at - 1 : at] in (b"", b"\n") for at, _ in copy.intact)
    assert _count_strange(original, copy, outcome) <= _count_changed(original, copy) + JOINTS


def law_of_entries(original: Original, copy: Copy, outcome: Outcome) -> None:
    """Check that each entry of a text log with a beginning is read, skipped or reported, none more than once.

    An entry without its beginning is a part of the body before; at the beginning of the file it is reported.
    """
    data = b"\n" + copy.data if copy.data.startswith(b"=") else copy.data
    first = BEGIN.search(data)
    before = data if first is None else data[: first.start()]
    assert _count_read(outcome) + len(outcome.bad) == len(BEGIN.findall(data)) + bool(before.strip())
    assert _count_strange(original, copy, outcome) <= _count_changed(original, copy) + JOINTS


def law_of_batches(original: Original, copy: Copy, outcome: Outcome) -> None:
    """Check that unchanged batches in order are read once, and all others are reported.

    A batch whose offset is damaged may cost the one beside it, which fits no better. No record is invented.
    """
    assert _count_strange(original, copy, outcome) == 0
    read = {record.offset for record in outcome.records}
    assert copy.kind == "flipped" or len(read) == len(outcome.records)
    there = {unit for _, unit in copy.intact}
    found = {unit for unit in there if read & set(range(*original.offsets[unit]))}
    missing = {unit for unit in there - found if unit.records and original.is_read}
    if copy.kind == "swapped":
        assert len(outcome.bad) >= bool(missing)
    else:
        assert len(missing) <= (_count_changed(original, copy) if copy.kind == "flipped" else 0), missing
    doubled = len(copy.intact) - len(there)
    assert len(outcome.bad) >= bool(missing) + doubled * original.is_read
    assert outcome.bad or not _count_changed(original, copy) or copy.kind == "cut" or _is_offset(original, copy)


def _is_offset(original: Original, copy: Copy) -> bool:
    """Return whether only an offset and an epoch were flipped, which no checksum covers."""
    changed = [n for n, (one, other) in enumerate(zip(original.data, copy.data, strict=False)) if one != other]
    return all(any(0 <= n - unit.start < 16 for unit in original.units) or n >= original.units[-1].end for n in changed)


def law_of_places(original: Original, copy: Copy, outcome: Outcome) -> None:
    """Check that unchanged records of RocketMQ at the place that they state are read, and that others are reported.

    Nothing is reported of a file that ends in zeros, or in a blank that fills it, where a record ended: a log that has
    not come further, and one that goes on in the next file, look so.
    """
    held = [unit for at, unit in copy.intact if at == unit.start]
    assert _count_read(outcome) >= sum(unit.records for unit in held)
    if not outcome.bad and _count_read(outcome) < sum(unit.records for unit in original.units):
        rest = copy.data[max((unit.end for unit in held), default=0) :]
        assert not any(rest) or rest[:8] == struct.pack(">iI", len(rest), BLANK)
    assert _count_strange(original, copy, outcome) <= _count_changed(original, copy) + JOINTS


def law_of_rows(original: Original, copy: Copy, outcome: Outcome) -> None:
    """Check that all rows are read, or something is reported; pages have checksums, their headers have none."""
    (whole,) = original.units
    assert outcome.bad or len(outcome.records) == whole.records
    assert len(outcome.records) <= whole.records
    footer = int.from_bytes(original.data[-8:-4], "little") + 8
    if copy.data[-footer:] == original.data[-footer:]:
        assert _count_strange(original, copy, outcome) == 0


JOINTS: Final = 3
"""Where pieces are joined, the beginning of one unit and the end of another may make one that was never there."""
BEGIN: Final = re.compile(rb"\n={80}\n[0-9][^\n]{0,40}: Message (?:published|received)\n")


def make_originals() -> list[Original]:
    """Return logs of real brokers, archives of their records by our own writers, and logs of the tracing plugin."""
    found: list[Original] = []
    for name in (*golden.names("kafka-log-"), *golden.names("rocketmq-log-")):
        with tarfile.open(golden.GOLDEN / f"{name}.tar.gz") as kept:
            for member in kept.getmembers():
                path = Path(member.name)
                file = kept.extractfile(member) if member.isfile() else None
                data = b"" if file is None else file.read()
                if any(data) and path.suffix == ".log":
                    found.append(_segment(f"{name}/{path}", path, data))
                elif any(data) and path.parent.name == "commitlog":
                    found.append(_log(f"{name}/{path}", path, data))
    records = [record for original in found for record in _records_of(original)][:400]
    lines = [encode_line(record) for record in records]
    found.append(_of_lines("JSON lines", "a.jsonl", lines))
    traced = [json.dumps(TRACED | {"exchange": f"x{n}"}).encode() + b"\n" for n in range(60)]
    found.append(_of_lines("tracing, JSON", "trace.log", traced))
    entries = [text_entry(f"body {n} of some length").encode() for n in range(60)]
    units = _units([len(entry) for entry in entries], [1] * len(entries))
    found.append(_with_contents(Original("tracing, text", "trace.log", b"".join(entries), law_of_entries, units)))
    with tempfile.TemporaryDirectory() as folder:
        for rows in (10, 400):
            target = Path(folder) / str(rows)
            with ParquetWriter(target, Bias.EVERYTHING) as writer:
                writer.write(build_batch([record._replace(time=1) for record in records[:rows]]))
            (path,) = target.rglob("*.parquet")
            data = path.read_bytes()
            unit = Unit(0, len(data), min(rows, len(records)))
            found.append(_with_contents(Original(f"Parquet of {rows}", "a.parquet", data, law_of_rows, (unit,))))
    return found


@cache
def kept_originals() -> tuple[Original, ...]:
    """Return these, made once in a process: it takes more than a second."""
    return tuple(make_originals())


def _units(sizes: Sequence[int], records: Sequence[int]) -> tuple[Unit, ...]:
    ends = list(accumulate(sizes))
    return tuple(Unit(*each) for each in zip([0, *ends], ends, records, strict=False))


def _of_lines(name: str, path: str, lines: Sequence[bytes]) -> Original:
    units = _units([len(line) for line in lines], [1] * len(lines))
    return _with_contents(Original(name, path, b"".join(lines), law_of_lines, units))


def _segment(name: str, path: Path, data: bytes) -> Original:
    units, offsets, place, is_read = [], {}, 0, True
    while place + 61 <= len(data) and data[place + 16] == 2:
        header = read_header(data, place)
        unit = Unit(place, place + header.size, header.records)
        units.append(unit)
        offsets[unit] = (header.base_offset, header.last_offset + 1)
        is_read &= not (header.is_transactional or header.is_control)
        place += header.size
    original = Original(name, str(path), data, law_of_batches, tuple(units), offsets=offsets, is_read=is_read)
    return _with_contents(original)


def _log(name: str, path: Path, data: bytes) -> Original:
    base = int(path.name)
    units = []
    for place, found in read_log(data, base, Split(path.name)):
        assert isinstance(found, LogRecord)
        parts = 1
        is_own = found.topic.decode().startswith(OWN_TOPICS) or found.flag & TRANSACTION not in COMMITTED
        if found.flag & BATCH == BATCH and not is_own:
            parts = len(split_batch(unpack_body(found.body, found.flag)))
        units.append(Unit(place, place + found.size, parts))
    return _with_contents(Original(name, str(path), data, law_of_places, tuple(units)))


def _with_contents(original: Original) -> Original:
    records = _records_of(original)
    assert records or not original.is_read or "transactions" in original.name
    return original._replace(contents=Counter(map(content_of, records)))


def _records_of(original: Original) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), original.path, original.data)
        outcome = read_archive(Path(folder), SPLIT_BYTES)
    assert not outcome.bad, (original.name, outcome.bad)
    return outcome.records


def write(folder: Path, path: str, data: bytes) -> None:
    """Put the one file of an archive into a folder."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
