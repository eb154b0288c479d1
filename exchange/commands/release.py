"""The option that names a release of RabbitMQ, whose rules apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from exchange.commands.console import show_caveat
from exchange.entities.releases import RELEASES, find_profile_by_name


class ProfileType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of an option that names a profile or a version of RabbitMQ."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if there is such a profile; else end the command."""
        profile = find_profile_by_name(value)
        if profile is None:
            self.fail(f"{value!r} is no release of RabbitMQ that is known here: give {RELEASES}")
        show_caveat(profile)
        return str(value)


def profile_option(
    default: str = "the one that the source names, else the newest",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names the release of RabbitMQ."""
    return click.option(
        "--profile",
        type=ProfileType(),
        metavar="RELEASE",
        help="RabbitMQ release whose rules apply, such as 4.1 or rabbitmq-3.10; 3.10 is the oldest.  "
        f"[default: {default}]",
    )
