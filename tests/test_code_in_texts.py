"""Code in texts is found by no linter: scripts for other processes, examples of pages, names to patch and to start.

What was renamed is missing in them only when the text runs: in a night with live servers, or at a reader's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.syntax import walk

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = (".ci", "benchmarks", "bindings", "bridge", "docs", "examples", "exchange", "tests")
SUFFIXES: Final = (
    "", ".bindings", ".cfg", ".html", ".ini", ".ipynb", ".java", ".js", ".json", ".md", ".py", ".sh", ".toml", ".yaml",
    ".yml",
)  # fmt: skip
"""Suffixes of files that may hold code, or the command that starts it."""
MAX_FILE_BYTES: Final = 1 << 20
"""Maximum size of a file that is searched: larger ones are recordings."""

OURS: Final = r"\b(?:benchmarks|bindings|bridge|docs|examples|exchange|tests)"
STRING: Final = re.compile(
    r"#[^\n]*"  # a comment, so that an apostrophe in it begins no string
    r'|("""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')',
    re.DOTALL,
)
STATEMENT: Final = re.compile(
    rf"(?:^|[;'\"`(]|>>>|\.\.\.)[ \t]*"
    rf"(?:from (?P<module>{OURS}[\w.]*) import (?P<names>\([^()]*\)|[\w, \t]+)"
    rf"|import (?P<modules>{OURS}[\w.]*(?: as \w+)?(?:,[ \t]*[\w.]+(?: as \w+)?)*)[ \t]*(?=$|[;'\"`#)]))",
    re.MULTILINE,
)
"""An import statement in code, whatever it stands in."""
STARTED: Final = re.compile(rf"(?<=-m ){OURS}[\w.]*\w")
"""A module that Python is started with."""
DOTTED: Final = re.compile(rf"{OURS}(?:\.\w+)+(?::\w+)?")
"""A text that is a name with its module, if there is a module of that name."""

PASSED_OVER: Final = {
    "docs/decisions/0020-public-names-are-no-modules.md": "says what was there before",
    "tests/test_code_in_texts.py": "its own examples",
    "tests/test_parts.py": "packages that it makes up",
}
"""File -> why the modules that it names need not be there."""
NO_CODE: Final = ("exchange.dispatch.deliveries", "tests.recorders.NAME")
"""Texts that are no names of modules: the name of a metric, and a blank to fill in."""


class Mention(NamedTuple):
    """A name that code in a text wants of a module; of the module itself "" is the name."""

    file: str
    module: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.module}{self.name and f' has no {self.name}'}"


@cache
def find_names(module: str) -> frozenset[str] | None:
    """Return the names that are bound at the top of a module, with its submodules; None if there is no such module."""
    path = ROOT.joinpath(*module.split("."))
    inner = {each.stem for each in path.iterdir() if each.is_dir() or each.suffix == ".py"} if path.is_dir() else set()
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not source.is_file():
        return frozenset(inner) if path.is_dir() else None
    return frozenset({*inner, *list_bound(ast.parse(source.read_text("utf-8")).body)})


def list_bound(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, in blocks, too, but not in functions and classes."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (each.asname or each.name.partition(".")[0] for each in names)
            case _:
                for node in ast.iter_child_nodes(statement):
                    if isinstance(node, ast.stmt | ast.ExceptHandler):
                        yield from list_bound([node] if isinstance(node, ast.stmt) else node.body)
                    else:
                        yield from (each.id for each in walk(node) if isinstance(each, ast.Name))


def list_texts(path: Path) -> Iterator[str]:
    """Yield what may hold code: the strings of a Python file, and any other file as a whole."""
    text = path.read_text("utf-8", errors="replace")
    if path.suffix != ".py":
        yield text.replace("\\n", "\n").replace('\\"', '"') if path.suffix == ".ipynb" else text
        return
    for string in STRING.findall(text):
        if string and re.search(OURS, string):
            quote = 3 if string[:3] in {'"""', "'''"} else 1
            yield string[quote:-quote].replace("\\n", "\n")


def list_mentions(file: str, text: str) -> Iterator[Mention]:
    """Yield what the code in a text wants."""
    for found in STATEMENT.finditer(text):
        for module in re.findall(rf"{OURS}[\w.]*", found["modules"] or ""):
            yield Mention(file, module)
        if found["module"]:
            names = re.sub(r"#[^\n]*", "", found["names"]).strip("() \t\n").split(",")
            for name, *renamed in [each.split() for each in names if each.strip()]:
                yield Mention(file, found["module"], name)
                yield from list_attributes(file, f"{found['module']}.{name}", (renamed or [name])[-1], text)
    yield from (Mention(file, module) for module in STARTED.findall(text) if module not in NO_CODE)
    if file.endswith(".py") and DOTTED.fullmatch(text) and text not in NO_CODE:
        top, second, *rest = text.replace(":", ".").split(".")
        if find_names(f"{top}.{second}") is not None:
            yield from follow(file, f"{top}.{second}", rest)


def list_attributes(file: str, module: str, name: str, text: str) -> Iterator[Mention]:
    """Yield what the code in a string uses of a module that it imports under a name."""
    if file.endswith(".py") and find_names(module) is not None:
        yield from (Mention(file, module, each) for each in re.findall(rf"(?<![\w.]){name}\.([^\W\d]\w*)", text))


def follow(file: str, module: str, rest: list[str]) -> Iterator[Mention]:
    """Yield the module and name that a dotted text means; attributes of what it names are not looked at."""
    while rest and find_names(f"{module}.{rest[0]}") is not None:
        module = f"{module}.{rest.pop(0)}"
    yield Mention(file, module, *rest[:1])


def is_there(mention: Mention) -> bool:
    names = find_names(mention.module)
    return names is not None and (not mention.name or mention.name in names)


def list_files() -> Iterator[Path]:
    paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in paths:
        if path.suffix in SUFFIXES and path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
            yield path


def test_what_code_in_texts_imports_patches_and_starts_is_there() -> None:
    mentions = [
        mention
        for path in list_files()
        if (file := path.relative_to(ROOT).as_posix()) not in PASSED_OVER
        for text in list_texts(path)
        for mention in list_mentions(file, text)
    ]
    assert [str(mention) for mention in mentions if not is_there(mention)] == []
    assert len(mentions) > 300


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import bridge.cli, sys; from exchange import Router, nothing", ["exchange has no nothing"]),
        ("python -c 'import exchange.gone'\n", ["exchange.gone"]),
        ("  from bindings.nowhere import (\n    a,  # why\n    b as c,\n  )\n", ["... no a", "... no b"]),
        ("from bindings.auditing import engine as e\ne.gone = e.find_spec", ["bindings.auditing.engine has no gone"]),
        (">>> from exchange import Router as R\n... from exchange.routing.router import Rooter", ["... has no Rooter"]),
        ("python -m bridge.clx --help", ["bridge.clx"]),
        ("bindings.auditing.engine.count_cores", ["bindings.auditing.engine has no count_cores"]),
        ("exchange.commands.output:to_gone", ["exchange.commands.output has no to_gone"]),
        ("bridge.toml", []),
        ("text about `import exchange`, and what to import exchange by", []),
    ],
)  # fmt: skip
def test_the_search_finds_what_is_missing(text: str, found: list[str]) -> None:
    missing = [str(each) for each in list_mentions("a.py", text) if not is_there(each)]
    assert len(missing) == len(found)
    for each, wanted in zip(missing, found, strict=True):
        assert each.endswith(wanted.removeprefix("..."))
