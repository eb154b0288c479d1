"""The options of ``hashstar audit`` and its kin that several of them share, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exchange.errors import InputError

if TYPE_CHECKING:
    from bindings.report.gates import Settings

__all__ = ["Judged", "Outputs", "Where", "judging_options", "moment_of", "output_options", "spark_options"]


@dataclass(frozen=True, slots=True)
class Judged:
    """How to judge, as options say it."""

    settings: Path | None
    fail_under: str | None
    fail_under_messages: str | None
    max_unroutable: str | None
    stale_days: int | None

    def all(self) -> Settings:
        """Settings of a file, with what options say instead. Raises InputError."""
        from bindings.report.gates import Settings, most
        from bindings.report.settings import find_settings, load_settings

        path = self.settings or find_settings(Path())
        found = Settings() if path is None else load_settings(path)
        limits = found.limits
        if self.fail_under is not None:
            limits = limits._replace(fail_under=_percent("--fail-under", self.fail_under))
        if self.fail_under_messages is not None:
            limits = limits._replace(fail_under_messages=_percent("--fail-under-messages", self.fail_under_messages))
        if self.max_unroutable is not None:
            limit = most(self.max_unroutable)
            if limit is None:
                raise InputError(
                    f"--max-unroutable: a number of messages such as 100, or 0.5%, not {self.max_unroutable!r}"
                )
            limits = limits._replace(max_unroutable=limit)
        days = found.stale_days if self.stale_days is None else self.stale_days
        return replace(found, limits=limits, stale_days=days)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What to print and to write."""

    form: str
    whole: bool
    html: Path | None
    json: Path | None
    junit: Path | None
    tables: Path | None
    save_tally: Path | None


@dataclass(frozen=True, slots=True)
class Where:
    """Where the counting is done."""

    master: str | None
    remote: str | None
    conf: tuple[str, ...]
    no_spark: bool

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings. Raises InputError."""
        found = {}
        for text in self.conf:
            name, equals, value = text.partition("=")
            if not equals:
                raise InputError(f"--conf: a setting of Spark such as spark.driver.memory=4g, not {text!r}")
            found[name.strip()] = value.strip()
        return found


def _gathered(
    name: str, kind: type[Any], options: list[Callable[[Any], Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a command: options whose values come to it as one argument, of a kind whose fields are called as they are."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def gathering(**values: Any) -> None:
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            command(**values)

        found: Callable[..., None] = gathering
        for option in reversed(options):
            found = option(found)
        return found

    return add


spark_options = _gathered(
    "where",
    Where,
    [
        click.option(
            "--master", metavar="URL", help="Master URL of Spark.  [default: local[*], all cores of this machine]"
        ),
        click.option("--remote", metavar="URL", help="Server of Spark Connect, sc://HOST:15002."),
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", help="Setting of Spark, as for spark-submit; repeatable."
        ),
        click.option(
            "--no-spark", is_flag=True, help="Count in this process, on one core: same numbers, no Java needed."
        ),
    ],
)
judging_options = _gathered(
    "judged",
    Judged,
    [
        click.option(
            "--settings",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Thresholds and ignored bindings.  [default: [audit] of ./hashstar.toml, else [tool.hashstar.audit] "
            "of ./pyproject.toml]",
        ),
        click.option(
            "--fail-under", metavar="PERCENT", help="Minimum binding coverage: bindings hit, of those that can be."
        ),
        click.option(
            "--fail-under-messages", metavar="PERCENT", help="Minimum message coverage: messages that reach a queue."
        ),
        click.option(
            "--max-unroutable", metavar="N", help="Maximum number or share of unroutable messages: 100, or 0.5%."
        ),
        click.option(
            "--stale-days",
            type=click.IntRange(1),
            metavar="N",
            help="Days without a message after which a binding is stale.  [default: 30]",
        ),
    ],
)
output_options = _gathered(
    "outputs",
    Outputs,
    [
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "markdown", "json", "junit", "total"]),
            default="text",
            show_default=True,
            help="Output format.",
        ),
        click.option("--all", "whole", is_flag=True, help="Print lists in full, not their first rows only."),
        click.option(
            "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as one HTML page."
        ),
        click.option("--json", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as JSON."),
        click.option(
            "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as JUnit XML, for CI."
        ),
        click.option(
            "--tables", type=click.Path(path_type=Path), metavar="DIR", help="Write the report as Parquet tables."
        ),
        click.option(
            "--save-tally",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Save the counts, for hashstar audit merge.",
        ),
    ],
)


def moment_of(option: str, text: str | None) -> int | None:
    """Microseconds since 1970 of an ISO date or time, in UTC unless it says another zone. Raises InputError."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option}: a time such as 2026-11-21 or 2026-11-21T09:30:00Z, not {text!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _percent(option: str, text: str) -> Decimal:
    try:
        value = Decimal(text.strip().removesuffix("%"))
    except InvalidOperation:
        value = Decimal(-1)
    if not 0 <= value <= 100:
        raise InputError(f"{option}: a percentage from 0 to 100, not {text!r}")
    return value
