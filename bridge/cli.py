"""``hashstar``: one program of all three packages' commands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import click

from bindings.cli import COMMANDS
from bridge.commands import bridge_command

__all__ = ["main"]


@click.group(commands={command.name or "": command for command in (*COMMANDS, bridge_command)}, no_args_is_help=True)
@click.version_option(version("hashstar"), prog_name="hashstar")
def hashstar() -> None:
    """Message routing you can embed, explain, carry and audit: RabbitMQ's, exactly."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; no traceback reaches its user for what the user or the machine did."""
    try:
        hashstar.main(arguments, standalone_mode=False)
    except click.exceptions.Exit as leave:
        raise SystemExit(leave.exit_code) from None
    except click.Abort:
        raise SystemExit(130) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(2) from None
    except BrokenPipeError:
        # Whoever read the output has read enough. What is still buffered has nowhere to go.
        import os
        import sys

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
