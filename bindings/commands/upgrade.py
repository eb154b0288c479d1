"""``hashstar upgrade``: what an upgrade of RabbitMQ does to a topology, and the way there."""

from __future__ import annotations

import sys
from typing import Final

import click

from bindings.diff.diff import SECONDS
from bindings.sources.definitions import Definitions
from bindings.sources.open import Source, open_source
from bindings.upgrade.facts.fact import Severity
from bindings.upgrade.forms.as_json import to_json
from bindings.upgrade.forms.markdown import to_markdown
from bindings.upgrade.forms.text import to_text
from bindings.upgrade.releases import Release, release_of
from bindings.upgrade.upgrade import SEVERITIES, plan_upgrade
from exchange.commands.console import (
    echo_line,
    echo_text,
    exit_on_error,
    progress,
    seconds_to_answer,
    show_warnings,
    status,
    timeout_option,
)
from exchange.commands.route import ProfileType
from exchange.display import dump_json
from exchange.entities.profile import LATEST
from exchange.errors import InputError

__all__ = ["upgrade_command"]

NEVER: Final = "never"


@click.command("upgrade")
@click.option(
    "--from",
    "old_name",
    type=ProfileType(),
    metavar="RELEASE",
    help="RabbitMQ release that the topology is on.  [default: the one that an export or a live broker names]",
)
@click.option(
    "--to",
    "new_name",
    type=ProfileType(),
    metavar="RELEASE",
    default=LATEST.name.removeprefix("rabbitmq-"),
    show_default=True,
    help="RabbitMQ release to upgrade to, such as 4.3 (its newest patch release) or 4.2.6.",
)
@click.option("--vhost", help="Look at this virtual host only.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, NEVER]),
    default="error",
    show_default=True,
    help="Lowest severity that makes the exit code 1: error is what is refused or lost.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    default=SECONDS,
    metavar="SECONDS",
    show_default=True,
    help="Maximum duration of the comparison of routes; the rest is reported as undecided.",
)
@timeout_option
@click.argument("topology")
def upgrade_command(
    old_name: str | None,
    new_name: str,
    vhost: str | None,
    form: str,
    fail_on: str,
    budget: float,
    topology: str,
) -> None:
    """Show what an upgrade of RabbitMQ does to a topology.

    For each part: what the new release refuses, with the broker's text; what is lost, ignored or means something else,
    since when, how that is known, and the way out. Then the messages that the two releases route differently, each
    queue with a shortest one, or the proof that there are none; the settings in force that differ; and the releases on
    the way of a cluster that is upgraded node by node.

    TOPOLOGY is a .bindings file, definitions.json (or .gz), another format that hashstar convert reads, or a live
    broker, http://HOST:15672[/VHOST]. Nothing is changed.

    Exit codes: 0 nothing at or above --fail-on; 1 something is; 2 bad usage or input.
    """
    with exit_on_error():
        with status("reading ..."):
            source = open_source(topology, vhost, seconds=seconds_to_answer())
            old, new = _old_release(source, old_name), release_of(new_name)
            names = source.vhosts if vhost is None else (vhost,)
            topologies = [source.routable(name, old.profile) for name in names]
        show_warnings(source.name, source.warnings)
        with progress(f"comparing routes, {budget:.0f} s at most") as step:
            upgrade = plan_upgrade(topologies, old, new, seconds=budget, progress=step)
    if form == "json":
        click.echo(dump_json(to_json(upgrade)))
    elif form == "markdown":
        echo_text(to_markdown(upgrade))
    else:
        for line in to_text(upgrade):
            echo_line(line)
    lowest: Severity | None = next((each for each in SEVERITIES if each == fail_on), None)
    sys.exit(int(lowest is not None and upgrade.reaches(lowest)))


def _old_release(source: Source, name: str | None) -> Release:
    """Return the release that the user names, else the source. Raises InputError if neither does."""
    if name is None and isinstance(source.content, Definitions):
        name = source.content.rabbitmq_version
    if name is None and source.profile is not None:
        name = source.profile.name
    if name is None:
        raise InputError(f"{source.name} names no release of RabbitMQ; say --from RELEASE")
    return release_of(name)
