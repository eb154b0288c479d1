"""What a bridge asks of topics before it uses them: that they exist, how many partitions they have, what fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected
from bridge.kafka.errors import Reasons, told

__all__ = ["SECONDS", "Topic", "checked", "topics_of"]

SECONDS: Final = 10.0
"""How long brokers may take to tell."""


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


def topics_of(settings: Mapping[str, Any], names: Sequence[str], reasons: Reasons) -> dict[str, Topic]:
    """The topics of these names; waits for the answers. Raises KafkaException; Disconnected as `checked`."""
    own: dict[str, Any] = {"log_level": 2, **settings, "error_cb": reasons.heard}
    admin = AdminClient(own)
    try:
        counts = checked(admin.list_topics(timeout=SECONDS), names)
    except KafkaException:
        admin.poll(0)  # which lets it tell its reasons
        raise
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
