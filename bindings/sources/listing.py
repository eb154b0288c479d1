"""The text of a ``.bindings`` file, and the lines in it that declare the parts of one virtual host."""

from __future__ import annotations

from typing import NamedTuple

from bindings.sources.document import Section
from exchange.entities.part import Part

__all__ = ["Listing"]


class Listing(NamedTuple):
    """The text of a ``.bindings`` file, and one of its virtual hosts."""

    text: str
    section: Section

    def line_of(self, part: Part) -> int | None:
        """Return the line that declares a part, from 1; None if the file does not declare it."""
        return self.section.line_of(part)
