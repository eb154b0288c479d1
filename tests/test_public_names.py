"""The public names of the packages: examples of those above the engine run, and importing a package stays light."""

from __future__ import annotations

import ast
import asyncio
import doctest
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bindings
import bridge
import exchange

if TYPE_CHECKING:  # mypy refuses an "ignore" without an error: a name that is not there is one
    from bindings import not_there as _bindings  # type: ignore[attr-defined]  # noqa: F401
    from bindings.sources import not_there as _sources  # type: ignore[attr-defined]  # noqa: F401
    from bridge import not_there as _bridge  # type: ignore[attr-defined]  # noqa: F401
    from exchange import not_there as _exchange  # type: ignore[attr-defined]  # noqa: F401

ROOT = Path(__file__).parents[1]
PACKAGES = (exchange, bindings, bridge)
NAMES = [(package, name) for package in (bindings, bridge) for name in package.__all__]


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[f"{package.__name__}.{name}" for package, name in NAMES])
def test_a_public_name_has_an_example_that_runs(package: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may use the other public names of their package and of `exchange`, and are run in the repository."""
    value = getattr(package, name)
    monkeypatch.chdir(ROOT)
    names = {each: getattr(module, each) for module in (exchange, package) for each in module.__all__}
    names |= {"Decimal": Decimal, "Path": Path, "asyncio": asyncio}
    [example] = doctest.DocTestFinder(recurse=False).find(value, name, globs=names)
    assert example.examples, f"{name} has no example"
    results = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(example)
    assert results.failed == 0


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_public_names_are_listed_and_others_are_not_there(package: Any) -> None:
    assert {*package.__all__} <= {*dir(package)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_importing_a_package_loads_nothing_that_only_its_names_need(package: Any) -> None:
    code = f"import {package.__name__}, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"asyncio", "click", "lark", "numpy", "pyarrow", "rich"} & {*loaded} == set()
    assert package is bridge or {name for name in loaded if name.startswith("exchange.")} == {"exchange.public_names"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_module_has_a_public_name(package: Any) -> None:
    """Importing it would replace the function or class in the package; see docs/decisions/0020."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules & {*package.__all__} == set()


def list_packages() -> Iterator[tuple[str, ast.Module]]:
    """Yield the packages that have an ``__all__``, with their source."""
    for top in ("exchange", "bindings", "bridge"):
        for path in sorted((ROOT / top).rglob("__init__.py")):
            text = path.read_text()
            if "__all__" in text:
                yield ".".join(path.relative_to(ROOT).parent.parts), ast.parse(text)


def list_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module as a type checker reads it: those under ``if TYPE_CHECKING``, too."""
    for statement in body:
        test = statement.test if isinstance(statement, ast.If) else None
        if isinstance(statement, ast.If) and isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
            yield from list_statements(statement.body)
        elif not isinstance(statement, ast.If):
            yield statement


def find_exports(package: str, tree: ast.Module) -> set[str]:
    """Return the names of a package that a type checker lets others import.

    They are imported by ``from module import name as name``, or are bound and stand in a literal ``__all__``.
    """
    seen: set[str] = set()
    exported: set[str] = set()
    listed: set[str] = set()
    for statement in list_statements(tree.body):
        match statement:
            case ast.ImportFrom(names=names, module=str()):
                seen |= {each.asname or each.name for each in names}
                exported |= {each.name for each in names if each.asname == each.name}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                seen.add(name)
                assert name != "__getattr__", f"{package}: a type checker takes any name for one of it"
            case ast.AnnAssign(target=ast.Name(id=name)):
                seen.add(name)
            case ast.Assign(targets=targets, value=value):
                targeted = {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}
                assert "__getattr__" not in targeted, f"{package}: a type checker takes any name for one of it"
                seen |= targeted
                if targeted == {"__all__"} and isinstance(value, (ast.Tuple, ast.List)):
                    listed |= set(ast.literal_eval(value))
    return exported | (listed & seen)


def test_a_type_checker_sees_the_names_that_are_public_and_each_is_there() -> None:
    """A wrong import is an error before the program runs, and a right one is none."""
    packages = 0
    for name, tree in list_packages():
        module = import_module(name)
        assert [each for each in module.__all__ if not hasattr(module, each)] == [], name
        assert find_exports(name, tree) == {*module.__all__}, name
        packages += 1
    assert packages > 20
