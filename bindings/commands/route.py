"""``hashstar route`` and ``explain``: the engine at the command line, for topologies that are read here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from os import SEEK_END
from pathlib import Path
from random import Random
from typing import IO, Any, Final

import click

from bindings.sources.open import open_source
from exchange.amqp.content import check_properties
from exchange.commands.completion import SOURCE, complete_names
from exchange.commands.console import fail, show_caveat, show_progress, show_warnings
from exchange.commands.options import (
    LinesFile,
    accept_old_name,
    command,
    read_timeout,
    timeout_option,
    topology_option,
)
from exchange.commands.output import form_options, output_option, print_form
from exchange.commands.release import profile_option
from exchange.entities.policy_definitions import find_wrong_settings
from exchange.entities.queue_arguments import read_expiration
from exchange.entities.releases import LATEST_PROFILE
from exchange.errors import HashstarError, InputError, NotFound
from exchange.lifecycle.forms import FORMS
from exchange.lifecycle.possible import find_lives
from exchange.limits import SHORTSTR_BYTES
from exchange.routing.dead_letters import follow_dead_letters
from exchange.routing.message_lines import LineNotes, route_lines
from exchange.routing.router import Router
from exchange.text.display import clip_line, escape_lines, list_some, suggest
from exchange.topology.partitioners import import_partitioners
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread, format_not_proved
from exchange.values.field_json import decode
from exchange.values.field_values import to_bytes
from exchange.values.json_text import JsonFault, parse
from exchange.values.message import Message

FILE_HINT: Final = "FILE has messages as JSON lines; for one message, hashstar explain TOPOLOGY EXCHANGE ROUTING_KEY"
MAX_NAMED_FIELDS: Final = 5
"""Maximum number of ignored fields that a warning names."""


def load(where: str, vhost: str | None, profile: str | None) -> Topology:
    """Read a source; what RabbitMQ would read otherwise, or routing cannot follow, goes to standard error."""
    source = open_source(where, vhost, seconds=read_timeout())
    topology = source.routable(vhost, profile)
    unread = find_unread(topology)
    notes = [f"{format_not_proved(unread)}: a message that goes nowhere here may get to a queue"] if unread else []
    show_warnings(source.name, [*source.warnings, *notes, *_refused_settings(topology)])
    return topology


def _refused_settings(topology: Topology) -> Iterator[str]:
    """Yield the policies whose settings the release refuses; a broker may still have them from an older release."""
    for policy in topology.all_policies:
        for wrong in find_wrong_settings(policy.definition, topology.profile, operator=policy.operator):
            name = f"{'operator policy' if policy.operator else 'policy'} '{policy.name}'"
            yield f"{name} is refused by {topology.profile.name}, but its settings count here: {wrong}"


def topology_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command whose first argument is a topology."""
    for option in (
        timeout_option,
        profile_option(),
        click.option("--vhost", help="Virtual host; required only if the source has several."),
        accept_old_name("--definitions", "--topology", short="-d"),
        topology_option,
    ):
        function = option(function)
    return function


allow_python_option: Final = click.option(
    "--allow-python",
    is_flag=True,
    help="Import the partitioners that the topology names as python:MODULE:FUNCTION, which runs their code.",
)


@command("route", example="hashstar route shop.bindings messages.jsonl")
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
@topology_options
@allow_python_option
@click.option("--seed", type=int, help="Seed for random exchanges, to make results reproducible.")
@click.option("--skip-bad", is_flag=True, help="Answer bad lines with their error, continue, and exit with 1.")
@click.option("--line-buffered", is_flag=True, help="Write each line at once.")
@output_option
@click.argument("file", type=LinesFile(FILE_HINT), default="-")
def route_command(
    source: str,
    vhost: str | None,
    profile: str | None,
    allow_python: bool,
    seed: int | None,
    skip_bad: bool,
    line_buffered: bool,
    file: IO[bytes],
) -> None:
    """Route messages: JSON lines in, JSON lines out.

    In, also gzipped: {"exchange": "orders", "routing_key": "order.eu.created", "headers": {...}, "properties":
    {...}}. Other fields are ignored with a warning; a misspelled one, such as "routingKey", is an error.
    There is one line out for each line in, in the same order; blank lines have none.

    Out: {"exchange", "routing_key", "queues", "unroutable"}, with sorted queues. "undecided" lists exchanges of
    unknown type on the way; "unroutable" is null if it depends on them. "partitions" maps partitioned queues to
    their partition, null where the key does not decide. If an exchange delays a message, "at_once" and "later" have
    the queues that get it at once and later. AMQP types that JSON lacks are written {"!timestamp": 5},
    {"!short": 1} and so on.

    The first line that cannot be routed ends the command with exit code 2; with --skip-bad its answer is
    {"error": ...}.
    """
    if source == "-" == getattr(file, "name", "").replace("<stdin>", "-"):
        raise click.UsageError("the topology and the messages cannot both come from standard input")
    router = Router(_load_or_fail(source, vhost, profile, allow_python), choose=Random(seed).randrange)
    out = sys.stdout.buffer
    notes = LineNotes(skip_bad)
    try:
        for line in _with_progress(file, route_lines(router, file, notes)):
            out.write(line)
            if line_buffered:
                out.flush()
    except InputError as error:
        fail(error)
    finally:
        out.flush()
    if notes.ignored:
        names = list_some(list(map(json.dumps, sorted(notes.ignored))), MAX_NAMED_FIELDS)
        click.echo(escape_lines(f"ignored fields: {names}"), err=True)
    if notes.bad:
        count = f"bad lines: {notes.bad}, the first is" if notes.bad > 1 else "a bad line:"
        click.echo(escape_lines(f"{count} {notes.first}"), err=True)
        sys.exit(1)


