"""Read an SVG picture of a topology as rectangles and curves, and find what overlaps.

Nothing of `bindings.drawing` is used here: what counts are the coordinates that a browser gets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final, NamedTuple
from unicodedata import combining, east_asian_width
from xml.etree import ElementTree as ET

SVG: Final = "{http://www.w3.org/2000/svg}"
NUMBER: Final = re.compile(r"-?[0-9.]+")
LETTER: Final = 6.6
"""Width in px of a letter of 11 px, in DejaVu Sans Mono, the widest of the usual fonts: 0.602 of the height."""
SLACK: Final = 0.11
"""Numbers in the file have one decimal."""
CELL: Final = 150.0
STEPS: Final = 24


class Box(NamedTuple):
    """A rectangle, and what it belongs to: ``n12`` a node, ``e3`` the label of an edge, ``legend``."""

    owner: str
    left: float
    top: float
    right: float
    bottom: float


class Wire(NamedTuple):
    """An edge: the points along its curve, and the numbers of its nodes."""

    owner: str
    points: list[tuple[float, float]]
    source: str
    target: str


@dataclass
class Picture:
    """What is in a picture, in the coordinates of its viewBox."""

    width: float
    height: float
    nodes: dict[str, Box] = field(default_factory=dict)
    labels: list[Box] = field(default_factory=list)
    texts: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    outlines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """The corners of nodes whose outline is a polygon."""


def read_picture(text: str) -> Picture:
    """Read a picture. Raises ParseError unless it is well-formed XML."""
    root = ET.fromstring(text)  # noqa: S314  our own
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    picture = Picture(width, height)
    _read(root, picture, (0.0, 0.0), "")
    return picture


def _read(element: ET.Element, picture: Picture, origin: tuple[float, float], owner: str) -> None:
    match = re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    x, y = (origin[0] + float(match[1]), origin[1] + float(match[2])) if match else origin
    kinds = element.get("class", "").split()
    edge: Wire | None = None
    if "legend" in kinds:
        owner = f"legend{len(picture.texts)}"
    elif "node" in kinds:
        owner = element.get("id", "")
    elif "edge" in kinds:
        owner = f"e{len(picture.wires)}"
        path = next(element.iter(f"{SVG}path"))
        points = [(px + x, py + y) for px, py in _follow(path.get("d", ""))]
        edge = Wire(owner, points, f"n{element.get('data-from')}", f"n{element.get('data-to')}")
    tag = element.tag.removeprefix(SVG)
    if tag in ("rect", "path") and "shape" in kinds:
        box = _box_of(element, owner, (x, y))
        known = picture.nodes.get(owner)
        if not owner.startswith("legend"):
            picture.nodes[owner] = box if known is None else Box(
                owner, min(box.left, known.left), min(box.top, known.top), max(box.right, known.right),
                max(box.bottom, known.bottom),
            )  # fmt: skip
            if tag == "path":
                picture.outlines[owner] = [(px + x, py + y) for px, py in _follow(element.get("d", ""))]
    elif tag == "rect" and "paper" in kinds:
        picture.labels.append(_box_of(element, owner, (x, y)))
    elif tag == "text":
        left, base = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        content = "".join(element.itertext())
        letters = sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in content)
        picture.texts.append(Box(owner, left, base - 9, left + LETTER * letters, base + 2.5))
    if tag not in ("defs", "style", "script", "title"):
        for child in element:
            _read(child, picture, (x, y), owner)
    if edge is not None:
        picture.wires.append(edge)


def _box_of(element: ET.Element, owner: str, origin: tuple[float, float]) -> Box:
    x, y = origin
    if element.tag == f"{SVG}rect":
        x, y = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        return Box(owner, x, y, x + float(element.get("width", 0)), y + float(element.get("height", 0)))
    points = _follow(element.get("d", ""))
    xs, ys = [px for px, _ in points], [py for _, py in points]
    return Box(owner, x + min(xs), y + min(ys), x + max(xs), y + max(ys))


def _follow(path: str) -> list[tuple[float, float]]:
    """Return points along a path of absolute M, L, H, C and Z."""
    points: list[tuple[float, float]] = []
    for command, rest in re.findall(r"([MLHCZ])([^MLHCZ]*)", path):
        numbers = list(map(float, NUMBER.findall(rest)))
        if command in "ML":
            points.append((numbers[0], numbers[1]))
        elif command == "H":
            points.append((numbers[0], points[-1][1]))
        elif command == "C":
            (ax, ay), (bx, by, cx, cy, dx, dy) = points[-1], numbers
            for step in range(1, STEPS + 1):
                t = step / STEPS
                a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
                points.append((a * ax + b * bx + c * cx + d * dx, a * ay + b * by + c * cy + d * dy))
    return points


def find_faults(picture: Picture) -> list[str]:
    """Return all that is wrong with the geometry of a picture."""
    return [*_find_overlaps(picture), *_find_crossings(picture), *_find_loose_ends(picture), *_find_outside(picture)]


def _find_overlaps(picture: Picture) -> Iterator[str]:
    """Find two nodes, two labels, or a label and a node that overlap, and texts that leave what they belong to."""
    boxes = [*picture.nodes.values(), *picture.labels]
    for one, two in _close_pairs([*boxes, *picture.texts]):
        if one.owner != two.owner and _overlap(one, two):
            yield f"{one} overlaps {two}"
    for text in picture.texts:
        frame = picture.nodes.get(text.owner)
        if frame is not None and not _holds(frame, text):
            yield f"the text {text} is not inside its node {frame}"
    papers = {label.owner: label for label in picture.labels}
    for text in picture.texts:
        paper = papers.get(text.owner)
        if paper is not None and not _holds(paper, text):
            yield f"the text {text} is not inside its label {paper}"


def _find_crossings(picture: Picture) -> Iterator[str]:
    """Find edges that pass through a node that is not their own, or the label of another edge."""
    boxes = [*picture.nodes.values(), *picture.labels, *(text for text in picture.texts if "legend" in text.owner)]
    grid: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for box in boxes:
        for cell in _cells(box.left, box.top, box.right, box.bottom):
            grid[cell].append(box)
    for wire in picture.wires:
        own = {wire.owner, wire.source, wire.target}
        for (ax, ay), (bx, by) in pairwise(wire.points):
            for cell in _cells(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)):
                for box in grid.get(cell, ()):
                    if box.owner not in own and _passes(ax, ay, bx, by, box):
                        yield f"the edge {wire.owner} from {wire.source} to {wire.target} passes through {box}"


def _find_loose_ends(picture: Picture) -> Iterator[str]:
    for wire in picture.wires:
        for node, (x, y) in ((wire.source, wire.points[0]), (wire.target, wire.points[-1])):
            box = picture.nodes[node]
            on_side = min(abs(x - box.left), abs(x - box.right), abs(y - box.top)) <= SLACK
            inside = box.left - SLACK <= x <= box.right + SLACK and box.top - SLACK <= y <= box.bottom + SLACK
            outline = picture.outlines.get(node)
            if not inside or (outline is None and not on_side and not _is_round(box, x)):
                yield f"the edge {wire.owner} ends at {x:.1f} {y:.1f}, not at {box}"
            elif outline is not None and _distance(outline, x, y) > 0.3:
                yield f"the edge {wire.owner} ends at {x:.1f} {y:.1f}, not at the outline of {box}"


def _is_round(box: Box, x: float) -> bool:
    """Return whether x is where a rectangle with round ends, or one of a stack of sheets, may have its outline."""
    return min(x - box.left, box.right - x) <= (box.bottom - box.top) / 2


def _distance(outline: list[tuple[float, float]], x: float, y: float) -> float:
    """Return the distance of a point from a polygon's sides."""
    least = float("inf")
    for (ax, ay), (bx, by) in pairwise([*outline, outline[0]]):
        dx, dy = bx - ax, by - ay
        share = max(0.0, min(1.0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)))
        least = min(least, ((ax + share * dx - x) ** 2 + (ay + share * dy - y) ** 2) ** 0.5)
    return least


