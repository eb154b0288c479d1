"""What Prometheus's client libraries export of a process, by the same names, without one of them."""

from __future__ import annotations

import os
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Final

from bridge.daemon.metrics import Gauges

__all__ = ["build_info", "process_metrics"]

PROC: Final = Path("/proc")
STARTED: Final = time.time()
"""For systems without /proc: when this was imported, in seconds since 1970."""


def process_metrics() -> Gauges:
    """Return the processor time, memory, file descriptors and start of this process; without /proc, as on macOS, only
    the first and the last.
    """
    found: Gauges = {
        "process_cpu_seconds_total": (
            "counter", "Total user and system CPU time spent in seconds.", {(): time.process_time()},
        ),
    }  # fmt: skip
    try:
        # The name of the program, in brackets, may hold anything.
        fields = (PROC / "self" / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        booted = next(
            float(line.split()[1]) for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime ")
        )
        started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        descriptors = len([*(PROC / "self" / "fd").iterdir()])
        limit = _limit()
    except (OSError, ValueError, IndexError, StopIteration):
        return {**found, **_start(STARTED)}
    return {
        **found,
        "process_virtual_memory_bytes": ("gauge", "Virtual memory size in bytes.", {(): int(fields[20])}),
        "process_resident_memory_bytes": (
            "gauge", "Resident memory size in bytes.", {(): int(fields[21]) * os.sysconf("SC_PAGE_SIZE")},
        ),
        "process_open_fds": ("gauge", "Number of open file descriptors.", {(): descriptors}),
        "process_max_fds": ("gauge", "Maximum number of open file descriptors.", {(): limit}),
        **_start(started),
    }  # fmt: skip


def build_info() -> Gauges:
    """Return the versions of what runs, as labels."""
    labels = (("version", hashstar_version()), ("python", python_version()))
    return {"hashstar_build_info": ("gauge", "Versions of hashstar and Python.", {labels: 1})}


def hashstar_version() -> str:
    """Return the version that is installed; ``unknown`` where none is."""
    try:
        return version("hashstar")
    except PackageNotFoundError:
        return "unknown"


def _start(seconds: float) -> Gauges:
    name = "process_start_time_seconds"
    return {name: ("gauge", "Start time of the process since unix epoch in seconds.", {(): seconds})}


def _limit() -> float:
    import resource  # which Windows does not have; nor does it have /proc

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if soft == resource.RLIM_INFINITY else soft
