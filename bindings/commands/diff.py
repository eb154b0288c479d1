"""``hashstar diff``: what it takes to get from one topology to another, and what that means to messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import IO, Final

import click

from bindings.diffing.against import Comparison, diff_against
from bindings.diffing.diff import SECONDS, Diff
from bindings.diffing.forms import FORMS
from bindings.diffing.messages import count_moves
from bindings.diffing.pair import read_pair
from exchange.commands.completion import SOURCE
from exchange.commands.console import echo_error, echo_line, exit_on_error, show_progress, show_status, show_warnings
from exchange.commands.options import (
    accept_old_name,
    allow_unread_option,
    command,
    read_timeout,
    timeout_option,
    topology_option,
    wait_option,
)
from exchange.commands.output import form_options, output_option, print_form
from exchange.commands.release import ProfileType, profile_option
from exchange.routing.router import Router

FAILING: Final[Mapping[str, Callable[[Diff], bool]]] = {
    "any": lambda result: result.differs,
    "lost": lambda result: result.loses,
    "gained": lambda result: result.gains,
    "never": lambda result: False,
}
"""Value of --fail-on -> whether a difference makes the exit code 1."""


@command("diff", example="hashstar diff shop.bindings new.bindings", needs={"--merge-base": "--against"})
@click.option(
    "--against", metavar="REF", help="Compare files with what they were at this revision of their git repository."
)
@click.option("--merge-base", is_flag=True, help="With --against, compare with the common ancestor of REF and HEAD.")
@click.option("--vhost", help="Virtual host; required only if A or B has several.")
@click.option(
    "--messages",
    type=click.File("rb"),
    help="JSON lines as hashstar route reads them: report those that A and B route differently.",
)
@form_options(FORMS)
@output_option
@profile_option("the one that A names, else B, else the newest")
@click.option("--from", "old_release", type=ProfileType(), metavar="RELEASE", help="RabbitMQ release of A.")
@click.option("--to", "new_release", type=ProfileType(), metavar="RELEASE", help="RabbitMQ release of B.")
@timeout_option
@wait_option(SECONDS, "Maximum duration of the comparison; the rest is reported as undecided.")
@accept_old_name("--budget", "--wait")
@allow_unread_option
@click.option(
    "--fail-on", type=click.Choice(list(FAILING)), default="any", show_default=True,
    help="Differences that make the exit code 1: any, lost messages only, gained messages only, none.",
)  # fmt: skip
@topology_option
@click.argument("topologies", type=SOURCE, nargs=-1, metavar="A [B] | [FILE]...")
def diff_command(
    against: str | None,
    merge_base: bool,
    vhost: str | None,
    messages: IO[bytes] | None,
    form: str,
    profile: str | None,
    old_release: str | None,
    new_release: str | None,
    wait: float,
    allow_unread: bool,
    fail_on: str,
    topologies: tuple[str, ...],
) -> None:
    """Show the plan from topology A to B, and what it means.

    A and B are .bindings files, definitions.json (or .gz) or http://HOST:15672[/VHOST]. The meaning is, for each queue,
    the messages that it gains and loses, with a shortest one. That nothing changes is said only where it is proved.

    With --from and --to, A is of one RabbitMQ release and B of another; without B, A is compared with itself. With
    --against REF, each FILE is compared with what it was at that revision of its git repository; a folder stands for
    the topologies below it that have changed.

    --fail-on lost, or gained, ends with 1 only where messages may be lost, or where a queue may get more. --format
    markdown is for comments on pull requests. Of files with parts that cannot be read, nothing is proved;
    --allow-unread compares the rest.

    Exit codes: 0 no difference; 1 a difference, or one that could not be ruled out; 2 bad usage or input.
    """
    releases = None if old_release is None and new_release is None else (old_release, new_release)
    if releases is not None and (profile is not None or against is not None):
        raise click.UsageError("--from and --to compare A and B, without --profile and --against")
    if against is None:
        if len(topologies) != 2 and not (releases is not None and len(topologies) == 1):
            raise click.UsageError("two topologies are compared, A and B; or files with --against REF")
        if messages is not None and form == "markdown":
            raise click.UsageError("--messages has no Markdown; use --format text or json")
        with exit_on_error():
            with show_status("reading ..."):
                pair = read_pair(
                    topologies, vhost, releases or profile, allow_unread=allow_unread, seconds=read_timeout()
                )
            for caveat in pair.caveats or ():
                if pair.releases is None:  # else the option has shown it
                    echo_line(f"hashstar: warning: {caveat}", err=True)
            for source in pair.sources:
                show_warnings(source.name, source.warnings)
            with show_progress(f"comparing, {wait:.0f} s at most") as step:
                compared = pair.compare(wait, step)
            moved = None if messages is None else count_moves(messages, Router(pair.old), Router(pair.new))
        print_form(FORMS[form], Comparison([compared], messages=moved))
        if form == "text" and pair.rules:
            echo_line(pair.rules)
        files = [compared]
    else:
        if messages is not None:
            raise click.UsageError("--messages compares A and B, not files with --against")
        with exit_on_error(), show_progress(f"comparing, {wait:.0f} s at most") as step:
            files = diff_against(
                against, topologies, merge_base=merge_base, vhost=vhost, profile=profile, allow_unread=allow_unread,
                seconds=wait, progress=step,
            )  # fmt: skip
        print_form(FORMS[form], Comparison(files, against))
        for file in files:
            if file.error is not None:
                echo_error(file.error)
    fails = FAILING[fail_on]
    failed = any(fails(each.diff) for file in files for each in file.vhosts)
    sys.exit(max([int(failed), *(file.error.exit_code for file in files if file.error is not None)]))
