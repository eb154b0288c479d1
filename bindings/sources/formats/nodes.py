"""A value of a YAML or JSON file that knows its place, so that an error names the file, the line and the field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final, TypeAlias

from bindings.sources.language.errors import LanguageError
from exchange.errors import InputError
from exchange.limits import NESTING
from exchange.text.display import clip_line, dump_json, suggest
from exchange.values.json_text import JsonFault, parse

Path: TypeAlias = "tuple[Path, str | int] | None"
"""The steps to a value from the top of its file: a linked list, which costs nothing to extend."""

MAX_QUOTED_CHARACTERS: Final = 60
"""Maximum number of characters of a value or a path in an error."""


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value: a dict of nodes, a list of nodes, or a text, number, bool or None."""

    value: Any
    file: str
    line: int | None = None
    """The line in the file, from 1; None in JSON, where the path says where it is."""
    path: Path = None

    @property
    def where(self) -> str:
        """The file, and the line if it is known."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def error(self, reason: str) -> InputError:
        """Return an error about this value."""
        path = format_path(self.path)
        return InputError(f"{self.where}: {path}: {reason}" if path else f"{self.where}: {reason}")

    def fields(self) -> dict[str, DocumentNode]:
        """Return the fields of a mapping. Raises InputError for anything else."""
        if not isinstance(self.value, dict):
            raise self.error(f"{self.shown()} is not a mapping of names to values")
        return self.value

    def items(self) -> list[DocumentNode]:
        """Return the items of a list. Raises InputError for anything else."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.shown()} is not a list")
        return self.value

    def get(self, name: str) -> DocumentNode | None:
        """Return a field of a mapping; None if it is absent or null."""
        node = self.fields().get(name)
        return None if node is None or node.value is None else node

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that is a text. Raises InputError if it is none, or is absent and has no default."""
        node = self.get(name)
        if node is None:
            if default is None:
                raise self.error(f"it has no {name}")
            return default
        if not isinstance(node.value, str):
            quotes = "" if isinstance(node.value, (dict, list)) else "; put it in quotes"
            raise node.error(f"{node.shown()} is not a text{quotes}")
        return node.value

    def flag(self, name: str, default: bool) -> bool:
        """Return a field that is true or false. Raises InputError."""
        node = self.get(name)
        if node is None:
            return default
        if not isinstance(node.value, bool):
            raise node.error(f"{node.shown()} is not true or false")
        return node.value

    def integer(self, name: str, default: int) -> int:
        """Return a field that is an integer. Raises InputError."""
        node = self.get(name)
        if node is None:
            return default
        if type(node.value) is not int:
            raise node.error(f"{node.shown()} is not an integer")
        return node.value

    def plain(self) -> Any:
        """Return the value as a JSON parser would return it."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def shown(self) -> str:
        """Return the value as JSON, clipped, for an error."""
        if isinstance(self.value, dict):
            return "{...}" if self.value else "{}"
        if isinstance(self.value, list):
            return "[...]" if self.value else "[]"
        return clip_line(dump_json(self.value), MAX_QUOTED_CHARACTERS)

    def unknown(self, known: Collection[str]) -> list[tuple[DocumentNode, str]]:
        """Return the fields of a mapping that are not ``known``, each with a sentence about it."""
        strangers = [(name, node) for name, node in self.fields().items() if name not in known]
        text = "there is no field {}{}".format
        return [(node, text(dump_json(name), suggest(name, known, or_list=True))) for name, node in strangers]


def format_path(path: Path) -> str:
    """Return ``spec.arguments.x[2]``."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return clip_line("".join(reversed(steps)).removeprefix("."), MAX_QUOTED_CHARACTERS * 2)


def parse_json_node(text: str, name: str) -> DocumentNode:
    """Return the value of a JSON text. Raises InputError, which names the line of a fault."""
    try:
        value = parse(text)
    except JSONDecodeError as error:
        raise LanguageError.at(error.pos, f"not JSON: {error.msg}", name, text) from None
    except JsonFault as error:
        raise LanguageError.at(error.fault.place, str(error), name, text) from None
    return build_node(value, name)


def build_node(value: Any, file: str, line: int | None = None, path: Path = None, depth: int = 0) -> DocumentNode:
    """Return the nodes of a value as a JSON parser returns it. Raises InputError if it is nested too deeply."""
    if depth > NESTING:
        raise DocumentNode(None, file, line, path).error(f"nested too deeply, beyond {NESTING} lists and mappings")
    if isinstance(value, Mapping):
        return DocumentNode(
            {k: build_node(v, file, line, (path, k), depth + 1) for k, v in value.items()}, file, line, path
        )
    if isinstance(value, list):
        return DocumentNode(
            [build_node(v, file, line, (path, n), depth + 1) for n, v in enumerate(value)], file, line, path
        )
    return DocumentNode(value, file, line, path)
