"""The public names of `bindings` and `bridge`: each has an example that runs, and importing a package stays light."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import pickle
import subprocess
import sys
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import bindings
import bridge
import exchange

ROOT = Path(__file__).parents[1]
PACKAGES = (bindings, bridge)
NAMES = [(package, name) for package in PACKAGES for name in package.__all__]
CALLED = [name for name, module in bindings.MODULES.items() if not module]


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[f"{package.__name__}.{name}" for package, name in NAMES])
def test_a_public_name_has_an_example_that_runs(package: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may use the other public names of their package and of `exchange`, and are run in the repository."""
    value = getattr(package, name)
    function = value.__wrapped__ if name in CALLED else value
    monkeypatch.chdir(ROOT)
    names = {each: getattr(module, each) for module in (exchange, package) for each in module.__all__}
    names |= {"Decimal": Decimal, "Path": Path, "asyncio": asyncio}
    [example] = doctest.DocTestFinder(recurse=False).find(function, name, globs=names)
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


@pytest.mark.parametrize("name", CALLED)
def test_a_package_is_called_as_its_function(name: str) -> None:
    """Also after its modules were imported; and it is pickled by its name, as for Spark's workers."""
    package = getattr(bindings, name)
    function = package.__wrapped__
    assert import_module(f"bindings.{name}") is package
    assert callable(package)
    assert package.__call__ is function
    assert inspect.signature(package) == inspect.signature(function)
    assert pickle.loads(pickle.dumps(package)) is package  # noqa: S301
