"""What sources of topics share, whatever kind of group they are members of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException

from bridge.endpoint import Place, Removal, Source
from bridge.endpoints.kafka.cluster.addresses import QUIET, Settings, describe_offline, place_of
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import CONNECTING, LOG_LEVEL
from bridge.endpoints.kafka.cluster.health import MEASURE_EVERY
from bridge.endpoints.kafka.cluster.tokens import prepare_login
from bridge.endpoints.kafka.cluster.topics import look_up_removals
from exchange.errors import InputError

CLIENT: Final[Mapping[str, Any]] = {
    **CONNECTING,
    # When no broker is up, librdkafka 2.16 would begin anew with its bootstrap servers. Commits sent meanwhile would
    # mostly never be answered, and it waits for them before it joins its group again.
    "metadata.recovery.strategy": "none",
    # A partition that is added is read from within this time.
    "topic.metadata.refresh.interval.ms": 10_000,
    "statistics.interval.ms": int(MEASURE_EVERY * 1_000),
    "log_level": LOG_LEVEL,
}
"""Settings of the client of every source, which the table's ``librdkafka`` may change."""

FETCH_MOST: Final = 50 << 20
"""Maximum number of bytes of one answer, unless the window is smaller."""
FETCH_LEAST: Final = 1_000_000
"""Minimum number of bytes of one answer: librdkafka's ``message.max.bytes``."""


def check_pattern(pattern: str) -> None:
    """Raise InputError for a regular expression that librdkafka does not take: its language is its own."""
    consumer = Consumer({"group.id": "hashstar"}, logger=QUIET)  # without an address it connects to nothing
    try:
        consumer.subscribe([pattern])
    except KafkaException:
        raise InputError(f"{pattern!r} is no regular expression that librdkafka takes") from None
    finally:
        consumer.close()


class TopicSource(Source):
    """Topics that a group reads; ``settings`` are librdkafka's, or return them anew for each connection."""

    def __init__(self, name: str, settings: Settings, topics: Sequence[str], window_bytes: int) -> None:
        self.name = name
        self._settings = settings
        self._topics = list(dict.fromkeys(topics))
        self._window_bytes = window_bytes
        self._calls: Calls | None = None

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings of its client, as of now. Raises Disconnected where a secret cannot be read any more."""

    @property
    def offline_settings(self) -> dict[str, Any]:
        """The same, without addresses and tokens."""
        return describe_offline(self.settings)

    @property
    def _fetch_bytes(self) -> int:
        """Maximum number of bytes of one answer."""
        return max(FETCH_LEAST, min(FETCH_MOST, self._window_bytes // 4))

    async def find_removals(self) -> Sequence[Removal] | None:
        calls = Calls()  # of its own: closing the consumer must not wait for the answer
        try:
            return await calls.call(lambda: look_up_removals(prepare_login(self.settings), self._topics))
        finally:
            calls.end()

    @property
    def places(self) -> frozenset[Place]:
        return frozenset([place_of(self.settings, topic) for topic in self._topics])

    @property
    def settled_in(self) -> str:
        return str(self.settings.get("group.id"))
