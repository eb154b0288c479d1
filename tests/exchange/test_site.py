"""What programs print of themselves: the version, and packages to install, never hashstar by its name alone."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError

import pytest

from exchange.text.site import HASHSTAR_VERSION, build_install_command
from tests.support.pages import ROOT


def test_the_version_is_that_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == HASHSTAR_VERSION


STATED = [
    "click>=8.2", "lark>=1.2", 'pika>=1.3; extra == "rabbitmq"', "pyarrow>=18; extra == 'audit'",
    'hashstar[audit]; extra == "spark"', 'pandas<3,>=2.2; extra == "spark"', 'faststream[rabbit]>=0.7; extra == "faststream"',
]  # fmt: skip
"""Metadata as builders write it: some with the extras in each other, some with them unfolded."""


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("rabbitmq", "pip install 'pika>=1.3'"),
        ("spark", "pip install 'pyarrow>=18' 'pandas<3,>=2.2'"),
        ("faststream", "pip install 'faststream[rabbit]>=0.7'"),
        ("other", "pip install '.[other]', in a checkout of hashstar"),
    ],
)
def test_the_packages_of_an_extra_are_named(extra: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda name: STATED)
    assert build_install_command(extra) == command


def test_without_an_installation_the_checkout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", fail)
    assert build_install_command("kafka") == "pip install '.[kafka]', in a checkout of hashstar"


INDEXED = re.compile(
    r"\b(?:pip install|pip download|pipx install|uv add|uvx)\b(?! --from)[^\n|`,]*? ['\"]?hashstar(?:\[[^\]]*\])?(?! ?@)(?![\w./\[-])"
)
"""A command that asks a package index for hashstar, where anybody may register the name."""


def test_nothing_tells_users_to_install_hashstar_from_an_index() -> None:
    assert INDEXED.search("pip install 'hashstar[audit]'")
    assert INDEXED.search("pip install hashstar pika")
    assert INDEXED.search("uvx hashstar")
    assert INDEXED.search("pip install dist/hashstar-1.0.whl 'hashstar[a] @ file:///x.whl'") is None
    files = [
        path
        for folder in ("exchange", "bindings", "bridge", "docs", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".yml", ".yaml", ".ipynb", ".sh"} or path.name == "Dockerfile"
    ]
    assert len(files) > 900
    texts = {path: path.read_text("utf-8") for path in (*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md")}
    assert [(str(path), found[0]) for path, text in texts.items() if (found := INDEXED.search(text))] == []
