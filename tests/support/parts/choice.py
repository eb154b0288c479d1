"""Choose the parts whose tests run whole, and say why.

A part is made of its packages and all that they import in the product (`Graph.find_chains`), of its tests and all that
they import below ``tests``, ``examples``, ``benchmarks`` and ``docs``, and of the files that these name. What its tests
import of the product beside the part does not count, as it has tests of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Final, NamedTuple

from tests.support.parts.graph import Graph
from tests.support.parts.table import CORE, LEAVES, PARTS, Part, find_part

PRODUCT: Final = ("exchange", "bindings", "bridge")
AROUND: Final = ("tests", "examples", "benchmarks", "docs")
IMAGES: Final = PurePath(".ci/images.d")
SERVERS: Final = ("rabbitmq", "kafka", "rocketmq", "registry")
"""Folders of `IMAGES` whose images tests use; others are of CI's own."""
TABLES: Final = "tests.support.parts."
UNTELLING: Final = frozenset({"__init__.py", "conftest.py", "golden", *AROUND})
"""Names that too many files and folders have."""


class Contents(NamedTuple):
    """What a part is made of."""

    part: Part
    product: Mapping[str, tuple[str, ...]]
    """Module -> the imports that lead there from the part."""
    around: Mapping[str, tuple[str, ...]]
    strings: Mapping[str, str]
    """Each string in a module of `around` -> that module."""
    words: frozenset[str]
    """These strings, split at slashes."""
    servers: frozenset[str]
    """Kinds of servers that its live tests name."""


def find_contents(part: Part, graph: Graph) -> Contents:
    """Find what a part is made of."""
    members = {name for each in part.packages for name in graph.find_members(each)}
    others = {name for each in _without(part) for name in graph.find_members(each)}
    chains = graph.find_chains(members - others, PRODUCT)
    product = {name: chain for name, chain in chains.items() if name not in others}
    folders = tuple(f"{folder}/" for folder in part.folders)
    tests = [
        name
        for name, path in graph.paths.items()
        if owns(part, path) or (f"/{path}".endswith("/conftest.py") and _is_above(path, folders))
    ]
    around = graph.find_chains(tests, AROUND)
    # The table of parts, which all tests import, names the folders of all of them.
    speaking = [name for name in around if not name.startswith(TABLES)]
    strings = {each: name for name in speaking for each in graph.sources[name].strings}
    words = frozenset(word for each in strings for word in each.split("/"))
    live = [graph.sources[name] for name in tests if graph.sources[name].is_live]
    text = " ".join(word for each in live for word in {each.path} | each.strings | each.imports | each.parameters)
    return Contents(part, product, around, strings, words, frozenset(kind for kind in SERVERS if kind in text.lower()))


def _without(part: Part) -> tuple[str, ...]:
    """Return the packages that a part of the core does without: those of leaves, which the commands alone import."""
    return tuple(package for each in LEAVES for package in each.packages) if part in CORE else ()


def owns(part: Part, path: PurePath | str) -> bool:
    """Return whether a file is one of the tests of a part: in one of its folders, and in none of another in that."""
    text = str(path)
    if not any(text.startswith(f"{folder}/") for folder in part.folders):
        return False
    narrower = find_part(text)
    return narrower is None or part not in PARTS or narrower is part


def _is_above(conftest: str, folders: Iterable[str]) -> bool:
    return any(folder.startswith(conftest.removesuffix("conftest.py")) for folder in folders)


def find_reasons(contents: Contents, graph: Graph, changed: Iterable[str]) -> list[str]:
    """Return why the tests of a part run whole: for each changed file that it is made of, how it comes to be."""
    return [f"{path} ({reason})" for path in sorted(changed) if (reason := _find_reason(contents, graph, path))]


def _find_reason(contents: Contents, graph: Graph, path: str) -> str | None:
    file = PurePath(path)
    if owns(contents.part, file):
        return "a test of it"
    module = graph.names.get(path)
    if module is not None:
        chain = contents.product.get(module) or contents.around.get(module)
        if chain:
            return " -> ".join(chain) if len(chain) > 1 else "a part of it"
        return _find_name(contents, file)
    if file.parts[0] in PRODUCT:
        return _find_neighbour(contents, graph, file)
    if IMAGES in file.parents:
        kind = file.parts[len(IMAGES.parts)]
        return f"an image of {kind}, which its tests use" if kind in contents.servers else None
    return _find_name(contents, file) or (None if _is_apart(file) else "all tests may depend on it")


def _find_neighbour(contents: Contents, graph: Graph, file: PurePath) -> str | None:
    """Return how a part comes to a file beside modules: a page, a grammar, or a module that was removed."""
    for folder in file.parents:
        beside = [name for name, path in graph.paths.items() if PurePath(path).parent == folder]
        if beside:
            chains = (contents.product[name] for name in beside if name in contents.product)
            return next((" -> ".join((*chain, file.name)) for chain in chains), None)
        if _is_in(folder, contents.part.packages) and not _is_in(folder, _without(contents.part)):
            return "a part of it"
    return None


def _is_in(folder: PurePath, packages: Iterable[str]) -> bool:
    return any(folder.is_relative_to(package.replace(".", "/")) for package in packages)


def _find_name(contents: Contents, file: PurePath) -> str | None:
    """Return the module that names a file around the product: by its path, name or folder, or how it begins."""
    if file.parts[0] in PRODUCT:
        return None
    named = (each for each in _list_names(file, contents.words) if each in contents.strings)
    return next((f"named in {contents.strings[each]}" for each in named), None)


def _list_names(file: PurePath, words: Collection[str]) -> Iterator[str]:
    """Yield the strings that name a file: paths that it ends with or is below, its name and folder, how it begins."""
    parts = file.parts
    yield from ("/".join(parts[-count:]) for count in range(len(parts), 1, -1))
    for top in ("/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)):
        yield f"{top}/"
        if "/" in top:
            yield top
    # A README.md has many twins: which one is meant says the name of its folder.
    name = file.name if len(parts) == 1 or file.parent.name in words else None
    folder = None if file.suffix == ".py" and parts[0] == "tests" else file.parent.name
    yield from (each for each in (name, folder) if each and each not in UNTELLING)
    if file.parent.name == "golden":
        yield from (file.name[:end] for end in range(len(file.name), 1, -1) if "-" in file.name[1:end])


def _is_apart(file: PurePath) -> bool:
    """Return whether a file that no module of a part names is read by the core's tests or by people only."""
    return (len(file.parts) > 1 and file.parts[0] in AROUND and file.name != "requirements.txt") or (
        len(file.parts) == 1 and file.suffix in {".md", ""} and file.name != "Makefile"
    )
