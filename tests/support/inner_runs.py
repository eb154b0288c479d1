"""Runs of pytest inside a test, which share the start of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CODE: Final = """
import json, sys, pytest
top, runs = json.loads(sys.argv[1])
for name, options in runs.items():
    print(f"=== {name}", flush=True)
    pytest.main([*options, top])
    for each, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(top):
            del sys.modules[each]  # which the next run is to import anew
"""


def run_each(top: Path, tests: Mapping[str, str], runs: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Write tests below a folder, with the hooks of ours, and return what each run with its options printed."""
    for path, text in {**tests, "conftest.py": "from tests.conftest import *"}.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    options = ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={top}", "-rA", "-q"]
    given = json.dumps([str(top), {name: [*options, *own] for name, own in runs.items()}])
    done = subprocess.run(
        [sys.executable, "-c", CODE, given], cwd=ROOT, check=False, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    printed = dict(each.split("\n", 1) for each in f"\n{done.stdout}".split("\n=== ")[1:])
    assert printed.keys() == runs.keys(), done.stdout
    return printed
