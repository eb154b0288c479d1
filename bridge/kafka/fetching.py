"""Whether librdkafka fetches from the partitions that it was assigned, as its statistics tell, and why not.

Before it fetches from a partition it asks the group's coordinator where to begin. While a transaction is open that will
say so the coordinator does not tell, and some transactions are never ended. To some answers of a coordinator that was
restarted just now librdkafka 2.16 never asks again (its issue 5586). Either way the member keeps its place in the group
and its partitions, and nothing is ever read. Nobody is told, so somebody must look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

__all__ = ["PATIENCE", "Fetching", "lag_of", "why_not"]

PATIENCE: Final = 30.0
"""Seconds after which a partition that is not fetched from is told of. A transaction may be open that will move the
offset to begin with, and is waited for: by default that of a bridge that was killed ends after 10 s."""

ANSWER: Final = 5.0
"""Seconds in which the coordinator is to say why."""

IDLE: Final = frozenset({"none", "stopped"})
"""States of a partition of which nothing is being fetched, and nothing asked."""


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
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
    admin = AdminClient({**settings, "log_level": 0})  # most of them are a consumer's, which it would tell each time
    try:
        answers = admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=ANSWER)
        (found,) = answers[group].result(2 * ANSWER).topic_partitions
        error = found.error
    except (KafkaException, TimeoutError):
        error = None
    if error is not None and error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
        return (
            f"the offset of group {group!r} for {topic}-{partition} is in a transaction that has not ended for "
            f"{PATIENCE:.0f} s; kafka-transactions.sh find-hanging finds those that never will, of which Kafka 4.3 and "
            "4.4 leave some behind when brokers are restarted (KAFKA-20734)"
        )
    return (
        f"librdkafka has not begun to fetch from {topic}-{partition} in {PATIENCE:.0f} s: it has forgotten to ask "
        "where to begin"
    )


def _state(topics: Mapping[str, Any], topic: str, partition: int) -> str:
    """Of a partition; what librdkafka does not mention it does not fetch."""
    found = topics.get(topic, {"partitions": {}})["partitions"].get(str(partition))
    return "none" if found is None else str(found["fetch_state"])
