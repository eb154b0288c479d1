"""``hashstar group``: partitioned queues of RabbitMQ, and the groups that consume them."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final, Literal
from urllib.parse import quote

import click

from bindings.sources.address import parse_address
from bindings.sources.management import find_login
from exchange.commands.console import echo_line, exit_on_error, show_status
from exchange.commands.options import CommandGroup, Duration, accept_old_name
from exchange.commands.output import form_options, output_option, print_form
from exchange.files.names import AMQP
from exchange.limits import GROUP_PARTITIONS
from exchange.text.display import count_noun
from exchange.values.forms import Form, Forms

VARIABLE: Final = "HASHSTAR_AMQP_URL"
LOCAL: Final = "amqp://127.0.0.1"
EXAMPLE: Final = "amqp://USER:PASSWORD@HOST:PORT/VHOST"

url_option = click.option(
    "--url",
    metavar="URL",
    help=f"Address of the broker, {EXAMPLE}.  [default: ${VARIABLE}, else the local broker]",
)
number = click.IntRange(1, GROUP_PARTITIONS)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")


FORMS: Final[Forms] = {
    "text": Form("bridge.consumers.groups.description:to_text", (".txt",)),
    "json": Form("bridge.consumers.groups.description:Description", (".json",)),
    "prometheus": Form("bridge.consumers.groups.description:format_metrics", (".prom",)),
}
"""The forms of the description of a group."""


@click.group("group", cls=CommandGroup, example="hashstar group describe orders")
def group_command() -> None:
    """Share a partitioned queue of RabbitMQ among consumers."""


@group_command.command("create", example="hashstar group create orders --partitions 8")
@url_option
@click.option("--partitions", type=number, required=True, metavar="PARTITIONS", help="Number of partitions.")
@click.option(
    "--slots", type=click.IntRange(1), default=256, show_default=True, metavar="N",
    help="Number of slots that keys are hashed to, and largest number of partitions. It never changes.",
)  # fmt: skip
@click.option("--queue-type", type=click.Choice(["quorum", "classic"]), default="quorum", show_default=True,
              help="Type of the partitions' queues.")  # fmt: skip
@dry_run_option
@click.argument("queue", metavar="QUEUE")
def create_command(
    url: str | None, partitions: int, slots: int, queue_type: Literal["quorum", "classic"], dry_run: bool, queue: str
) -> None:
    """Declare a partitioned queue.

    It is the exchange QUEUE and the queues QUEUE-0, QUEUE-1 ..., with a binding for each slot.

    Exit codes: 0 declared, or there already; 2 it exists with other settings, no broker, or bad usage.
    """
    with exit_on_error():
        from bridge.consumers.groups import PartitionedQueue, create

        wanted = PartitionedQueue(queue, slots, queue_type)
        is_new = asyncio.run(create(_address(url), wanted, partitions, dry_run=dry_run))
    planned = " would be declared; nothing was changed" if dry_run else ""
    echo_line(f"{queue}: {count_noun(partitions, 'partition')}" + (planned if is_new else ", unchanged"))


@group_command.command("resize", example="hashstar group resize orders --partitions 12 --dry-run")
@url_option
@click.option("--partitions", type=number, required=True, metavar="PARTITIONS", help="New number of partitions.")
@accept_old_name("--to", "--partitions")
@click.option(
    "--grace", type=Duration(), default="2s", show_default=True, metavar="TIME",
    help="Maximum time that the broker needs to put a routed message into its queue.",
)  # fmt: skip
@click.option(
    "--wait", type=Duration(), metavar="TIME",
    help="Maximum time until members have handled what moves.  [default: no limit]",
)  # fmt: skip
@dry_run_option
@click.argument("queue", metavar="QUEUE")
def resize_command(
    url: str | None, partitions: int, grace: float, wait: float | None, dry_run: bool, queue: str
) -> None:
    """Change the number of partitions, in order for each key.

    Publishers and members go on. Keys that move are handled in their new partition when all that is in the old one
    is handled; the command waits for that, so members have to run. If it is interrupted, or --wait is over, run it
    again with the same number: until then, messages of these keys wait in their new partition.

    Exit codes: 0 done, or that number already; 2 no such queue, another change in progress, no broker, or bad usage.
    """
    with exit_on_error():
        from bridge.consumers.groups import resize

        with show_status("connecting ...") as show:
            # In a pipe, too, each step is a line: it may wait long for members.
            report = show if sys.stderr.isatty() else lambda text: echo_line(text, err=True)
            is_changed = asyncio.run(
                resize(_address(url), queue, partitions, grace=grace, wait=wait, dry_run=dry_run, report=report)
            )
    planned = " would be the new number; nothing was changed" if dry_run else ""
    echo_line(f"{queue}: {count_noun(partitions, 'partition')}" + (planned if is_changed else ", unchanged"))


@group_command.command("describe", example="hashstar group describe orders")
@url_option
@form_options(FORMS)
@output_option
@accept_old_name("--listen", "--for")
@click.option(
    "--for", "listen", type=Duration(least=0.1, most=600), default="1s", show_default=True, metavar="TIME",
    help="Time to listen for members, which announce themselves four times in a heartbeat.",
)  # fmt: skip
@click.argument("queue", metavar="QUEUE")
def describe_command(url: str | None, form: str, listen: float, queue: str) -> None:
    """Show members, owners, lag and skew of a group.

    Exit codes: 0 each partition has an owner; 1 some have none; 2 no such queue, no broker, or bad usage.
    """
    with exit_on_error():
        from bridge.consumers.groups.description import describe

        with show_status("listening ..."):
            described = asyncio.run(describe(_address(url), queue, listen=listen))
        print_form(FORMS[form], described)
    sys.exit(1 if described.unowned else 0)


def _address(url: str | None) -> str:
    """Return the address of the broker, with the login of the environment if it has none. Raises InputError."""
    url = url or os.environ.get(VARIABLE) or LOCAL
    login = find_login(parse_address(url, AMQP, EXAMPLE))
    if login is None:
        return url
    user, secret = (quote(each, safe="") for each in login)
    return url.replace("://", f"://{user or 'token'}:{secret}@", 1)  # RabbitMQ takes the user that a token names
