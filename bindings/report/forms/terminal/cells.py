"""The pieces of a report at the terminal: headings, tables and cells. No name is ever read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bindings.archive.figures import format_share, to_percent
from bindings.checking.forms.places import split_message
from bindings.report.model import FindingRow
from bindings.report.rows import BindingRow, Count, QueueRow, Shape
from bindings.report.words import describe_condition, name_destination, name_exchange
from exchange.text.display import clip_line, count_noun

LONGEST: Final = 100
"""Maximum number of characters of a name or key."""

BAR: Final = 24
"""Width of a bar in characters."""

STYLES: Final = {"proved": "red", "belied": "green", "no traffic": "dim", "": "dim"}

BAR_CHARACTERS: Final = " ▁▂▃▄▅▆▇█"
"""Characters of rising height, one for each count in a row of counts."""

COUNTS: Final = 64
"""Maximum number of counts drawn in a row."""


def make_heading(title: str, summary: str) -> RenderableType:
    """Return the heading of a section, followed by a summary."""
    text = Text(title, style="bold cyan")
    if summary:
        text.append(f": {summary}", style="not bold default")
    return Group(Text(), text)


def make_table(*headings: str) -> Table:
    """Return an empty table; a heading that begins with ``>`` is that of a right-aligned column, for numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for column in headings:
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        table.add_column(column.lstrip(">"), justify=justify, overflow="fold")
    return table


def make_pairs(justify: Literal["left", "right"] = "right") -> Table:
    """Return an empty grid of two columns, usually for numbers and what they count."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify=justify, no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def show_name(name: str) -> Text:
    """Return a name for a cell."""
    return Text(clip_line(name, LONGEST), overflow="fold")


def show_key(key: str) -> str:
    """Return a routing key for people; the empty key is shown as quotes."""
    return clip_line(key, LONGEST) or '""'


def show_binding(row: BindingRow) -> Text:
    """Return a binding as a line: its source, its destination and its condition."""
    binding = row.use.binding
    ends = f"{name_exchange(binding.source)} -> {name_destination(binding.destination)}"
    return Text(f"{clip_line(ends, LONGEST)}: {clip_line(describe_condition(binding), LONGEST)}")


def show_coverage(part: int, whole: int, digits: int) -> Text:
    """Return a percentage for a cell: green if 100, red if 0, and empty if ``whole`` is 0."""
    if not whole:
        return Text("")
    style = "green" if part == whole else "red" if not part else ""
    return Text(f"{to_percent(part, whole, digits)} %", style=style)


def draw_bar(part: int, whole: int) -> Text:
    """Return a proportional bar."""
    if not whole:
        return Text("─" * BAR, style="dim")
    full = min(BAR - (part < whole), max(round(BAR * part / whole), 1 if part else 0))
    return Text.assemble(("━" * full, "green"), ("─" * (BAR - full), "red"))


def _draw_steps(counts: Sequence[int]) -> str:
    """Return counts as columns of different heights; "" if there are more than `COUNTS`."""
    if len(counts) > COUNTS:
        return ""
    most = max(counts)
    return "".join([BAR_CHARACTERS[-(-8 * count // most)] for count in counts])


def _show_hot_key(key: Count) -> str:
    """Return a frequent key, its number of messages and its partition."""
    where = "" if key.partition is None else f" in {key.partition}"
    return f"{show_key(key.text)} {key.messages:,}{where}"


def show_top_share(row: QueueRow) -> str:
    """Return the share of the most frequent key, or bounds of that share if the count is approximate."""
    least, most = row.hot[0].messages, min(row.hot[0].messages + row.hot_error, row.use.messages)
    if least == most:
        return format_share(least / row.use.messages)
    return f"{format_share(least / row.use.messages).removesuffix(' %')} to {format_share(most / row.use.messages)}"


def show_partitions(row: QueueRow) -> RenderableType:
    """Return the partitions of a queue: how uneven they are, one column for each, and the keys that are hottest."""
    title = Text(f"{clip_line(row.use.queue, LONGEST)}: {row.partitioning}")
    skew = row.skew
    if skew is None:
        return title.append("; no message has a partition that its key decides")
    rest = ""
    if undecided := sum([part.messages for part in row.partitions if part.partition is None]):
        rest = f"\n{count_noun(undecided, 'message')} whose key does not decide the partition"
    if row.hot:
        rest += f"\nhottest: {', '.join(map(_show_hot_key, row.hot[:3]))}"
        rest += f" (up to {row.hot_error:,} more each)" if row.hot_error else ""
    text = Text.assemble(
        (f"max/mean {skew.max_to_mean:.2f}", "bold"),
        f", top {format_share(skew.top_share)}, Gini {skew.gini:.2f}, CV {skew.variation:.2f}  ",
        (_draw_steps([part.messages for part in row.partitions if part.partition is not None]), "bold"),
        rest,
    )
    return Group(title, indent(text, 2))


def show_shape(shape: Shape, *, wide: bool) -> Text:
    """Return a shape of unroutable keys for a cell, with the binding or name nearest to its example."""
    text = Text(show_key(shape.shape))
    if shape.example != shape.shape:
        text.append(f"{'  ' if wide else chr(10)}e.g. {show_key(shape.example)}", style="dim")
    near = shape.nearest
    if near is not None:
        what = f"{clip_line(describe_condition(near.binding), LONGEST)} -> " if near.binding is not None else ""
        text.append("\nnearest: ", style="dim")
        text.append(f"{what}{clip_line(name_destination(near.destination), LONGEST)}")
        text.append(f": {clip_line(near.reason, 2 * LONGEST)}", style="yellow")
    return text


def show_finding(row: FindingRow) -> Text:
    """Return a finding for a cell, with the evidence of the traffic."""
    text = Text(clip_line("; ".join(split_message(row.finding)), 3 * LONGEST))
    if row.sentence:
        text.append(f"\n{row.evidence}: " if row.evidence else "\n", style=STYLES[row.evidence])
        text.append(row.sentence, style=STYLES[row.evidence])
    return text


def indent(piece: RenderableType, by: int) -> RenderableType:
    """Return a piece with a margin on the left, in characters."""
    return Padding(piece, (0, 0, 0, by))
