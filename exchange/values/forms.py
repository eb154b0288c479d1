"""The forms in which commands print and write their results: text for people, JSON, Markdown, HTML, tables.

Each command has one table, name -> `Form`. Its ``--format``, the suffixes that ``-o`` knows, and the options that write
files besides, are made of it: to add a form, write a function and add a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import PurePath
from typing import Any, Final, NamedTuple, TypeAlias

from exchange.text.display import dump_json, escape_line
from exchange.values.documents import encode_as, is_document

COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
"""Name of a colour -> the parameter of the escape sequence that sets it."""


class Screen(NamedTuple):
    """Where a form for people is shown: by default, in a file."""

    width: int = 100
    """Maximum number of characters of a line."""
    colour: bool = False
    whole: bool = False
    """Whether lists are shown in full, not their first rows only."""


class Form(NamedTuple):
    """A form of the results of a command."""

    function: str
    """``MODULE:NAME`` of the function that returns a result in this form; imported at its first use, as forms need
    packages of their own. It returns a text, lines that are yet to be escaped, an object of JSON, a document, or bytes.
    The class of a document may stand here, of which the result is an instance, or which makes one of it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of files that are written in this form, unless the user names another one."""
    is_printed: bool = True
    """Whether ``--format`` offers it."""
    option: str = ""
    """Help of the option that writes it to a file besides what is printed; "" if there is none."""
    is_folder: bool = False
    """Whether it is a folder of files: its function takes the folder, too, and writes them."""
    has_screen: bool = False
    """Whether its function takes a `Screen`, too."""
    indent: int | None = None
    """Blanks for each level of its JSON; None for one line."""
    colours: tuple[tuple[str, str], ...] = ()
    """Patterns of the beginnings of lines, and the `COLOURS` in which a terminal shows lines that match the first."""

    @property
    def is_coloured(self) -> bool:
        """Whether a terminal shows it in colours."""
        return self.has_screen or bool(self.colours)

    def load(self) -> Callable[..., Any]:
        """Import its function."""
        module, _, name = self.function.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function

    def encode(self, *result: Any, screen: Screen | None = None, **more: Any) -> bytes:
        """Return a result in this form, in UTF-8; what that cannot encode is escaped."""
        if self.has_screen:
            more["screen"] = screen or Screen()
        function: Any = self.load()
        is_made = is_document(function) and isinstance(result[0], function)
        made = result[0] if is_made else function(*result, **more)
        if is_document(type(made)):
            made = encode_as(type(made), made)
        if isinstance(made, bytes):
            return made
        if isinstance(made, dict) or self.indent is not None:
            made = f"{dump_json(made, self.indent)}\n"
        elif not isinstance(made, str):
            colours = self.colours if screen is not None and screen.colour else ()
            made = "".join([f"{_colour(escape_line(line), colours)}\n" for line in made])
        elif not made.endswith("\n"):
            made += "\n"
        return made.encode("utf-8", "backslashreplace")


def _colour(line: str, colours: tuple[tuple[str, str], ...]) -> str:
    """Return an escaped line in the colour of the first pattern that it matches."""
    for pattern, colour in colours:
        if re.match(pattern, line):
            return f"\x1b[{COLOURS[colour]}m{line}\x1b[0m"
    return line


Forms: TypeAlias = Mapping[str, Form]
"""Name of a form, as ``--format`` takes it -> the form."""


def find_by_suffix(forms: Forms, path: PurePath) -> str | None:
    """Return the name of the form of files with this suffix, packed or not; None if no form has it."""
    suffix = PurePath(path.name.lower().removesuffix(".gz")).suffix
    return next((name for name, form in forms.items() if suffix in form.suffixes), None)
