"""``hashstar partition``: keys in, partitions out; and what moves when something changes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import IO, Any, Final, NamedTuple

import click

from exchange.amqp.content import check_properties
from exchange.commands.console import fail, write_status
from exchange.commands.options import LinesFile, accept_old_name, command
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError, InputError
from exchange.partition.moves import Distribution, KeyCounts, compare_distributions
from exchange.partition.partitioner import UNKNOWN, Appended, PartitionRequest, Producer
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import parse_key_source, parse_partitioner, parse_partitions
from exchange.partition.partitioning.strategies import OTHER_CLIENTS, STRATEGIES, find_strategy
from exchange.partition.picture import FORMS, describe_choice
from exchange.partition.python_function import PREFIX, STRATEGY, PythonFunction
from exchange.text.display import count_noun
from exchange.values.field_json import decode, decode_message, encode_fields
from exchange.values.json_text import draw_line, parse_line
from exchange.values.lines import read_lines

LINE: Final = 'a line has a record, such as {"key": "order-17"}'
FILE_HINT: Final = f"FILE has JSON lines; {LINE}"


class _Described(NamedTuple):
    """A distribution, and the texts that describe it."""

    strategy: str
    partitions: str
    distribution: Distribution
    lost: tuple[str, ...] = ()
    """Brokers that are down."""

    def __str__(self) -> str:
        return f"{self.strategy} over {self.partitions}{''.join(f' without {broker}' for broker in self.lost)}"


def _list_strategies(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    for strategy in (*STRATEGIES.values(), STRATEGY):
        click.echo(strategy.name + (f"({', '.join(strategy.parameters)})" if strategy.parameters else ""))
        for label, text in (("mirrors", strategy.mirrors), ("promise", strategy.promise), ("cost", strategy.cost)):
            click.echo(f"    {label}: {text}")
    click.echo("other clients")
    for other in OTHER_CLIENTS:
        click.echo(f"    {other}")
    context.exit()


@command("partition", example="hashstar partition --partitioner kafka.murmur2 --partitions 12 in.jsonl")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_strategies,
              help="List the strategies: the client mirrored, the promise and its cost.")  # fmt: skip
@click.option("--partitioner", "-p", required=True, metavar="STRATEGY", help="Partitioning strategy, such as "
              "kafka.murmur2, or a function of your own: python:MODULE:FUNCTION.")  # fmt: skip
@click.option("--partitions", "-n", required=True, metavar="PARTITIONS",
              help="Number of partitions: 12. RocketMQ: queues by broker, broker-a:4,broker-b:4, in the order of "
              "the queue list. Super streams: names. Kafka with leaders: b1@rack-1:6,b2@rack-2:6.")  # fmt: skip
@click.option("--by", metavar="KEY", help="Read the lines as messages, and take this as the key: routing_key, word 2, "
              'header "name", property message_id, body "/json/pointer".')  # fmt: skip
@click.option("--change", "changes", multiple=True, metavar="CHANGE", help="Report what moves with other PARTITIONS, "
              "another STRATEGY, or lost=BROKER; repeatable.")  # fmt: skip
@accept_old_name("--to", "--change")
@click.option("--lost", multiple=True, metavar="BROKER", help="Broker that is down from the start, as PARTITIONS name "
              "it; repeatable.")  # fmt: skip
@form_options(FORMS)
@output_option
@click.option("--seed", type=int, help="Seed for choices that the key does not decide, made as by one producer, whose "
              'state follows the fields "size" (bytes appended) and "time" (milliseconds).')  # fmt: skip
@click.argument("file", type=LinesFile(FILE_HINT), default="-")
def partition_command(
    partitioner: str,
    partitions: str,
    by: str | None,
    changes: tuple[str, ...],
    lost: tuple[str, ...],
    form: str,
    seed: int | None,
    file: IO[bytes],
) -> None:
    """Compute the partition that a given client would choose.

    In: JSON lines such as {"key": "order-1"}; other fields are kept. A key is null, a string, {"!bytes": "<base64>"},
    {"!long": 5}, {"!signedint": 5} (Java's Integer) or another typed value. A function of your own is also given
    "value" and "topic". Out: the same lines with "partition", the number or name of the partition; null, with the
    reason as "rule", where the key does not decide.
    """
    try:
        before = _parse_distribution(partitioner, partitions)
        for broker in lost:
            before = _lose(before, broker, "--lost ")
        source = parse_key_source(by) if by is not None else None
        lines = _read(file, source, reads_record=before.distribution.partitioner.reads_record)
        if changes and seed is not None:
            raise InputError("--seed and --change cannot be combined: --change compares only what keys decide")
        if changes:
            _report(lines, before, _apply_changes(before, changes), form)
        else:
            _choose(lines, before, seed)
    except HashstarError as error:
        fail(error)


def _parse_distribution(strategy: str, partitions: str) -> _Described:
    name = strategy.split("(", 1)[0].strip()
    find_strategy(name)
    partitioner = parse_partitioner(strategy)
    if isinstance(partitioner, PythonFunction):  # it was named on the command line: its code is wanted
        partitioner = partitioner.imported(str(Path.cwd()))
    return _Described(strategy, partitions, Distribution(partitioner, parse_partitions(partitions, name)))


def _apply_changes(before: _Described, changes: tuple[str, ...]) -> _Described:
    after = before
    lost = [change.removeprefix("lost=") for change in changes if change.startswith("lost=")]
    for change in changes:
        if change.startswith("lost="):
            continue
        name = change.partition("(")[0].strip()
        if name in STRATEGIES or name.startswith(PREFIX) or "(" in change:
            down, after = after.lost, _parse_distribution(change, after.partitions)
            for broker in down:
                after = _lose(after, broker, "--lost ")
            continue
        try:
            after = _parse_distribution(after.strategy, change)
        except InputError:
            if re.fullmatch(r"[A-Za-z][\w.-]*", name):  # probably a misspelled strategy
                find_strategy(name)
            raise
    for broker in lost:
        after = _lose(after, broker, "--change lost=")
    return after


def _lose(described: _Described, broker: str, option: str) -> _Described:
    """Return what is left while a broker is down. Raises InputError, which begins with the option."""
    partitions = described.distribution.partitions
    if broker not in {partition.leader.name for partition in partitions if partition.leader}:
        raise InputError(f"{option}{broker}: no partition is on that broker; name brokers as in a:4,b:4")
    lists_queues = find_strategy(described.strategy.split("(", 1)[0]).lists_queues
    try:
        left = partitions.without_queues(broker) if lists_queues else partitions.without_leader(broker)
    except ValueError:
        raise InputError(f"{option}{broker}: no queue is left, as all are on that broker") from None
    distribution = Distribution(described.distribution.partitioner, left)
    return described._replace(distribution=distribution, lost=(*described.lost, broker))


class _Line(NamedTuple):
    """A line of the input: its position, its JSON object, and what a partitioner may read of it."""

    position: str
    fields: dict[str, Any]
    key: Any
    value: Any
    topic: str


def _read(file: IO[bytes], source: KeySource | None, reads_record: bool) -> Iterator[_Line]:
    for number, raw in read_lines(file):
        position = f"{getattr(file, 'name', '-')}:{number}"
        try:
            fields = parse_line(raw, halves=True)  # Java has a rule for their bytes
            if not isinstance(fields, dict):
                raise InputError("expected a JSON object")  # noqa: TRY301
            if source is None:
                key = _read_key(fields)
                yield _Line(position, fields, key, *(_read_value(fields) if reads_record else (UNKNOWN, "")))
            else:
                message = decode_message(fields)
                check_properties(message.properties)
                yield _Line(position, fields, source.read(message), message.body, "")
        except InputError as error:
            way_out = "" if raw.lstrip()[:1] == b"{" else f"; {LINE}"
            raise InputError(f"{position}: {error}{way_out}{error.drawing or draw_line(raw, str(error))}") from None


def _read_key(fields: dict[str, Any]) -> Any:
    if "key" not in fields:
        raise InputError('no "key"; write {"key": null} for a record without one, or name its place with --by')
    return decode(fields["key"])


def _read_value(fields: dict[str, Any]) -> tuple[Any, str]:
    topic = fields.get("topic", "")
    if not isinstance(topic, str):
        raise InputError(f'"topic" is not a string: {topic!r}')
    return decode(fields.get("value")), topic


def _choose(lines: Iterator[_Line], named: _Described, seed: int | None) -> None:
    """Print each line with its partition."""
    distribution = named.distribution
    now = 0
    producer = None if seed is None else Producer(distribution.partitioner, Random(seed).randrange, lambda: now)
    out = sys.stdout.buffer
    for position, fields, key, value, topic in lines:
        try:
            if producer is None:
                request = PartitionRequest(topic, key, value, distribution.partitions)
                choice, _ = distribution.partitioner.answer(request)
            else:
                now = _number(fields, "time", now)
                choice = producer.choose(topic, key, distribution.partitions, value)
                if "size" in fields:
                    producer.handle(topic, Appended(_number(fields, "size", 0)), distribution.partitions)
        except InputError as error:
            raise InputError(f"{position}: {error}") from None
        out.write(encode_fields(fields | describe_choice(choice, distribution.partitions)))
    out.flush()


def _number(fields: dict[str, Any], name: str, default: int) -> int:
    value = fields.get(name, default)
    if type(value) is not int:
        raise InputError(f'"{name}" is not an integer: {value!r}')
    return value


STATUS_EVERY: Final = 100_000
"""Number of messages between two states shown on a terminal."""


def _report(lines: Iterator[_Line], before: _Described, after: _Described, form: str) -> None:
    counts = KeyCounts()
    for number, line in enumerate(lines, 1):
        counts.add(line.key)
        if number % STATUS_EVERY == 0:
            write_status(f"{count_noun(number, 'message')}, {count_noun(len(counts), 'key')}")
    write_status("")
    moved = compare_distributions(counts, before.distribution, after.distribution)
    print_form(FORMS[form], moved, str(before), str(after))
