"""`make demo`: write an archive of messages if there is none, audit it, and bridge a day of it into partitions."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import click

from bindings.audit.spark.session import JAVA, java_version
from bindings.commands.audit import audit_command
from bindings.sources.definitions import topology_from
from examples.demo import generate
from examples.demo.replay import CONFIG, replay
from exchange import PROFILES, HashstarError, InputError, Topology

SAMPLE: Final = Path(__file__).with_name("definitions.json")
BUILD: Final = Path(__file__).parents[2] / "build" / "demo"
MANY: Final = 1_000_000
FEW: Final = 50_000


@click.command()
@click.option("--messages", type=click.IntRange(min=1), default=MANY, help="How many to generate; a million.")
@click.option("--quick", is_flag=True, help=f"As --messages {FEW}.")
@click.option("--seed", default=1, show_default=True, help="Other messages of the same kind.")
@click.option("--definitions", "-d", type=click.Path(path_type=Path), help="Your RabbitMQ's definitions.json, or .gz.")
@click.option("--vhost", help="The virtual host; needed only where the file has several.")
@click.option("--profile", type=click.Choice(list(PROFILES)), help="The RabbitMQ to be exact to; the newest.")
@click.option("--into", type=click.Path(path_type=Path), default=BUILD, help="Where all is kept; build/demo.")
@click.option("--no-spark", is_flag=True, help="Count in one process; as it is done where there is no Java.")
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
    """Audit a month of messages, without any server: what became of them, and what that says about the bindings.

    Then a bridge takes the first day of them through another topology into an archive by partition.

    A million generated messages through a sample topology; with --definitions through your own, the messages made from
    its bindings. For messages of your own: hashstar audit.
    """
    given = definitions or SAMPLE
    messages = FEW if quick else messages
    try:
        topology = topology_from(given, vhost, profile)
        archive = _generated(definitions, topology, messages, seed, into)
    except HashstarError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(2)
    page = archive.with_name(f"{archive.name}.html")
    options = ["--topology", _shown(given), "--vhost", topology.vhost, "--profile", topology.profile.name]
    options += ["--archive-vhost", "*", "--html", str(page)]
    if no_spark or not _java():
        options.append("--no-spark")
    command = ["run", *options, _shown(archive)]
    started = perf_counter()
    try:
        audit_command.main(command, prog_name="hashstar audit", standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise
    click.echo(f"\nAudited {messages:,} messages in {_seconds(started)}. The same as a page for a browser:")
    click.echo(f"  {page.resolve().as_uri()}")
    if definitions is None:
        moved = archive.with_name(f"{archive.name}-partitioned")
        click.echo(f"\nA bridge, {_shown(CONFIG)}: an archive, the engine, an archive by partition.")
        replay(min(archive.iterdir()), moved)
        click.echo(f"\nThey are in {_shown(moved)}, an archive as any: hashstar audit reads it.")


def _java() -> bool:
    """Whether Spark can run here; says why not."""
    try:
        java_version(os.environ)
    except InputError as error:
        click.echo(f"Spark needs Java {JAVA} and does not find it ({error}); counting in this process.\n")
        return False
    return True


def _generated(definitions: Path | None, topology: Topology, messages: int, seed: int, into: Path) -> Path:
    """The archive with these messages: the one that is there already, or a new one."""
    source = "company"
    if definitions is not None:
        source = hashlib.sha256(definitions.read_bytes() + topology.vhost.encode()).hexdigest()[:12]
    path = into / f"{source}-{messages}-seed{seed}-v{generate.VERSION}"
    if path.exists():
        return path
    pool = generate.company() if definitions is None else generate.pool_for(topology, seed)
    started = perf_counter()
    try:
        with _progress("Generating", messages) as advance:
            generate.write_archive(path, pool, messages, seed, advance)
    except OSError as error:
        raise InputError(f"{into}: an archive cannot be written there: {error.strerror}") from None
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    click.echo(f"Generated {messages:,} messages in {_seconds(started)}: {_shown(path)}, {size:.1f} MB\n")
    return path


@contextmanager
def _progress(label: str, length: int) -> Iterator[Callable[[int], object]]:
    """A bar on a terminal, gone when it is full; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=f"{label:10}", file=sys.stderr) as bar:
        yield bar.update
    sys.stderr.write("\x1b[A\x1b[2K")


def _seconds(started: float) -> str:
    return f"{perf_counter() - started:.1f} s"


def _shown(path: Path) -> str:
    """Relative if it is below the working directory."""
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown


if __name__ == "__main__":
    main(prog_name="python -m examples.demo")
