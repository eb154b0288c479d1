"""``hashstar upgrade``: what an upgrade of RabbitMQ does to a topology, and the way there."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from bindings.applying.address import Addresses
from bindings.applying.amqp import require_pika
from bindings.checking.rules.table import NEVER, SEVERITIES, Severity
from bindings.diffing.diff import SECONDS
from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.files import save_form
from bindings.sources.open import Source, open_source
from bindings.upgrading.forms import FORMS
from bindings.upgrading.live.comparing import LIVE_SECONDS
from bindings.upgrading.live.fresh_host import DENIABLE
from bindings.upgrading.releases import release_of
from bindings.upgrading.run import NEWEST, SAMPLE, upgrade
from bindings.upgrading.transform.table import DEFAULT
from bindings.upgrading.transform.transform import NAMES
from bindings.upgrading.upgrade import Upgrade
from exchange.commands.completion import SOURCE
from exchange.commands.console import (
    exit_on_error,
    interrupt_at,
    show_caveat,
    show_progress,
    show_status,
    show_warnings,
)
from exchange.commands.options import (
    STDOUT,
    OutputFile,
    ReportOption,
    accept_old_name,
    allow_unread_option,
    command,
    read_timeout,
    timeout_option,
    topology_option,
    wait_option,
)
from exchange.commands.output import form_options, print_form
from exchange.commands.release import ProfileType
from exchange.errors import InputError, UnknownReleaseWarning
from exchange.files.names import YAML

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEGABYTE: Final = 1 << 20


def _check_output(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Return the name of --output; end the command for one of a form that RabbitMQ does not import."""
    if name is not None and name.removesuffix(".gz").endswith((*YAML, ".tf")):
        raise click.BadParameter(f"{name}: RabbitMQ imports JSON: give a name with .json or .bindings")
    return name


