"""What kind of archive a path holds, by what is in the files and not by what they are called.

A file is of the first format in `FORMATS` that recognises how it begins. A folder is an archive of all that is below
it; files that are no archive are named, unless they are known companions of those that are (indexes, side files), or
their names begin with ``.`` or ``_``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bindings.archive.connect import Connect
from bindings.archive.json_lines import JsonLines
from bindings.archive.kafka_segment import KafkaSegment
from bindings.archive.mapping import USUAL, Mapping
from bindings.archive.parquet import Parquet
from bindings.archive.queue_dump import QueueDump
from bindings.archive.rabtap import Rabtap
from bindings.archive.reading import SPLIT_BYTES, Bias, Format, Split, head_of
from bindings.archive.rocketmq_log import RocketmqLog
from bindings.archive.tracing import TracingJson, TracingText
from exchange.errors import InputError

__all__ = ["FORMATS", "Archive", "detect"]


def formats(mapping: Mapping) -> tuple[Format, ...]:
    """All formats, in the order in which they are asked; what is most particular comes first."""
    return (
        Connect(mapping),
        Parquet(),
        KafkaSegment(mapping),
        RocketmqLog(mapping),
        TracingText(),
        TracingJson(),
        Rabtap(),
        QueueDump(),
        JsonLines(),
    )


FORMATS: Final = formats(USUAL)


@dataclass(frozen=True, slots=True)
class Archive:
    """Files that hold records, each with its format, and those that do not."""

    path: str
    files: tuple[tuple[str, Format], ...]
    others: tuple[str, ...] = ()
    """Files that are no archive, so far as can be seen."""

    @property
    def biases(self) -> tuple[Bias, ...]:
        """What the files tell of how they were taken; more than one where they differ."""
        return tuple(dict.fromkeys([form.bias_of(path) for path, form in self.files]))

    @property
    def names(self) -> tuple[str, ...]:
        """The formats."""
        return tuple(dict.fromkeys([form.name for _, form in self.files]))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of numbers should know."""
        return tuple(dict.fromkeys([form.note for _, form in self.files if form.note]))

    def plan(self, split_bytes: int = SPLIT_BYTES) -> list[tuple[Format, Split]]:
        """All splits, each with what reads it. Raises InputError for a file that cannot be opened."""
        return [(form, split) for path, form in self.files for split in form.plan(path, split_bytes)]


def detect(path: str, mapping: Mapping | None = None) -> Archive:
    """The archive at a path, a file or a folder; ``mapping`` says what records of Kafka and RocketMQ are in AMQP.

    Raises InputError if there is none, saying what was found instead.
    """
    known = FORMATS if mapping is None else formats(mapping)
    root = Path(path)
    if not root.exists():
        raise InputError(f"{path}: there is no such file or folder")
    found: list[tuple[str, Format]] = []
    others: list[str] = []
    for file in _files(root):
        form = _format_of(file, known)
        if form is not None:
            found.append((str(file), form))
        elif not any(each.is_companion(file) for each in known):
            others.append(str(file))
    if not found:
        raise InputError(_nothing(path, others, known))
    return Archive(path, tuple(found), tuple(others))


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(root).parts):
            yield path


def _format_of(file: Path, known: Sequence[Format]) -> Format | None:
    if any(form.is_companion(file) for form in known):
        return None
    head = head_of(str(file))
    return next((form for form in known if form.recognises(head, file)), None)


def _nothing(path: str, others: Sequence[str], known: Sequence[Format]) -> str:
    if not others:
        return f"{path}: there is nothing in it"
    names = ", ".join(form.name for form in known)
    what = "the file is" if others == [path] else f"none of its {len(others)} files is"
    return (
        f"{path}: {what} an archive that can be audited: known are {names}; "
        "of JSON and Parquet it needs an exchange and a routing key with each message"
    )
