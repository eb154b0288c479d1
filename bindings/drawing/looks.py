"""The looks of nodes and the colours of a picture, light and dark, for every form.

Types of exchanges differ in shape and colour, severities in colour and mark, edges in colour and dashes: no difference
is one of colours only. The hues are those of Okabe and Ito, which colour-blind eyes distinguish, darkened or lightened
until text has a contrast of 4.5 to its background and lines have one of 3, as WCAG 2.2 demands (tests compute it).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from bindings.drawing.model import EdgeKind, Node
from exchange.kinds import Decider, KeyUse

ROUTING_LOOKS: Final = ("literal", "pattern", "all", "headers", "hash", "chance")
"""Looks of exchanges, by how they route; one of a type that is not known is ``unknown``."""

LOOKS: Final = {
    Decider.NOTHING: "all", Decider.HEADERS: "headers", Decider.SELECTOR: "headers", Decider.HASH: "hash",
    Decider.CHANCE: "chance", Decider.UNKNOWN: "unknown",
}  # fmt: skip
"""What decides in an exchange -> its look; where it is the key, `look_of` decides."""


def look_of(node: Node) -> str:
    """Return the look of a node: how an exchange routes, the kind of any other node."""
    if node.kind == "exchange" and node.routing is not None:
        if node.routing.decider is Decider.KEY:
            return "pattern" if node.routing.key_use is KeyUse.PATTERN else "literal"
        return LOOKS[node.routing.decider]
    return node.kind


class Colour(NamedTuple):
    """A colour on light paper, and the one in its place on dark paper."""

    light: str
    dark: str


COLOURS: Final[Mapping[str, Colour]] = MappingProxyType({
    "paper": Colour("#ffffff", "#14181b"),
    "ink": Colour("#1b2124", "#e3e7e8"),
    "soft": Colour("#566066", "#a3aeb4"),
    "line": Colour("#6f7a81", "#8b969d"),
    "sheet": Colour("#f4f5f3", "#20262a"),
    "mark": Colour("#ffd34d", "#7a5c00"),
    # exchanges: how they route
    "literal": Colour("#0068a3", "#56b4e9"),
    "literal-fill": Colour("#e3f1fa", "#0f2b3d"),
    "pattern": Colour("#007a57", "#35c795"),
    "pattern-fill": Colour("#e0f4ed", "#0c2f25"),
    "all": Colour("#9a5b00", "#e69f00"),
    "all-fill": Colour("#fcf0db", "#38290b"),
    "headers": Colour("#9c4478", "#dd94bb"),
    "headers-fill": Colour("#f9e9f2", "#391f2e"),
    "hash": Colour("#6d6500", "#d3c53a"),
    "hash-fill": Colour("#f6f3d3", "#312e0c"),
    "chance": Colour("#5a5f9e", "#a3a8e8"),
    "chance-fill": Colour("#ecedf9", "#22253f"),
    # edges and findings
    "exchange-edge": Colour("#0068a3", "#56b4e9"),
    "alternate-edge": Colour("#5a5f9e", "#a3a8e8"),
    "dead-letter-edge": Colour("#9a5b00", "#e69f00"),
    "partitions-edge": Colour("#007a57", "#35c795"),
    "back-edge": Colour("#9c4478", "#dd94bb"),
    "error": Colour("#b3261e", "#ff8a7a"),
    "warning": Colour("#8f5c00", "#f0b429"),
    "note": Colour("#566066", "#a3aeb4"),
})  # fmt: skip

EDGE_COLOURS: Final[Mapping[EdgeKind, str]] = MappingProxyType(
    {
        "queue": "line",
        "exchange": "exchange-edge",
        "alternate": "alternate-edge",
        "dead-letter": "dead-letter-edge",
        "partitions": "partitions-edge",
        "cut": "line",
    }
)
"""Kind of an edge -> the name of its colour."""
