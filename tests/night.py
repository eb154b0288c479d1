"""``make night``: everything there is to prove, part by part, and a row in ``docs/measured.md`` if all passes.

It needs servers: a test without its server fails. ``.ci/run night`` provides them. `--part NAME` runs some parts only,
and `--list` lists them; no row is written then, nor if files here differ from the commit that is checked out.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.recorders import golden
from tests.support.measured import PAGE, CompleteRun, add_complete_run

TOP: Final = Path(__file__).parents[1]
LOGS: Final = TOP / "build" / "night"
PYTEST: Final = f"{sys.executable} -m pytest --maxprocesses=4 --dist=loadgroup"
LOWEST: Final = (
    "tests/exchange/partition tests/bindings/sources/test_language.py tests/bindings/archive tests/bindings/counts"
    " tests/bindings/auditing/test_command.py"
)
"""Tests of what uses other packages most."""

PARTS: Final[Mapping[str, str]] = {
    # Ten times the examples take ten times as long.
    "tests": f"{PYTEST} -n auto --tier=night --timeout=3600 -o faulthandler_timeout=3660",
    "chaos of pairs": f"{sys.executable} -m tests.chaos",
    "chaos of scenarios": f"{sys.executable} -m tests.chaos --scenario all",
    "damage": "make damage",
    "fuzz": "make fuzz",
    "soak": "make soak",
    "mutants": "make mutants",
    "pythons": ".ci/pythons",
    # PySpark 4.0 leaves sockets for the garbage collector.
    "lowest packages": "make VENV=.venv-lowest LOCK=.ci/lowest.txt test WORKERS=0"
    f' ARGS="-W ignore::pytest.PytestUnraisableExceptionWarning {LOWEST}"',
}
"""Name of a part -> its command, for a shell."""


def run_part(name: str, command: str) -> str | None:
    """Run a part, and return what is to be told of it; None if it failed."""
    log = LOGS / f"{name.replace(' ', '-')}.log"
    began = time.monotonic()
    outer = {key: value for key, value in os.environ.items() if key not in {"ARGS", "HASHSTAR_TIER"}}
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(  # noqa: S602  commands of the table
            command, shell=True, cwd=TOP, stdout=output, stderr=subprocess.STDOUT, check=False,
            env={**outer, "HASHSTAR_REQUIRE_LIVE": "1"},
        )  # fmt: skip
    text = log.read_text("utf-8", errors="replace")
    minutes = (time.monotonic() - began) / 60
    if done.returncode:
        print(f"night: {name} FAILED after {minutes:.0f} min (exit {done.returncode}); {log} ends:")
        print("\n".join(text.splitlines()[-40:]), flush=True)
        return None
    passed = re.findall(r"(\d+) passed", text)
    told = f"{name} {f'{int(passed[-1]):,} passed in ' if passed else ''}{minutes:.0f} min"
    print(f"night: {told}", flush=True)
    return told


def main(arguments: Sequence[str]) -> int:
    """Run the parts, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, metavar="NAME", help="run this part only; repeatable")
    parser.add_argument("--list", action="store_true", help="list the parts and their commands")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{name}: {command}" for name, command in PARTS.items()))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    for old in golden.find_old(datetime.now(UTC).date()):
        print(f"night: recorded more than a year ago: {old}", flush=True)
    commit, is_changed = _git("rev-parse", "HEAD"), bool(_git("status", "--porcelain"))
    chosen = {name: command for name, command in PARTS.items() if name in (options.part or PARTS)}
    figures = {name: run_part(name, command) for name, command in chosen.items()}
    if None in figures.values():
        return 1
    if len(chosen) < len(PARTS) or is_changed:
        print(
            f"night: all passed; no row in {PAGE}, as {'files have changed' if is_changed else 'parts were left out'}"
        )
        return 0
    machine = f"{os.cpu_count()} processors, Python {platform.python_version()}"
    today = datetime.now(UTC).date().isoformat()
    add_complete_run(TOP, CompleteRun(today, commit[:12], machine, "; ".join(filter(None, figures.values()))))
    print(f"night: all passed; a row was added to {PAGE}: commit it")
    return 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
