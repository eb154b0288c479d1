"""Recognise which format a file has.

It is of the first format in `FORMATS` that recognises its beginning; else of the one that its name and folder indicate;
else of a format whose records occur later in the file. An audit looks at most of many files only when it reads them, in
the process that does: these are `Undetected` until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from bindings.archive.avro.records import Avro
from bindings.archive.formats.connect import Connect
from bindings.archive.formats.delimited import Delimited
from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.formats.mapped_lines import KafkaLines, MappedLines, read_first_lines
from bindings.archive.formats.parquet import Parquet
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place, to_path, to_place
from bindings.archive.rabbitmq.fetched import Fetched
from bindings.archive.rabbitmq.queue_dump import QueueDump
from bindings.archive.rabbitmq.rabtap import Rabtap
from bindings.archive.rabbitmq.tracing import TracingJson, TracingText
from bindings.archive.reading import SPLIT_BYTES, Format, Item, NoArchive, Split
from bindings.archive.rocketmq.log import RocketmqLog
from bindings.archive.sums import Detected, FileKind
from bindings.archive.unpacking import read_head

Recognise = Callable[[Place, Sequence[Format]], Format | None]
NO_ARCHIVE: Final = NoArchive()


def list_formats(mapping: FieldMapping) -> tuple[Format, ...]:
    """Return all formats in the order in which files are tested: the most specific first."""
    return (
        Connect(mapping),
        Parquet(mapping),
        Avro(mapping),
        RocketmqLog(mapping),  # first: its checksum may look like a length of Kafka; no offset is so high
        KafkaSegment(mapping),
        TracingText(),
        TracingJson(),
        Rabtap(),
        Fetched(),
        QueueDump(),
        KafkaLines(mapping),
        MappedLines(mapping),
        JsonLines(),
        Delimited(mapping),
    )


FORMATS: Final = list_formats(USUAL)


def recognise_format(name: Place, known: Sequence[Format]) -> Format | None:
    """Return the format of a file; None if it is empty. Raises InputError if it cannot be read."""
    head = read_head(name)
    return (_detect_format(head, to_path(name), known) or NO_ARCHIVE) if head else None


def _detect_format(head: bytes, path: AnyPath, known: Sequence[Format]) -> Format | None:
    form = next((each for each in known if each.recognises(head, path)), None)
    form = form or next((each for each in known if each.expects(path)), None)
    if form is None:
        head = read_first_lines(to_place(path))
        form = next((each for each in known if each.resembles(head, path)), None)
    return form


@dataclass(frozen=True)
class Undetected(Format):
    """The format of files that are looked at when they are read: any, by the usual names of fields."""

    root: str
    """Path of the archive, as the user gave it."""
    is_first: bool = True
    """Whether a split is the first of its file, and says for the report what the file is."""

    name: ClassVar[str] = "not detected yet"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return False: it stands for another format."""
        return False

    def find(self, path: Place) -> Format | None:
        """Return the format of a file; None if it is empty. Raises InputError if it cannot be read."""
        return recognise_format(path, FORMATS)

    def describe(self, path: Place, form: Format, detected: Detected) -> None:
        """Add what a report says of a file of this format."""
        if isinstance(form, NoArchive):
            detected.others.append((self.root, str(path)))
        else:
            detected.add(FileKind(self.root, form.name, form.bias_of(path).name, form.note_of(path)), str(path))

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        form = self.find(path)
        return [] if form is None else form.plan(path, split_bytes)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        form = self.find(split.path)
        return iter(()) if form is None else form.read(split, columns)
