"""``hashstar archive``: what an archive of messages holds, and archives of all formats turned into ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from bindings.report.inspection import ARCHIVE_FORMS, MATCH_FORMS, STORE_FORMS, format_bad, format_skipped
from exchange.commands.console import echo_line, echo_lines, exit_on_error, show_progress
from exchange.commands.options import CommandGroup, accept_old_name
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import InputError
from exchange.text.display import count_noun

if TYPE_CHECKING:
    from bindings.archive.inspection import Inspection
    from bindings.archive.mapping import FieldMapping

FORMATS: Final = ("parquet", "jsonl")
EXTRA: Final = "audit"
"""The extra that brings what reads archives."""
NOT_FOUND: Final = 1
"""Exit code if no message has the key or id."""

mapping_options: Final[list[Callable[[Any], Any]]] = [
    click.option(
        "--exchange", "exchange", metavar="WHERE", default="topic", show_default=True,
        help="Exchange of Kafka's and RocketMQ's records: topic, key, tag, header:NAME or =TEXT.",
    ),
    click.option(
        "--routing-key", "routing_key", metavar="WHERE", default="key", show_default=True,
        help="Routing key of the same records.",
    ),
    click.option(
        "--column", "columns", metavar="FIELD=COLUMN", multiple=True,
        help="Column, path (payload.key) or =TEXT for a field of messages in Parquet, Avro, JSON lines, CSV: exchange, "
        "routing_key, headers, properties, timestamp, body, vhost, size. Repeatable.  [default: by name]",
    ),
]  # fmt: skip


NOT_JSON_LINES: Final = (".avro", ".csv", ".tsv", ".orc", ".parquet")
NOT_PARQUET: Final = (".avro", ".csv", ".tsv", ".orc", ".json", ".jsonl", ".ndjson")
"""Ends of names of formats that are not written: who gives one to `archive convert` expects it."""


max_bad_option: Final = click.option(
    "--max-bad", type=click.IntRange(0), metavar="N",
    help="Maximum number of unreadable records; more end the command with 1.",
)  # fmt: skip


def with_mapping(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that map records of other systems to AMQP messages; the command gets them as ``mapped``."""

    @wraps(command)
    def run(exchange: str, routing_key: str, columns: tuple[str, ...], **others: Any) -> None:
        command(mapped=MappingOptions(exchange, routing_key, columns), **others)

    mapped: Callable[..., None] = run
    for option in reversed(mapping_options):
        mapped = option(mapped)
    return mapped


class MappingOptions(NamedTuple):
    """Where the user states that fields are."""

    exchange: str
    routing_key: str
    columns: tuple[str, ...]

    def mapping(self) -> FieldMapping:
        """Return it as a mapping. Raises InputError for what names no place."""
        from bindings.archive.mapping import FieldMapping, parse_columns

        return FieldMapping(self.exchange, self.routing_key, parse_columns(self.columns))


@click.group("archive", cls=CommandGroup, example="hashstar archive inspect traffic.jsonl", default="inspect")
def archive_command() -> None:
    """Inspect archives of messages, and convert them to Parquet.

    hashstar archive traffic.jsonl is short for hashstar archive inspect. A bridge records archives: hashstar bridge.
    """


@archive_command.command("inspect", example="hashstar archive inspect traffic.jsonl")
@with_mapping
@click.option("--key", metavar="KEY", help="In a RocketMQ store: show the messages with this key or unique id.")
@click.option("--topic", metavar="TOPIC", help="In a RocketMQ store or a Kafka data folder: show this topic only.")
@click.option(
    "--message-id", metavar="ID", help="In a RocketMQ store: show the message with this offset id or unique id."
)
@form_options(ARCHIVE_FORMS)
@output_option
@click.argument("path", metavar="PATH")
def inspect_command(
    mapped: MappingOptions, key: str | None, topic: str | None, message_id: str | None, form: str,
    path: str,
) -> None:  # fmt: skip
    """Show what an archive holds.

    Its format, records, window of time, exchanges, what cannot be read, and bias.

    Of the store of a RocketMQ broker: its topics with their queues, offsets and tags, consumer groups, what is delayed,
    what does not fit together; or some of its messages.

    Of the data folder of a Kafka broker, too: its topics with their partitions, offsets, leader epochs, producers and
    open transactions, consumer groups with their offsets, transactional producers, and the cluster's topics.

    Exit codes: 0 read, bad records or not; 1 no message has that key or id; 2 there is no archive, or none that can be
    audited.
    """
    with exit_on_error():
        if key is not None and message_id is not None:
            raise InputError("--key and --message-id: give one of them")
    with exit_on_error(EXTRA):
        from bindings.archive.formats.conversion import explain_nothing
        from bindings.archive.formats.detect import Archive, detect
        from bindings.archive.inspection import inspect_splits
        from bindings.archive.kafka.folder import inspect_folder, is_data_folder
        from bindings.archive.places import show_place
        from bindings.archive.rocketmq.store import is_store

        shown = show_place(path)
        if is_store(path):
            _inspect_store(path, key, topic, message_id, form)
            return
        if key is not None or message_id is not None:
            raise InputError(f"{shown}: --key and --message-id are for the store of a RocketMQ broker")
        is_folder = is_data_folder(path)
        if topic is not None and not is_folder:
            raise InputError(
                f"{shown}: --topic is for the store of a RocketMQ broker and the data folder of a Kafka broker"
            )
        nothing = None
        try:
            archive = detect(path, mapped.mapping())
        except InputError as error:  # a broker may have records of Kafka's own only
            if not is_folder:
                raise
            archive, nothing = Archive(path, ()), error
        splits = archive.plan()
        with show_progress("reading") as step:
            inspection = inspect_splits(splits, step)
        folder = None
        if is_folder:
            with show_progress("reading the folder") as step:
                folder = inspect_folder(path, step)
            if topic is not None:
                folder.keep_topic(topic)
        print_form(ARCHIVE_FORMS[form], archive, archive.list_contents(), inspection, folder)
        if nothing is not None:
            raise nothing
        if not inspection.records:
            raise InputError(f"{archive.path}: {explain_nothing(inspection)}")


