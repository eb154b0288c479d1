"""``python -m tests.simulation``: simulated lives of a bridge, one for each seed; the promises it breaks are printed.

With SEEDS (``17`` or ``1000-2000``) it plays these, else from 0 on, as many as ``--count``. A plan that breaks a
promise is made smaller and printed as Python, to become a row of `tests/simulation/test_simulation.py`. The exit code
is 1 if there is one.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import Final

import click

from tests.simulation.plan import make_plan
from tests.simulation.promises import PROMISES
from tests.simulation.run import play
from tests.simulation.shrink import shrink

HOUR: Final = 3_600
COLLECTED: Final = 50
"""Number of lives after which their garbage is collected: within lives that takes a tenth of their time."""


@click.command(help=__doc__)
@click.argument("seeds", default="")
@click.option("--count", type=click.IntRange(min=1), default=10_000, show_default=True, help="Number of seeds.")
@click.option("--seconds", type=click.FloatRange(0), help="Maximum of processor time, in seconds.")
@click.option("--of", default="", help="Lives with one of these kinds of sources or targets: share,partly.")
@click.option("--whole", is_flag=True, help="Print plans as they are, not made smaller.")
@click.option("--keep-going", is_flag=True, help="Play all seeds, whatever they break.")
def main(seeds: str, count: int, seconds: float | None, of: str, whole: bool, keep_going: bool) -> None:
    first, _, last = (seeds or f"0-{count - 1}").partition("-")
    chosen = range(int(first), int(last or first) + 1)
    kinds = {*of.split(",")} if of else None
    gc.freeze()
    gc.disable()
    began, lived, played, bad = time.process_time(), 0.0, 0, 0
    for seed in chosen:
        if seconds is not None and time.process_time() - began > seconds:
            break
        plan = make_plan(seed)
        if kinds is not None and kinds.isdisjoint([*plan.sources, plan.targets]):
            continue
        outcome = play(plan)
        played += 1
        if played % COLLECTED == 0:
            gc.collect()
        lived += outcome.seconds
        if outcome.broken:
            bad += 1
            promise = outcome.broken[0].promise
            plan = plan if whole else shrink(plan, promise)
            print(f"seed {seed} breaks a promise: {PROMISES[promise]}\n{plan}")
            print("\n".join(f"    {each}" for each in play(plan).broken[:5]), flush=True)
            if not keep_going:
                break
    took = time.process_time() - began
    print(f"{played:,} seeds, {bad} break a promise; {lived / HOUR:,.1f} h in {took:,.1f} s of processor time")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
