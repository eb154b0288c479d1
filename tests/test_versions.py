"""The versions that are written down agree: of the project, of its chart, and of what is installed for tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.lock import PYPROJECT, find_requirements, normalize, read_lock, select

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = PYPROJECT["project"]
LOCK = read_lock(ROOT / "tests/requirements.txt")


def list_used(*names: str) -> list[Requirement]:
    """Return what extras and groups of these names ask for, each once."""
    return [Requirement(text) for text in sorted(set(find_requirements("core", *names)))]


def read_pins(entries: list[str]) -> dict[str, list[Version]]:
    """Return the versions of the entries of a lock by package; several have markers."""
    pins: dict[str, list[Version]] = {}
    for entry in entries:
        requirement = Requirement(entry.partition("\n")[0].removesuffix("\\"))
        (specifier,) = requirement.specifier
        pins.setdefault(normalize(entry), []).append(Version(specifier.version))
    return pins


def is_met(requirement: Requirement, versions: list[Version]) -> bool:
    """Return whether there are versions, and all of them are allowed."""
    return bool(versions) and all(version in requirement.specifier for version in versions)


def test_the_lock_has_what_each_extra_and_group_asks_for() -> None:
    pins = read_pins(LOCK)
    asked = list_used(*PROJECT["optional-dependencies"], *PYPROJECT["dependency-groups"])
    assert not [str(each) for each in asked if not is_met(each, pins.get(normalize(each.name), []))]


def test_the_lowest_versions_that_are_allowed_are_tried_for_each_extra() -> None:
    path = ROOT / ".ci/lowest.txt"
    if not path.exists():
        pytest.skip(f"this is no checkout: there is no {path}")
    pins = read_pins(read_lock(path))
    for requirement in list_used(*PROJECT["optional-dependencies"]):
        bound = next(Version(each.version).release for each in requirement.specifier if each.operator == ">=")
        (lowest,) = pins[normalize(requirement.name)]
        assert lowest.release[: len(bound)] == bound, requirement


def test_the_lock_has_hashes_of_each_package() -> None:
    assert not [entry for entry in LOCK if not re.search(r"^ +--hash=sha256:[0-9a-f]{64}", entry, re.MULTILINE)]


def test_a_lock_gives_what_is_asked_for_and_what_that_needs() -> None:
    entries = [
        "a==1\n    # via b\n",
        "b==1\n    # via\n    #   c-d\n    #   e\n",
        "c-d==2\n    # via us (x:test)\n",
        "f==1\n    # via e\n",
    ]
    assert select(entries, {"c-d"}) == entries[:3]
    assert select(entries, {"b"}) == entries[:2]
    assert select(entries, {"e"}) == [*entries[:2], entries[3]]


def test_the_group_of_builds_has_what_the_build_asks_for() -> None:
    assert set(PYPROJECT["build-system"]["requires"]) <= set(find_requirements("build"))


def test_the_chart_installs_the_image_of_this_version() -> None:
    chart = yaml.safe_load((ROOT / "examples/helm/hashstar-bridge/Chart.yaml").read_text())
    assert chart["appVersion"] == PROJECT["version"]
