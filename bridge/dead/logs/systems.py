"""Kafka and RocketMQ, by the scheme of an address: each needs its own packages, which are imported for it alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bindings.sources.address import has_scheme

if TYPE_CHECKING:
    from bridge.dead.logs.log import Log
    from bridge.dead.logs.origins import Goal
    from bridge.endpoint import Target


def _import(url: str, part: str = "") -> Any:
    system = "kafka" if has_scheme(url, ("kafka",)) else "rocketmq"
    return import_module(f"bridge.dead.logs.{system}{part}")


def make_log(url: str, topic: str) -> Log:
    """Return the log of a topic; ``url`` names its cluster alone. Raises InputError."""
    log: Log = _import(url).TopicLog(url, topic)
    return log


def make_target(url: str, topics: Iterable[str], goals: Mapping[str, Goal]) -> Target:
    """Return the target that writes goals to topics; ``goals`` maps their digests to them. Raises InputError."""
    target: Target = _import(url, "_target").GoalTarget(url, topics, goals)
    return target


async def find_missing(url: str, topics: Sequence[str]) -> list[str]:
    """Return which of these topics are not there. Raises InputError, Disconnected, RemotingError."""
    missing: list[str] = await _import(url, "_target").find_missing(url, topics) if topics else []
    return missing
