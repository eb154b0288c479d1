"""``hashstar dead``: what is in a queue, a topic or an archive of dead letters, and why; and publishing it again."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

import click

from bindings.commands.archive import MappingOptions, with_mapping
from bindings.commands.route import load
from bindings.sources.address import has_scheme, parse_address
from bindings.sources.applications.importing import import_object
from bridge.dead.forms import FORMS
from exchange.commands.completion import SOURCE
from exchange.commands.console import Step, catch_signals, confirm, echo_line, exit_on_error, show_progress
from exchange.commands.options import command, timeout_option, wait_option
from exchange.commands.output import form_options, output_option, print_form
from exchange.commands.release import profile_option
from exchange.errors import InputError
from exchange.text.display import count_noun, hide_logins, list_some

if TYPE_CHECKING:
    from bridge.dead.choices import Order
    from bridge.dead.groups import Grouping
    from bridge.dead.ledger import Ledger
    from bridge.dead.logs.log import Log
    from bridge.dead.reading import Bounds, Read
    from bridge.dead.report import DeadReport, Replay

LOOKED_AT: Final = 10_000
"""Maximum number of messages of a broker that are looked at by default."""
SHOWN: Final = 4
"""Maximum number of topics that a question names."""
LOGIN: Final = click.Path(dir_okay=False, path_type=Path)
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
@click.option("--replay", "to", type=click.Choice(["queue", "exchange", "topic"]), help="Publish dead letters again: "
              "to the queue or topic where each died first, or to its exchange.")  # fmt: skip
@click.option("--target", metavar="URL", help="Broker or cluster to publish to: amqp://, kafka://, rocketmq://.  "
              "[default: the one of SOURCE]")  # fmt: skip
@click.option("--login", type=LOGIN, metavar="FILE", help="File with the login of Kafka or RocketMQ, in the keys of "
              "a bridge's endpoint there: password, tls, oauth.")  # fmt: skip
@click.option("--target-login", type=LOGIN, metavar="FILE", help="The same for --target.  [default: the address alone]")
@click.option("--dry-run", is_flag=True, help="Show what --replay would publish, and to what; publish nothing.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="Maximum number of messages a "
              "second that are published.  [default: no limit]")  # fmt: skip
@click.option("--edit", metavar="MODULE:NAME", help="Function that gets each message and returns the one to publish, "
              "or None to leave it.")  # fmt: skip
@click.option("--undo", is_flag=True, help="Make dead letters again of what --replay has published, and nobody has "
              "consumed.")  # fmt: skip
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="File that knows what "
              "was published: a second run does not do it twice. Needed for --replay and --undo.")  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
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
    to: Literal["queue", "exchange", "topic"] | None,
    target: str | None,
    login: Path | None,
    target_login: Path | None,
    dry_run: bool,
    rate: float | None,
    edit: str | None,
    undo: bool,
    ledger: Path | None,
    yes: bool,
    form: str,
    source: str,
) -> None:
    """Group dead letters, show why they died, and publish them again.

    With a topology it also says which setting made them die, where they would go now, and whether they would die again.

    SOURCE is an archive, as of hashstar archive inspect, or a broker: amqp://HOST/VHOST with --queue,
    kafka://HOST:PORT/TOPIC, or rocketmq://HOST:PORT/%DLQ%GROUP. Messages stay where they are
    unless --replay is given.

    Exit codes: 0 looked at, also where there is nothing; 1 not all that was to be published was; 2 no such source, or
    bad usage.
    """
    is_amqp, is_broker = has_scheme(source, ("amqp", "amqps")), has_scheme(source, SCHEMES)
    moves = to is not None or undo
    with exit_on_error():  # usage first: what reads archives and asks brokers takes a second to import
        from exchange.selector import Selector

        if (queue is not None) != is_amqp:
            raise InputError("--queue is for amqp://, and needed there")
        _check_options(to, rate, edit, ledger, undo=undo, dry_run=dry_run, target=target)
        if moves:
            _check_ways(source, to, target, undo=undo)
        _check_login("--login", login, "SOURCE", source)
        _check_login("--target-login", target_login, "--target", target)
        url, topic = _read_topic(source) if is_broker and not is_amqp else ("", "")
        selector = None if where is None else Selector.parse(where)
    with exit_on_error("audit"):
        from bindings.archive.places import show_place
        from bridge.dead.groups import Grouping
        from bridge.dead.reading import Bounds
        from bridge.dead.report import build_report
        from bridge.dead.verdicts import Judge

        judge = None if topology is None else Judge(load(topology, vhost, profile))
        grouping = Grouping(judge, selector)
        log = _make_log(url, topic, login) if topic else None
        bounds = Bounds(limit or (LOOKED_AT if is_broker else None), wait)
        with show_progress("reading") as step:
            if is_amqp:
                read = _peek(source, queue or "", bounds, grouping, management, allow_counted=allow_counted)
            elif log is not None:
                read = _read_log(log, bounds, grouping)
            else:
                read = _read_archive(source, mapped, bounds, grouping, step)
        name = hide_logins(show_place(source)) + (f" queue {queue}" if queue else "")
        report = build_report(name, grouping, judge, read)
        if moves and ledger is not None:
            from bridge.dead.choices import Order

            function: Any = None if edit is None else import_object(edit)
            order = Order(
                source if log is None else log.url, queue or "", limit or LOOKED_AT, to or "queue", target or "",
                login if target is None else target_login, selector, function, rate,
            )  # fmt: skip
            check = None if allow_counted else management or ""
            if log is not None or dry_run:
                done = _replay_log(order, ledger, log, yes=yes, dry_run=dry_run)
            else:
                done = _move(order, ledger, report, check, undo=undo, yes=yes)
            report = replace(report, replay=done)
        print_form(FORMS[form], report)
        if report.replay is not None and (report.replay.left or report.replay.is_stopped):
            sys.exit(1)


def _check_options(
    to: str | None,
    rate: float | None,
    edit: str | None,
    ledger: Path | None,
    *,
    undo: bool,
    dry_run: bool,
    target: str | None,
) -> None:
    """Raise InputError for options that do not go together."""
    if to is None and (rate is not None or edit is not None):
        raise InputError("--rate and --edit are for --replay")
    if to is None and (dry_run or target is not None):
        raise InputError("--dry-run and --target are for --replay")
    if to is not None and undo:
        raise InputError("--replay publishes, --undo takes back: give one of them")
    if (to is not None or undo) != (ledger is not None):
        raise InputError("--ledger FILE is for --replay and --undo, and needed there")


def _check_ways(source: str, to: str | None, target: str | None, *, undo: bool) -> None:
    """Raise InputError for a source that cannot be published again in this way."""
    if not has_scheme(source, SCHEMES):
        raise InputError("--replay is for queues of RabbitMQ and topics; what is in an archive is moved by a bridge")
    if has_scheme(source, ("amqp", "amqps")):
        if to == "topic" or target is not None:
            raise InputError("--replay topic and --target are for topics; a queue is published to its broker again")
    elif undo:
        raise InputError("--undo is for queues of RabbitMQ: what was published from a topic to another one stays there")
    elif to != "topic":
        if target is None or not has_scheme(target, ("amqp", "amqps")):
            raise InputError(f"--replay {to} of a topic needs --target {SCHEMES['amqp']}")
    elif target is not None and not has_scheme(target, (source.partition("://")[0].lower(),)):
        raise InputError("--replay topic writes to the system of SOURCE: --target names another cluster of it")


def _check_login(option: str, login: Path | None, place: str, url: str | None) -> None:
    """Raise InputError for a file with a login that nothing logs in with."""
    if login is not None and (url is None or not has_scheme(url, ("kafka", "rocketmq"))):
        raise InputError(f"{option} is for kafka:// and rocketmq:// as {place}; RabbitMQ's login has variables")


def _move(order: Order, path: Path, report: DeadReport, management: str | None, *, undo: bool, yes: bool) -> Replay:
    """Publish dead letters again, or take that back, and return what was done. ``management`` is None where reading
    may count as a delivery.
    """
    from bridge.dead import replaying
    from bridge.dead.choices import Outcome
    from bridge.dead.ledger import Ledger
    from bridge.dead.rabbitmq import check_uncounted
    from bridge.dead.report import LeftOver, Replay
    from bridge.endpoints.rabbitmq.addresses import parse_broker, read_cluster_name

    async def run(ledger: Ledger) -> Outcome:
        if undo and management is not None:
            for queue in replaying.list_queues(ledger):
                await check_uncounted(order.url, queue, management or None)
        return await (replaying.undo if undo else replaying.replay)(order, ledger, user)

    user = replaying.User(partial(echo_line, err=True))
    place = f"queue {order.queue} of {read_cluster_name(parse_broker(order.url))}"
    with exit_on_error("rabbitmq"), closing(Ledger(path, place)) as ledger:
        if undo:
            question = f"make dead letters again of what is left of {count_noun(sum(ledger.done.values()), 'message')}?"
        else:
            goal = "to the queues where they died first" if order.to == "queue" else "to their exchanges"
            beyond = order.limit > report.looked_at and report.not_looked_at
            more = f", and those selected of up to {order.limit - report.looked_at:,} more" if beyond else ""
            question = f"publish {count_noun(report.selected, 'dead letter')}{more} again, {goal}?"
        confirm(
            question,
            "--yes publishes, without --replay nothing is changed",
            yes=yes or not (report.selected or report.not_looked_at or undo),
        )
        catch_signals(user.stop, signal.SIGINT, signal.SIGTERM)
        outcome = asyncio.run(run(ledger))
    left = tuple([LeftOver(*each) for each in outcome.left.most_common()])
    action: Literal["replay", "undo"] = "undo" if undo else "replay"
    return Replay(
        action, outcome.moved, outcome.done_before, outcome.again, left, outcome.missing, outcome.is_stopped
    )  # fmt: skip


def _replay_log(order: Order, path: Path, log: Log | None, *, yes: bool, dry_run: bool) -> Replay:
    """Publish the letters of a topic again, or only show what would be published, of a queue, too."""
    from bridge.dead import replaying
    from bridge.dead.choices import Outcome
    from bridge.dead.ledger import Ledger
    from bridge.dead.report import Going, LeftOver, Replay
    from bridge.endpoints.rabbitmq.addresses import parse_broker, read_cluster_name

    user = replaying.User(partial(echo_line, err=True))
    with exit_on_error("rabbitmq" if log is None else order.url.partition("://")[0]), ExitStack() as stack:
        if log is None:
            place = f"queue {order.queue} of {read_cluster_name(parse_broker(order.url))}"
        else:
            place = f"{log.name} of {parse_address(log.url, SCHEMES, '').hosts}"
        if dry_run and not path.exists():  # nothing is known yet, and nothing is to be left behind
            path = Path(stack.enter_context(TemporaryDirectory())) / path.name
        ledger = stack.enter_context(closing(Ledger(path, place)))
        outcome = planned = asyncio.run(replaying.plan(order, ledger, log))
        if not dry_run and log is not None:
            count = planned.goes.total()
            goals = list_some([f"{kind} '{name}'" for (kind, name), _ in planned.goes.most_common()], SHOWN)
            confirm(
                f"publish {count_noun(count, 'dead letter')} again, to {goals}?",
                "--yes publishes, --dry-run changes nothing", yes=yes or not count,
            )  # fmt: skip
            catch_signals(user.stop, signal.SIGINT, signal.SIGTERM)
            topics = planned.topics
            outcome = Outcome(left=planned.left, done_before=planned.done_before, unread=planned.unread)
            if count:
                outcome = asyncio.run(replaying.replay(order, ledger, user, log, topics))
    left = tuple([LeftOver(*each) for each in outcome.left.most_common()])
    goes = tuple([Going(*name, messages) for name, messages in outcome.goes.most_common()])
    return Replay(
        "dry-run" if dry_run else "replay", outcome.moved, outcome.done_before, outcome.again, left, 0,
        outcome.is_stopped, goes, outcome.unread,
    )  # fmt: skip


def _peek(
    url: str, queue: str, bounds: Bounds, grouping: Grouping, management: str | None, *, allow_counted: bool
) -> Read:
    with exit_on_error("rabbitmq"):
        from bridge.dead.rabbitmq import peek

        return asyncio.run(peek(url, queue, bounds, grouping.add, management, allow_counted=allow_counted))


def _read_topic(url: str) -> tuple[str, str]:
    """Return the address of a cluster and the topic that a source names. Raises InputError."""
    address = parse_address(url, SCHEMES, SCHEMES[url.partition("://")[0].lower()])
    topic = unquote(address.path[1:])
    if not topic or address.query or address.fragment:
        raise InputError(f"not a topic: write {SCHEMES[address.scheme]}")
    return f"{address.scheme}://{address.login}{address.hosts}", topic


def _make_log(url: str, topic: str, login: Path | None) -> Log:
    with exit_on_error(url.partition("://")[0]):
        from bridge.dead.logs.systems import LogCluster, make_log

        return make_log(LogCluster(url, login), topic)


def _read_log(log: Log, bounds: Bounds, grouping: Grouping) -> Read:
    from bridge.dead.logs.log import look

    return asyncio.run(look(log, bounds, grouping.add))


def _read_archive(path: str, mapped: MappingOptions, bounds: Bounds, grouping: Grouping, step: Step) -> Read:
    from bridge.dead.reading import read_archive

    return read_archive(path, mapped.mapping(), bounds, grouping.add, step)
