"""Looks at the topics that a producer writes to: whether brokers answer, and how many partitions there are.

A producer that has nothing to write asks its brokers nothing, and would not notice that they are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from typing import Final

from confluent_kafka import KafkaException, Producer

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.health import PATIENCE
from bridge.endpoints.kafka.cluster.topics import (
    KafkaTopic,
    Partitioned,
    check_topics,
    count_partitions,
    list_partitions,
)

LOOK_EVERY: Final = 2.0
"""Seconds between looks; each is at the next topic."""

ANSWER: Final = 4.0
"""Seconds that brokers may take to answer a look."""

MISSED: Final = 2
"""Number of looks in a row that must find a topic missing: a broker that is starting may not know it yet."""


class TopicWatch:
    """Looks at the topics of a connection, from its opening to its end.

    ``producer`` returns its producer of now, ``find_reason`` why brokers do not answer, behind a colon.
    """

    def __init__(
        self,
        producer: Callable[[], Producer],
        topics: Mapping[str, KafkaTopic],
        partitioned: Partitioned,
        find_reason: Callable[[], str],
    ) -> None:
        self._producer = producer
        self._topics = dict(topics)
        self._partitioned = partitioned
        self._find_reason = find_reason
        self._asking_since: float | None = None

    @property
    def trouble(self) -> str | None:
        """Reason why nothing is known of the topics, if brokers have not answered for long."""
        since = self._asking_since
        if since is None or asyncio.get_running_loop().time() - since < PATIENCE:
            return None
        return f"the brokers do not answer{self._find_reason()}"

    async def run(self, changed: Callable[[Mapping[str, KafkaTopic]], None]) -> None:
        """Look until cancelled; call ``changed`` with all topics when one has other partitions or leaders.

        Raises Disconnected for a topic that is missing, or does not fit the topology any more.
        """
        calls, loop = Calls(), asyncio.get_running_loop()
        try:
            for name in cycle(self._topics):
                missed = 0
                while True:
                    await asyncio.sleep(LOOK_EVERY)
                    if self._asking_since is None:
                        self._asking_since = loop.time()
                    try:
                        metadata = await calls.call(partial(self._producer().list_topics, name, ANSWER))
                    except KafkaException:
                        continue
                    self._asking_since = None
                    try:
                        count = count_partitions(metadata, [name], dict(self._partitioned.values()))[name]
                    except Disconnected:
                        missed += 1
                        if missed < MISSED:
                            continue
                        raise
                    break
                known = self._topics[name]
                leaders = list_partitions(metadata, name, known.racks) if count else None
                if count and (count != known.partitions or leaders != known.leaders):
                    self._topics[name] = known._replace(partitions=count, leaders=leaders)
                    check_topics(self._topics, self._partitioned)
                    changed(dict(self._topics))
        finally:
            calls.end()
