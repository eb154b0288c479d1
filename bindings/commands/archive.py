"""``hashstar archive``: what an archive of messages holds, and archives of all formats turned into ours."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bindings.commands.archive_store import inspect_a_store
from bindings.commands.messages import fail
from bindings.report.bad import bad_json, bad_lines
from bindings.report.figures import moment
from exchange.commands.console import echo_line
from exchange.display import count_noun, escape_line
from exchange.errors import HashstarError, InputError

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive
    from bindings.archive.inspection import Inspection
    from bindings.archive.reading import Format, Item, Split

__all__ = ["archive_command"]

LISTED: Final = 20
"""Rows of a table where there may be very many."""
STOPPED: Final = 1
FORMATS: Final = ("parquet", "jsonl")

mapping_options: Final[list[Callable[[Any], Any]]] = [
    click.option(
        "--exchange", "exchange", metavar="WHERE", default="topic", show_default=True,
        help="Exchange of Kafka's and RocketMQ's records: topic, key, tag, header:NAME or =TEXT.",
    ),
    click.option(
        "--routing-key", "routing_key", metavar="WHERE", default="key", show_default=True,
        help="Routing key of the same records.",
    ),
]  # fmt: skip


def with_mapping(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options that say what records of other systems are in AMQP."""
    for option in reversed(mapping_options):
        command = option(command)
    return command


@click.group("archive")
def archive_command() -> None:
    """Inspect archives of messages, and convert them to Parquet."""


@archive_command.command("inspect")
@with_mapping
@click.option("--key", metavar="KEY", help="In a RocketMQ store: show the messages with this key or unique id.")
@click.option("--topic", metavar="TOPIC", help="In a RocketMQ store: show this topic only.")
@click.option(
    "--message-id", metavar="ID", help="In a RocketMQ store: show the message with this offset id or unique id."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@click.argument("path", metavar="PATH")
def inspect_command(
    exchange: str, routing_key: str, key: str | None, topic: str | None, message_id: str | None, as_json: bool,
    path: str,
) -> None:  # fmt: skip
    """Show what an archive holds.

    Its format, records, window of time, exchanges, what cannot be read, and bias.

    Of the store of a RocketMQ broker: its topics with their queues, offsets and tags, consumer groups, what is delayed,
    what does not fit together; or some of its messages.

    Exit codes: 0 read, bad records or not; 1 no message has that key or id; 2 there is no archive, or none that can be
    audited.
    """
    try:
        if _is_store(path):
            inspect_a_store(path, key, topic, message_id, as_json)
            return
        if key is not None or topic is not None or message_id is not None:
            raise InputError(f"{path}: --key, --topic and --message-id are for the store of a RocketMQ broker")
        archive = _detected(path, exchange, routing_key)
        from bindings.archive.inspection import inspect_splits

        with _progress("reading") as watched:
            found = inspect_splits(watched(archive.plan()))
    except HashstarError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(_as_json(archive, found), indent=2))
    else:
        click.echo("\n".join(map(escape_line, _lines(archive, found))))
    if not found.records:
        fail(InputError(f"{path}: {_why_nothing(found)}"))


