"""``hashstar apply``: make a live broker have what a file declares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from bindings.applying.address import Addresses
from bindings.applying.amqp import OperationRefused, require_pika
from bindings.applying.apply import LivePlan, Stopped, apply, plan_for
from bindings.applying.broker import InUse, LiveBroker
from bindings.applying.forms import MAX_LISTED_STEPS, format_kept, format_plan, format_steps, format_stop
from bindings.applying.live import Live, choose_topology
from bindings.diffing.planning.plan import Plan, is_reserved
from bindings.diffing.planning.step import Step
from bindings.sources.open import Source, open_source
from exchange.commands.completion import SOURCE
from exchange.commands.console import (
    confirm,
    echo_error,
    echo_line,
    echo_lines,
    exit_on_error,
    show_caveat,
    show_progress,
    show_warnings,
)
from exchange.commands.options import allow_unread_option, command, read_timeout, timeout_option, topology_option
from exchange.errors import HashstarError, InputError
from exchange.text.display import count_noun
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread, format_not_proved

TWICE: Final = 2
"""Number of times that --prune is given to delete by an incomplete or empty file."""
STOPPED: Final = 1
"""Exit code of a command that stopped before or in the middle of a plan."""


@command("apply", example="hashstar apply shop.bindings http://HOST:15672/shop --dry-run")
@click.option("--vhost", help="Virtual host.  [default: the address's, else the only one in TOPOLOGY]")
@click.option(
    "--other-address",
    metavar="URL",
    help="The other address (AMQP or management API), if not at its usual port of the same host.",
)
@click.option("--prune", count=True, help="Also delete what the broker has and TOPOLOGY does not; given twice, also if "
              "TOPOLOGY is empty, or has parts that were not read.")  # fmt: skip
@click.option("--replace", is_flag=True, help="Delete and redeclare what cannot be changed in place.")
@click.option("--force", is_flag=True, help="Delete queues even if they have messages or consumers.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@allow_unread_option
@timeout_option
@topology_option
@click.argument("file", type=SOURCE, metavar="TOPOLOGY")
@click.argument("address", metavar="URL")
def apply_command(
    vhost: str | None,
    other_address: str | None,
    prune: int,
    replace: bool,
    force: bool,
    yes: bool,
    dry_run: bool,
    allow_unread: bool,
    file: str,
    address: str,
) -> None:
    """Apply a topology to a live RabbitMQ broker.

    One virtual host gets the exchanges, queues, bindings and policies of TOPOLOGY, a .bindings file or
    definitions.json. URL is the management API, http://[USER:PASSWORD@]HOST:15672[/VHOST], or amqp://...; the other one
    is expected at the usual port of the same host. HASHSTAR_RABBITMQ_USER and HASHSTAR_RABBITMQ_PASSWORD may have the
    login, HASHSTAR_RABBITMQ_TOKEN or HASHSTAR_RABBITMQ_TOKEN_FILE an access token.

    The plan is shown first, in an order that loses no message; a step without such an order is marked. What TOPOLOGY
    does not mention is deleted with --prune only. The command stops at the first surprise, reports what is done, and
    can be run again.

    A TOPOLOGY with parts that cannot be read needs --allow-unread. With such a one, or an empty one, nothing is
    deleted unless --prune is given twice.

    Exit codes: 0 applied, or nothing to do; 1 stopped, or not allowed to go on; 2 bad usage or input.
    """
    with exit_on_error():
        if not dry_run:
            require_pika()
        addresses = Addresses.parse(address, other_address, seconds=read_timeout())
        opened = _open(file, vhost or addresses.management.vhost)
        wanted = choose_topology(opened, vhost, addresses.management)
        if prune == 1:
            _require_whole(opened.name, wanted)
        if allow_unread or prune >= TWICE:
            wanted = wanted.with_unread(wanted.unread, allowed=True)
        live = Live(addresses.management, wanted.vhost)
        planned = plan_for(live, wanted, prune=prune > 0)
        plan = planned.plan
        before = live.mark_unread(planned.before, live.exclusive_queues())
        show_caveat(before.profile)
        where = f"virtual host {live.vhost!r} at {live.management.address}"
        echo_lines(format_plan(plan, before, planned.after, where))
        if not prune:
            echo_lines(format_kept(planned.before, planned.wanted))
        if plan.refused:
            raise InputError(f"{opened.name}: the broker would refuse what is marked above; nothing was changed")
    if wanted.unread and not wanted.allows_unread:  # what plugins make is no part of the file
        nothing = "" if plan.steps else "nothing to do for what was read; "
        _stop(f"{nothing}{format_not_proved(wanted.unread)}; --allow-unread applies the rest. Nothing was changed")
    if not plan.steps:
        echo_line("nothing to do")
        return
    if dry_run:
        return
    if plan.replaced and not replace:
        names = ", ".join(f"{type(part).__name__.lower()} {part.name!r}" for part in plan.replaced[:MAX_LISTED_STEPS])
        _stop(f"cannot be changed in place: {names}; --replace deletes and declares again. Nothing was changed")
    _ask(plan, yes)
    try:
        broker = LiveBroker.connect(addresses, live.vhost, force=force)
    except HashstarError as error:
        _stop(f"{error}. Nothing was changed")
    with broker:
        _carry_out(planned, live, broker)
    done = count_noun(len(plan.steps), "step")
    try:
        left = planned.left_over(live)
    except HashstarError as error:
        _stop(f"{done} done, but what the broker has now cannot be read: {error}")
    echo_lines(format_steps("still different:", left))
    if left:
        _stop(f"{done} done, and the broker has something else all the same; run it again")
    echo_line(f"applied: {done}; the broker now matches the plan")


def _require_whole(name: str, wanted: Topology) -> None:
    """Raise InputError if the source is no reason to delete anything: it is empty, or parts of it were not read."""
    unread = find_unread(wanted)
    if unread:
        raise InputError(
            f"{name}: {format_not_proved(unread)} ({unread[0].where}: {unread[0].text}), and --prune "
            "would delete these, too; given twice, it does"
        )
    own = [each for each in (*wanted.exchanges, *wanted.queues) if not is_reserved(each)]
    if not (own or wanted.bindings or wanted.all_policies):
        raise InputError(f"{name}: there is nothing in it, and --prune would delete everything; given twice, it does")


def _open(file: str, vhost: str | None) -> Source:
    """Read the source, and print its warnings. Raises InputError."""
    opened = open_source(file, vhost, seconds=read_timeout())
    show_warnings(opened.name, opened.warnings)
    return opened


def _ask(plan: Plan, yes: bool) -> None:
    dangerous = sum(step.danger is not None for step in plan.steps)
    warned = f", {dangerous} of which can lose messages or lead them astray" if dangerous else ""
    question = f"carry out {count_noun(len(plan.steps), 'step')}{warned}?"
    confirm(question, "--yes applies the plan, --dry-run only shows it", yes=yes)


def _carry_out(planned: LivePlan, live: Live, broker: LiveBroker) -> None:
    """Apply a plan unless the broker has changed since it was made, and end the process if it stops on the way."""
    try:
        if live.topology(planned.wanted) != planned.before:
            _stop("the broker has changed since the plan was made. Nothing was done; run it again")
    except HashstarError as error:
        _stop(f"{error}. Nothing was changed")
    steps, done = planned.plan.steps, list[Step]()
    try:
        with show_progress("applying") as step_bar:

            def report_step(step: Step) -> None:
                done.append(step)
                step_bar(len(done), len(steps))

            apply(steps, broker, progress=report_step)
    except Stopped as error:
        certain = isinstance(error.cause, OperationRefused | InUse | ValueError | TypeError)
        _show_stop(done, steps[len(done) :], str(error), certain=certain)
    except KeyboardInterrupt:
        _show_stop(done, steps[len(done) :], "interrupted", certain=False)


def _show_stop(done: Sequence[Step], left: Sequence[Step], reason: str, *, certain: bool) -> NoReturn:
    """Print which steps are done and which are not, and end the process.

    The first of ``left`` failed. Unless that is ``certain``, the broker may have carried it out all the same.
    """
    echo_lines(format_stop(done, left, reason, certain=certain))
    _stop(f"stopped after {len(done)} of {count_noun(len(done) + len(left), 'step')}; run it again to go on")


def _stop(reason: str) -> NoReturn:
    echo_error(reason)
    sys.exit(STOPPED)
