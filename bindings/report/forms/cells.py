"""The pieces of the terminal's report: tables, headings, and what stands in cells; no name is ever read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bindings.report.figures import percent
from bindings.report.model import BindingRow, Count, FindingRow, Shape
from bindings.report.words import conditions, destination, exchange
from exchange.display import clip_line

__all__ = [
    "LONGEST", "bar", "binding_line", "columns", "coverage_cell", "finding_cell", "heading", "hot_key", "indented",
    "key_text", "named", "pairs", "shape_cell", "steps",
]  # fmt: skip

LONGEST: Final = 100
"""Characters of a key that are shown."""

BAR: Final = 24

STYLES: Final = {"proved": "red", "belied": "green", "no traffic": "dim", "": "dim"}

STEPS: Final = " ▁▂▃▄▅▆▇█"


def heading(what: str, told: str) -> RenderableType:
    """A section's heading, what it tells behind it."""
    title = Text(what, style="bold cyan")
    if told:
        title.append(f": {told}", style="not bold default")
    return Group(Text(), title)


def columns(*headings: str) -> Table:
    """A table whose columns' headings say with ``>`` that they are numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for column in headings:
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        table.add_column(column.lstrip(">"), justify=justify, overflow="fold")
    return table


def pairs() -> Table:
    """Numbers, and what they are of."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def named(name: str) -> Text:
    """Any name, in a cell."""
    return Text(clip_line(name, LONGEST), overflow="fold")


def key_text(key: str) -> str:
    """Return a routing key for people; the empty one as quotes, since nothing would be seen of it."""
    return clip_line(key, LONGEST) or '""'


def binding_line(row: BindingRow) -> Text:
    """A binding in a line: from where to where, and what it asks for."""
    binding = row.use.binding
    ends = f"{exchange(binding.source)} -> {destination(binding.destination)}"
    return Text(f"{clip_line(ends, LONGEST)}: {clip_line(conditions(binding), LONGEST)}")


def coverage_cell(part: int, whole: int, digits: int) -> Text:
    """A percentage: green for all, red for none."""
    if not whole:
        return Text("")
    style = "green" if part == whole else "red" if not part else ""
    return Text(f"{percent(part, whole, digits)} %", style=style)


def bar(part: int, whole: int) -> Text:
    """Of a whole, the part."""
    if not whole:
        return Text("─" * BAR, style="dim")
    full = min(BAR - (part < whole), max(round(BAR * part / whole), 1 if part else 0))
    return Text.assemble(("━" * full, "green"), ("─" * (BAR - full), "red"))


def steps(counts: Sequence[int]) -> str:
    """Counts as columns of different heights; nothing if there are too many."""
    if len(counts) > 64:
        return ""
    most = max(counts)
    return "".join([STEPS[-(-8 * count // most)] for count in counts])


def hot_key(key: Count) -> str:
    """A frequent key, how often, and in which partition."""
    where = "" if key.partition is None else f" in {key.partition}"
    return f"{key_text(key.text)} {key.messages:,}{where}"


def shape_cell(shape: Shape, *, wide: bool) -> Text:
    """What unroutable keys look like, and what is near to them."""
    told = Text(key_text(shape.shape))
    if shape.example != shape.shape:
        told.append(f"{'  ' if wide else chr(10)}e.g. {key_text(shape.example)}", style="dim")
    near = shape.nearest
    if near is not None:
        what = f"{clip_line(conditions(near.binding), LONGEST)} -> " if near.binding is not None else ""
        told.append("\nnearest: ", style="dim")
        told.append(f"{what}{clip_line(destination(near.destination), LONGEST)}")
        told.append(f": {clip_line(near.reason, 2 * LONGEST)}", style="yellow")
    return told


def finding_cell(row: FindingRow) -> Text:
    """A finding, and what the traffic says of it."""
    told = Text(clip_line(row.finding.message.replace("\n", "; "), 3 * LONGEST))
    if row.says:
        told.append(f"\n{row.evidence}: " if row.evidence else "\n", style=STYLES[row.evidence])
        told.append(row.says, style=STYLES[row.evidence])
    return told


def indented(part: RenderableType, by: int) -> RenderableType:
    """The same, further to the right."""
    return Padding(part, (0, 0, 0, by))
