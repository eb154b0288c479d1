"""``hashstar dead``: what is in a queue, a topic or an archive of dead letters, and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import click

from bindings.commands.archive import MappingOptions, with_mapping
from bindings.commands.routing import load
from bindings.sources.address import has_scheme, parse_address
from bridge.dead.forms import FORMS
from exchange.commands.completion import SOURCE
from exchange.commands.console import Step, exit_on_error, show_progress
from exchange.commands.options import command, timeout_option, wait_option
from exchange.commands.output import form_options, output_option, print_form
from exchange.commands.release import profile_option
from exchange.errors import InputError
from exchange.text.display import hide_logins

if TYPE_CHECKING:
    from bridge.dead.groups import Grouping
    from bridge.dead.reading import Bounds, Read

__all__ = ["dead_command"]

LOOKED_AT: Final = 10_000
"""Maximum number of messages of a broker that are looked at by default."""
SCHEMES: Final = {
    "amqp": "amqp://USER@HOST:PORT/VHOST", "amqps": "amqps://USER@HOST:PORT/VHOST",
    "kafka": "kafka://HOST:PORT/TOPIC", "rocketmq": "rocketmq://HOST:PORT/TOPIC",
}  # fmt: skip


@command("dead", example="hashstar dead amqp://localhost --queue orders-dead -t shop.bindings")
@click.option("--queue", help="Queue or stream of RabbitMQ to look into.")
@click.option("--topology", "-t", type=SOURCE, metavar="SOURCE",
              help="Topology: shows why messages died, and where they would go now.")  # fmt: skip
@click.option("--vhost", help="Virtual host of the topology; required only if it has several.")
@profile_option()
@timeout_option
@click.option("--where", metavar="SQL92", help="Selector of the messages to look at, by headers and properties.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of messages to look at.  "
              f"[default: {LOOKED_AT:,} of a broker, all of an archive]")  # fmt: skip
@wait_option(10.0, "Maximum time of reading from a broker.")
@click.option("--management", metavar="URL", help="Management API of RabbitMQ up to 4.2, which knows whether a look "
              "counts as a delivery.  [default: port 15672 of the broker]")  # fmt: skip
@click.option("--allow-counted", is_flag=True, help="Look although that may count as a delivery of each message.")
@with_mapping
@form_options(FORMS)
@output_option
@click.argument("source", metavar="SOURCE")
def dead_command(
    mapped: MappingOptions,
    queue: str | None,
    topology: str | None,
    vhost: str | None,
    profile: str | None,
    where: str | None,
    limit: int | None,
    wait: float,
    management: str | None,
    allow_counted: bool,
    form: str,
    source: str,
) -> None:
    """Group dead letters, and show why they died.

    With a topology it also says which setting made them die, where they would go now, and whether they would die again.

    SOURCE is an archive, as of hashstar archive inspect, or a broker: amqp://HOST/VHOST with --queue,
    kafka://HOST:PORT/TOPIC, or rocketmq://HOST:PORT/%DLQ%GROUP. Messages stay where they are.

    Exit codes: 0 looked at, also where there is nothing; 2 no such source, or bad usage.
    """
    with exit_on_error("audit"):
        from bindings.archive.places import show_place
        from bridge.dead.groups import Grouping
        from bridge.dead.reading import Bounds
        from bridge.dead.report import build_report
        from bridge.dead.verdicts import Judge
        from exchange.selector import Selector

        selector = None if where is None else Selector.parse(where)
        is_amqp = has_scheme(source, ("amqp", "amqps"))
        if (queue is not None) != is_amqp:
            raise InputError("--queue is for amqp://, and needed there")
        judge = None if topology is None else Judge(load(topology, vhost, profile))
        grouping = Grouping(judge, selector)
        is_broker = has_scheme(source, SCHEMES)
        bounds = Bounds(limit or (LOOKED_AT if is_broker else None), wait)
        with show_progress("reading") as step:
            if is_amqp:
                read = _peek(source, queue or "", bounds, grouping, management, allow_counted=allow_counted)
            elif is_broker:
                read = _read_topic(source, bounds, grouping)
            else:
                read = _read_archive(source, mapped, bounds, grouping, step)
        name = hide_logins(show_place(source)) + (f" queue {queue}" if queue else "")
        print_form(FORMS[form], build_report(name, grouping, judge, read))


def _peek(
    url: str, queue: str, bounds: Bounds, grouping: Grouping, management: str | None, *, allow_counted: bool
) -> Read:
    with exit_on_error("rabbitmq"):
        from bridge.dead.rabbitmq import peek

        return asyncio.run(peek(url, queue, bounds, grouping.add, management, allow_counted=allow_counted))


def _read_topic(url: str, bounds: Bounds, grouping: Grouping) -> Read:
    address = parse_address(url, SCHEMES, SCHEMES[url.partition("://")[0].lower()])
    topic = unquote(address.path[1:])
    if not topic or address.query or address.fragment:
        raise InputError(f"not a topic: write {SCHEMES[address.scheme]}")
    server = f"{address.scheme}://{address.login}{address.hosts}"
    with exit_on_error(address.scheme):
        if address.scheme == "kafka":
            from bridge.dead.kafka import read_topic as read_kafka

            return read_kafka(server, topic, bounds, grouping.add)
        from bridge.dead.rocketmq import read_topic

        return asyncio.run(read_topic(server, topic, bounds, grouping.add))


def _read_archive(path: str, mapped: MappingOptions, bounds: Bounds, grouping: Grouping, step: Step) -> Read:
    from bridge.dead.reading import read_archive

    return read_archive(path, mapped.mapping(), bounds, grouping.add, step)
