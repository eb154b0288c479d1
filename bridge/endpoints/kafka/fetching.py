"""Whether librdkafka fetches from the partitions that it was assigned, as its statistics tell, and why not.

Before it fetches from a partition it asks the group's coordinator where to begin. While a transaction is open that will
say so the coordinator does not tell, and some transactions are never ended. To some answers of a coordinator that was
restarted just now librdkafka 2.16 never asks again (its issue 5586). Either way the member keeps its place in the group
and its partitions, and nothing is ever read. Nobody is told, so somebody must look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoints.kafka.topic_ids import committed, make_asking

__all__ = ["PATIENCE", "Fetching", "Joining", "lag_of", "why_not"]

PATIENCE: Final = 30.0
"""Seconds after which a partition that is not fetched from is told of. A transaction may be open that will move the
offset to begin with, and is waited for: by default that of a bridge that was killed ends after 10 s."""

IDLE: Final = frozenset({"none", "stopped"})
"""States of a partition of which nothing is being fetched, and nothing asked."""


STEADY: Final = "steady"
"""The state of a member that has its partitions, or knows that there are none for it."""

GIVING_UP: Final = frozenset({
    "wait-unassign-call", "wait-unassign-to-complete", "wait-incr-unassign-to-complete",
})  # fmt: skip
"""States in which librdkafka waits for its own commits before it joins its group again. librdkafka 2.16 was seen to
wait for ever for one that a restarted broker never answered; nothing is assigned then, and nothing is reported."""

STUCK: Final = 10.0
"""Seconds after which a member in such a state is given up."""

LONG: Final = 15.0
"""Seconds after which waiting for the group is reported; the other members may take minutes to join."""


class Fetching:
    """Remembers since when partitions are idle."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], float] = {}

    def idle_for_long(
        self, statistics: Mapping[str, Any], assigned: Iterable[tuple[str, int]], now: float
    ) -> tuple[str, int] | None:
        """One of the assigned partitions that was idle at all looks for `PATIENCE` seconds; None: there is none.

        ``statistics`` is what librdkafka gives to its ``stats_cb``, decoded, and ``now`` in seconds.
        """
        topics: Mapping[str, Any] = statistics["topics"]
        idle = [each for each in assigned if _state(topics, *each) in IDLE]
        self._since = {each: self._since.get(each, now) for each in idle}
        return next((each for each, since in self._since.items() if now - since >= PATIENCE), None)


class Joining:
    """Remembers since when a member has been in a state of its group in which nothing is assigned to it."""

    def __init__(self) -> None:
        self._state = STEADY
        self._since = 0.0
        self.trouble: str | None = None
        """What it has been waiting for since long; None: it waits for nothing, or not for long."""
        self.is_stuck = False
        """Whether it waits for itself: to give up partitions, while the coordinator is there to be told."""

    def look(self, statistics: Mapping[str, Any], now: float) -> None:
        """Take in what librdkafka gives to its ``stats_cb``, decoded; ``now`` is in seconds."""
        group = statistics.get("cgrp", {"state": "init", "join_state": STEADY})
        state = group["join_state"] if group["state"] == "up" else STEADY
        if state != self._state:
            self._state, self._since = state, now
        lasts = now - self._since
        self.is_stuck = state in GIVING_UP and lasts >= STUCK
        waits = state != STEADY and lasts >= LONG
        self.trouble = f"it has waited for {lasts:.0f} s to be given partitions ({state})" if waits else None


def lag_of(statistics: Mapping[str, Any], assigned: Iterable[tuple[str, int]]) -> int | None:
    """Return how many messages of these partitions were not read, by librdkafka's statistics; None: not known yet."""
    lags = []
    for topic, partition in assigned:
        found = statistics["topics"].get(topic, {"partitions": {}})["partitions"].get(str(partition))
        if found is not None and found["consumer_lag"] >= 0:
            lags.append(int(found["consumer_lag"]))
    return sum(lags) if lags else None


def why_not(settings: Mapping[str, Any], topic: str, partition: int) -> str:
    """Why a partition is not fetched from; waits for the answer of the group's coordinator.

    ``settings`` are the consumer's.
    """
    group = str(settings["group.id"])
    if _is_in_transaction(settings, topic, partition):
        return (
            f"the offset of group {group!r} for {topic}-{partition} is in a transaction that has not ended for "
            f"{PATIENCE:.0f} s; kafka-transactions.sh find-hanging finds those that never will, of which Kafka 4.3 and "
            "4.4 leave some behind when brokers are restarted (KAFKA-20734)"
        )
    return (
        f"librdkafka has not begun to fetch from {topic}-{partition} in {PATIENCE:.0f} s: it has forgotten to ask "
        "where to begin"
    )


def _is_in_transaction(settings: Mapping[str, Any], topic: str, partition: int) -> bool:
    """Return whether an open transaction may move the offset; wait for the answers.

    If so, the coordinator answers those who do not care for it, and not those who wait for its end.
    """
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = make_asking(settings, isolation)
        try:
            committed(consumer, [(topic, partition)])
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError._TIMED_OUT):
                return isolation == "read_committed"
            return False
        finally:
            consumer.close()
    return False


def _state(topics: Mapping[str, Any], topic: str, partition: int) -> str:
    """Of a partition; what librdkafka does not mention it does not fetch."""
    found = topics.get(topic, {"partitions": {}})["partitions"].get(str(partition))
    return "none" if found is None else str(found["fetch_state"])
