"""The forms of a drawing, and how a user asks for them.

To add a form, write a module with a function from a drawing and a title to a text, and add a row to `FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from bindings.drawing.bundles import bundle_queues
from bindings.drawing.dot import to_dot
from bindings.drawing.mermaid import to_mermaid
from bindings.drawing.model import Drawing
from bindings.drawing.partitions import add_partitions
from bindings.drawing.references import refer_to_hubs
from bindings.drawing.svg import to_svg
from bindings.drawing.text import to_text
from exchange.errors import InputError

__all__ = ["FORMS", "Form", "choose_form", "make_picture"]


class Form(NamedTuple):
    """A form of a drawing."""

    write: Callable[[Drawing, str], str]
    """Function that returns the text of a drawing with a title."""
    suffixes: tuple[str, ...]
    """Suffixes of files that are written in this form."""
    is_picture: bool = True
    """Whether it draws what `make_picture` returns."""


FORMS: Final = {
    "text": Form(lambda drawing, title: f"{to_text(drawing)}\n", (".txt",), is_picture=False),
    "svg": Form(to_svg, (".svg",)),
    "mermaid": Form(to_mermaid, (".mmd", ".mermaid")),
    "dot": Form(to_dot, (".dot", ".gv")),
}
"""Name of a form -> the form."""


def choose_form(output: Path | None) -> str:
    """Return the name of the form for a file, from its suffix: SVG without a suffix; text if there is no file.

    Raises InputError for a suffix that no form has: a file named .png would hold another form.
    """
    if output is None:
        return "text"
    suffix = Path(output.name.lower().removesuffix(".gz")).suffix
    found = next((name for name, form in FORMS.items() if suffix in form.suffixes), "" if suffix else "svg")
    if not found:
        suffixes = ", ".join([each for form in FORMS.values() for each in form.suffixes])
        raise InputError(
            f"{output}: no form of a picture has the suffix {suffix}: there are {suffixes}; a browser shows .svg; "
            f"--format {'|'.join(FORMS)} writes that form, whatever the suffix"
        )
    return found


def make_picture(drawing: Drawing, *, expand: bool = False) -> Drawing:
    """Return what pictures show: the drawing with partitions, and unless ``expand`` with bundles and references."""
    return add_partitions(drawing) if expand else refer_to_hubs(add_partitions(bundle_queues(drawing)))