@archive_command.command("convert")
@with_mapping
@click.option("--to", "form", type=click.Choice(FORMATS), help="Output format.  [default: by OUT's name]")
@click.option(
    "--max-bad",
    type=click.IntRange(0),
    metavar="N",
    help="Maximum number of unreadable records; more end the command with 1.",
)
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
def convert_command(
    exchange: str, routing_key: str, form: str | None, max_bad: int | None, source: str, target: str
) -> None:
    """Convert an archive to Parquet files by day, or to JSON lines.

    JSON lines are written if OUT ends with .jsonl or .jsonl.gz.

    OUT must not exist, and appears only when everything is written. Records that cannot be read are reported and left
    out; a file that is no archive counts as one such record.

    Exit codes: 0 written; 1 more bad records than --max-bad, and nothing written; 2 bad usage or input, or no record
    that could be written.
    """
    try:
        archive = _detected(source, exchange, routing_key)
        if archive.repeated:
            echo_line(f"{source}: {archive.notes[-1]}", err=True)
        from bindings.archive.inspection import Inspection

        form = form or ("jsonl" if target.removesuffix(".gz").endswith(".jsonl") else "parquet")
        found = Inspection()
        with _progress("converting") as watched:
            items = _counted(watched(archive.plan()), found, max_bad)
            if form == "jsonl":
                _write_lines(_as_lines(items, found, max_bad), Path(target))
            else:
                _write_parquet(items, archive, Path(target))
    except _TooManyBad:
        _tell_bad(found)
        echo_line(f"hashstar: {source}: more than {max_bad} bad records; nothing was written", err=True)
        sys.exit(STOPPED)
    except _NoRecords:
        _tell_bad(found)
        fail(InputError(f"{source}: {_why_nothing(found)}; nothing was written"))
    except HashstarError as error:
        fail(error)
    _tell_bad(found)
    echo_line(f"{target}: {count_noun(found.records, 'record')}", err=True)


class _TooManyBad(Exception):
    """There are more bad records than were allowed."""


class _NoRecords(Exception):
    """There is no record to write."""


def _detected(path: str, exchange: str, routing_key: str) -> Archive:
    with _told_what_is_needed():
        from bindings.archive.formats.detect import detect
        from bindings.archive.mapping import FieldMapping

        return detect(path, FieldMapping(exchange, routing_key))


def _is_store(path: str) -> bool:
    with _told_what_is_needed():
        from bindings.archive.rocketmq.store import is_store

        return is_store(path)


@contextmanager
def _told_what_is_needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:  # also of the checksum of Kafka's batches, met when there are some
        raise InputError(f"archives need {error.name}: pip install 'hashstar[spark]'") from None


