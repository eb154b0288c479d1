"""``python -m tests.mutants.simulated``: simulated lives alone notice each mutant of what the bridge promises.

The mutants are the rows of `aimed_lives` that only lives are to notice. Each is tried on the lives of the kinds of
sources and targets that meet its module, from seed 0 on, until a promise is broken, or its processor time is over. The
exit code is 1 if one survives that no row calls equivalent, if there are fewer than 40, or if all took too long.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

from tests.mutants.__main__ import find_stale, make_copies, write_module
from tests.mutants.aimed_lives import LIVES, SIMULATED
from tests.mutants.mutant import Mutant

KINDS: Final = {
    "bridge/endpoints/kafka/consumer/share": "share",
    "bridge/endpoints/kafka/producer/transaction": "transactional,partly",
    "bridge/endpoints/kafka": "kafka",
    "bridge/endpoints/archive": "archive",
    "bridge/endpoints/rocketmq": "rocketmq,orderly",
}
"""Beginning of a module's path -> kinds of sources and targets whose lives meet it; all other modules: all lives."""

HANGS: Final = 30
"""How many times as long as its processor time the lives of a mutant may take."""

LEAST: Final = 40
"""Minimum number of mutants."""


def find_kinds(module: str) -> str:
    """Return the kinds of sources and targets whose lives meet a module; "" if all do."""
    return next((kinds for beginning, kinds in KINDS.items() if module.startswith(beginning)), "")


@click.command(help=__doc__)
@click.option("--seconds", type=float, default=40.0, show_default=True, help="Processor time for the lives of one.")
@click.option("--most", type=float, default=600.0, show_default=True, help="Processor time for all, in seconds.")
@click.option("--only", default="", help="Mutants with this text in their module or in what they are.")
def main(seconds: float, most: float, only: str) -> None:
    rows = [each for each in LIVES if [*each.tests] == [SIMULATED] and (only in each.module or only in each.what)]
    if stale := [*find_stale(rows)]:
        sys.exit("\n".join(stale))
    began, survivors = _spent(), list[Mutant]()
    judged = [each for each in rows if each.equivalent is None]
    with make_copies(1) as [copy]:
        for mutant in judged:
            before = _spent()
            path = copy / mutant.module
            text = path.read_text()
            write_module(path, mutant.applied(copy))
            broken = _play(copy, find_kinds(mutant.module), seconds)
            write_module(path, text)
            if broken is None:
                survivors.append(mutant)
            fate = "survived" if broken is None else "killed"
            print(f"{fate:8} {_spent() - before:5.1f} s  {mutant.module}: {mutant.what} [{broken}]", flush=True)
    took = _spent() - began
    print(f"{len(judged) - len(survivors)} of {len(judged)} killed, in {took:.0f} s of processor time")
    for mutant in rows:
        if mutant.equivalent is not None:
            print(f"equivalent  {mutant.module}: {mutant.what}: {mutant.equivalent}")
    if survivors or took > most or (not only and len(judged) < LEAST):
        sys.exit(1)


def _play(copy: Path, kinds: str, seconds: float) -> str | None:
    """Play lives on a copy of the code; return the promise that one has broken, or that one never ended."""
    command = [sys.executable, "-m", "tests.simulation", f"--seconds={seconds}", f"--of={kinds}", "--whole"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=HANGS * seconds
        )
    except subprocess.TimeoutExpired:
        return "hung"
    broken = [line for line in done.stdout.splitlines() if " breaks a promise: " in line]
    if not broken and done.returncode:
        sys.exit(f"no life can be played: {done.stderr}")
    return broken[0] if broken else None


def _spent() -> float:
    """Return the processor time of all processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
