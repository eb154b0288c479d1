"""The versions that are written down agree: of the project, of its chart, and of what CI installs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [
    Requirement(text)
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for text in group
]
USED = [each for each in REQUIREMENTS if each.name != PROJECT["name"]]


def read_pins(name: str) -> dict[str, list[Version]]:
    """Return the versions of a file of constraints by package; several have markers."""
    pins: dict[str, list[Version]] = {}
    path = ROOT / ".ci" / name
    if not path.exists():
        pytest.skip(f"this is no checkout: there is no {path}")
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            requirement = Requirement(line)
            (specifier,) = requirement.specifier
            pins.setdefault(requirement.name, []).append(Version(specifier.version))
    return pins


@pytest.mark.parametrize("requirement", USED, ids=str)
def test_ci_installs_once_the_lowest_version_that_is_allowed(requirement: Requirement) -> None:
    bound = next(Version(each.version).release for each in requirement.specifier if each.operator == ">=")
    (lowest,) = read_pins("lowest.txt")[requirement.name]
    assert lowest.release[: len(bound)] == bound


@pytest.mark.parametrize("requirement", USED, ids=str)
def test_ci_installs_else_a_version_that_is_allowed(requirement: Requirement) -> None:
    assert all(version in requirement.specifier for version in read_pins("locked.txt")[requirement.name])


def test_the_chart_installs_the_image_of_this_version() -> None:
    chart = yaml.safe_load((ROOT / "examples/helm/hashstar-bridge/Chart.yaml").read_text())
    assert chart["appVersion"] == PROJECT["version"]
