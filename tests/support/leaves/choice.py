"""Choose the leaves whose tests run whole, and say why.

A leaf is made of its packages and all that they import in the product (`Graph.find_chains`), of its tests and all that
they import below ``tests``, ``examples``, ``benchmarks`` and ``docs``, and of the files that these name. What its tests
import of the product beside the leaf is no part of it, as that has tests of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final, NamedTuple

from tests.support.leaves.graph import Graph
from tests.support.leaves.table import ALL, CORE, LEAVES, Leaf, find_leaf

PRODUCT: Final = ("exchange", "bindings", "bridge")
AROUND: Final = ("tests", "examples", "benchmarks", "docs")
IMAGES: Final = PurePath(".ci/images.d")
SERVERS: Final = ("rabbitmq", "kafka", "rocketmq")
"""Folders of `IMAGES` whose images tests use; others are of CI's own."""
TABLES: Final = "tests.support.leaves."


class Parts(NamedTuple):
    """What a leaf is made of."""

    leaf: Leaf
    product: Mapping[str, tuple[str, ...]]
    """Module -> the imports that lead there from the leaf."""
    around: Mapping[str, tuple[str, ...]]
    strings: Mapping[str, str]
    """Each string in a module of `around` -> that module."""
    words: frozenset[str]
    """These strings, split at slashes."""
    servers: frozenset[str]
    """Kinds of servers that its live tests name."""


def find_parts(leaf: Leaf, graph: Graph) -> Parts:
    """Find what a leaf is made of."""
    members = {name for each in leaf.packages for name in graph.find_members(each)}
    others = {name for each in _without(leaf) for name in graph.find_members(each)}
    chains = graph.find_chains(members - others, PRODUCT)
    product = {name: chain for name, chain in chains.items() if name not in others}
    folders = tuple(f"{folder}/" for folder in leaf.folders)
    tests = [
        name
        for name, path in graph.paths.items()
        if owns(leaf, path) or (f"/{path}".endswith("/conftest.py") and _is_above(path, folders))
    ]
    around = graph.find_chains(tests, AROUND)
    # The table of leaves, which all tests import, names the folders of all of them.
    speaking = [name for name in around if not name.startswith(TABLES)]
    strings = {each: name for name in speaking for each in graph.sources[name].strings}
    words = frozenset(word for each in strings for word in each.split("/"))
    live = [graph.sources[name] for name in tests if graph.sources[name].is_live]
    text = " ".join(word for each in live for word in {each.path} | each.strings | each.imports | each.parameters)
    return Parts(leaf, product, around, strings, words, frozenset(kind for kind in SERVERS if kind in text.lower()))


def _without(leaf: Leaf) -> tuple[str, ...]:
    """Return the packages that a part of the core does without: those of leaves, which the commands alone import."""
    return tuple(package for each in LEAVES for package in each.packages) if leaf in CORE else ()


def owns(leaf: Leaf, path: PurePath | str) -> bool:
    """Return whether a file is one of the tests of a leaf: in one of its folders, and in none of another in that."""
    file = PurePath(path)
    if not any(PurePath(folder) in file.parents for folder in leaf.folders):
        return False
    narrower = find_leaf(file)
    return narrower is None or leaf not in ALL or narrower is leaf


def _is_above(conftest: str, folders: Iterable[str]) -> bool:
    return any(folder.startswith(conftest.removesuffix("conftest.py")) for folder in folders)


def find_reasons(parts: Parts, graph: Graph, changed: Iterable[str]) -> list[str]:
    """Return why the tests of a leaf run whole: for each changed file that it is made of, how it comes to be."""
    return [f"{path} ({reason})" for path in sorted(changed) if (reason := _find_reason(parts, graph, path))]


def _find_reason(parts: Parts, graph: Graph, path: str) -> str | None:
    file = PurePath(path)
    if owns(parts.leaf, file):
        return "a test of it"
    module = next((name for name, each in graph.paths.items() if each == path), None)
    if module is not None:
        chain = parts.product.get(module) or parts.around.get(module)
        if chain:
            return " -> ".join(chain) if len(chain) > 1 else "a part of it"
        return _find_name(parts, file)
    if file.parts[0] in PRODUCT:
        return _find_neighbour(parts, graph, file)
    if IMAGES in file.parents:
        kind = file.parts[len(IMAGES.parts)]
        return f"an image of {kind}, which its tests use" if kind in parts.servers else None
    return _find_name(parts, file) or (None if _is_apart(file) else "all tests may depend on it")


def _find_neighbour(parts: Parts, graph: Graph, file: PurePath) -> str | None:
    """Return how a leaf comes to a file beside modules: a page, a grammar, or a module that was removed."""
    for folder in file.parents:
        beside = [name for name, path in graph.paths.items() if PurePath(path).parent == folder]
        if beside:
            chains = (parts.product[name] for name in beside if name in parts.product)
            return next((" -> ".join((*chain, file.name)) for chain in chains), None)
        if _is_in(folder, parts.leaf.packages) and not _is_in(folder, _without(parts.leaf)):
            return "a part of it"
    return None


def _is_in(folder: PurePath, packages: Iterable[str]) -> bool:
    return any(folder.as_posix().startswith(package.replace(".", "/")) for package in packages)


def _find_name(parts: Parts, file: PurePath) -> str | None:
    """Return the module that names a file around the product: by its path, name or folder, or how it begins."""
    if file.parts[0] in PRODUCT:
        return None
    is_code = file.suffix == ".py"
    folder = None if is_code and file.parts[0] == "tests" else file.parent.name
    # A README.md has many twins: which one is meant says the name of its folder.
    name = file.name if len(file.parts) == 1 or file.parent.name in parts.words else None
    names = {name, folder} - {"__init__.py", "conftest.py", "golden", *AROUND, ""}
    for string, module in parts.strings.items():
        if (
            string in names
            or ("/" in string and (f"/{file}".endswith(f"/{string}") or f"{file}".startswith(string.rstrip("/") + "/")))
            or ("-" in string[1:] and file.parent.name == "golden" and file.name.startswith(string))
        ):
            return f"named in {module}"
    return None


def _is_apart(file: PurePath) -> bool:
    """Return whether a file that no module of a leaf names is read by the core's tests or by people only."""
    return (len(file.parts) > 1 and file.parts[0] in AROUND and file.name != "requirements.txt") or (
        len(file.parts) == 1 and file.suffix in {".md", ""} and file.name != "Makefile"
    )
