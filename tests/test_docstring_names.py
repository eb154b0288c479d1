"""Docstrings name what is there: the errors that they say are raised, and the modules that they lead to."""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.syntax import read_modules

ROOT: Final = Path(__file__).parents[1]
DOCSTRING: Final = re.compile(r'"""(.*?)"""', re.DOTALL)
ERRORS: Final = re.compile(r"\bRaises?\s((?:an?\s)?`?[A-Z]\w+`?(?:(?:,|;|\sor|\sand)\s`?[A-Z]\w+`?)*)")
NAME: Final = re.compile(r"[A-Z]\w*[a-z]\w*")
IMPORT: Final = re.compile(r"^\s*from ([\w.]+) import", re.MULTILINE)
MODULE: Final = re.compile(r"`((?:exchange|bindings|bridge|tests|docs|benchmarks)(?:\.[A-Za-z_]\w*)+)`")
NO_MODULES: Final = {"bridge.toml", "exchange.declare"}
"""Names that look like those of modules: a file, a method of AMQP."""


@cache
def read_words() -> dict[str, tuple[list[str], set[str]]]:
    """Return path -> docstrings and strings of a module in three quotes, and the words of all else."""
    return {
        path: (DOCSTRING.findall(text), {*re.findall(r"\w+", DOCSTRING.sub("", text))})
        for path, text in read_modules().items()
    }


@cache
def has_name(dotted: str) -> bool:
    """Return whether a module of this name is there, or one whose text has the rest of the name."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if source.exists():
            return count == len(parts) or re.search(rf"\b{parts[count]}\b", source.read_text("utf-8")) is not None
    return False


def test_an_error_that_a_docstring_says_is_raised_is_known_where_it_stands() -> None:
    """In the code of its folder, or of a module that is imported: a class that was renamed keeps its name in texts."""
    modules = read_words()
    folders: defaultdict[str, set[str]] = defaultdict(lambda: {*dir(builtins)})
    for path, (_, words) in modules.items():
        folders[path.rpartition("/")[0]] |= words
    wrong = []
    for path, (docstrings, _) in modules.items():
        claimed = {name for text in docstrings for found in ERRORS.findall(text) for name in NAME.findall(found)}
        if unknown := claimed - folders[path.rpartition("/")[0]] - modules["exchange/errors.py"][1]:
            imported = [name.replace(".", "/") for name in IMPORT.findall(read_modules()[path])]
            for name in imported:
                for source in (f"{name}.py", f"{name}/__init__.py"):
                    unknown -= modules.get(source, ([], set()))[1]
            wrong += [f"{path}: {name}" for name in sorted(unknown)]
    assert wrong == []


def test_a_module_that_a_docstring_names_is_there() -> None:
    """Also the functions and values that it names of one."""
    wrong = [
        f"{path}: {name}"
        for path, (docstrings, _) in read_words().items()
        for text in docstrings
        for name in MODULE.findall(text)
        if name not in NO_MODULES and not has_name(name)
    ]
    assert wrong == []
