"""What shells complete on command lines: files where a topology is asked for, and names of its exchanges and queues."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from exchange.errors import HashstarError

if TYPE_CHECKING:  # not at run time: each command would load the engine
    from exchange.topology.topology import Topology

READ_BYTES: Final = 1 << 20
"""Maximum size of a file that is read for its names while a user waits."""


class _Source(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of a topology's source, for which shells complete names of files."""

    name = "source"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Have the shell complete the name of a file."""
        return [CompletionItem(incomplete, type="file")]


SOURCE: Final = _Source()


def complete_names(load: Callable[[str, str | None, str | None], Topology], *kinds: str) -> NameCompletion:
    """Return the function that completes names of ``kinds`` ("exchanges", "queues") of the topology that is given."""

    def read(source: str, vhost: str | None) -> Mapping[str, Iterable[str]]:
        topology = load(source, vhost, None)
        return {kind: getattr(topology, kind) for kind in kinds}

    return NameCompletion(kinds, read)


class NameCompletion:
    """Completes names of exchanges or queues of the topology that is given on a command line."""

    def __init__(self, kinds: Sequence[str], read: Callable[[str, str | None], Mapping[str, Iterable[str]]]) -> None:
        """Take "exchanges", "queues" or both, and what reads these names of a source and a virtual host."""
        self.kinds: Final = tuple(kinds)
        self.read: Final = read

    def __call__(self, context: click.Context, _: click.Parameter, begun: str) -> list[str]:
        """Return the names that begin with a text; none of what cannot be read."""
        # An option that still lacks its value keeps click from giving the arguments to their parameters.
        source = context.params.get("source") or next(iter(context.args), None)
        try:
            if source is None or not 0 < Path(source).stat().st_size <= READ_BYTES:
                return []
            with context, redirect_stderr(io.StringIO()):
                names = self.read(source, context.params.get("vhost"))
        except (HashstarError, OSError, ValueError):
            return []
        return [name for kind in self.kinds for name in names[kind] if name.startswith(begun)]
