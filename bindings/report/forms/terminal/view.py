"""What all sections of a report at the terminal share: the report, how much of it is listed, and how wide it may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from bindings.report.forms.terminal.cells import indent
from bindings.report.model import Report

ALL_HINT: Final = "--all shows them"
"""The end of a line about rows that are left out."""


class ReportView(NamedTuple):
    """A report, and how it is shown."""

    report: Report
    listed: int
    """Maximum number of rows of a list."""
    wide: bool
    """Whether tables have all columns."""

    def more(self, count: int, what: str = "", by: int = 2, held: int | None = None) -> Iterator[RenderableType]:
        """Yield a line with the number of rows, of ``count``, that are not shown; the report holds ``held`` of them."""
        held = count if held is None else held
        if count > (shown := min(held, self.listed)):
            what = f" {what}" if what else ""
            way = f"; {ALL_HINT}" if held > shown else ""
            yield indent(Text(f"and {count - shown:,} more{what}{way}", style="dim"), by)
