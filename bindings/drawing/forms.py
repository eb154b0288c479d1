"""The forms of a drawing, and what of it each draws."""

from __future__ import annotations

from typing import Final

from bindings.drawing.model import Drawing
from bindings.drawing.picture import add_partitions, bundle_queues, refer_to_hubs
from exchange.values.forms import Form, Forms

__all__ = ["FORMS", "make_picture"]


FORMS: Final[Forms] = {
    "text": Form("bindings.drawing.text:to_text", (".txt",)),
    "svg": Form("bindings.drawing.svg:to_svg", (".svg", "")),
    "mermaid": Form("bindings.drawing.mermaid:to_mermaid", (".mmd", ".mermaid")),
    "dot": Form("bindings.drawing.dot:to_dot", (".dot", ".gv")),
}


def make_picture(drawing: Drawing, *, expand: bool = False) -> Drawing:
    """Return what pictures show: the drawing with partitions, and unless ``expand`` with bundles and references."""
    return add_partitions(drawing) if expand else refer_to_hubs(add_partitions(bundle_queues(drawing)))
