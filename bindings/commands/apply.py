"""``hashstar apply``: make a live broker have what a file declares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from bindings.analysis.crawl import Deadline
from bindings.applying.address import Addresses
from bindings.applying.amqp import OperationRefused, require_pika
from bindings.applying.apply import PLANNING_SECONDS, Stopped, apply, plan_for
from bindings.applying.broker import InUse, LiveBroker
from bindings.applying.live import Live, choose_topology
from bindings.diffing.comparison.compare import compare
from bindings.diffing.forms.text import format_meaning, format_settings, plan_lines
from bindings.diffing.planning.plan import Plan, is_reserved
from bindings.diffing.planning.step import Step
from bindings.diffing.settings.changes import compare_settings
from bindings.sources.open import Source, open_source
from exchange.commands.completion import SOURCE
from exchange.commands.console import (
    confirm,
    echo_error,
    echo_line,
    exit_on_error,
    show_caveat,
    show_progress,
    show_warnings,
)
from exchange.commands.options import allow_unread_option, command, read_timeout, timeout_option, topology_option
from exchange.errors import HashstarError, InputError
from exchange.text.display import count_noun, escape_lines
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread, format_not_proved, format_unread

MAX_LISTED_STEPS: Final = 20
"""Maximum number of steps that are listed."""
MEANING_LINES: Final = 40
"""Maximum number of lines about what the plan means."""
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
    login.

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
        _show_plan(
            plan,
            live.mark_unread(planned.before, live.exclusive_queues()),
            planned.after,
            f"virtual host {live.vhost!r} at {live.management.address}",
        )
        if not prune:
            _show_kept(planned.before, planned.wanted)
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
        try:
            if live.topology(planned.wanted) != planned.before:
                _stop("the broker has changed since the plan was made. Nothing was done; run it again")
        except HashstarError as error:
            _stop(f"{error}. Nothing was changed")
        _carry_out(plan, broker)
    done = count_noun(len(plan.steps), "step")
    try:
        left = planned.left_over(live)
    except HashstarError as error:
        _stop(f"{done} done, but what the broker has now cannot be read: {error}")
    _print_steps("still different:", left)
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


def _show_plan(plan: Plan, before: Topology, after: Topology, where: str) -> None:
    show_caveat(before.profile)
    if plan.steps:
        echo_line(f"plan for {where}:")
    for line in plan_lines(plan):
        echo_line(line)
    if not plan.steps:
        for line in format_unread(find_unread(after)):
            echo_line(line)
        return
    echo_line("meaning:")
    meaning = compare(before, after.with_profile(before.profile), deadline=Deadline(PLANNING_SECONDS))
    lines = [*format_meaning(meaning), *format_settings(compare_settings(before, after))]
    for line in lines[:MEANING_LINES]:
        echo_line(line)
    if len(lines) > MEANING_LINES:
        echo_line(f"  and {count_noun(len(lines) - MEANING_LINES, 'more line')}; hashstar diff prints all")


def _show_kept(before: Topology, wanted: Topology) -> None:
    """Print what --prune would delete."""
    exchanges = [name for name in before.exchanges if name not in wanted.exchanges and not is_reserved(name)]
    queues = [name for name in before.queues if name not in wanted.queues and not is_reserved(name)]
    bindings = [binding for binding in before.bindings if binding not in wanted.bindings]
    policies = [name for name in before.policies if name not in wanted.policies]
    counts = (
        (exchanges, "exchange", "exchanges"), (queues, "queue", "queues"), (bindings, "binding", "bindings"),
        (policies, "policy", "policies"),
    )  # fmt: skip
    kept = ", ".join([count_noun(len(parts), *nouns) for parts, *nouns in counts if parts])
    if kept:
        echo_line(f"kept, although the file does not have it: {kept} (--prune deletes)")


def _ask(plan: Plan, yes: bool) -> None:
    dangerous = sum(step.danger is not None for step in plan.steps)
    warned = f", {dangerous} of which can lose messages or lead them astray" if dangerous else ""
    question = f"carry out {count_noun(len(plan.steps), 'step')}{warned}?"
    confirm(question, "--yes applies the plan, --dry-run only shows it", yes=yes)


def _carry_out(plan: Plan, broker: LiveBroker) -> None:
    """Apply a plan, and end the process if it stops on the way."""
    done: list[Step] = []
    try:
        with show_progress("applying") as step_bar:

            def report_step(step: Step) -> None:
                done.append(step)
                step_bar(len(done), len(plan.steps))

            apply(plan.steps, broker, progress=report_step)
    except Stopped as error:
        certain = isinstance(error.cause, OperationRefused | InUse | ValueError | TypeError)
        _show_stop(done, plan.steps[len(done) :], str(error), certain=certain)
    except KeyboardInterrupt:
        _show_stop(done, plan.steps[len(done) :], "interrupted", certain=False)


def _show_stop(done: Sequence[Step], left: Sequence[Step], reason: str, *, certain: bool) -> NoReturn:
    """Print which steps are done and which are not, and end the process.

    The first of ``left`` failed. Unless that is ``certain``, the broker may have carried it out all the same.
    """
    _print_steps("done:", done)
    echo_line("failed:" if certain else "failed, perhaps done:")
    for step in left[:1]:
        echo_line(f"  {_describe(step)}")
    click.echo(escape_lines(f"      ! {reason}"))
    _print_steps("not done:", left[1:])
    _stop(f"stopped after {len(done)} of {count_noun(len(done) + len(left), 'step')}; run it again to go on")


def _print_steps(title: str, steps: Sequence[Step]) -> None:
    if steps:
        echo_line(title)
    for step in steps[:MAX_LISTED_STEPS]:
        echo_line(f"  {_describe(step)}")
    if len(steps) > MAX_LISTED_STEPS:
        echo_line(f"  and {len(steps) - MAX_LISTED_STEPS} more")


def _describe(step: Step) -> str:
    return f"{'+' if step.added else '-'} {step}"


def _stop(reason: str) -> NoReturn:
    echo_error(reason)
    sys.exit(STOPPED)
