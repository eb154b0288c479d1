"""Kafka and RocketMQ, by the scheme of an address: each needs its own packages, which are imported for it alone.

How to log in to a cluster, where its address does not say all, is in a file with the keys of a bridge's endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bindings.sources.address import has_scheme
from bindings.sources.toml_file import read_toml
from bridge.table import Table

if TYPE_CHECKING:
    from bridge.dead.logs.log import Log
    from bridge.dead.logs.origins import Goal
    from bridge.endpoint import Target


class LogCluster(NamedTuple):
    """A cluster of Kafka or RocketMQ."""

    url: str
    """Its address, without a topic."""
    login: Path | None = None
    """A file with the keys that a bridge's endpoints there log in with; None: the address says all."""

    def read_settings(self) -> Any:
        """Return what clients of its system are made with. Raises InputError."""
        system = self.load()
        if self.login is None:
            return system.read_settings(self.url)
        table = Table(read_toml(self.login), str(self.login))
        table.check_keys(system.CLUSTER.names)
        return system.read_settings(self.url, table)

    def load(self, part: str = "") -> Any:
        """Return the module of its system, or the ``part`` of it that writes."""
        return import_module(f"bridge.dead.logs.{'kafka' if has_scheme(self.url, ('kafka',)) else 'rocketmq'}{part}")


def make_log(cluster: LogCluster, topic: str) -> Log:
    """Return the log of a topic. Raises InputError."""
    log: Log = cluster.load().TopicLog(cluster.url, topic, cluster.read_settings())
    return log


def make_target(cluster: LogCluster, topics: Iterable[str], goals: Mapping[str, Goal]) -> Target:
    """Return the target that writes goals to topics; ``goals`` maps their digests to them. Raises InputError."""
    target: Target = cluster.load("_target").GoalTarget(cluster.read_settings(), topics, goals)
    return target


async def find_missing(cluster: LogCluster, topics: Sequence[str]) -> list[str]:
    """Return which of these topics are not there. Raises InputError, Disconnected, RemotingError."""
    missing: list[str] = await cluster.load("_target").find_missing(cluster.read_settings(), topics)
    return missing
