"""Gauges for Prometheus: the present state of a bridge and of its process.

The gauges of the process have the names that Prometheus's client libraries use, but no such library is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from platform import python_version
from typing import Final

from bridge.daemon.conditions import KINDS, OF_THE_BRIDGE
from bridge.daemon.config import Config
from bridge.daemon.health import Health
from bridge.daemon.telemetry.metrics import Gauges, Reloads
from bridge.pump.pump import Pump
from exchange.files.operating_system import read_file_limit
from exchange.text.site import HASHSTAR_VERSION

PROC: Final = Path("/proc")
STARTED: Final = time.time()
"""Start time of this process on systems without /proc: the import of this module, in seconds since 1970."""

Labels = tuple[tuple[str, str], ...]

OF_TARGETS = ("disconnected", "trouble", "token", "backpressure")
OF_SOURCES = tuple([kind for kind in KINDS if kind not in (*OF_THE_BRIDGE, "backpressure")])


def read_gauges(config: Config, pump: Pump, health: Health, *, alive: bool) -> Gauges:
    """Return the gauges of a pipeline; from any thread."""
    conditions = health.current()
    stalled: dict[Labels, float] = {
        (("endpoint", name), ("kind", kind)): 0
        for names, kinds in (
            ([inlet.source.name for inlet in config.inlets], OF_SOURCES),
            ([outlet.target.name for outlet in pump.outlets], OF_TARGETS),
            ([""], OF_THE_BRIDGE),
        )
        for name in names
        for kind in kinds
    }
    stalled.update({(("endpoint", each.endpoint), ("kind", each.kind)): 1 for each in conditions})
    blocked = {each.endpoint for each in conditions if each.kind in ("trouble", "backpressure")}
    up = {name: state.up for name, state in health.sources.items()}
    up |= {name: state.up for name, state in health.targets.items()}
    sources = [(inlet, health.sources[inlet.source.name]) for inlet in config.inlets]
    targets = [(outlet, health.targets[outlet.target.name]) for outlet in pump.outlets]

    def by_source(values: Iterable[float]) -> dict[Labels, float]:
        return {
            (("source", inlet.source.name),): value for (inlet, _), value in zip(sources, values, strict=True)
        }  # fmt: skip

    def by_target(values: Iterable[float]) -> dict[Labels, float]:
        return {(("target", outlet.target.name),): value for (outlet, _), value in zip(targets, values, strict=True)}

    return {
        "hashstar_ready": ("gauge", "Whether there is no condition.", {(): int(alive and not conditions)}),
        "hashstar_up": ("gauge", "Whether an endpoint is connected and its system answers.", {
            (("endpoint", name),): int(is_up) for name, is_up in up.items()
        }),
        "hashstar_stalled": ("gauge", "Whether an endpoint or the bridge has this condition.", stalled),
        "hashstar_blocked": ("gauge", "Whether an endpoint is connected but moves nothing.", {
            (("endpoint", name),): int(name in blocked) for name in up
        }),
        "hashstar_unsettled_messages": ("gauge", "Messages read and not settled.", by_source(
            inlet.window.messages for inlet, _ in sources
        )),
        "hashstar_unsettled_bytes": ("gauge", "Bytes of messages read and not settled.", by_source(
            inlet.window.bytes for inlet, _ in sources
        )),
        "hashstar_window_fill_ratio": ("gauge", "Share of the window that is used.", by_source(
            state.fill for _, state in sources
        )),
        "hashstar_oldest_unsettled_seconds": ("gauge", "Age of the oldest unsettled message.", by_source(
            state.oldest_age for _, state in sources
        )),
        "hashstar_on_hold_messages": ("gauge", "Messages neither routed nor dead-lettered.", by_source(
            state.on_hold for _, state in sources
        )),
        "hashstar_dead_letter_ratio": ("gauge", "Share of dead letters among the latest messages.", by_source(
            state.dead_letter_share for _, state in sources
        )),
        "hashstar_lag_messages": ("gauge", "Messages that wait at the system and were not read.", {
            (("source", inlet.source.name),): state.lag for inlet, state in sources if state.lag is not None
        }),
        "hashstar_withheld_messages": ("gauge", "Messages that wait and are not given out to it.", by_source(
            state.withheld for _, state in sources
        )),
        "hashstar_vanished_messages_total": ("counter", "Messages that the system removed unread.", by_source(
            state.vanished for _, state in sources
        )),
        "hashstar_survives_seconds": ("gauge", "Longest outage that messages that wait survive.", {
            (("source", inlet.source.name),): state.survives for inlet, state in sources if state.survives is not None
        }),
        "hashstar_most_deliveries": ("gauge", "Earlier deliveries of a message near its delivery limit.", by_source(
            inlet.source.most_deliveries for inlet, _ in sources
        )),
        "hashstar_in_flight_messages": ("gauge", "Messages sent and not confirmed.", by_target(
            outlet.in_flight for outlet, _ in targets
        )),
        "hashstar_held_messages": ("gauge", "Messages held back to keep the order of their keys.", by_target(
            outlet.held for outlet, _ in targets
        )),
        "hashstar_oldest_in_flight_seconds": ("gauge", "Age of the oldest message without an answer.", by_target(
            state.oldest_age for _, state in targets
        )),
        "hashstar_paused": ("gauge", "Whether the bridge is paused or drained.", {(): int(not pump.takes)}),
    }  # fmt: skip


def read_bridge_gauges(reloads: Reloads, dropped: int) -> Gauges:
    """Return what all pipelines have together: the reloads, and the number of lines of the log that were dropped."""
    return {
        "hashstar_reloads_total": ("counter", "Times that the configuration was read again.", {
            (("outcome", outcome),): count for outcome, count in [*reloads.counts.items()]
        }),
        "hashstar_reload_refused": ("gauge", "Whether the last reload was refused.", {(): int(bool(reloads.refusal))}),
        "hashstar_dropped_log_lines_total": ("counter", "Lines that nothing took of the log.", {(): dropped}),
    }  # fmt: skip


def read_process_metrics() -> Gauges:
    """Return processor time, memory, file descriptors and start time of this process.

    Without /proc, as on macOS, these are only the processor time and the start time.
    """
    gauges: Gauges = {
        "process_cpu_seconds_total": (
            "counter", "Total user and system CPU time spent in seconds.", {(): time.process_time()},
        ),
    }  # fmt: skip
    try:
        # Split after the last bracket: the name of the program, in brackets, may contain blanks and brackets itself.
        fields = (PROC / "self" / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        booted = next(
            float(line.split()[1]) for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime ")
        )
        started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        descriptors = len([*(PROC / "self" / "fd").iterdir()])
        limit = read_file_limit()
    except (OSError, ValueError, IndexError, StopIteration):
        return {**gauges, **_start_gauge(STARTED)}
    return {
        **gauges,
        "process_virtual_memory_bytes": ("gauge", "Virtual memory size in bytes.", {(): int(fields[20])}),
        "process_resident_memory_bytes": (
            "gauge", "Resident memory size in bytes.", {(): int(fields[21]) * os.sysconf("SC_PAGE_SIZE")},
        ),
        "process_open_fds": ("gauge", "Number of open file descriptors.", {(): descriptors}),
        "process_max_fds": ("gauge", "Maximum number of open file descriptors.", {(): limit}),
        **_start_gauge(started),
    }  # fmt: skip


def build_info() -> Gauges:
    """Return a gauge that has the versions of hashstar and Python as labels."""
    labels = (("version", HASHSTAR_VERSION), ("python", python_version()))
    return {"hashstar_build_info": ("gauge", "Versions of hashstar and Python.", {labels: 1})}


def _start_gauge(seconds: float) -> Gauges:
    name = "process_start_time_seconds"
    return {name: ("gauge", "Start time of the process since unix epoch in seconds.", {(): seconds})}
