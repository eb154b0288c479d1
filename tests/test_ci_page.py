"""docs/ci.md and the hooks for pre-commit: what they run is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from bridge.cli import hashstar
from tests.support.pages import ROOT, blocks

HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
YAML = [yaml.safe_load(block.text) for block in blocks(ROOT / "docs/ci.md") if block.language == "yaml"]


def parse_options(arguments: list[str]) -> None:
    """Parse the arguments of ``hashstar``; an option that is not there is an error."""
    context = click.Context(hashstar)
    command = hashstar.get_command(context, arguments[0])
    assert command is not None, arguments
    command.make_parser(click.Context(command, parent=context)).parse_args(arguments[1:])


def commands_in(value: Any) -> list[str]:
    """Return the texts that run ``hashstar``, wherever they are in a document."""
    if isinstance(value, str):
        return [line for line in value.splitlines() if line.startswith("hashstar ")]
    if isinstance(value, dict):
        value = list(value.values())
    return [command for each in value for command in commands_in(each)] if isinstance(value, list) else []


def test_commands_of_jobs_have_the_options_that_they_show() -> None:
    found = commands_in(YAML)
    assert len(found) >= 2
    for command in found:
        parse_options(command.split()[1:])


def test_hooks_run_commands_that_are_there() -> None:
    assert [hook["id"] for hook in HOOKS] == ["hashstar-fmt", "hashstar-check"]
    for hook in HOOKS:
        parse_options(hook["entry"].split()[1:])
        assert hook["language"] == "python"


def test_the_page_uses_hooks_that_are_there() -> None:
    (repository,) = [repository for document in YAML for repository in document.get("repos", ()) if "repos" in document]
    entries = {hook["id"]: hook["entry"] for hook in HOOKS}
    for hook in repository["hooks"]:
        parse_options([*entries[hook["id"]].split()[1:], *hook.get("args", ()), "file"])


@pytest.mark.parametrize(
    ("path", "hooks"),
    [
        ("orders.bindings", ["hashstar-fmt", "hashstar-check"]),
        ("a/b/orders.bindings", ["hashstar-fmt", "hashstar-check"]),
        ("definitions.json", ["hashstar-check"]),
        ("a/definitions-live.json", ["hashstar-check"]),
        ("package.json", []),
        ("my.bindings.md", []),
    ],
)
def test_hooks_are_given_the_files_that_are_topologies(path: str, hooks: list[str]) -> None:
    assert [hook["id"] for hook in HOOKS if re.search(hook["files"], path)] == hooks


def test_hooks_take_many_files_at_once(tmp_path: Path) -> None:
    """As pre-commit calls them: the arguments, then all names."""
    files = [tmp_path / f"{name}.bindings" for name in "ab"]
    for file in files:
        file.write_text("queue   q\n")
    for hook in HOOKS:
        result = CliRunner().invoke(hashstar, [*hook["entry"].split()[1:], *map(str, files)])
        assert result.exit_code == 0, result.output
    assert [file.read_text() for file in files] == ["queue q\n"] * 2
