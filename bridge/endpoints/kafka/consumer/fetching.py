"""Whether librdkafka fetches from its partitions, by its statistics, and why not.

Before librdkafka fetches from a partition, it asks the group's coordinator for the offset to begin at. The coordinator
does not answer while a transaction is open that may change the offset, and some transactions never end. Moreover,
librdkafka 2.16 never asks again after certain answers of a coordinator that was just restarted (its issue 5586). In
both cases the member keeps its membership and its partitions, nothing is ever read, and no error is reported: only the
statistics show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoints.kafka.cluster.asking import fetch_committed, make_asking_consumer
from bridge.endpoints.kafka.cluster.health import PATIENCE, find_away
from bridge.endpoints.kafka.consumer.backlog import find_partition

LONGEST_IDLE: Final = 30.0
"""Seconds without a fetch from a partition after which the connection is ended. They leave time for an open transaction
that may move the first offset: that of a bridge that was killed ends after 10 s by default."""

IDLE: Final = frozenset({"none", "stopped"})
"""States of a partition in which librdkafka neither fetches nor asks for an offset."""

STEADY: Final = "steady"
"""State of a member that has its partitions, or knows that there are none for it."""

GIVING_UP: Final = frozenset({
    "wait-unassign-call", "wait-unassign-to-complete", "wait-incr-unassign-to-complete",
})  # fmt: skip
"""States in which librdkafka waits for its own commits before it joins its group again. librdkafka 2.16 was seen to
wait for ever for one that a restarted broker never answered; nothing is assigned then, and nothing is reported."""

STUCK: Final = 10.0
"""Seconds in such a state after which the connection ends."""

LONG_WAIT_SECONDS: Final = 15.0
"""Seconds of waiting for the group after which it is reported; the other members may take minutes to join. While a
broker is away, `PATIENCE` is enough: messages of its partitions are read by nobody."""


class FetchQueues:
    """Remembers since when partitions are idle."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], float] = {}

    def find_idle(
        self, statistics: Mapping[str, Any], assigned: Iterable[tuple[str, int]], now: float
    ) -> tuple[str, int] | None:
        """Return an assigned partition that has been idle, at every look, for `LONGEST_IDLE` seconds; None if none has.

        ``statistics`` are librdkafka's, decoded; ``now`` is in seconds.
        """
        topics: Mapping[str, Any] = statistics["topics"]
        idle = [each for each in assigned if _fetch_state(topics, *each) in IDLE]
        self._since = {each: self._since.get(each, now) for each in idle}
        return next((each for each, since in self._since.items() if now - since >= LONGEST_IDLE), None)


class Joining:
    """Remembers since when a member has been in a state in which its group assigns nothing to it."""

    def __init__(self) -> None:
        self._state = STEADY
        self._since = 0.0
        self._waits_since: float | None = None
        """Time of the first look since which it has had no partitions, in whatever states; None: it has them."""
        self.trouble: str | None = None
        """How long it has waited for its partitions, if that is long."""
        self.is_stuck = False
        """Whether librdkafka hangs in a state of `GIVING_UP`, although the coordinator is there."""

    def look(self, statistics: Mapping[str, Any], now: float) -> None:
        """Take in librdkafka's statistics, decoded; ``now`` is in seconds."""
        group = statistics.get("cgrp", {"state": "init", "join_state": STEADY})
        state = group["join_state"] if group["state"] == "up" else STEADY
        if state != self._state:
            self._state, self._since = state, now
        self.is_stuck = state in GIVING_UP and now - self._since >= STUCK
        # Not since the last look at which it had them: this process may have been stopped in between.
        self._waits_since = None if state == STEADY else now if self._waits_since is None else self._waits_since
        lasts, away = 0.0 if self._waits_since is None else now - self._waits_since, find_away(statistics)
        self.trouble = None
        if lasts >= (PATIENCE if away else LONG_WAIT_SECONDS):
            why = f"{state}; broker {away} is not connected" if away else state
            self.trouble = f"it has waited for {lasts:.0f} s to be given partitions ({why})"


def explain_idle(settings: Mapping[str, Any], topic: str, partition: int) -> str:
    """Return why a partition is not fetched from; wait for the answer of the group's coordinator.

    ``settings`` are the consumer's.
    """
    group = str(settings["group.id"])
    if _is_in_transaction(settings, topic, partition):
        return (
            f"the offset of group {group!r} for {topic}-{partition} is in a transaction that has not ended for "
            f"{LONGEST_IDLE:.0f} s; kafka-transactions.sh find-hanging finds those that never will, of which Kafka 4.3 "
            "and 4.4 leave some behind when brokers are restarted (KAFKA-20734)"
        )
    return (
        f"librdkafka has not begun to fetch from {topic}-{partition} in {LONGEST_IDLE:.0f} s: it has forgotten to ask "
        "where to begin"
    )


def _is_in_transaction(settings: Mapping[str, Any], topic: str, partition: int) -> bool:
    """Return whether an open transaction may move the offset; wait for the answers.

    If so, the coordinator answers clients that read uncommitted offsets, and no others.
    """
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = make_asking_consumer(settings, isolation)
        try:
            fetch_committed(consumer, [(topic, partition)])
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError._TIMED_OUT):
                return isolation == "read_committed"
            return False
        finally:
            consumer.close()
    return False


def _fetch_state(topics: Mapping[str, Any], topic: str, partition: int) -> str:
    """Return the state of a partition; librdkafka does not fetch from one that it does not mention."""
    known = find_partition(topics, topic, partition)
    return "none" if known is None else str(known["fetch_state"])
