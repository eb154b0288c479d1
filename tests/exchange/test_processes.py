"""Processes of ours run our modules, whatever the working directory has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exchange.concurrency.processes import build_command, build_environment
from tests.support.syntax import read_modules

TOP = Path(__file__).parents[2]
OTHERS = {"bindings/auditing/spark/session.py": "names the Python of Spark's workers"}
"""Modules that name this Python for another reason."""


@pytest.mark.process
def test_a_folder_with_names_of_modules_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("exchange", "bindings", "bridge"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(TOP))
    done = subprocess.run(
        [*build_command("bridge.cli"), "--version"],
        env=build_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_other_module_starts_python_in_a_way_of_its_own() -> None:
    found = {path for path, text in read_modules().items() if "sys.executable" in text}
    assert found == {"exchange/concurrency/processes.py", *OTHERS}
