"""The README tells the truth: every snippet runs and prints what is shown, every command does what is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


class Block(NamedTuple):
    """A fenced block: its language, its text, and the text of an output block right after it."""

    language: str
    text: str
    output: str | None


def blocks() -> list[Block]:
    """The fenced blocks of the README, outputs with what prints them."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    return [
        Block(language, text, found[i + 1][1] if i + 1 < len(found) and found[i + 1][0] == "text" else None)
        for i, (language, text) in enumerate(found)
        if language != "text"
    ]


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command as the README's reader would, with this environment's programs first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "python" and "def test_" not in b.text])
def test_a_snippet_runs_and_prints_what_is_shown(block: Block) -> None:
    """Each Python snippet is whole: it runs alone, and what it prints is the output shown after it."""
    result = run(sys.executable, "-W", "error", "-c", block.text)
    assert result.stderr == ""
    assert result.stdout == (block.output or "")


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "python" and "def test_" in b.text])
def test_a_snippet_of_a_test_passes(block: Block, tmp_path: Path) -> None:
    """The example of a user's test passes with the plugin, from the repository's folder."""
    text = block.text.replace('"examples/', f'"{ROOT}/examples/')
    (tmp_path / "test_snippet.py").write_text(text)
    result = run(sys.executable, "-m", "pytest", "-q", "-p", "bindings.pytest_plugin", str(tmp_path), cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def commands() -> list[tuple[str, str]]:
    """The commands of the console blocks, each with the output shown for it."""
    found: list[tuple[str, str]] = []
    for block in blocks():
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), commands())
def test_a_command_does_what_is_shown(command: str, output: str) -> None:
    """A command prints what is shown; of make's targets, which would run these tests again, the recipe is looked at."""
    if command.startswith("make "):
        result = run("make", "--dry-run", command.removeprefix("make "))
        assert result.returncode == 0, result.stderr
        module = {"make demo": "-m examples.demo", "make test": "-m pytest"}[command]
        assert module in result.stdout
        return
    result = run("bash", "-c", command)
    assert (result.stdout, result.stderr) == (output, "")
    assert result.returncode == 0


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "bindings"])
def test_a_topology_is_as_it_is_told(block: Block, tmp_path: Path) -> None:
    """It is formatted, and its expectations hold: nothing graver than a warning is found."""
    (tmp_path / "readme.bindings").write_text(block.text)
    for command in (("fmt", "--check"), ("check",)):
        result = run("hashstar", *command, str(tmp_path / "readme.bindings"))
        assert result.returncode == 0, result.stdout + result.stderr


def test_the_bridge_is_the_one_of_the_guide() -> None:
    """Which tests/bridge/daemon/test_daemon_live.py runs between real brokers."""
    [block] = [b for b in blocks() if b.language == "toml"]
    assert f"```toml\n{block.text}```" in (ROOT / "docs" / "bridge.md").read_text("utf-8")


def test_all_kinds_of_blocks_are_tested() -> None:
    """No block escapes by its language."""
    assert {block.language for block in blocks()} == {"python", "console", "bindings", "toml"}
    assert len(commands()) >= 4
