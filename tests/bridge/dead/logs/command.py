"""The command at topics, as the tests of replays run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from bridge.cli import hashstar


def invoke(url: str, ledger: Path, *more: str) -> Result:
    """Run the command without a question."""
    return CliRunner().invoke(hashstar, ["dead", url, "--ledger", str(ledger), "--yes", "--wait", "2m", *more])


def run(url: str, ledger: Path, *more: str, to: str = "topic", code: int = 0) -> Any:
    """Run the command, and return what it says that it has done."""
    result = invoke(url, ledger, "--replay", to, *more, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)["replay"]
