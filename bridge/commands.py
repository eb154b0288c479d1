"""``hashstar bridge``: messages from sources through a topology to targets."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import click

from exchange.errors import HashstarError

__all__ = ["bridge_command"]


@click.group("bridge")
def bridge_command() -> None:
    """Move messages between RabbitMQ, Kafka and archives: at least once, in order, nothing lost."""


@bridge_command.command("run")
@click.option("--worker", type=click.IntRange(min=1), hidden=True, help="Which of the workers this is.")
@click.argument("config", metavar="BRIDGE.TOML", type=click.Path(path_type=Path))
def run_command(worker: int | None, config: Path) -> None:
    """Run a bridge until its sources end, or until it is told to stop: SIGTERM or Ctrl-C, twice to stop at once.

    SIGUSR1 pauses it, SIGUSR2 has it go on.

    Exit codes: 0 all that was read is settled, 1 some is not and will be read again, 2 bad usage or input.
    """
    try:
        from bridge.config import read_config
        from bridge.daemon import run
        from bridge.journal import Journal
        from bridge.metrics import Metrics
        from bridge.workers import command_for, run_workers

        async def started() -> int:
            found = read_config(config, worker=worker)
            journal = Journal(found.log_format, found.log_level, worker=worker)
            if found.workers > 1 and worker is None:
                return await run_workers(found, journal, command_for(str(config)))
            return 0 if await run(found, journal, Metrics(), is_worker=worker is not None) else 1

        code = asyncio.run(started())
    except HashstarError as error:
        click.echo(f"hashstar: {error}", err=True)
        sys.exit(2)
    sys.exit(code)


@bridge_command.command("check")
@click.option("--offline", is_flag=True, help="Look at the file only, and connect to nothing.")
@click.argument("config", metavar="BRIDGE.TOML", type=click.Path(path_type=Path))
def check_command(offline: bool, config: Path) -> None:
    """Say what is wrong with a configuration, and, by connecting, what is missing where it points to.

    Nothing is read or written. Exit codes: 0 nothing is wrong, 1 something is missing, 2 bad usage or input.
    """
    try:
        from bridge.config import read_config
        from bridge.probe import missing

        # What clients log at every try to connect, the answer says once.
        logging.getLogger("bridge").addHandler(logging.NullHandler())

        async def looked() -> list[str]:
            found = read_config(config)
            counts = f"{len(found.inlets)} source(s), {len(set(found.targets.values()))} target(s)"
            click.echo(f"{config}: {counts}", err=True)
            return [] if offline else await missing(found)

        problems = asyncio.run(looked())
    except HashstarError as error:
        click.echo(f"hashstar: {error}", err=True)
        sys.exit(2)
    for problem in problems:
        click.echo(problem)
    sys.exit(1 if problems else 0)
