"""The state of a bridge that runs, as a table for people, and as JSON: one answer for all its processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypedDict

from bridge.daemon.asking.processes import Answers, EndpointStatus, Process, name_state
from bridge.daemon.views import StatusJson
from exchange.text.numbers import write_time

UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


class WorkersJson(TypedDict):
    """The state of a bridge that runs: `hashstar bridge status --json`."""

    version: Literal[1]
    ready: bool
    """Whether all processes are ready."""
    state: str
    """`ready`, `not ready`, `paused`, `draining`, `drained`, `hangs`, `away`; of processes that differ, the worst."""
    workers: list[StatusJson]
    """`/status` of each process that has answered."""
    errors: list[str]
    """Why others have not."""


WORST: Final = ("away", "hangs", "not ready", "draining", "drained", "paused", "ready")


def find_state(answers: Answers) -> str:
    """Return the state of a bridge: that of the process which is worst off."""
    states = {each.state for each in answers.processes} | ({"away"} if answers.errors else set())
    return min(states, key=WORST.index)


def to_json(answers: Answers) -> Any:
    """Return the state as an object of JSON."""
    state = find_state(answers)
    workers = [each.document for each in answers.processes]
    return {"version": 1, "ready": state == "ready", "state": state, "workers": workers, "errors": [*answers.errors]}


def to_text(answers: Answers) -> Iterator[str]:
    """Yield the state as lines: of the bridge, of its processes, sources and targets, its conditions, its reloads."""
    processes = answers.processes
    for config in dict.fromkeys([each.config for each in processes]):
        yield f"{config}: {find_state(answers)}"
    are_several = len(processes) + len(answers.errors) > 1
    rows = [
        (f"{each.worker}", each.address, each.state, write_age(each.now - each.started), f"{each.unsettled:,}")
        for each in processes
    ]
    yield from _align(("worker", "address", "state", "runs for", "not settled"), rows, 1 - are_several)
    has_pipelines = any(each.pipelines for each in processes)
    if has_pipelines:
        yield ""
        pipelines = [(process, each) for process in processes for each in process.pipelines]
        yield from _align(
            ("worker", "pipeline", "state", "not settled"),
            [(f"{process.worker}", each.name, name_state(each), f"{each.unsettled:,}") for process, each in pipelines],
            1 - are_several,
        )
    for title, counts, name in (
        ("source", ("waiting", "not settled"), "sources"),
        ("target", ("sent", "held"), "targets"),
    ):
        lines = [(process, each) for process in processes for each in getattr(process, name)]
        shown = [(f"{process.worker}", each.pipeline, *_describe(process, each)) for process, each in lines]
        head = ("worker", "pipeline", title, "state", *counts, "oldest")
        yield ""
        if has_pipelines:
            yield from _align(head, shown, 1 - are_several)
        else:
            yield from _align(_without_pipeline(head), map(_without_pipeline, shown), 1 - are_several)
    conditions = [(process, each) for process in processes for each in process.conditions]
    if conditions:
        yield ""
    for process, each in conditions:
        worker = f"worker {process.worker}: " if are_several else ""
        yield f"{worker}{each} ({each.kind} for {write_age(process.now - each.since)})"
        if each.way_out:
            yield f"  {each.way_out}"
    yield from _describe_reloads(processes)


def _describe(process: Process, each: EndpointStatus) -> Sequence[str]:
    is_drained = process.drained or any(own.drained for own in process.pipelines if own.name == each.pipeline)
    state = "ended" if each.ended else "up" if each.up else "closed" if is_drained else "down"
    counts = ["?" if count is None else f"{count:,}" for count in each.counts]
    return each.name, state, *counts, write_age(each.oldest_age) if each.oldest_age else "-"


def _describe_reloads(processes: Iterable[Process]) -> Iterator[str]:
    last: dict[str, float] = {}
    for each in processes:
        if each.last_reload is not None:
            last[each.reload_refused] = max(each.last_reload, last.get(each.reload_refused, 0.0))
    for refusal, when in last.items():
        yield ""
        yield f"last reload: {write_time(when)}, {'refused; it goes on as before:' if refusal else 'in effect'}"
        yield from [f"  {line}" for line in refusal.splitlines()]


def write_age(seconds: float) -> str:
    """Return a time that has passed in its two largest units: ``3 h 12 min``, ``1.4 s``."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f} s"
    for (size, unit), (smaller, below) in zip(UNITS, (*UNITS[1:], (1, "s")), strict=True):
        if seconds >= size:
            return f"{int(seconds // size):,} {unit} {int(seconds % size // smaller)} {below}"
    raise AssertionError


def _without_pipeline(row: Sequence[str]) -> Sequence[str]:
    return (row[0], *row[2:])


def _align(head: Sequence[str], rows: Iterable[Sequence[str]], first: int) -> Iterator[str]:
    """Yield rows below a head, from a column on, each column as wide as it must be."""
    table = [row[first:] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join([f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]).rstrip()
