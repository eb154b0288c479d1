"""Whether librdkafka fetches from the partitions that it was assigned, as its statistics tell.

Before it fetches from a partition it asks the group's coordinator where to begin. To some answers of a coordinator that
was restarted just now librdkafka 2.16 never asks again (its issue 5586): the member keeps its place in the group and
its partitions, and nothing is ever read. Nobody is told, so somebody must look.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["MEASURE_EVERY", "PATIENCE", "Fetching"]

MEASURE_EVERY: Final = 10.0
"""Seconds between statistics."""

PATIENCE: Final = 30.0
"""Seconds after which a partition that is not fetched from has been forgotten. A transaction may be open that will move
the offset to begin with, and is waited for: by default that of a bridge that was killed ends after 10 s."""

IDLE: Final = frozenset({"none", "stopped"})
"""States of a partition of which nothing is being fetched, and nothing asked."""


class Fetching:
    """Remembers since when partitions are idle."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], float] = {}

    def forgotten(self, statistics: str, assigned: Iterable[tuple[str, int]], now: float) -> tuple[str, int] | None:
        """One of the assigned partitions that was idle at all looks for `PATIENCE` seconds; None: there is none.

        ``statistics`` is the JSON that librdkafka gives to its ``stats_cb``, and ``now`` in seconds.
        """
        topics: Mapping[str, Any] = json.loads(statistics)["topics"]
        idle = [each for each in assigned if _state(topics, *each) in IDLE]
        self._since = {each: self._since.get(each, now) for each in idle}
        return next((each for each, since in self._since.items() if now - since >= PATIENCE), None)


def _state(topics: Mapping[str, Any], topic: str, partition: int) -> str:
    """Of a partition; what librdkafka does not mention it does not fetch."""
    found = topics.get(topic, {"partitions": {}})["partitions"].get(str(partition))
    return "none" if found is None else str(found["fetch_state"])
