"""``hashstar diff``: what it takes to get from one topology to another, and what that means to messages."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final, NamedTuple

import click

from bindings.diff.diff import SECONDS, Diff, diff
from bindings.diff.report import meaning_lines, meaning_to_json, plan_lines, plan_to_json
from bindings.sources.open import open_source
from exchange.commands.console import (
    echo_line,
    exit_on_error,
    progress,
    seconds_to_answer,
    show_warnings,
    status,
    timeout_option,
)
from exchange.commands.route import profile_option
from exchange.display import dump_json
from exchange.errors import BrokerError, InputError
from exchange.field_json import message_from_line
from exchange.lines import read_lines
from exchange.message import Message
from exchange.routing.router import Router

__all__ = ["diff_command"]

LISTED: Final = 20
"""Maximum number of kinds of move that are listed for people."""


@click.command("diff")
@click.option("--vhost", help="Virtual host; required only if a source has several.")
@click.option(
    "--messages",
    type=click.File("rb"),
    help="JSON lines as hashstar route reads them: report those that A and B route differently.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@profile_option("the one that A names, else B, else the newest")
@timeout_option
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    default=SECONDS,
    metavar="SECONDS",
    show_default=True,
    help="Maximum duration of the comparison; the rest is reported as undecided.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["any", "lost", "gained"]),
    default="any",
    show_default=True,
    help="Differences that make the exit code 1: any, lost messages only, gained messages only.",
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
def diff_command(
    vhost: str | None,
    messages: IO[bytes] | None,
    as_json: bool,
    profile: str | None,
    budget: float,
    fail_on: str,
    before: str,
    after: str,
) -> None:
    """Show the plan from topology A to B, and what it means.

    A and B are .bindings files, definitions.json (or .gz) or http://HOST:15672[/VHOST]. The plan is in an order that
    loses no message on the way. The meaning is, for each queue, the messages that it gains and loses, each with a
    shortest message that shows it. That nothing changes is said only where it is proved.

    With --fail-on lost, only a difference by which a queue or publisher may lose messages ends with 1; with --fail-on
    gained, only one by which a queue may get more.

    Exit codes: 0 no difference; 1 a difference, or one that could not be ruled out; 2 bad usage or input.
    """
    with exit_on_error():
        with status("reading ..."):
            one, other = (open_source(where, vhost, seconds=seconds_to_answer()) for where in (before, after))
            rules = profile or one.profile or other.profile
            old, new = (source.routable(vhost, rules) for source in (one, other))
        for source in (one, other):
            show_warnings(source.name, source.warnings)
        with progress(f"comparing, {budget:.0f} s at most") as step:
            result = diff(old, new, seconds=budget, progress=step)
        moved = None if messages is None else _count_moves(messages, Router(old), Router(new))
    if as_json:
        values: dict[str, Any] = {
            "profile": old.profile.name,
            "plan": plan_to_json(result.plan),
            "meaning": meaning_to_json(result.meaning),
        }
        if moved is not None:
            values["messages"] = moved.to_json()
        click.echo(dump_json(values))
    else:
        steps = result.plan
        click.echo("plan:" if steps.steps or steps.refused or steps.left_alone else "plan: nothing to do")
        for line in plan_lines(steps):
            echo_line(line)
        click.echo("meaning:")
        for line in meaning_lines(result.meaning):
            echo_line(line)
        if moved is not None:
            for line in moved.lines():
                echo_line(line)
    sys.exit(1 if FAILING[fail_on](result) else 0)


FAILING: Final[Mapping[str, Callable[[Diff], bool]]] = {
    "any": lambda result: result.differs,
    "lost": lambda result: result.loses,
    "gained": lambda result: result.gains,
}


class _Move(NamedTuple):
    """The exchange that messages are published to, and the queues that they reach before and after."""

    exchange: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class _Moved(NamedTuple):
    """The messages of a file that go elsewhere."""

    read: int
    counts: Counter[_Move]
    first: dict[_Move, str]
    """The routing key of the first message of each."""

    def lines(self) -> Iterator[str]:
        """Yield the moves as text, the most frequent first."""
        yield f"messages: {self.counts.total():,} of {self.read:,} go elsewhere"
        for move, count in self.counts.most_common(LISTED):
            where = f"exchange '{move.exchange}'" if move.exchange else "the default exchange"
            yield f"  {count:,} to {where}, such as '{self.first[move]}'"
            yield f"      {_movement(move)}"
        if len(self.counts) > LISTED:
            yield f"  and {len(self.counts) - LISTED:,} more kinds of move"

    def to_json(self) -> dict[str, Any]:
        """Return all moves as JSON values."""
        moves = [
            {**move._asdict(), "messages": count, "first_routing_key": self.first[move]}
            for move, count in self.counts.most_common()
        ]
        return {"read": self.read, "elsewhere": self.counts.total(), "moves": moves}


def _count_moves(file: IO[bytes], before: Router, after: Router) -> _Moved:
    counts: Counter[_Move] = Counter()
    first: dict[_Move, str] = {}
    read = 0
    for number, line in read_lines(file):
        try:
            message = message_from_line(line)
        except InputError as error:
            raise InputError(f"{getattr(file, 'name', '-')}:{number}: {error}") from None
        read += 1
        move = _Move(message.exchange, _where(before, message), _where(after, message))
        if move.before != move.after:
            counts[move] += 1
            first.setdefault(move, message.routing_key)
    return _Moved(read, counts, first)


def _where(router: Router, message: Message) -> tuple[str, ...]:
    try:
        route = router.route(message)
    except BrokerError as error:
        return (f"refused ({error.code} {error.name})",)
    partitions = {placement.queue: placement.name for placement in route.placements}
    queues = [f"{name} partition {partitions[name] or 'any'}" if name in partitions else name for name in route.queues]
    return (*queues, *[f"undecided at {name}" for name in route.undecided])


def _movement(move: _Move) -> str:
    """Return what changes: ``loses c``; what stays is only counted."""
    lost = [name for name in move.before if name not in move.after]
    gained = [name for name in move.after if name not in move.before]
    changes = [f"{verb} {', '.join(names)}" for verb, names in (("loses", lost), ("gains", gained)) if names]
    kept = len(move.before) - len(lost)
    stays = f"keeps {kept:,}" if kept else "goes nowhere now" if not move.after else "went nowhere before"
    if kept or not (move.before and move.after):
        changes.append(stays)
    return "; ".join(changes)
