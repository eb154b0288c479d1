"""Modules that have moved are found by their old names, with a warning, until the next release."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from exchange.moved import NEW_NAMES, find_new_name


@pytest.mark.parametrize("old", NEW_NAMES)
def test_an_old_name_imports_the_module_of_the_new_one(old: str) -> None:
    """With a warning that names both; the module does not learn of its old name."""
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{old}.")]:
        del sys.modules[name]
    with pytest.warns(DeprecationWarning, match=f"^{old} has moved to {NEW_NAMES[old]};"):
        module = import_module(old)
    assert module is import_module(NEW_NAMES[old])
    assert module.__name__ == NEW_NAMES[old] == (module.__spec__ and module.__spec__.name)


def test_a_package_that_has_moved_is_found_with_its_modules() -> None:
    assert find_new_name("bridge.kafka.errors") == "bridge.endpoints.kafka.cluster.errors"
    assert find_new_name("bridge.endpoints.kafka.cluster.errors") is None


@pytest.mark.parametrize("package", ["exchange", "bindings", "bridge"])
def test_a_module_that_never_was_is_not_found(package: str) -> None:
    assert find_spec(f"{package}.never_was") is None


@pytest.mark.parametrize("old", ["exchange.parts", "bindings.definitions", "bridge.config"])
def test_an_old_name_may_be_the_first_import_of_a_program(old: str) -> None:
    code = f"import {old}; from bindings.sources import load; from exchange.topology import Topology"
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert "has moved to" in done.stderr
