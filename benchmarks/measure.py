"""How a cost is measured, and how costs are shown.

Contestants take turns within a round, so that a busy moment of the machine hits them all, and each is told by its
median over the rounds. Time is the processor's, which leaves out what other programs took of it. Calls are driven by
``map`` into a deque of no length: a loop in C, the same for every contestant, the floor included.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Role = Literal["ours", "floor", "peer"]


@dataclass
class Contestant:
    """A row of a table: a name, and a call that measures one round in microseconds per operation.

    Each row also has its cost as a multiple of the ``floor``, and the cost of its ``peer`` as a multiple of its own.
    Without a figure, ``note`` is the reason.
    """

    name: str
    measure: Callable[[], float] | None
    role: Role = "ours"
    note: str = ""
    costs: list[float] = field(default_factory=list)

    @property
    def cost(self) -> float | None:
        """The median of the rounds; None when there was none."""
        return median(self.costs) if self.costs else None


def microseconds_per(call: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    """Return the mean duration of a call over all arguments, in microseconds."""
    start = process_time()
    deque(map(call, arguments), maxlen=0)
    return (process_time() - start) / len(arguments) * 1e6


def time_call(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the processor, and what the work gave."""
    start = process_time()
    result = work()
    return process_time() - start, result


def run_rounds(contestants: Iterable[Contestant], rounds: int) -> list[Contestant]:
    """Measure each contestant once a round."""
    listed = list(contestants)
    for number in range(rounds):
        for contestant in listed:
            _progress(f"round {number + 1} of {rounds}: {contestant.name}")
            if contestant.measure is not None:
                gc.collect()
                contestant.costs.append(contestant.measure())
    _progress("")
    return listed


def in_child(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of the work in a new process, whose memory nothing else has used."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
        return child.submit(work, *args, **kwargs).result()


def resident_mb() -> float:
    """Return the memory of this process in MB: resident now where the system states it, else the maximum so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return pages * resource.getpagesize() / 1e6


def processor_seconds(*roots: int) -> float:
    """Return the processor time of these processes and all their descendants, ended ones too, in seconds."""
    below: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        number = int(file.parent.name)
        below.setdefault(int(fields[1]), []).append(number)
        ticks[number] = sum(map(int, fields[11:15]))  # its own, and of those that ended
    total, pending = 0, list(roots)
    while pending:
        number = pending.pop()
        total += ticks.get(number, 0)
        pending += below.get(number, [])
    return total / os.sysconf("SC_CLK_TCK")


WIDTH: Final = 32


def show(title: str, about: str, contestants: Sequence[Contestant]) -> None:
    """Print a table of microseconds per operation, median and minimum.

    ``floor x 3``: it costs three times the floor. ``kombu / 3``: kombu costs three times as much.
    """
    print(f"\n{title}: {about}")
    others = [row for row in contestants if row.role != "ours" and row.cost]
    heads = "".join(f"{row.name + ('  x' if row.role == 'floor' else '  /'):>{len(row.name) + 5}}" for row in others)
    print(f"  {'':<{WIDTH}}{'us':>10}{'min':>10}{heads}")
    for row in contestants:
        if row.cost is None:
            print(f"  {row.name:<{WIDTH}}{'-':>10}{'-':>10}  {row.note}")
            continue
        ratios = "".join(f"{_ratio(row, other):>{len(other.name) + 5}}" for other in others)
        print(f"  {row.name:<{WIDTH}}{_figure(row.cost):>10}{_figure(min(row.costs)):>10}{ratios}  {row.note}".rstrip())


def _ratio(row: Contestant, other: Contestant) -> str:
    if row is other or not row.cost or not other.cost:
        return ""
    return _figure(row.cost / other.cost if other.role == "floor" else other.cost / row.cost)


def _figure(value: float) -> str:
    for limit, digits in ((1, 3), (10, 2), (100, 1)):
        if value < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
