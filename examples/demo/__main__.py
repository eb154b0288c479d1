"""`make demo`: write an archive of messages if there is none, route all of it, print a report."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Final

import click

from bindings.definitions import topology_from
from examples.demo import generate, report
from examples.demo.archive import Archive
from examples.demo.tally import Tally
from exchange import PROFILES, HashstarError, InputError, Router, Topology

SAMPLE: Final = Path(__file__).with_name("definitions.json")
BUILD: Final = Path(__file__).parents[2] / "build" / "demo"
MANY: Final = 1_000_000
FEW: Final = 50_000
STEP: Final = 4_096
"""The progress bar moves after so many messages."""


@click.command()
@click.option("--messages", type=click.IntRange(min=1), help="How many to generate, or at most to read with --archive.")
@click.option("--quick", is_flag=True, help=f"As --messages {FEW}.")
@click.option("--seed", default=1, show_default=True, help="Other messages of the same kind.")
@click.option("--definitions", "-d", type=click.Path(path_type=Path), help="Your RabbitMQ's definitions.json, or .gz.")
@click.option("--vhost", help="The virtual host; needed only where the file has several.")
@click.option("--profile", type=click.Choice(list(PROFILES)), help="The RabbitMQ to be exact to; the newest.")
@click.option("--archive", "-a", type=click.Path(path_type=Path), help="Your messages, a line of JSON each, or .gz.")
@click.option("--into", type=click.Path(path_type=Path), default=BUILD, help="Where archives are kept; build/demo.")
def main(
    messages: int | None,
    quick: bool,
    seed: int,
    definitions: Path | None,
    vhost: str | None,
    profile: str | None,
    archive: Path | None,
    into: Path,
) -> None:
    """Route a month of messages through a topology, without any server, and say what became of them.

    Without options: a million generated messages through a sample topology. With --definitions: through your own, the
    messages made from its bindings, or, with --archive, your own too: lines such as {"exchange": "orders",
    "routing_key": "order.eu.created", "headers": {"region": "eu"}}.
    """
    most = messages or (FEW if quick else None)
    try:
        topology = topology_from(definitions or SAMPLE, vhost, profile)
        if archive is None:
            archive = _generated(definitions, topology, most or MANY, seed, into)
            most = None
        with Archive(archive) as opened:
            _print_head(definitions or SAMPLE, topology, archive)
            _route(topology, opened, most)
    except HashstarError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(2)


def _generated(definitions: Path | None, topology: Topology, messages: int, seed: int, into: Path) -> Path:
    """The archive with these messages: the one that is there already, or a new one."""
    source = "company"
    if definitions is not None:
        source = hashlib.sha256(definitions.read_bytes() + topology.vhost.encode()).hexdigest()[:12]
    path = into / f"{source}-{messages}-seed{seed}-v{generate.VERSION}.jsonl.gz"
    if path.exists():
        return path
    pool = generate.company() if definitions is None else generate.pool_for(topology, seed)
    started = perf_counter()
    try:
        with _progress("Generating", messages) as advance:
            generate.write_archive(path, pool, messages, seed, advance)
    except OSError as error:
        raise InputError(f"{into}: an archive cannot be written there: {error.strerror}") from None
    size = path.stat().st_size / 1e6
    click.echo(f"Generated {messages:,} messages in {_seconds(started)}: {_shown(path)}, {size:.1f} MB\n")
    return path


def _print_head(definitions: Path, topology: Topology, archive: Path) -> None:
    parts = (topology.exchanges, "exchanges"), (topology.queues, "queues"), (topology.bindings, "bindings")
    counts = ", ".join(f"{len(part):,} {name}" for part, name in parts)
    click.echo(f"Messages  {_shown(archive)}")
    click.echo(f"Topology  {_shown(definitions)}: {counts}; routed as {topology.profile.name} does\n")


def _route(topology: Topology, archive: Archive, most: int | None) -> None:
    started = perf_counter()
    router = Router(topology)
    tally = Tally(router)
    read = position = 0
    with _progress("Routing", archive.size) as advance:
        for message in islice(archive, most):
            tally.add(message)
            read += 1
            if not read % STEP:
                reached = archive.position()
                advance(reached - position)
                position = reached
        advance(archive.size - position)
    tally.settle()
    took = perf_counter() - started
    for line in report.lines(tally, router):
        click.echo(line)
    if archive.bad:
        lines = "1 line" if archive.bad == 1 else f"{archive.bad:,} lines"
        click.echo(f"\nNot a message: {lines}, left out; the first is\n  {archive.first_bad}")
    if not read:
        raise InputError("there are no messages in the archive")
    if not tally.messages:
        click.echo("\nNone of its exchanges is in this topology: --definitions FILE names the one they were sent to.")
    click.echo(f"\nRead, routed and counted {read:,} messages in {took:.1f} s, {read / took:,.0f} a second.")


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
