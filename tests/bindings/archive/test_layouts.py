"""The layouts of docs/layouts.md: each command of the page audits its archive as the same messages in our own lines."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from tests.support.archives.layouts import LAYOUTS, OWN_LINES, write_layouts
from tests.support.pages import ROOT, blocks, commands

ORDERS = ROOT / "examples" / "orders" / "orders.bindings"
COMMANDS = {
    shlex.split(command)[3]: command
    for block in blocks(ROOT / "docs" / "layouts.md")
    if block.language == "console"
    for command, _ in commands(block)
}
"""Folder of an archive -> the command that audits it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layouts")
    write_layouts(path)
    return path


def audit(folder: Path, archive: str, *options: str) -> dict[str, Any]:
    arguments = ["audit", str(ORDERS), str(folder / archive), *options, "--no-spark", "--json"]
    result = CliRunner().invoke(hashstar, arguments)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_each_layout_has_a_command() -> None:
    assert COMMANDS.keys() == LAYOUTS.keys()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_audited_as_the_same_messages_in_our_lines(layout: str, folder: Path) -> None:
    found, expected = audit(folder, layout, *shlex.split(COMMANDS[layout])[4:]), audit(folder, OWN_LINES)
    assert found["audited"]["records"] == expected["audited"]["records"]
    assert found["audited"]["window"] == expected["audited"]["window"]
    for name in ("totals", "bindings", "queues", "exchanges", "alternates", "unroutable", "timeline", "flow"):
        assert found[name] == expected[name], name
