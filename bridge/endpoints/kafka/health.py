"""Whether a client's brokers are there and answer, by librdkafka's statistics and by what it is told of connections.

librdkafka keeps on trying by itself and raises nothing while its brokers are stopped, paused, cut off or full, so
somebody must look. A request that has no answer, a broker that is not connected, a partition without a leader and a
group without a coordinator are all normal for a moment; what lasts for `PATIENCE` seconds is trouble.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["MEASURE_EVERY", "NO_BROKER", "PATIENCE", "Health"]

MEASURE_EVERY: Final = 1.0
"""Seconds between statistics."""

PATIENCE: Final = 5.0
"""Seconds after which what lasts is trouble."""

FORGOTTEN: Final = 3.0
"""Seconds without a broker that could be connected to, after which there will be none."""

NO_BROKER: Final = "librdkafka knows no broker any more, as one that was being stopped or started named none"

CONNECTED: Final = frozenset({"UP", "UPDATE"})
"""States of a broker that is connected."""

Problem = tuple[Hashable, str]
"""What it is told apart by from others, and its text, which stays the same as long as it lasts."""


class Health:
    """Remembers since when what is wrong has been so. ``reason`` gives the last error of a connection, or ""."""

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason
        self._since: dict[Hashable, float] = {}
        self.trouble: str | None = None
        """What has been wrong for long; None: nothing."""
        self._known = float("inf")
        self.is_abandoned = False
        """Whether the client must be made anew. A broker that is being stopped or started may answer that there are no
        brokers; librdkafka takes it for the truth, and has none left from which it would hear of others (its issue
        5301)."""

    def look(self, statistics: str, now: float, assigned: Iterable[tuple[str, int]] = ()) -> Mapping[str, Any]:
        """Take in the JSON that librdkafka gives to its ``stats_cb``, and return it decoded.

        ``now`` is in seconds; ``assigned`` are the partitions that a consumer reads.
        """
        found: Mapping[str, Any] = json.loads(statistics)
        if _addressed(found):
            self._known = now
        self._known = min(self._known, now)
        self.is_abandoned = now - self._known >= FORGOTTEN
        problems = dict(self._problems(found, assigned))
        self._since = {key: self._since.get(key, now) for key in problems}
        lasting = [key for key, since in self._since.items() if now - since >= PATIENCE]
        self.trouble = problems[lasting[0]] if lasting else None
        return found

    def _problems(self, found: Mapping[str, Any], assigned: Iterable[tuple[str, int]]) -> Iterator[Problem]:
        brokers = _addressed(found)
        if not any(each["state"] in CONNECTED for each in brokers):
            reason = self._reason()
            yield "down", f"no broker is connected{': ' if reason else ''}{reason}"
        for each in brokers:
            # An answer changes the count, and with it what this is told apart by.
            if each["state"] in CONNECTED and each["waitresp_cnt"] > 0:
                yield (each["name"], each["rx"]), f"broker {each['name']} does not answer"
        states = {each["nodeid"]: each for each in brokers}
        for topic, partition in assigned:
            known = found["topics"].get(topic, {"partitions": {}})["partitions"].get(str(partition))
            if known is None:
                continue
            leader = states.get(known["leader"])
            if known["leader"] == -1:
                yield ("leader", topic, partition), f"{topic}-{partition} has no leader"
            elif leader is not None and leader["state"] not in CONNECTED:
                yield (
                    ("leader", topic, partition),
                    f"{leader['name']}, which leads {topic}-{partition}, is not connected",
                )
        if "cgrp" in found and found["cgrp"]["state"] != "up":
            yield "group", "the group has no coordinator that is connected"


def _addressed(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the brokers that have an address. That of a group's coordinator is one of theirs."""
    return [each for each in found["brokers"].values() if each["source"] in ("configured", "learned")]
