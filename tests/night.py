"""``make night``: everything there is to prove, part by part, and a row in ``docs/measured.md`` if all has passed.

It needs servers: a test without its server fails. ``.ci/run night`` provides them. Parts that wait run beside parts
that compute. What has passed, each part and each test, is kept for the files that are checked out, and is not run again
for them: a night that was broken off goes on where it was, and `--part NAME` runs some parts only. `--list` lists all,
with what has passed, and `--again` runs that, too. Nothing is kept, and no row is written, if files here differ from
the commit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.recorders import golden
from tests.support import passed as listing
from tests.support.measured import PAGE, CompleteRun, add_complete_run

TOP: Final = Path(__file__).parents[1]
KEPT: Final = Path(os.environ.get("HASHSTAR_NIGHT", TOP / "build" / "night"))
"""Folder of the logs of parts, and of what has passed. CI keeps it from one clone to the next."""
PYTEST: Final = f"{sys.executable} -m pytest --maxprocesses=4 --dist=loadgroup"
LOWEST: Final = (
    "tests/exchange/partition tests/bindings/sources/test_language.py tests/bindings/archive tests/bindings/counts"
    " tests/bindings/auditing/test_command.py"
)
"""Tests of what uses other packages most."""

WAITING: Final[Mapping[str, str]] = {
    "chaos of pairs": f"{sys.executable} -m tests.chaos",
    "chaos of scenarios": f"{sys.executable} -m tests.chaos --scenario all",
    "soak": "make soak",
}
"""Name of a part that mostly waits, for servers or for moments -> its command, for a shell."""

COMPUTING: Final[Mapping[str, str]] = {
    # Ten times the examples take ten times as long.
    "tests": f"{PYTEST} -n auto --tier=night --timeout=3600",
    "mutants": "make mutants",
    "fuzz": "make fuzz",
    "damage": "make damage",
    "kills in Spark": f"{sys.executable} -m tests.soak_spark_stream",
    "pythons": ".ci/pythons",
    "bare Debians": ".ci/bare",
    # PySpark 4.0 leaves sockets for the garbage collector.
    "lowest packages": "make VENV=.venv-lowest LOCK=.ci/lowest.txt test WORKERS=0"
    f' ARGS="-W ignore::pytest.PytestUnraisableExceptionWarning {LOWEST}"',
}
"""The same of parts that compute all the time: one at a time, beside one that waits."""


def run_part(name: str, command: str, passed: Path | None = None) -> str | None:
    """Run a part, and return what is to be told of it; None if it failed.

    The file `passed` lists the tests that have passed, which it need not run again (`tests.support.passed`).
    """
    log = KEPT / f"{name.replace(' ', '-')}.log"
    began = time.monotonic()
    outer = {key: value for key, value in os.environ.items() if key not in {"ARGS", "HASHSTAR_TIER"}}
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(  # noqa: S602  commands of the table
            command, shell=True, cwd=TOP, stdout=output, stderr=subprocess.STDOUT, check=False,
            env={**outer, "HASHSTAR_REQUIRE_LIVE": "1", **({listing.VARIABLE: str(passed)} if passed else {})},
        )  # fmt: skip
    text = log.read_text("utf-8", errors="replace")
    minutes = (time.monotonic() - began) / 60
    if done.returncode:
        print(f"night: {name} FAILED after {minutes:.0f} min (exit {done.returncode}); {log} ends:")
        print("\n".join(text.splitlines()[-40:]), flush=True)
        return None
    counts = re.findall(r"(\d+) passed", text)
    told = f"{name} {f'{int(counts[-1]):,} passed in ' if counts else ''}{minutes:.0f} min"
    print(f"night: {told}", flush=True)
    return told


def main(arguments: Sequence[str]) -> int:
    """Run the parts, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parts = {**WAITING, **COMPUTING}
    parser.add_argument("--part", action="append", choices=parts, metavar="NAME", help="run this part only; repeatable")
    parser.add_argument("--list", action="store_true", help="list the parts and their commands")
    parser.add_argument("--again", action="store_true", help="run also what has passed for these files")
    options = parser.parse_args(arguments)
    passed = Passed.read()
    if options.list:
        print("\n".join(f"{name}: {passed.figures.get(name, command)}" for name, command in parts.items()))
        return 0
    KEPT.mkdir(parents=True, exist_ok=True)
    for old in golden.find_old(datetime.now(UTC).date()):
        print(f"night: recorded more than a year ago: {old}", flush=True)
    commit = _git("rev-parse", "HEAD")
    for path in KEPT.glob("tests-*.txt"):
        if options.again or path != passed.tests:
            path.unlink()
    chosen = [name for name in options.part or parts if options.again or name not in passed.figures]
    for name in parts.keys() - chosen & passed.figures.keys():
        print(f"night: passed before, for these files: {passed.figures[name]}", flush=True)

    def run_each(names: Sequence[str]) -> bool:
        # Each, whatever comes of others.
        outcomes = [
            passed.keep(name, run_part(name, parts[name], passed.tests if name == "tests" else None)) for name in names
        ]
        return all(outcomes)

    lanes = [[name for name in chosen if name in lane] for lane in (WAITING, COMPUTING)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        if not all([*pool.map(run_each, lanes)]):
            return 1
    if passed.files is None or passed.figures.keys() < parts.keys():
        print(f"night: all passed; no row in {PAGE}, as {'parts are left' if passed.files else 'files have changed'}")
        return 0
    add_complete_run(TOP, CompleteRun.of_today(commit, "; ".join(passed.figures[name] for name in parts)))
    print(f"night: all passed; a row was added to {PAGE}: commit it")
    return 0


class Passed:
    """The parts that have passed for the files that are checked out."""

    def __init__(self, files: str | None, figures: dict[str, str]) -> None:
        self.files = files
        """Digest of all files of the commit; None if there are others here, so that nothing is kept."""
        self.figures = figures
        """Name of a part -> what is told of it."""
        self.tests = None if files is None else KEPT / f"tests-{files}.txt"
        """The file that lists the tests of the part `tests` that have passed."""

    @classmethod
    def read(cls) -> Passed:
        """Read what is kept, and forget what passed with other files."""
        files = None if _git("status", "--porcelain") else _git("rev-parse", "HEAD^{tree}")
        rows = [json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))]
        return cls(files, {row["part"]: row["figures"] for row in rows if row["files"] == files})

    def keep(self, part: str, figures: str | None) -> bool:
        """Keep what came of a part, None if it failed; return whether it passed."""
        file = KEPT / f"{part.replace(' ', '-')}.json"
        file.unlink(missing_ok=True)
        self.figures.pop(part, None)
        if figures is not None:
            self.figures[part] = figures
            if self.files is not None:
                file.write_text(json.dumps({"part": part, "files": self.files, "figures": figures}))
        return figures is not None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