@archive_command.command("convert", example="hashstar archive convert traffic.jsonl traffic.parquet")
@with_mapping
@click.option("--format", "form", type=click.Choice(FORMATS), help="Output format.  [default: by OUT's name]")
@accept_old_name("--to", "--format")
@click.option("--output", "-o", metavar="FILE", help="OUT, as an option.")
@max_bad_option
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT", required=False)
def convert_command(
    mapped: MappingOptions, form: str | None, output: str | None, max_bad: int | None, source: str, target: str | None
) -> None:
    """Convert an archive to Parquet files by day, or to JSON lines.

    JSON lines are written if OUT ends with .jsonl or .jsonl.gz. A name of another format, such as d.csv, is refused.

    OUT must not exist, and appears only when everything is written. Records that cannot be read are reported and left
    out; a file that is no archive counts as one such record.

    Exit codes: 0 written; 1 more bad records than --max-bad, and nothing written; 2 bad usage or input, or no record
    that could be written.
    """
    if (target is None) == (output is None):
        raise click.UsageError("name one OUT to write to")
    target = target or output or ""
    with exit_on_error(EXTRA):
        from bindings.archive.formats.conversion import ConversionError, convert
        from bindings.archive.formats.detect import detect, refuse_within
        from bindings.archive.places import parse_address

        if (stored := parse_address(target)) is not None:
            raise InputError(f"{stored}: archives are written to folders; copy it there afterwards")
        refuse_within(Path(target), [source], "converted records")
        archive = detect(source, mapped.mapping())
        if archive.repeated:
            echo_line(f"{archive.path}: {archive.repeated_note}", err=True)
        json_lines = target.removesuffix(".gz").endswith(".jsonl") if form is None else form == "jsonl"
        written, others = ("JSON lines", NOT_JSON_LINES) if json_lines else ("Parquet", NOT_PARQUET)
        if target.removesuffix(".gz").lower().endswith(others):
            raise InputError(f"{target}: the name of another format, and {written} is written; give another name")
        try:
            with show_progress("converting") as step:
                inspection = convert(archive, Path(target), json_lines=json_lines, max_bad=max_bad, step=step)
        except ConversionError as error:
            _show_left_out(error.inspection)
            raise
    _show_left_out(inspection)
    echo_line(f"{target}: {count_noun(inspection.records, 'record')}", err=True)


def _show_left_out(inspection: Inspection) -> None:
    echo_lines([*format_skipped(inspection.unread), *format_bad(inspection.unread)], err=True)


def _inspect_store(path: str, key: str | None, topic: str | None, message_id: str | None, form: str) -> None:
    """Print a store, or the messages that were asked for; end with `NOT_FOUND` if there are none. Raises InputError."""
    from bindings.archive.rocketmq.find import find_by_id, find_by_key
    from bindings.archive.rocketmq.inspection import inspect_store
    from bindings.archive.rocketmq.store import open_store

    store = open_store(path)
    topics = None if topic is None else (topic,)
    if key is None and message_id is None:
        inspection = inspect_store(store)
        if topic is not None:
            inspection.topics = tuple([each for each in inspection.topics if each.name == topic])
            inspection.groups = tuple([each for each in inspection.groups if each.topic == topic])
            if not inspection.topics:
                raise InputError(f"{path}: there are no queues of a topic {topic!r}")
        print_form(STORE_FORMS[form], store, inspection)
        return
    matches = find_by_key(store, key, topics) if key is not None else find_by_id(store, message_id or "", topics)
    asked = (path, key, topic, message_id) if form == "json" else ()
    print_form(MATCH_FORMS[form], matches, *asked)
    if not matches.messages:
        wanted = f"key {key!r}" if key is not None else f"id {message_id!r}"
        index = "" if store.index else ", and the store has no index"
        echo_line(f"hashstar: {path}: no message with the {wanted}{index}", err=True)
        sys.exit(NOT_FOUND)