class _progress:  # noqa: N801  a context manager, as click's own
    """A bar over splits on a terminal, nothing in a pipe."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None

    def __enter__(self) -> Callable[[list[tuple[Format, Split]]], Iterable[tuple[Format, Split]]]:
        return self._watched

    def _watched(self, splits: list[tuple[Format, Split]]) -> Iterable[tuple[Format, Split]]:
        if not sys.stderr.isatty():
            return splits
        self._bar = click.progressbar(splits, label=self._label, file=sys.stderr)
        watched: Iterable[tuple[Format, Split]] = self._bar.__enter__()
        return watched

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(*error)


def _counted(splits: Iterable[tuple[Format, Split]], found: Inspection, max_bad: int | None) -> Iterator[Item]:
    for form, split in splits:
        for item in form.read(split):
            _count(item, found, max_bad)
            yield item
    if not found.records:
        if max_bad == 0:  # an archive that gave nothing is not one that was read whole
            raise _TooManyBad
        raise _NoRecords


def _count(item: Item, found: Inspection, max_bad: int | None) -> None:
    found.add(item)
    if max_bad is not None and found.bad_records > max_bad:
        raise _TooManyBad


def _write_parquet(items: Iterator[Item], archive: Archive, target: Path) -> None:
    import pyarrow as pa

    from bindings.archive.formats.parquet import ParquetWriter
    from bindings.archive.reading import COPIES, Bias
    from bindings.sources.files import PRIVATE_FOLDER, make_folders

    _must_be_new(target)
    partial = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    biases = archive.biases
    try:
        make_folders(partial.parent)
        _remove(partial)  # of a run that was killed; a link stays, and then the next line raises
        partial.mkdir(PRIVATE_FOLDER)
        bias = biases[0] if len(biases) == 1 else Bias.UNKNOWN
        with ParquetWriter(partial, bias, copies=COPIES in archive.notes) as writer:
            for item in items:
                if isinstance(item, pa.RecordBatch):
                    writer.write(item)
        partial.rename(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    finally:
        _remove(partial)


def _as_lines(items: Iterator[Item], found: Inspection, max_bad: int | None) -> Iterator[str]:
    import pyarrow as pa

    from bindings.archive.formats.json_lines import encode_line
    from bindings.archive.reading import Bad
    from bindings.archive.record import to_records_or_bad

    for batch in items:
        if not isinstance(batch, pa.RecordBatch):
            continue
        for record in to_records_or_bad(batch):
            if isinstance(record, Bad):
                found.records -= 1
                _count(record, found, max_bad)
            else:
                yield encode_line(record).decode()


def _write_lines(lines: Iterator[str], target: Path) -> None:
    from bindings.sources.files import save_lines

    _must_be_new(target)
    save_lines(str(target), lines)


def _must_be_new(target: Path) -> None:
    if target.exists():
        raise InputError(f"{target}: exists already; remove it or choose another name")


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _tell_bad(found: Inspection) -> None:
    for line in [*_skipped_lines(found), *bad_lines(found)]:
        echo_line(line, err=True)


def _why_nothing(found: Inspection) -> str:
    if not found.bad:
        return "there are no records in it"
    reason, count = found.bad.most_common(1)[0]
    return f"no record can be audited; of {count_noun(count, 'record')}: {reason}"


def _lines(archive: Archive, found: Inspection) -> Iterator[str]:
    yield f"{archive.path}: {', '.join(archive.names)}; {count_noun(len(archive.files), 'file')}"
    if archive.others:
        more = f" and {len(archive.others) - 3} more" if len(archive.others) > 3 else ""
        yield f"not read, as they are no archive: {', '.join(archive.others[:3])}{more}"
    yield f"bias: {'; '.join(bias.value for bias in archive.biases)}"
    for note in archive.notes:
        yield f"note: {note}"
    yield f"records: {found.records:,}; skipped {found.skipped_records:,}, bad {found.bad_records:,}"
    yield f"window: {_window(found)}"
    unknown = f"; of {found.without_size:,} records unknown" if found.without_size else ""
    yield f"bodies: {found.body_bytes:,} bytes{unknown}"
    if found.with_outcome:
        yield f"outcome known: {found.with_outcome:,} records, of which the broker put {found.unrouted:,} nowhere"
    else:
        yield "outcome known: of no record; what the broker did cannot be verified"
    if found.exchanges:
        yield "exchanges:"
        for (vhost, name), count in found.exchanges.most_common(LISTED):
            where = "" if vhost is None else f"  in {vhost!r}"
            yield f"  {count:>12,}  {escape_line(name) or '(default exchange)'}{where}"
        if len(found.exchanges) > LISTED:
            yield f"  and {len(found.exchanges) - LISTED} more"
    yield from _skipped_lines(found)
    yield from bad_lines(found)


def _skipped_lines(found: Inspection) -> Iterator[str]:
    for reason, count in found.skipped.most_common():
        yield f"skipped: {count:,}: {reason}"


def _window(found: Inspection) -> str:
    if found.first is None or found.last is None:
        return "unknown; no record has a time" if found.records else "none"
    unknown = f"; {found.without_time:,} records without a time" if found.without_time else ""
    return f"{moment(found.first)} to {moment(found.last)}{unknown}"


def _as_json(archive: Archive, found: Inspection) -> dict[str, Any]:
    return {
        "version": 1,
        "path": archive.path,
        "formats": list(archive.names),
        "files": [{"path": path, "format": form.name, "bias": form.bias_of(path).name} for path, form in archive.files],
        "not_archives": list(archive.others),
        "bias": [bias.name for bias in archive.biases],
        "notes": list(archive.notes),
        "auditable": bool(found.records),
        "records": found.records,
        "skipped": dict(found.skipped),
        "window": {
            "first": None if found.first is None else moment(found.first),
            "last": None if found.last is None else moment(found.last),
            "records_without_time": found.without_time,
        },
        "bodies": {"bytes": found.body_bytes, "records_without_size": found.without_size},
        "outcome": {"known": found.with_outcome, "nowhere": found.unrouted},
        "exchanges": [
            {"vhost": vhost, "exchange": name, "records": count}
            for (vhost, name), count in found.exchanges.most_common()
        ],
        "bad": bad_json(found),
    }
