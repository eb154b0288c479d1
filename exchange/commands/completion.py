"""What shells complete on command lines: files where a topology is asked for, and names of its exchanges and queues."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from exchange.errors import HashstarError

if TYPE_CHECKING:  # not at run time: each command would load the engine
    from exchange.topology.topology import Topology

__all__ = ["SOURCE", "complete_names"]

READ_BYTES: Final = 1 << 20
"""Maximum size of a file that is read for its names while a user waits."""


class _Source(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of a topology's source, for which shells complete names of files."""

    name = "source"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Have the shell complete the name of a file."""
        return [CompletionItem(incomplete, type="file")]


SOURCE: Final = _Source()


def complete_names(
    load: Callable[[str, str | None, str | None], Topology], *kinds: str
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return the function that completes names of ``kinds`` ("exchanges", "queues") of the topology that is given."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
        # An option that still lacks its value keeps click from giving the arguments to their parameters.
        source = context.params.get("source") or next(iter(context.args), None)
        try:
            if source is None or not 0 < Path(source).stat().st_size <= READ_BYTES:
                return []
            with context, redirect_stderr(io.StringIO()):
                topology = load(source, context.params.get("vhost"), None)
        except (HashstarError, OSError, ValueError):
            return []
        return [name for kind in kinds for name in getattr(topology, kind) if name.startswith(begun)]

    return complete
