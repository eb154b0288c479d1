"""The rooms of the product: no two files import each other, imports in functions and for types included; none is too
long, no folder has too many, and few classes share a name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

import pytest

from tests.support.syntax import name_module, read_modules, walk

MAX_LINES: Final = 420
"""Maximum number of lines of a module."""
MAX_MODULES: Final = 16
"""Maximum number of modules in a folder, beside its ``__init__.py``."""
MAX_FLOORS: Final = 9
"""Maximum number of floors of a package, whose rooms, folders and modules in it, stand above all that they import."""
MAX_SHARED_NAMES: Final = 40
"""Maximum number of names that several classes have: words of the field, such as a channel's, which their modules make
plain."""


def read_imports(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return module -> the modules that it imports anywhere in its text. A package does not stand for its modules."""
    return {name: set(_imported(ast.parse(text), texts)) - {name} for name, text in texts.items()}


def _imported(tree: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
    for node in walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if submodule in names:
                    yield submodule
                elif node.module in names:
                    yield node.module


def find_circle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the modules of one circle, the first one last again; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []


def find_rooms(imports: Mapping[str, Iterable[str]], package: str) -> dict[str, set[str]]:
    """Return room of a package -> the other rooms that its modules import, in functions or for types, too."""
    rooms: dict[str, set[str]] = {}
    for module, imported in imports.items():
        if module.startswith(f"{package}."):
            room = module.split(".")[1]
            inside = {name.split(".")[1] for name in imported if name.startswith(f"{package}.")}
            rooms.setdefault(room, set()).update(inside - {room})
    return rooms


def find_longest_chain(rooms: Mapping[str, Iterable[str]]) -> list[str]:
    """Return rooms of which each imports the next one, as many as there are floors. Raises CycleError."""
    chains: dict[str, list[str]] = {}
    for room in TopologicalSorter(rooms).static_order():
        chains[room] = [room, *max((chains[below] for below in rooms.get(room, ())), key=len, default=[])]
    return max(chains.values(), key=len)


def test_modules_and_folders_are_of_a_size_that_one_idea_takes() -> None:
    lengths = {path: text.count("\n") for path, text in read_modules().items()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}
    folders = Counter(path.rpartition("/")[0] for path in lengths if not path.endswith("/__init__.py"))
    assert {folder: count for folder, count in folders.items() if count > MAX_MODULES} == {}


def test_few_names_stand_for_several_classes() -> None:
    texts = read_modules().values()
    classes = Counter(name for text in texts for name in re.findall(r"^ *class (\w+)[(:]", text, re.MULTILINE))
    shared = [name for name, count in classes.items() if count > 1]
    assert len(shared) <= MAX_SHARED_NAMES, f"give some of these classes a name of their own: {sorted(shared)}"


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return read_imports({name_module(path): text for path, text in read_modules().items()})


def test_rooms_stand_on_few_floors(imports: Mapping[str, Iterable[str]]) -> None:
    for package in ("exchange", "bindings", "bridge"):
        chain = find_longest_chain(find_rooms(imports, package))
        assert 6 < len(chain) <= MAX_FLOORS, " -> ".join(chain)


def test_floors_are_counted_along_the_longest_way() -> None:
    imports = {
        "p.top.a": {"p.middle", "p.low.x", "q.z"},
        "p.middle": {"p.low.y"},
        "p.low.x": {"p.low.y"},
        "p.low.y": {""},
    }
    assert find_longest_chain(find_rooms(imports, "p")) == ["top", "middle", "low"]
    with pytest.raises(CycleError):
        find_longest_chain(find_rooms({**imports, "p.low.y": {"p.top.b"}}, "p"))


def test_no_files_import_each_other(imports: Mapping[str, Iterable[str]]) -> None:
    assert len([*imports["exchange.routing.router"]]) > 10
    circle = find_circle(imports)
    assert not circle, "import each other, even if in functions or for types only: " + " -> ".join(circle)


def test_an_import_in_a_function_closes_a_circle() -> None:
    texts = {
        "a": "from b import later",
        "b": "def later():\n    import c",
        "c": "if TYPE_CHECKING:\n    from a import later",
    }
    assert {*find_circle(read_imports(texts))} == {"a", "b", "c"}
    assert find_circle(read_imports({**texts, "c": ""})) == []
