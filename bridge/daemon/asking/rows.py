"""The rows of ``/status``: pipelines, and the sources, targets and fates of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bridge.daemon.pumps import RunningPump
from bridge.daemon.telemetry.metrics import STEP, HistoryJson
from bridge.daemon.views import Condition, FateJson, PipelineStatus, SourceJson, TargetJson


def describe_pipeline(name: str, running: RunningPump, conditions: Sequence[Condition]) -> PipelineStatus:
    """Return the state of a pipeline of several."""
    pump = running.pump
    return PipelineStatus(
        name=name, ready=not conditions, ended=running.ended, paused=pump.paused, draining=pump.draining,
        drained=pump.drained, unsettled=pump.in_flight, missing=tuple(map(str, conditions)),
    )  # fmt: skip


def list_rows(pumps: Mapping[str, RunningPump], list_own: Callable[[RunningPump], Iterator[Any]]) -> list[Any]:
    """Return the rows of all pipelines, each with the name of its own unless that is "", as of the only one."""
    rows = [(name, row) for name, each in pumps.items() for row in list_own(each)]
    return [{"pipeline": name, **row} if name else row for name, row in rows]


def list_sources(running: RunningPump) -> Iterator[SourceJson]:
    """Yield the rows of the sources of a pipeline."""
    metrics = running.metrics
    for inlet in running.config.inlets:
        name = inlet.source.name
        state = running.health.sources[name]
        yield {
            "name": name,
            "up": state.up,
            "ended": name in metrics.ended_sources,
            "places": sorted(inlet.source.places),
            "messages": metrics.read_messages[name],
            "bytes": metrics.read_bytes[name],
            "redelivered": metrics.redelivered[name],
            "filtered": sum(_counts_of(name, metrics.filtered_messages).values()),
            "unreadable": sum(metrics.unreadable.get(name, {}).values()),
            "unsettled": inlet.window.messages,
            "unsettled_bytes": state.unsettled_bytes,
            "fill": round(state.fill, 4),
            "oldest": state.oldest,
            "oldest_age": round(state.oldest_age, 3),
            "lag": state.lag,
            "withheld": state.withheld,
            "vanished": state.vanished,
            "survives": state.survives,
            "on_hold": state.on_hold,
            "held": [{"origin": origin, "reason": reason} for origin, reason in state.held],
        }


def list_targets(running: RunningPump) -> Iterator[TargetJson]:
    """Yield the rows of the targets of a pipeline."""
    metrics = running.metrics
    for outlet in running.pump.outlets:
        name = outlet.target.name
        state = running.health.targets[name]
        yield {
            "name": name,
            "up": state.up,
            "places": sorted(outlet.target.places),
            "dead_letters": outlet.target is running.config.dead_letters,
            "in_flight": outlet.in_flight,
            "held": outlet.held,
            "oldest_age": round(state.oldest_age, 3),
            "waiting": [{"queue": queue, "reason": reason} for queue, reason in state.waiting.items()],
            "queues": _counts_of(name, metrics.written),
            "refusals": _counts_of(name, metrics.refusals),
            "latency": {"seconds": metrics.latency_sums.get(name, 0.0), "buckets": [*metrics.latencies.get(name, ())]},
        }


def list_fates(running: RunningPump) -> Iterator[FateJson]:
    """Yield the rows of what a pipeline has given up."""
    for (name, fate), count in list(running.metrics.fates.items()):
        if count:
            yield {"endpoint": name, "fate": fate, "messages": count}


def join_histories(histories: Mapping[str, HistoryJson]) -> HistoryJson:
    """Return the histories of pipelines as one, with the name of each before those of its sources and targets."""

    def join(name: str, rates: Mapping[str, list[float]]) -> dict[str, list[float]]:
        return {f"{name}/{each}" if name else each: own for each, own in rates.items()}

    joined: HistoryJson = {"step": STEP, "sources": {}, "targets": {}}
    for name, history in histories.items():
        joined["sources"] |= join(name, history["sources"])
        joined["targets"] |= join(name, history["targets"])
    return joined


def _counts_of(name: str, counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the counts of one endpoint."""
    return {label: count for (endpoint, label), count in list(counts.items()) if endpoint == name}
