"""Clients that only send requests for information: a cluster's metadata, its id, a group's offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from bridge.endpoints.kafka.cluster.addresses import QUIET
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import LOG_LEVEL, WITHHELD, Reasons

METADATA_WITHIN: Final = 6.0
"""Maximum number of seconds until brokers answer with their metadata."""

FIRST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 2.0
"""Seconds of a try to get the metadata: at first, and at most. If all brokers are down, tries end after the latter."""

ANSWER: Final = 5.0
"""Seconds that a coordinator may take to answer."""


class NeededRequest(NamedTuple):
    """A request that brokers must know, in a version, for what a source is to do."""

    number: str
    version: int
    unknown: str
    """What brokers do not know that do not have it, since when they do, and the way out."""


NEW_PROTOCOL: Final = NeededRequest(
    "68",  # ConsumerGroupHeartbeat
    1,
    'group.protocol = "consumer" (KIP-848), which needs Kafka 4.0 or later; remove it from the key librdkafka',
)
SHARE_GROUPS: Final = NeededRequest(
    "78",  # ShareFetch
    1,
    'share groups (KIP-932), which need Kafka 4.2 or later; write group_type = "consumer"',
)

SUPPORTED_VERSION: Final = re.compile(r"ApiKey \S+ \(([0-9]+)\) Versions [0-9]+\.\.([0-9]+)")

ASKING: Final[Mapping[str, Any]] = {
    "log_level": 0, "statistics.interval.ms": 0, "metadata.recovery.strategy": "none",
}  # fmt: skip
"""Settings of a client that only asks."""


class AdminLog:
    """The log of an AdminClient, which has the settings of a consumer or producer: that one warns of them."""

    def __init__(self, reasons: Reasons) -> None:
        self._reasons = reasons

    def log(self, level: int, form: str, *parts: str) -> None:
        """Log a line of librdkafka's, unless it is about a setting."""
        if parts[0] != "CONFWARN":
            self._reasons.log(level, form, *parts)


def make_admin(settings: Mapping[str, Any], reasons: Reasons) -> AdminClient:
    """Make an AdminClient. Raises KafkaException for settings that librdkafka refuses."""
    own: dict[str, Any] = {
        "log_level": LOG_LEVEL, **settings, "allow.auto.create.topics": False, "error_cb": reasons.note_error,
    }  # fmt: skip
    return AdminClient(own, logger=AdminLog(reasons))


def fetch_metadata(client: Any, reasons: Reasons) -> Any:
    """Return a cluster's metadata, by any client; wait for `METADATA_WITHIN` at most. Raises KafkaException.

    Brokers that refuse or close connections are not waited for here: the pump opens the endpoint again.
    """
    began = monotonic()
    wait = FIRST_WAIT
    while True:
        try:
            return client.list_topics(timeout=wait)
        except KafkaException:
            client.poll(0)  # reports the reasons
            if reasons.is_certain or monotonic() - began > (LONGEST_WAIT if reasons.all_down else METADATA_WITHIN):
                raise
        wait = min(wait * 2, LONGEST_WAIT)  # a broker that is far away is asked anew each time


async def look_at_topics(settings: Mapping[str, Any], reasons: Reasons) -> Any:
    """Return a cluster's metadata, by a consumer for that alone, so that another knows no topic yet.

    It is closed on a thread of its own, which hangs as long as a name server does. Raises KafkaException.
    """
    made: list[Consumer] = []

    def look() -> Any:
        made.append(Consumer({**settings, "statistics.interval.ms": 0, "error_cb": reasons.note_error}, logger=reasons))
        return fetch_metadata(made[0], reasons)

    def close() -> None:
        for consumer in made:
            consumer.close()

    calls = Calls()
    try:
        return await calls.call(look)
    finally:
        calls.call(close)
        calls.end()


class _Versions:
    """Takes the lines of librdkafka in which it lists what requests a broker knows, in place of a logger."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        """Number of a request -> its highest known version; empty: nothing is listed."""

    def log(self, _: int, __: str, *parts: str) -> None:
        """Take a line, as `logging.Logger.log` does."""
        if parts[0] == "APIVERSION" and (listed := SUPPORTED_VERSION.search(parts[-1])):
            self.highest[listed[1]] = max(self.highest.get(listed[1], -1), int(listed[2]))


def find_missing_request(settings: Mapping[str, Any], needed: NeededRequest) -> str:
    """Return why a member of a group would wait for ever at these brokers, which do not know a request; "" if it works.

    Wait for an answer. librdkafka neither reports nor logs that its brokers do not know one.
    """
    versions = _Versions()
    own = {**settings, **ASKING, "debug": "feature", "log_level": 7}
    admin = AdminClient(own, logger=versions)
    with suppress(KafkaException):  # the next request fails, too, and gives the reason
        admin.list_topics(timeout=METADATA_WITHIN)
    admin.poll(0)
    if not versions.highest or versions.highest.get(needed.number, -1) >= needed.version:
        return ""
    return f"these brokers do not know {needed.unknown}"


def fetch_cluster_id(settings: Mapping[str, Any], reasons: Reasons) -> str:
    """Return the id of a cluster; wait for the answer. Raises KafkaException."""
    return str(fetch_metadata(make_admin(settings, reasons), reasons).cluster_id)


def make_asking_consumer(settings: Mapping[str, Any], isolation: str = "read_uncommitted") -> Consumer:
    """Make a consumer that only reads its group's committed offsets, and does not join it. Raises KafkaException.

    With ``read_committed`` there is no answer while a transaction is open that may move an offset.

    An AdminClient must not ask a coordinator: librdkafka 2.16 follows a null pointer when the broker answers that it is
    none (`rd_kafka_handle_OffsetFetch`), and uses memory that it has freed when no coordinator was found in time (its
    pull request 5397). Whenever a broker is restarted at the wrong moment, that kills the process or blocks the thread.
    """
    return Consumer({**settings, **ASKING, "isolation.level": isolation}, logger=QUIET)


def fetch_committed(consumer: Consumer, partitions: Collection[tuple[str, int]]) -> list[TopicPartition]:
    """Return the offsets committed by the group for those partitions that it may see; wait for the answer.

    Raises KafkaException, also if one partition has no answer now.
    """
    offsets = consumer.committed([TopicPartition(*each) for each in partitions], ANSWER)
    for each in offsets:
        if each.error is not None and each.error.code() not in WITHHELD:
            raise KafkaException(each.error)
    return [each for each in offsets if each.error is None]