@command(
    "upgrade", example="hashstar upgrade definitions.json --to 4.3",
    needs={
        "--sample": "--archive", "--master": "--archive", "--other-address": "--live", "--live-wait": "--live",
    },
)  # fmt: skip
@click.option(
    "--from", "old_name", type=ProfileType(), metavar="RELEASE",
    help="RabbitMQ release that the topology is on.  [default: the one that an export or a live broker names]",
)  # fmt: skip
@click.option(
    "--to", "new_name", type=ProfileType(), metavar="RELEASE", default=NEWEST, show_default=True,
    help="RabbitMQ release to upgrade to, such as 4.3 (its newest patch release) or 4.2.6.",
)  # fmt: skip
@click.option("--vhost", help="Look at this virtual host only.")
@click.option(
    "--output", "-o", cls=ReportOption, metavar="FILE",
    help="Write the definitions as the new release wants them, .json or .bindings; - for standard output.",
    type=OutputFile(), callback=_check_output,
)  # fmt: skip
@click.option(
    "--transform", "names", metavar="NAME,...",
    help=f"Transformations to do, by name; {DEFAULT} stands for those that the upgrade needs.  "
    f"[default: {DEFAULT} with --output]",
)  # fmt: skip
@click.option(
    "--archive", "archives", multiple=True, metavar="PATH",
    help="Archived messages, as hashstar audit reads them: count those that are routed differently; repeatable.",
)  # fmt: skip
@click.option(
    "--sample", type=click.FloatRange(min=0), metavar="MB", default=SAMPLE / MEGABYTE, show_default=True,
    help="With --archive: size of the parts that are read, drawn by chance; 0 reads all.",
)  # fmt: skip
@click.option("--master", metavar="URL", help="With --archive: read it whole with Spark, at this master URL: local[*].")
@form_options(FORMS)
@click.option(
    "--html", "page", cls=ReportOption, type=OutputFile(path_type=Path), metavar="FILE",
    help="Write a page, too; - for standard output, with the report on standard error.",
)  # fmt: skip
@click.option(
    "--fail-on", type=click.Choice([*SEVERITIES, NEVER]), default="error", show_default=True,
    help="Lowest severity that makes the exit code 1: error is what is refused or lost; never: none.",
)  # fmt: skip
@wait_option(SECONDS, "Maximum duration of the comparison of routes; the rest is reported as undecided.")
@accept_old_name("--budget", "--wait")
@click.option(
    "--declares", multiple=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Compare what applications ask with the new release: a recording of hashstar record, or a tracing log of "
    "RabbitMQ, which has messages only; repeatable.",
)  # fmt: skip
@click.option(
    "--permit", "permitted", multiple=True, type=click.Choice(DENIABLE),
    help="Deprecated feature that the new broker is configured to permit; repeatable.  "
    "[default: with --live, those that it permits]",
)  # fmt: skip
@click.option(
    "--live",
    metavar="URL",
    help="Ask a test broker of the new release: its management API, http://HOST:15672, or amqp://HOST. Virtual hosts "
    "are created there, and deleted at the end.",
)
@click.option(
    "--other-address",
    metavar="URL",
    help="With --live: its other address (AMQP or management API), if not at its usual port of the same host.",
)
@wait_option(
    LIVE_SECONDS, "With --live: maximum duration of asking it; the rest is reported as not asked.", "--live-wait"
)
@accept_old_name("--live-budget", "--live-wait")
@allow_unread_option
@timeout_option
@topology_option
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
def upgrade_command(
    old_name: str | None,
    new_name: str,
    vhost: str | None,
    output: str | None,
    names: str | None,
    archives: tuple[str, ...],
    sample: float,
    master: str | None,
    form: str,
    page: Path | None,
    fail_on: str,
    wait: float,
    declares: tuple[str, ...],
    permitted: tuple[str, ...],
    live: str | None,
    other_address: str | None,
    live_wait: float,
    allow_unread: bool,
    source: str,
) -> None:
    """Show what an upgrade of RabbitMQ does to a topology.

    For each part: what the new release refuses, with the broker's text; what is lost, ignored or means something else,
    and the way out. Then the messages that are routed differently, or the proof that there are none; the settings in
    force that differ; the releases on the way.

    TOPOLOGY is a .bindings file, definitions.json (or .gz), another format that hashstar convert reads, a recording of
    hashstar record, or a live broker, http://HOST:15672[/VHOST]. It is only read.

    --output writes the topology as the new release wants it, with the proof that messages are routed the same.
    --declares compares what applications ask. --live tries all this on a test broker. docs/upgrade.md has more.

    Exit codes: 0 nothing at or above --fail-on; 1 something is, after the transformations, an answer of --live was not
    foretold, or parts of TOPOLOGY were not read; 2 bad usage or input.
    """
    transform = [*filter(None, (names if names is not None else DEFAULT).split(","))]
    with exit_on_error("spark" if archives else ""):
        if not transform:
            raise InputError(f"--transform: give names of transformations: {', '.join([DEFAULT, *NAMES])}")
        with show_status("reading ..."):
            opened = open_source(source, vhost, seconds=read_timeout()).allowing_unread(allow_unread)
            addresses = _read_addresses(live, other_address)
            new_name = new_name if addresses is None else _release_of_broker(addresses, new_name)
        show_warnings(opened.name, _warnings_of(opened, old_name))
        spark_session: AbstractContextManager[SparkSession | None] = nullcontext()
        if archives and master is not None:
            from bindings.auditing.spark.session import open_session

            spark_session = open_session(master)
        with warnings.catch_warnings(), show_progress("comparing") as step, spark_session as spark:
            warnings.simplefilter("ignore", UnknownReleaseWarning)  # shown as each command shows it
            result = upgrade(
                opened, new_name, old=old_name, vhost=vhost,
                transform=None if names is None and output is None else transform,
                archives=archives, sample_bytes=round(sample * MEGABYTE) or None, spark=spark, seconds=wait,
                declares=declares, permitted=permitted, live=addresses, live_seconds=live_wait, progress=step,
            )  # fmt: skip
        if old_name is None:  # else the option has shown it
            show_caveat(result.old.profile)
        if page == Path(STDOUT):
            print_form(FORMS["html"], result, opened.name)
        elif page is not None:
            save_form(FORMS["html"], result, opened.name, path=page)
        if output is not None:
            _write(result, output)
    print_form(FORMS[form], result, err=output == STDOUT or page == Path(STDOUT))
    lowest: Severity | None = next((each for each in SEVERITIES if each == fail_on), None)
    unforeseen = result.live is not None and bool(result.live.not_foretold)
    sys.exit(int(unforeseen or (lowest is not None and result.reaches(lowest))))


def _warnings_of(source: Source, old: str | None) -> Sequence[object]:
    """Return the warnings about a source; about its release only if an older one than all known ones is on it."""
    named = source.content.unusable_version if isinstance(source.content, Definitions) else None
    others = [each for each in source.warnings if str(each) != named]
    if named is None or old is not None or source.profile is None:
        return others
    return [named.replace("--profile", "--from"), *others]


def _read_addresses(live: str | None, other: str | None) -> Addresses | None:
    """Return the addresses of the test broker, if there is one. Raises InputError."""
    if live is None:
        return None
    require_pika()
    interrupt_at(signal.SIGTERM)  # so that the virtual hosts are deleted
    return Addresses.parse(live, other, seconds=read_timeout())


def _release_of_broker(addresses: Addresses, name: str) -> str:
    """Return the release of the test broker. Raises InputError if --to names another one."""
    version = addresses.management.version()
    is_given = click.get_current_context().get_parameter_source("new_name") is not ParameterSource.DEFAULT
    if is_given and release_of(name).series != release_of(version).series:
        raise InputError(f"{addresses.management.address}: a broker of {version}, not of {name}, which --to names")
    return version


def _write(result: Upgrade, output: str) -> None:
    """Write the transformed definitions; their form is that of the file's name, else definitions."""
    if result.definitions is None:
        return
    content, _ = result.definitions
    if output.removesuffix(".gz").endswith(".bindings"):
        content = content if isinstance(content, Document) else Document.of_definitions(content)
    elif not isinstance(content, Definitions):
        content = content.definitions()
    if output == STDOUT:
        click.echo(content.dump().encode(), nl=False)
    else:
        content.save(output)
