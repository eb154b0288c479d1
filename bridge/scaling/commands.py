"""``hashstar rocketmq``: administration of a RocketMQ cluster."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Literal, Self

import click

from exchange.commands.console import Step as UpdateProgress
from exchange.commands.console import confirm, echo_error, echo_line, exit_on_error, fail, show_progress
from exchange.commands.options import CommandGroup, Duration, accept_old_name, wait_option
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError, InputError
from exchange.limits import PARTITIONS, RECORD_BYTES
from exchange.partition.moves import KeyCounts
from exchange.text.display import count_noun
from exchange.values.forms import Form, Forms

if TYPE_CHECKING:
    from bridge.rocketmq.remoting.client import ClientSettings
    from bridge.scaling.scaling import ScalingPlan, StepEvent
    from exchange.partition.clients.rocketmq.scaling import QueueCounts, ScalingStep

FORMS: Final[Forms] = {"text": Form("bridge.scaling.forms:to_text"), "json": Form("bridge.scaling.forms:to_json")}
"""The forms of a plan, and of what became of it."""
NAMESRV: Final = "NAMESRV_ADDR"
"""Environment variable of RocketMQ's own tools with the addresses of the name servers."""
ACCESS_KEY: Final = "HASHSTAR_ROCKETMQ_ACCESS_KEY"
SECRET_KEY: Final = "HASHSTAR_ROCKETMQ_SECRET_KEY"  # noqa: S105  the name of a variable


@click.group(
    "rocketmq", cls=CommandGroup, example="hashstar rocketmq scale orders --queues 8 --namesrv HOST:9876 --dry-run"
)
def rocketmq_command() -> None:
    """Administer topics of RocketMQ."""


@rocketmq_command.command(
    "scale", example="hashstar rocketmq scale orders --queues 8 --namesrv HOST:9876 --dry-run",
    needs={"--producers-stopped": "--keep-order", "--ca-file": "--tls"},
)  # fmt: skip
@accept_old_name("--to", "--queues")
@accept_old_name("--timeout", "--wait")
@click.option("--queues", type=click.IntRange(1, PARTITIONS), required=True, metavar="N",
              help="Number of queues on each broker, written and read.")  # fmt: skip
@click.option("--namesrv", metavar="HOST:PORT", help="Name servers, with semicolons between them.  "
              f"[default: ${NAMESRV}]")  # fmt: skip
@click.option("--broker", "brokers", multiple=True, metavar="NAME",
              help="Change this broker only; repeatable.  [default: all that have the topic]")  # fmt: skip
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Consumer group that must have read a queue "
              "before it is hidden; repeatable.  [default: all]")  # fmt: skip
@click.option("--keep-order", is_flag=True, help="Messages with one key must stay in order: change queues only while "
              "producers are stopped, and all is read.")  # fmt: skip
@click.option(
    "--producers-stopped", is_flag=True, help="With --keep-order: the producers are stopped; else they need not be."
)
@click.option("--settle", type=Duration(), default="33s", show_default=True, metavar="TIME",
              help="Time until no producer uses an old route: pollNameServerInterval + sendMsgTimeout.")  # fmt: skip
@wait_option(600.0, "Maximum time to wait for queues to be drained.")
@click.option("--keys", type=click.File("rb"), metavar="FILE",
              help="Keys of messages, one a line, to report which move.  [default: a sample]")  # fmt: skip
@click.option("--partitioner", default="rocketmq.hash", show_default=True, metavar="STRATEGY",
              help="Strategy of the producers, as of hashstar partition.")  # fmt: skip
@click.option("--access-key", envvar=ACCESS_KEY, show_envvar=True, metavar="KEY",
              help=f"Access key, for brokers with access control; its secret key is in ${SECRET_KEY}.")  # fmt: skip
