"""Colours: enough contrast for everybody, on light and on dark paper, and apart for colour-blind eyes."""

from __future__ import annotations

import re
from itertools import combinations
from math import dist

import pytest

from bindings.drawing.drawing import draw
from bindings.drawing.forms import make_picture
from bindings.drawing.looks import COLOURS, EDGE_COLOURS, ROUTING_LOOKS
from bindings.drawing.svg import to_svg
from bindings.drawing.svg.document import HEADS, list_rules, write_style_sheet
from exchange import Binding, Exchange, Queue, Topology
from tests.support.company_topologies import make_company

FILLS = [f"{look}-fill" for look in ROUTING_LOOKS]
PAPERS = ["paper", "sheet", *FILLS]
SEVERITIES = ("error", "warning", "note")

DEFICIENCIES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
"""Matrices of Machado, Oliveira and Fernandes (2009), for linear RGB."""


def linear(colour: str) -> list[float]:
    """Return red, green and blue of ``#rrggbb``, from 0 to 1, in proportion to light."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, two: str) -> float:
    """Return the contrast of WCAG 2.2: from 1 to 21."""
    lights = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(one), linear(two))]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """Return CIELAB of linear RGB."""
    r, g, b = (min(max(part, 0.0), 1.0) for part in rgb)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )  # fmt: skip
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_lines_have_the_contrast_that_wcag_demands(mode: str) -> None:
    hue = {name: getattr(colour, mode) for name, colour in COLOURS.items()}
    texts = [(text, paper) for text in ("ink", "soft", *SEVERITIES) for paper in PAPERS]
    texts += [("ink", "mark")]
    lines = [(look, paper) for look in ROUTING_LOOKS for paper in ("paper", f"{look}-fill")]
    lines += [(line, "paper") for line in (*HEADS.values(), "line")] + [("partitions-edge", "sheet"), ("line", "sheet")]
    faint = [(*pair, contrast(hue[pair[0]], hue[pair[1]])) for pair in texts]
    assert [each for each in faint if each[2] < 4.5] == []
    faint = [(*pair, contrast(hue[pair[0]], hue[pair[1]])) for pair in lines]
    assert [each for each in faint if each[2] < 3] == []


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("eyes", ["all", *DEFICIENCIES])
def test_errors_differ_from_notes_and_from_plain_lines_for_all_eyes(mode: str, eyes: str) -> None:
    """Other pairs may look alike: shapes, dashes and marks tell them apart."""
    names = ("error", "note", "line", "exchange-edge")
    seen = {}
    for name in names:
        rgb = linear(getattr(COLOURS[name], mode))
        if eyes != "all":
            rgb = [sum(a * b for a, b in zip(row, rgb, strict=True)) for row in DEFICIENCIES[eyes]]
        seen[name] = lab(rgb)
    close = [(a, b) for a, b in combinations(names, 2) if "error" in (a, b) and dist(seen[a], seen[b]) < 15]
    assert close == []


def test_looks_differ_in_more_than_colour() -> None:
    """Each look of exchanges has an outline of its own, each kind of edge its own dashes or width."""
    types = ("direct", "topic", "fanout", "headers", "x-consistent-hash", "x-random", "x-other")
    outlines = set()
    for type_ in types:
        picture = to_svg(draw(Topology([Exchange("a" * 12, type_)])), "t")
        group = picture[picture.index('id="n0"') :]
        shape = re.search(r'<(?:rect|path) class="shape"[^>]*>', group)
        assert shape is not None
        outlines.add((re.sub(r'width="[^"]*"', "", shape[0]), 'class="node exchange unknown' in picture))
    assert len(outlines) == len(types)
    sheet = write_style_sheet()
    lines = {re.search(rf"\.edge\.{kind} path {{ (stroke-[^}}]*)}}", sheet)[1] for kind in EDGE_COLOURS}  # type: ignore[index]
    assert len(lines) == len(EDGE_COLOURS)


def test_every_colour_has_a_dark_one_and_every_rule_a_colour() -> None:
    light, dark = write_style_sheet().split("@media (prefers-color-scheme: dark)")
    for selector, what, name in list_rules():
        colour = COLOURS.get(name)
        assert colour is not None or name == "none"
        if colour is not None:
            assert f"{selector} {{ {what}: {colour.light}; }}" in light
            assert f"{selector} {{ {what}: {colour.dark}; }}" in dark
    assert {name for _, _, name in list_rules()} | {"ink"} >= set(COLOURS)


def test_types_without_a_sign_share_an_entry_of_the_legend() -> None:
    queues = [Queue(f"q{at}", arguments={"x-queue-type": f"odd{at}"}) for at in range(30)]
    exchanges = [Exchange(f"e{at}", f"x-odd{at}") for at in range(30)]
    picture = to_svg(make_picture(draw(Topology(exchanges, queues))), "t")
    assert picture.count('class="legend') == 2
    assert ">queue: odd0, odd1, odd10 and 27 more<" in picture
    assert ">exchange: x-odd0, x-odd1, x-odd10 and 27 more<" in picture


def test_the_legend_has_what_occurs_and_nothing_else() -> None:
    """In a picture with one exchange, and in one with everything."""
    small = to_svg(make_picture(draw(Topology([Exchange("e", "x-delayed-message",
                                                        arguments={"x-delayed-type": "topic"})]))), "t")  # fmt: skip
    assert re.findall(r'class="legend [^>]*>.*?<text[^>]*>([^<]*)<', small, flags=re.DOTALL) == [
        "exchange: x-delayed-message"
    ]
    assert "x-delayed-message, routes as topic" in small
    assert 'class="node exchange pattern"' in small
    topology = make_company(300)
    cycle = [Binding.to_exchange("a", "b"), Binding.to_exchange("b", "a"), Binding.to_queue("b", "gone")]
    topology = Topology(
        [*topology.exchanges.values(), Exchange("a", "fanout"), Exchange("b", "fanout")],
        [*topology.queues.values(), Queue("alone", arguments={"x-queue-type": "odd"})], [*topology.bindings, *cycle],
    )  # fmt: skip
    large = to_svg(make_picture(draw(topology)), "t")
    texts = set(re.findall(r'class="soft">([^<]*)</text>\n</g>', large[: large.index('id="drawing"')]))
    assert texts == {
        "exchange: direct", "exchange: fanout", "exchange: headers", "exchange: topic", "exchange: x-consistent-hash",
        "exchange: x-plugin", "exchange: x-random", "queue: classic", "queue: quorum", "queue: stream", "queue: odd",
        "does not exist", "queues with the same bindings", "partitions of a topic or super stream",
        "drawn elsewhere: many lead there", "binding to a queue", "binding to an exchange", "to the alternate exchange",
        "to partitions", "edges that are not drawn", "leads back: closes a cycle", "error of hashstar check",
    }  # fmt: skip
