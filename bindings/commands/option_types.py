"""Options that several commands have, and types of options: a duration, an address to serve at."""

from __future__ import annotations

import re
from typing import Any, Final

import click

__all__ = ["Address", "Duration", "allow_unread_option"]

UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LOCALHOST: Final = "127.0.0.1"

allow_unread_option = click.option(
    "--allow-unread", is_flag=True, help="Make claims about what was read, although parts of a source were not read."
)
"""The option by which a user wants claims all the same; without it, nothing is proved of such a source."""


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of an option with a time: ``30`` or ``30s``, ``5m``, ``1h``; at least a second."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; end the command for what is no time."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)", str(value))
        seconds = float(found[1]) * UNITS[found[2] or "s"] if found is not None else 0.0
        if not 1 <= seconds <= UNITS["d"] * 365:
            self.fail(f"{value!r} is no time of at least a second: write 30s, 5m or 1h", param, ctx)
        return seconds


class Address(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of an option with an address to serve: ``PORT`` on 127.0.0.1, or ``HOST:PORT``."""

    name = "address"

    def __init__(self, example: int) -> None:
        """Take the port that errors name as an example."""
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return host and port; end the command for what is no address."""
        host, _, port = str(value).rpartition(":")
        if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
            self.fail(f"{value!r} is no address to serve: write {self._example} or 0.0.0.0:{self._example}", param, ctx)
        return host.strip("[]") or LOCALHOST, int(port)
