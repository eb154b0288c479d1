"""Progress bars of replays, on a terminal: one for each archive that is read to its end."""

from __future__ import annotations

import asyncio
from typing import Protocol, runtime_checkable

from bridge.daemon.config import Config
from bridge.daemon.metrics import Metrics

__all__ = ["show_progress"]


@runtime_checkable
class Replaying(Protocol):
    """A source that has an end, and knows how far it is."""

    name: str

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes that were read, and all bytes there are."""


async def show_progress(config: Config, metrics: Metrics) -> None:
    """Show the progress of all replays on standard error, until cancelled; return at once if there are none."""
    replays = [inlet.source for inlet in config.inlets if isinstance(inlet.source, Replaying)]
    if not replays:
        return
    from rich.console import Console  # installed with what reads archives
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
        TextColumn("{task.fields[messages]:,} messages"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {source.name: progress.add_task(source.name, total=None, messages=0) for source in replays}
        while True:
            for source in replays:
                read, total = source.progress
                progress.update(
                    tasks[source.name], completed=read, total=total or None,
                    messages=metrics.read_messages[source.name],
                )  # fmt: skip
            await asyncio.sleep(0.2)
