"""The drawing as one SVG file: shapes, style and legend, and a script with which one can pan, zoom and search."""

from bindings.drawing.svg.document import to_svg

__all__ = ["to_svg"]