def _find_outside(picture: Picture) -> Iterator[str]:
    frame = Box("", 0, 0, picture.width, picture.height)
    for box in (*picture.nodes.values(), *picture.labels, *picture.texts):
        if not _holds(frame, box):
            yield f"{box} is not inside the picture"
    for wire in picture.wires:
        for x, y in wire.points:
            if not (0 <= x <= picture.width and 0 <= y <= picture.height):
                yield f"the edge {wire.owner} leaves the picture at {x:.1f} {y:.1f}"


def _overlap(one: Box, two: Box) -> bool:
    across = min(one.right, two.right) - max(one.left, two.left)
    down = min(one.bottom, two.bottom) - max(one.top, two.top)
    return across > SLACK and down > SLACK


def _holds(frame: Box, box: Box) -> bool:
    return (
        frame.left - SLACK <= box.left and box.right <= frame.right + SLACK
        and frame.top - SLACK <= box.top and box.bottom <= frame.bottom + SLACK
    )  # fmt: skip


def _passes(ax: float, ay: float, bx: float, by: float, box: Box) -> bool:
    """Return whether a straight line passes through the inside of a box (Liang and Barsky, 1984)."""
    first, last = 0.0, 1.0
    for start, delta, low, high in (
        (ax, bx - ax, box.left + SLACK, box.right - SLACK), (ay, by - ay, box.top + SLACK, box.bottom - SLACK),
    ):  # fmt: skip
        if delta == 0:
            if not low < start < high:
                return False
            continue
        one, two = sorted(((low - start) / delta, (high - start) / delta))
        first, last = max(first, one), min(last, two)
    return first < last


def _cells(left: float, top: float, right: float, bottom: float) -> Iterator[tuple[int, int]]:
    for column in range(int(left // CELL), int(right // CELL) + 1):
        for row in range(int(top // CELL), int(bottom // CELL) + 1):
            yield column, row


def _close_pairs(boxes: Iterable[Box]) -> Iterator[tuple[Box, Box]]:
    """Yield each pair of boxes that share a cell of a grid; pairs that share several come several times."""
    grid: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for box in boxes:
        for cell in _cells(box.left, box.top, box.right, box.bottom):
            grid[cell].append(box)
    for members in grid.values():
        yield from combinations(members, 2)
