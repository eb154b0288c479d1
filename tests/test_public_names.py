"""The public names of `bindings` and `bridge`: each has an example that runs, and importing a package stays light."""

from __future__ import annotations

import asyncio
import doctest
import pkgutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import bindings
import bridge
import exchange

ROOT = Path(__file__).parents[1]
PACKAGES = (bindings, bridge)
NAMES = [(package, name) for package in PACKAGES for name in package.__all__]


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
    assert package is bridge or not [name for name in loaded if name.startswith("exchange")]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_module_has_a_public_name(package: Any) -> None:
    """Importing it would replace the function or class in the package; see docs/decisions/0020."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules & {*package.__all__} == set()