@command("explain", example="hashstar explain shop.bindings orders order.eu.paid --queue billing")
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
@topology_options
@allow_python_option
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="Header: JSON, else text; repeatable."
)
@click.option(
    "--property",
    "-P",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Property: JSON, else text; repeatable.",
)
@click.option("--body", default="", help="Body of the message, for queues partitioned by one of its fields.")
@click.option(
    "--queue",
    shell_complete=complete_names(load, "queues"),
    help="Explain why this queue gets the message, or does not.",
)
@accept_old_name("-q", "--queue")
@click.option("--life", is_flag=True, help="Show what queues may do with the message, what goes round, what is lost.")
@form_options(FORMS)
@output_option
@click.argument("exchange", shell_complete=complete_names(load, "exchanges"))
@click.argument("routing_key", default="")
def explain_command(
    source: str,
    vhost: str | None,
    profile: str | None,
    allow_python: bool,
    headers: tuple[str, ...],
    properties: tuple[str, ...],
    body: str,
    queue: str | None,
    life: bool,
    form: str,
    exchange: str,
    routing_key: str,
) -> None:
    """Explain where one message goes, and why.

    EXCHANGE is the exchange that it is published to, "" for the default exchange.

    With --queue, the nearest binding to that queue is shown, and the word or header that fails.

    With --life, what may become of the message in its queues is followed to the end: what is dead-lettered where,
    what goes round, and what is lost, each with the events that lead there.
    """
    topology = _load_or_fail(source, vhost, profile, allow_python)
    router = Router(topology)
    try:
        for name, text in (("EXCHANGE", exchange), ("ROUTING_KEY", routing_key)):
            _check_short(text, name)
        message = Message(
            exchange,
            routing_key,
            dict([_parse_field("--header", given) for given in headers]),
            dict([_parse_field("--property", given) for given in properties]),
            body.encode("utf-8", "surrogateescape"),
        )
        check_properties(message.properties)
        explanation = follow_dead_letters(topology, router, router.explain(message, queue))
        read_expiration(message.properties)
        lives = find_lives(topology, router, message) if life else None
    except NotFound as error:
        alike = "" if routing_key in topology.exchanges else suggest(exchange, topology.exchanges)
        near = alike or "; the exchange comes before the key" * (routing_key in (None, "", *topology.exchanges))
        fail(InputError(f"{error}{'' if exchange in topology.exchanges else near}"))
    except HashstarError as error:
        fail(error)
    print_form(FORMS[form], explanation, topology.profile, lives, find_unread(topology))
    if form == "text" and profile is None and topology.profile != LATEST_PROFILE:
        click.echo(f"by the rules of {topology.profile.name}, for the release that the source names")


def _load_or_fail(source: str, vhost: str | None, profile: str | None, allow_python: bool) -> Topology:
    try:
        topology = load(source, vhost, profile)
        if profile is None:  # else the option has shown it
            show_caveat(topology.profile)
        return import_partitioners(topology, str(Path.cwd())) if allow_python else topology
    except HashstarError as error:
        fail(error)


def _with_progress(file: IO[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same lines; show how much of the file is read on a terminal, unless the lines go there, too."""
    if not sys.stderr.isatty() or sys.stdout.isatty() or not file.seekable():
        yield from lines
        return
    size = file.seek(0, SEEK_END)
    file.seek(0)
    with show_progress("routing") as step:
        for number, line in enumerate(lines):
            if number % 10_000 == 0:
                step(file.tell(), size)
            yield line


def _parse_field(option: str, given: str) -> tuple[str, Any]:
    name, separator, text = given.partition("=")
    if not separator:
        raise InputError(
            f"{option} {_clip(given)!r}: expected NAME=VALUE; for one without a value, {_clip(given)}=null"
        )
    _check_short(name, f"the name of {option}")
    try:
        value = parse(text)
    except json.JSONDecodeError:
        return name, text
    except JsonFault as error:
        raise InputError(f"{option} {_clip(name)}: {error}; a string is given in quotes, '\"...\"'") from None
    try:
        return name, decode(value, f"{option} {_clip(name)}")
    except RecursionError:
        raise InputError(f"{option} {_clip(name)}: nested too deeply") from None


def _check_short(text: str, name: str) -> None:
    size = len(to_bytes(text))
    if size > SHORTSTR_BYTES:
        raise InputError(f"{name} has {size} bytes; AMQP allows {SHORTSTR_BYTES}")


def _clip(name: str) -> str:
    return clip_line(name, 60)
