"""What a bridge asks of topics before it uses them: that they exist, how many partitions they have, what fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.errors import LOG_LEVEL, Reasons, told

__all__ = ["SECONDS", "Partitioned", "Topic", "admin_of", "agreed", "checked", "cluster_of", "metadata_of", "topics_of"]

SECONDS: Final = 6.0
"""How long brokers may take to tell."""
FIRST_LOOK: Final = 0.25
LOOK: Final = 2.0
"""The same, before it is looked whether they ever will: at first, and at most. So long all may be down, too."""


Partitioned: TypeAlias = Mapping[str, tuple[str, int]]
"""Queue of the topology -> its topic, and over how many partitions the topology spreads it."""


class Topic(NamedTuple):
    """A topic that exists."""

    partitions: int
    most_bytes: int | None
    """``max.message.bytes``: of a batch, and so of a message; None: it is not told to us."""


def checked(found: Any, names: Sequence[str]) -> dict[str, int]:
    """Topic -> how many partitions it has, by a cluster's metadata. Raises Disconnected naming one that is missing."""
    for name in names:
        topic = found.topics.get(name)
        if topic is None:
            raise Disconnected(f"there is no topic {name!r}; create it")
        if topic.error is not None:
            raise Disconnected(f"topic {name!r}: {told(topic.error)}")
    return {name: len(found.topics[name].partitions) for name in names}


def metadata_of(client: Any, reasons: Reasons) -> Any:
    """A cluster's metadata, by any client of it; waits for the answer, `SECONDS` at most. Raises KafkaException.

    Brokers that refuse connections, or end them, are waited for by whoever opens an endpoint again, not here.
    """
    began = monotonic()
    wait = FIRST_LOOK
    while True:
        try:
            return client.list_topics(timeout=wait)
        except KafkaException:
            client.poll(0)  # which lets it tell its reasons
            if reasons.certain or monotonic() - began > (LOOK if reasons.all_down else SECONDS):
                raise
        wait = min(wait * 2, LOOK)  # a broker that is far away is asked anew each time


def admin_of(settings: Mapping[str, Any], reasons: Reasons) -> AdminClient:
    """Return a client that only asks. Raises KafkaException for settings that it does not know."""
    own: dict[str, Any] = {
        "log_level": LOG_LEVEL, **settings, "allow.auto.create.topics": False, "error_cb": reasons.heard,
    }  # fmt: skip
    return AdminClient(own, logger=reasons)


def topics_of(settings: Mapping[str, Any], names: Sequence[str], reasons: Reasons) -> dict[str, Topic]:
    """The topics of these names; waits for the answers. Raises KafkaException; Disconnected as `checked`."""
    admin = admin_of(settings, reasons)
    counts = checked(metadata_of(admin, reasons), names)
    limits: dict[str, int] = {}
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=SECONDS
    )
    for resource, answer in asked.items():
        try:
            limits[resource.name] = int(answer.result()["max.message.bytes"].value)
        except (KafkaException, KeyError, TypeError, ValueError):
            continue  # who may write a topic need not be allowed to see how it is configured
    return {name: Topic(count, limits.get(name)) for name, count in counts.items()}


def agreed(topics: Mapping[str, Topic], partitioned: Partitioned) -> None:
    """Raises Disconnected if the topology spreads a queue over more or fewer partitions than its topic has.

    It may be so from one moment to the next, and whoever has the topic changed may change it back.
    """
    for queue, (topic, count) in partitioned.items():
        if topics[topic].partitions != count:
            raise Disconnected(
                f"topic {topic!r} has {topics[topic].partitions} partitions, and the topology spreads queue {queue!r} "
                f"over {count}: change one of them; the bridge waits for that"
            )


def cluster_of(settings: Mapping[str, Any], reasons: Reasons) -> str:
    """The id of a cluster; waits for the answer. Raises KafkaException."""
    admin = admin_of(settings, reasons)
    return str(metadata_of(admin, reasons).cluster_id)
