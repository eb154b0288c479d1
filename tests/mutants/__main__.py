"""``make mutants``: the code is broken on purpose, one change at a time, and a test must notice each time.

Each row of the tables here is a mutant: a module, a text in it, another text, and the tests of that module. Rows whose
old text is not in the module exactly once are stale, and fail. Tests run without servers, on copies of the tree, with
hypothesis derandomised, so that a mutant that is killed is killed each time; they must pass on the code as it is.

The exit code is 1 if a mutant survives that no row calls equivalent, more than ``--allow`` of a hundred.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, Literal, NamedTuple

import click

from tests.mutants.aimed_bindings import BINDINGS
from tests.mutants.aimed_bridge import BRIDGE
from tests.mutants.aimed_exchange import EXCHANGE
from tests.mutants.aimed_lives import LIVES
from tests.mutants.aimed_losses import LOSSES
from tests.mutants.mutant import Mutant, Stale
from tests.mutants.survivors import SURVIVORS

ROOT: Final = Path(__file__).parents[2]
AIMED: Final = [*EXCHANGE, *BRIDGE, *BINDINGS, *LOSSES, *LIVES]
KEPT: Final = (
    "exchange", "bindings", "bridge", "tests", "examples", "docs", "pyproject.toml", ".taplo.toml", "README.md",
    "CONTRIBUTING.md",
)  # fmt: skip
"""Files and folders that tests need."""
PYTEST: Final = (
    "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not live",
    "--hypothesis-profile=mutants",
)  # fmt: skip
BASELINE: Final = 1_800
"""Seconds that all the tests may take on the code as it is."""
PASSED: Final = 0
FAILED: Final = 1

Fate = Literal["killed", "hung", "survived", "broken"]


class Result(NamedTuple):
    """The result of a mutant."""

    mutant: Mutant
    fate: Fate
    by: str
    """The test that noticed, or what pytest wrote last."""
    seconds: float

    @property
    def is_fine(self) -> bool:
        """Whether a test noticed the mutant, or none can."""
        return self.fate in {"killed", "hung"} or (self.fate == "survived" and self.mutant.equivalent is not None)


@click.command(help=__doc__)
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--seconds", type=click.IntRange(min=1), default=150, show_default=True, help="For the tests of one.")
@click.option("--allow", type=click.FloatRange(0, 100), default=0.0, show_default=True, help="Survivors, in per cent.")
@click.option("--only", default="", help="Mutants with this text in their module or in what they are.")
@click.option("--rows", type=click.Choice(["all", "aimed", "survivors"]), default="all", show_default=True)
def main(processes: int, seconds: int, allow: float, only: str, rows: str) -> None:
    chosen = {"all": [*SURVIVORS, *AIMED], "aimed": AIMED, "survivors": SURVIVORS}[rows]
    mutants = [mutant for mutant in chosen if only in mutant.module or only in mutant.what]
    stale = list(find_stale(mutants))
    if stale:
        sys.exit("\n".join(stale))
    with make_copies(processes) as copies:
        began = monotonic()
        files = sorted({test for mutant in mutants for test in mutant.tests})
        shares = [share for number in range(processes) if (share := files[number::processes])]
        with ThreadPoolExecutor(processes) as pool:
            passes = list(pool.map(lambda copy, share: _run(copy, share, BASELINE), copies, shares))
        broken = [last for code, last in passes if code != PASSED]
        if broken:
            sys.exit(f"the tests do not pass on the code as it is: {', '.join(broken)}")
        print(f"{len(files)} files of tests pass on the code as it is, in {monotonic() - began:.0f} s", flush=True)
        free: SimpleQueue[Path] = SimpleQueue()
        for copy in copies:
            free.put(copy)

        def one(mutant: Mutant) -> Result:
            copy = free.get()
            try:
                result = _try_mutant(mutant, copy, seconds)
            finally:
                free.put(copy)
            print(_line(result), flush=True)
            return result

        with ThreadPoolExecutor(processes) as pool:
            results = list(pool.map(one, mutants))
    _judge(results, allow, monotonic() - began)


def _judge(results: Sequence[Result], allow: float, seconds: float) -> None:
    """Print what came of all. Exit with 1 if too many survived."""
    judged = [result for result in results if result.mutant.equivalent is None]
    bad = [result for result in results if not result.is_fine]
    killed = len([result for result in judged if result.is_fine])
    print()
    for result in bad:
        print(_line(result))
    share = 100 * killed / len(judged) if judged else 100.0
    print(
        f"{killed} of {len(judged)} killed ({share:.1f} %), {len(results) - len(judged)} equivalent, in {seconds:.0f} s"
    )
    unknown = [result for result in bad if result.fate == "broken"]
    contrary = [result for result in results if result.mutant.equivalent is not None and result.fate != "survived"]
    for result in contrary:
        print(f"said to be equivalent, and killed: {result.mutant.module}: {result.mutant.what}")
    if unknown or contrary or 100 - share > allow:
        sys.exit(1)


def find_stale(mutants: Sequence[Mutant]) -> Iterator[str]:
    """Yield what is wrong with each row that does not fit the code any more."""
    for mutant in mutants:
        try:
            mutant.applied(ROOT)
        except Stale as error:
            yield str(error)


@contextmanager
def make_copies(count: int) -> Iterator[list[Path]]:
    """Yield folders with copies of the code, to be mutated."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Path(folder) / str(number) for number in range(count)]
        for copy in copies:
            copy.mkdir()
            for name in KEPT:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy2(ROOT / name, copy / name)
        yield copies


def _try_mutant(mutant: Mutant, copy: Path, seconds: int) -> Result:
    path, began = copy / mutant.module, monotonic()
    text = path.read_text()
    try:
        write_module(path, mutant.applied(copy))
        code, last = _run(copy, mutant.tests, seconds)
    finally:
        write_module(path, text)
    fate: Fate = "hung" if code is None else "survived" if code == PASSED else "killed" if code == FAILED else "broken"
    return Result(mutant, fate, last, monotonic() - began)


def write_module(path: Path, text: str) -> None:
    """Write a module, and forget what was compiled of it: two changes in a second may have one size."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _run(copy: Path, tests: Sequence[str], seconds: int) -> tuple[int | None, str]:
    """Run tests. Return the exit code of pytest, None if they took too long, and what failed first."""
    command = [sys.executable, *PYTEST, *[f"tests/{test}" for test in tests]]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    process = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, f"{seconds} s"
    lines = [line for line in output.splitlines() if line]
    failed = [line.partition(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return process.returncode, (failed or lines or [""])[-1].removeprefix("FAILED tests/")


def _line(result: Result) -> str:
    fate = "equivalent" if result.is_fine and result.fate == "survived" else result.fate
    by = result.mutant.equivalent if fate == "equivalent" else result.by
    return f"{fate:10} {result.mutant.module}: {result.mutant.what} [{by}; {result.seconds:.0f} s]"


if __name__ == "__main__":
    main()