@click.option("--tls", is_flag=True, help="Connect with TLS.")
@click.option("--ca-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="With --tls: certificates of the authorities to trust.  [default: the system's]")  # fmt: skip
@form_options(FORMS)
@output_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show the steps, and change nothing.")
@click.argument("topic", metavar="TOPIC")
def scale_command(
    queues: int,
    namesrv: str | None,
    brokers: tuple[str, ...],
    groups: tuple[str, ...],
    keep_order: bool,
    producers_stopped: bool,
    settle: float,
    wait: float,
    keys: IO[bytes] | None,
    partitioner: str,
    access_key: str | None,
    tls: bool,
    ca_file: str | None,
    form: Literal["text", "json"],
    yes: bool,
    dry_run: bool,
    topic: str,
) -> None:
    """Change the number of queues of a topic in use.

    To grow, queues are read before they are written. To shrink, queues are first not written any more; when no producer
    has the old route and all groups have read them, they are not read any more. Each step is taken only when no message
    is lost by it; delayed and transactional messages that are still on their way to a queue count, too.

    If it is ended, run it again: the state of the brokers is all that it needs to continue.

    Exit codes: 0 the brokers have N queues, or --dry-run; 1 refused or not drained in time, with the way out; 2 no such
    topic, no name server, or bad usage.
    """
    from bridge.scaling.deferred import ScalingRefused
    from bridge.scaling.forms import count_moves
    from bridge.scaling.scaling import plan, scale
    from bridge.scaling.topic_state import Scope, check_topic
    from exchange.partition.partitioning.specification import parse_partitioner

    with exit_on_error():
        strategy = parse_partitioner(partitioner)
        settings = _settings(namesrv, access_key, ca_file, tls=tls)
        check_topic(topic)
        scope = Scope(topic, queues, brokers, groups, keep_order, producers_stopped, settle)
        counts = None if keys is None else _read_keys(keys)
        made = asyncio.run(plan(settings, scope))
        moves = count_moves(made, strategy, counts)

    sampled = counts is None

    def show_json(*, done: bool, refused: str = "") -> None:
        if form == "json":
            print_form(
                FORMS[form], made, moves, partitioner, sampled=sampled, dry_run=dry_run, done=done, refused=refused
            )

    if form == "text":
        print_form(FORMS[form], made, moves, partitioner, sampled=sampled)
    if not made.steps or dry_run:
        show_json(done=not made.steps)
        return
    question = f"carry out {count_noun(len(made.steps), 'step')}?"
    confirm(question, "--yes takes the steps, --dry-run shows them", yes=yes)
    screen = _Screen(made, as_lines=form == "text")
    try:
        with screen:
            # The brokers are those of the plan: one that is lost meanwhile must not pass for one that is done.
            planned = replace(scope, brokers=tuple(made.state.target))
            asyncio.run(scale(settings, planned, drain_timeout=wait, report=screen.report))
    except ScalingRefused as error:
        show_json(done=False, refused=str(error))
        echo_error(error)
        sys.exit(error.exit_code)
    except HashstarError as error:
        show_json(done=False, refused=str(error))
        fail(InputError(f"{error}; run it again to continue"))
    except KeyboardInterrupt:
        echo_line("interrupted; nothing is lost, and another run continues", err=True)
        raise
    show_json(done=True)
    if form == "text":
        echo_line(f"done: topic {topic} has {count_noun(queues, 'queue')} on each broker")


class _Screen:
    """Shows what happens: a line for each step, and on a terminal the progress of what is waited for."""

    def __init__(self, made: ScalingPlan, *, as_lines: bool) -> None:
        self._numbers = made.state.situation.counts
        """Numbers of queues of the brokers, after the steps that were taken."""
        self._as_lines: Final = as_lines
        self._bar = ExitStack()
        self._update: UpdateProgress | None = None
        self._waiting: tuple[str, str] | None = None
        """Action and broker of the step that is waited for."""
        self._most = 0.0
        """The most that it had to wait for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._bar.close()

    def report(self, event: StepEvent) -> None:
        """Show what has happened."""
        step = event.step
        if event.is_done:
            self._stop_waiting()
            self._line(f"done: {self._describe(step)}")
            self._numbers = self._after(step)
            return
        if self._waiting != (step.action, step.broker):
            self._stop_waiting()
            self._waiting, self._most = (step.action, step.broker), 0.0
            self._line(f"waiting: {self._describe(step)}")
            self._update = self._bar.enter_context(show_progress("draining" if step.action == "drain" else "settling"))
        self._most = max(self._most, event.left)
        if self._update is not None:
            self._update(round((self._most - event.left) * 100), round(self._most * 100))

    def _describe(self, step: ScalingStep) -> str:
        from bridge.scaling.forms import describe_step

        return describe_step(step, self._numbers)

    def _after(self, step: ScalingStep) -> Mapping[str, QueueCounts]:
        from exchange.partition.clients.rocketmq.scaling import count_after

        return count_after(self._numbers, step)

    def _line(self, text: str) -> None:
        if self._as_lines:
            echo_line(text, err=True)

    def _stop_waiting(self) -> None:
        self._bar.close()
        self._waiting, self._update = None, None


def _read_keys(file: IO[bytes]) -> KeyCounts:
    """Count the keys in a file, one a line. Raises InputError for text that is not UTF-8."""
    counts = KeyCounts()
    for number, line in enumerate(iter(partial(file.readline, RECORD_BYTES + 1), b""), 1):
        if len(line) > RECORD_BYTES:
            raise InputError(f"{getattr(file, 'name', '-')}:{number}: a line of more than {RECORD_BYTES >> 20} MiB")
        try:
            counts.add(line.decode().rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise InputError(f"{getattr(file, 'name', '-')}:{number}: not UTF-8: {error.reason}") from None
    return counts


def _settings(namesrv: str | None, access_key: str | None, ca_file: str | None, *, tls: bool) -> ClientSettings:
    """Return the settings of the client. Raises InputError."""
    from bridge.rocketmq.remoting.acl import Credentials
    from bridge.rocketmq.remoting.channel import ChannelSettings
    from bridge.rocketmq.remoting.client import ClientSettings

    addresses = namesrv or os.environ.get(NAMESRV)
    if not addresses:
        raise InputError(f"no name server: give --namesrv HOST:9876, or set {NAMESRV}")
    credentials = None
    if access_key:
        secret = os.environ.get(SECRET_KEY)
        if not secret:
            raise InputError(f"an access key needs its secret key: set {SECRET_KEY}")
        credentials = Credentials(access_key, secret)
    context = None
    if tls:
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"{ca_file}: cannot be read as certificates: {error}") from None
    settings = ClientSettings(addresses, channel=ChannelSettings(tls=context, credentials=credentials))
    settings.name_servers  # noqa: B018  the property checks them
    return settings
