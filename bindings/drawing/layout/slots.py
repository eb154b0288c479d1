"""The columns of a layout, and the slots in them: one for each node, each label, and each column that an edge passes.

Each rank of nodes has a column; if an edge with a label leaves the rank, a column for labels follows it. An edge is a
path of slots in neighbouring columns (Gansner et al., 1993: labels and long edges as virtual nodes). In a column an
edge is level, in its own slot; it bends only between columns. So no edge crosses a node or a label, and no two of these
overlap, wherever the slots of a column are stacked.

Edges of one strand with the same target share slots behind their labels, like wires that join: a queue that a hundred
exchanges lead to needs one line through each column, not a hundred. The longest strands have no slots at all if there
would be too many; they are led around, below all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from bindings.drawing.layout.values import LaidEdge, Size

MAX_SLOTS: Final = 20_000
"""Maximum number of slots for edges that pass columns; labels do not count."""
LINE_ROOM: Final = 6.0
"""Height of a slot that only edges pass."""


class SlotPath(NamedTuple):
    """The slots of an edge."""

    slots: list[int]
    """From the left to the right. Those of an edge that is led around end with its label."""
    label: int | None
    """The slot with the label; None for an edge without one."""
    detour: int | None
    """The number of the detour below all columns in which the edge is led around; None for most edges."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a connected part of a drawing. The first slots are the nodes, in their order."""

    columns: list[list[int]]
    """The slots of each column, in no meaningful order."""
    column_of: list[int]
    sizes: list[Size]
    is_line: list[bool]
    """Whether a slot has no node and no label, only edges that pass."""
    before: list[list[int]]
    """The neighbours of each slot in the column to the left, without repetition."""
    after: list[list[int]]
    paths: list[SlotPath]
    """The path of each edge, in the order of the edges."""


def build_slots(sizes: Sequence[Size], ranks: Sequence[int], lines: Sequence[LaidEdge]) -> Slots:
    """Return the slots of nodes of these sizes and ranks. Each line leads to a greater rank."""
    column_of = _place_ranks(ranks, lines)
    slots = Slots(
        columns=[[] for _ in range(max(column_of, default=-1) + 1)],
        column_of=[], sizes=[], is_line=[], before=[], after=[], paths=[],
    )  # fmt: skip
    for column, size in zip(column_of, sizes, strict=True):
        _add_slot(slots, column, size)
    detours = _choose_detours(column_of, lines)
    shared: dict[tuple[int, int, int], int] = {}  # target, strand, column -> slot
    joined: set[tuple[int, int]] = set()
    for line in lines:
        path = [line.source]
        first, last = column_of[line.source] + 1, column_of[line.target]
        label = _add_slot(slots, first, line.label) if line.label.width else None
        if label is not None:
            path.append(label)
            first += 1
        detour = detours.get((line.target, line.strand)) if first < last else None
        if detour is None:
            for column in range(first, last):
                key = (line.target, line.strand, column)
                if key not in shared:
                    shared[key] = _add_slot(slots, column, Size(0.0, LINE_ROOM), is_line=True)
                path.append(shared[key])
            path.append(line.target)
        slots.paths.append(SlotPath(path, label, detour))
        for pair in pairwise(path):
            if pair not in joined:
                joined.add(pair)
                slots.after[pair[0]].append(pair[1])
                slots.before[pair[1]].append(pair[0])
    return slots


def _add_slot(slots: Slots, column: int, size: Size, *, is_line: bool = False) -> int:
    slots.columns[column].append(len(slots.sizes))
    slots.column_of.append(column)
    slots.sizes.append(size)
    slots.is_line.append(is_line)
    slots.before.append([])
    slots.after.append([])
    return len(slots.sizes) - 1


def _place_ranks(ranks: Sequence[int], lines: Sequence[LaidEdge]) -> list[int]:
    """Return the column of each node: its rank, and one more for each rank before it that needs a column of labels."""
    labelled = {ranks[line.source] for line in lines if line.label.width}
    columns = [0]
    for rank in range(max(ranks, default=0)):
        columns.append(columns[-1] + 1 + (rank in labelled))
    return [columns[rank] for rank in ranks]


def _choose_detours(column_of: Sequence[int], lines: Sequence[LaidEdge]) -> dict[tuple[int, int], int]:
    """Return (target, strand) -> number of its detour, for the strands that are led around; mostly for none."""
    spans: dict[tuple[int, int], int] = {}
    for line in lines:
        key = (line.target, line.strand)
        spans[key] = max(spans.get(key, 0), column_of[line.target] - column_of[line.source] - 1)
    needed = sum(spans.values())
    detours: dict[tuple[int, int], int] = {}
    for key in sorted(spans, key=lambda key: (-spans[key], key)):
        if needed <= MAX_SLOTS:
            break
        needed -= spans[key]
        detours[key] = len(detours)
    return detours
