"""What each module imports, as its source has it: at once, inside of functions, for type checkers, and by name.

An import by name is a string that names a module: wherever it stands if it is absolute (``"bridge.pump.window"``), and
of the module's own package if the module calls what imports by name (``import_module``).
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from tests.support.syntax import walk

ROOTS: Final = ("exchange", "bindings", "bridge", "tests", "examples", "benchmarks", "docs")
BY_NAME: Final = frozenset({"import_module", "import_lazily"})
"""Names of functions that import what strings name."""


class Source(NamedTuple):
    """What the source of a module refers to."""

    path: str
    imports: frozenset[str]
    strings: frozenset[str]
    parameters: frozenset[str]
    """Names of parameters of its functions: of tests, their fixtures."""
    is_live: bool
    """Whether it has tests that need a server."""


class Graph:
    """The modules of a tree, by their names."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Read the texts of modules, by their paths from the top."""
        names = {path: _name_module(path) for path in texts}
        self.names: Final[Mapping[str, str]] = names
        self.paths: Final[Mapping[str, str]] = {name: path for path, name in names.items()}
        known = frozenset(names.values())
        self.sources: Final[Mapping[str, Source]] = {
            names[path]: _read_source(path, names[path], text, known) for path, text in texts.items()
        }

    def find_chains(self, starts: Iterable[str], within: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the modules that starts import, and what these import, each with the imports that lead there.

        Modules that are in none of the packages `within` are left out. A module comes with the packages that it is in,
        as Python runs them first. What the outermost of these imports is not followed: it is a list of public names.
        """
        tops = tuple(f"{name}." for name in within)
        chains: dict[str, tuple[str, ...]] = {}
        waiting: list[tuple[str, tuple[str, ...]]] = [(start, (start,)) for start in sorted(starts)]
        for name, chain in waiting:
            if name in chains or not f"{name}.".startswith(tops):
                continue
            chains[name] = chain
            imports = self.sources[name].imports if "." in name or len(chain) == 1 else ()
            packages = [each for each in _packages_of(name) if each in self.paths]
            waiting += ((each, (*chain, each)) for each in sorted({*imports, *packages}))
        return chains

    def find_members(self, package: str) -> list[str]:
        """Return the modules of a package, itself and those of packages inside included."""
        return [name for name in self.paths if f"{name}.".startswith(f"{package}.")]


@cache
def read_graph(top: Path) -> Graph:
    """Read all modules of the tree at `top`."""
    files = (path for root in ROOTS for path in (top / root).rglob("*.py"))
    gc.disable()  # syntax trees are freed by count, and each search for cycles goes through all that tests hold
    try:
        return Graph({path.relative_to(top).as_posix(): path.read_text("utf-8") for path in files})
    finally:
        gc.enable()


def _name_module(path: str) -> str:
    parts = PurePath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages_of(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def _read_source(path: str, name: str, text: str, known: frozenset[str]) -> Source:
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    imported: set[str] = set()
    strings: set[str] = set()
    parameters: set[str] = set()
    is_by_name, is_live = False, path.endswith("_live.py")
    for node in walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(node, package)
            imported |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names}
            is_by_name |= any(alias.name in BY_NAME for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(node.value)
        elif isinstance(node, ast.arg):
            parameters.add(node.arg)
        elif isinstance(node, ast.Attribute):
            is_live |= node.attr == "live"
    imported |= {each for each in strings if "." in each}
    if is_by_name:
        imported |= {f"{package}.{each}" for each in strings}
    return Source(path, frozenset(imported & known), frozenset(strings), frozenset(parameters), is_live)


def _resolve(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
