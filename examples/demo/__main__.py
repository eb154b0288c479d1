"""`make demo`: write an archive of messages if there is none, audit it, and bridge a day of it into partitions."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

import click

import bindings
from bindings.auditing.spark.session import JAVA, find_java_version, open_session, watch_progress
from bindings.report.forms import FORMS
from bindings.sources.files import save_form
from examples.demo import generate
from examples.demo.replay import CONFIG, replay
from exchange import PROFILES, HashstarError, InputError, Topology
from exchange.commands.console import show_progress
from exchange.commands.output import print_form

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE: Final = Path(__file__).with_name("definitions.json")
BUILD: Final = Path(__file__).parents[2] / "build" / "demo"
MANY: Final = 1_000_000
FEW: Final = 50_000


@click.command()
@click.option("--messages", type=click.IntRange(min=1), default=MANY, show_default=True, help="Number of messages.")
@click.option("--quick", is_flag=True, help=f"The same as --messages {FEW}.")
@click.option("--seed", default=1, show_default=True, help="Seed for the generated messages.")
@click.option("--definitions", "-d", type=click.Path(path_type=Path), help="Your RabbitMQ's definitions.json, or .gz.")
@click.option("--vhost", help="Virtual host; required only if the file has several.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="RabbitMQ release whose rules apply.  [default: that of the definitions, else the newest]",
)
@click.option("--into", type=click.Path(path_type=Path), default=BUILD, help="Output folder.  [default: build/demo]")
@click.option("--no-spark", is_flag=True, help="Count in one process, without Spark, as if Java were missing.")
def main(
    messages: int,
    quick: bool,
    seed: int,
    definitions: Path | None,
    vhost: str | None,
    profile: str | None,
    into: Path,
    no_spark: bool,
) -> None:
    """Audit a month of messages, without any server: where they went, and which bindings are dead.

    Then a bridge takes the first day of them through another topology into an archive by partition.

    A million generated messages through a sample topology; with --definitions through your own, the messages made from
    its bindings. For messages of your own: hashstar audit.
    """
    source = definitions or SAMPLE
    messages = FEW if quick else messages
    try:
        topology = bindings.load(_relative(source), vhost, profile)
        archive = _generate(definitions, topology, messages, seed, into)
        page = archive.with_name(f"{archive.name}.html")
        with_spark = not no_spark and _has_java()
        started = perf_counter()
        with show_progress("Auditing") as step, _session(with_spark, step) as spark:
            report = bindings.audit(
                _relative(source), _relative(archive), vhost=topology.vhost, profile=topology.profile.name,
                selection=bindings.Selection(), spark=spark, step=step,
            )  # fmt: skip
        print_form(FORMS["text"], report)
        save_form(FORMS["html"], report, path=page, with_folders=True)
    except HashstarError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(2)
    click.echo(f"\nAudited {messages:,} messages in {_seconds(started)}. The same as a page for a browser:")
    click.echo(f"  {page.resolve().as_uri()}")
    if definitions is None:
        partitioned = archive.with_name(f"{archive.name}-partitioned")
        click.echo(f"\nA bridge, {_relative(CONFIG)}: an archive, the engine, an archive by partition.")
        replay(min(archive.iterdir()), partitioned)
        click.echo(f"\nThey are in {_relative(partitioned)}, an archive as any: hashstar audit reads it.")


@contextmanager
def _session(with_spark: bool, step: Callable[[int, int], None]) -> Iterator[SparkSession | None]:
    """Start Spark, show its progress and yield its session; yield None without Spark."""
    if not with_spark:
        yield None
        return
    with open_session() as spark, watch_progress(spark, step):
        yield spark


def _has_java() -> bool:
    """Return whether Spark can run here; if not, print why."""
    try:
        find_java_version(os.environ)
    except InputError as error:
        click.echo(f"Spark needs Java {JAVA} and does not find it ({error}); counting in this process.\n")
        return False
    return True


def _generate(definitions: Path | None, topology: Topology, messages: int, seed: int, into: Path) -> Path:
    """Return the archive with these messages: an existing one, or a new one."""
    name = "company"
    if definitions is not None:
        name = hashlib.sha256(definitions.read_bytes() + topology.vhost.encode()).hexdigest()[:12]
    path = into / f"{name}-{messages}-seed{seed}-v{generate.VERSION}"
    if path.exists():
        return path
    pool = generate.company() if definitions is None else generate.build_pool(topology, seed)
    started = perf_counter()
    try:
        with show_progress("Generating") as step:
            generate.write_archive(path, pool, messages, seed, step)
    except OSError as error:
        raise InputError(f"{into}: an archive cannot be written there: {error.strerror}") from None
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    click.echo(f"Generated {messages:,} messages in {_seconds(started)}: {_relative(path)}, {size:.1f} MB\n")
    return path


def _seconds(started: float) -> str:
    return f"{perf_counter() - started:.1f} s"


def _relative(path: Path) -> str:
    """Return a path relative to the working directory if it is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


if __name__ == "__main__":
    main(prog_name="python -m examples.demo")
