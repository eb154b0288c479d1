"""One virtual host of a ``.bindings`` file: its topology, its expectations, and the lines that declare its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bindings.sources.language.expectations import Expectation
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.part import KINDS, Part
from exchange.topology.topology import Topology


class Section(NamedTuple):
    """One virtual host."""

    topology: Topology
    expectations: tuple[Expectation, ...] = ()
    lines: Mapping[tuple[str, str], int] = {}
    binding_lines: Mapping[Binding, int] = {}
    """Binding -> the line of its key, or of its destination if it has none: a statement may have many of both."""

    def line_of(self, part: Part) -> int | None:
        """Return the line that declares the part, from 1, if it was read from a file."""
        if isinstance(part, Binding):
            return self.binding_lines.get(part)
        return self.lines.get(identify_part(part))


def identify_part(part: Exchange | Queue | Policy) -> tuple[str, str]:
    """Return kind and name of a part; operator policies are a kind of their own."""
    operator = isinstance(part, Policy) and part.operator
    return "operator policy" if operator else KINDS[type(part)], part.name


class Listing(NamedTuple):
    """The text of a ``.bindings`` file, and one of its virtual hosts."""

    text: str
    section: Section

    def line_of(self, part: Part) -> int | None:
        """Return the line that declares a part, from 1; None if the file does not declare it."""
        return self.section.line_of(part)
