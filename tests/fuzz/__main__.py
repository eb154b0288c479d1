"""Fuzz the targets, guided by coverage: ``make fuzz ARGS="kafka-segment json-lines --seconds 600"``.

Each target runs in a process of its own, forked from this one, under limits of memory and time for each input. What a
target raises is kept once for each place in the code that raised it, and fuzzing goes on; what kills the process or
takes too long is kept by libFuzzer, and the process is started again; what stands still is killed. Exit status 1: there
are findings.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.fuzz.campaign import HEADING, Campaign, Limits, Outcome
from tests.fuzz.target import Target

POLL_SECONDS: Final = 0.05
SINGLE: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Settings of numpy and pyarrow, without which they start threads when they are imported."""
CORPUS: Final = Path(__file__).parent / "corpus"
MISSING: Final = (
    "fuzz: skipped: atheris is not installed; it has wheels for CPython 3.11 to 3.14 on Linux with x86-64. "
    "pytest tests/fuzz runs the kept corpus without it"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets that the arguments name, print a table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all, if none is named")
    parser.add_argument("--seconds", type=float, default=600, help="duration of all targets together [600]")
    parser.add_argument("--runs", type=int, default=-1, help="maximum number of inputs of each target [no limit]")
    parser.add_argument("--seed", type=int, default=0, help="makes the inputs the same each time [0: different ones]")
    parser.add_argument("--jobs", type=int, default=1, help="number of targets that run at the same time [1]")
    parser.add_argument("--memory", type=int, default=2048, help="maximum memory of a target in MiB [2048]")
    parser.add_argument("--timeout", type=int, default=20, help="maximum processor time of one input in seconds [20]")
    parser.add_argument("--work", type=Path, default=Path("build/fuzz"), help="grown corpora and findings [build/fuzz]")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None and not options.list:
        print(MISSING)
        return 0
    targets = _targets(instrumented=not options.list)
    if options.list:
        print(*targets, sep="\n")
        return 0
    unknown = [name for name in options.targets if name not in targets]
    if unknown:
        parser.error(f"no target {unknown[0]!r}; --list prints those there are")
    chosen = {name: targets[name] for name in options.targets or targets}
    limits = Limits(options.memory, options.timeout, options.runs, options.seed)
    outcomes = _run(chosen, options.seconds, options.jobs, options.work.absolute(), limits)
    print(_table(outcomes))
    found = [path for outcome in outcomes for path in outcome.findings]
    print(*found, sep="\n")
    return 1 if found else 0


def _targets(*, instrumented: bool) -> Mapping[str, Target]:
    if instrumented:
        import atheris

        os.environ.update(SINGLE)
        with atheris.instrument_imports(include=["exchange", "bindings", "bridge"]):
            from tests.fuzz.targets import TARGETS
    else:
        from tests.fuzz.targets import TARGETS
    return TARGETS


def _run(targets: Mapping[str, Target], seconds: float, jobs: int, work: Path, limits: Limits) -> list[Outcome]:
    """Run all targets, `jobs` of them at a time; each has its share of the time."""
    total = sum(target.weight for target in targets.values())
    waiting = [
        Campaign(name, target, seconds * jobs * target.weight / total, CORPUS / name, work / name, limits)
        for name, target in targets.items()
    ]
    running: list[Campaign] = []
    outcomes: list[Outcome] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(waiting.pop(0))
            # A thread could hold a lock just now, which the child would wait for in vain.
            assert len(list(Path("/proc/self/task").iterdir())) == 1
            running[-1].start()
        time.sleep(POLL_SECONDS)
        for ended in [campaign for campaign in running if campaign.has_ended()]:
            running.remove(ended)
            outcomes.append(ended.outcome())
            print(outcomes[-1].line, file=sys.stderr, flush=True)
    return outcomes


def _table(outcomes: Sequence[Outcome]) -> str:
    lines = [HEADING, *[outcome.line for outcome in sorted(outcomes, key=lambda each: each.name)]]
    runs, found = sum(each.runs for each in outcomes), sum(len(each.findings) for each in outcomes)
    return "\n".join([*lines, f"{len(outcomes)} targets, {runs:,} runs, {found} findings; ended {time.strftime('%X')}"])


if __name__ == "__main__":
    sys.exit(main())
