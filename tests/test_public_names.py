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
from exchange.text.site import how_to_install

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


TOPOLOGY = ROOT / "examples/orders/orders.bindings"


def test_results_are_one_line_in_a_notebook() -> None:
    """All of one has tens of thousands of characters; HTML has the totals, dead bindings and unroutable messages."""
    report = bindings.audit(TOPOLOGY, ROOT / "examples/orders/traffic.jsonl")
    difference = bindings.diff(TOPOLOGY, ROOT / "examples/demo/definitions.json")
    upgrade = bindings.upgrade(TOPOLOGY, "4.3", old="3.13")
    for result in (report, difference, upgrade):
        assert len(repr(result)) < 200
        assert repr(result).startswith(f"<{type(result).__name__}")
        assert "\n" not in repr(result)
    page = report._repr_html_()
    assert "<p>Dead bindings: 4</p>" in page
    assert "documents -&gt; audit: &#x27;&#x27; any { urgent = true, copies = 2 }" in page
    assert "<li>4 published to amq.topic</li>" in page
    assert len(page) < 2_000


@pytest.mark.parametrize("path", [TOPOLOGY, str(TOPOLOGY)])
def test_a_path_stands_for_its_topology(path: Any, tmp_path: Path) -> None:
    """And for its expectations, which a topology alone does not have."""
    topology = bindings.load(TOPOLOGY)
    other = exchange.Topology()
    assert bindings.diff(path, other) == bindings.diff(topology, other)
    assert bindings.diff(other, path) == bindings.diff(other, topology)
    broken = tmp_path / "broken.bindings"
    broken.write_text(TOPOLOGY.read_text() + "expect orders 'nothing.at.all' -> billing\n".replace("'", '"'))
    assert "HS801" in [finding.code for finding in bindings.check(broken)]
    assert bindings.check(path) == bindings.check(topology)
    for function in (bindings.check, lambda missing: bindings.diff(missing, other)):
        with pytest.raises(exchange.InputError, match="No such file"):
            function(tmp_path / "missing.json")


def test_an_audit_without_its_packages_names_what_to_install() -> None:
    code = """
import sys
sys.modules["numpy"] = sys.modules["pyarrow"] = None
import bindings
bindings.audit("a", "b")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    error = ended.stderr.splitlines()[-1]
    assert error.startswith("ModuleNotFoundError: bindings.audit needs ")
    assert error.endswith(f": {how_to_install('audit')}")
