"""What the data folder of a Kafka broker holds, as JSON: the field ``kafka`` of ``hashstar archive inspect``.

Most of it are the values of `bindings.archive.kafka`. Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Final, Literal, TypedDict
from uuid import UUID

from bindings.archive.figures import Timestamp
from bindings.archive.kafka.cluster import Cluster
from bindings.archive.kafka.folder import FolderInspection, TopicFacts
from bindings.archive.kafka.groups import StoredGroup
from bindings.archive.kafka.side_files import format_id
from bindings.archive.kafka.transaction_state import KafkaTopicPartitionJson, TransactionState
from bindings.report.inspection import BadJson, bad_json
from bindings.report.kafka import measure_lag
from exchange.text.numbers import is_digits

__all__ = ["KafkaGroupJson", "KafkaJson", "kafka_json"]

DIGITS: Final = 19
"""Maximum number of digits of the id of a node."""


class KafkaMemberJson(TypedDict):
    """A member of a group."""

    member_id: str
    instance: str | None
    """Its id if it is a static member."""
    client_id: str
    host: str
    partitions: list[KafkaTopicPartitionJson]


class KafkaOffsetJson(TypedDict):
    """The offset that a group has committed for a partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    committed: Timestamp
    """When it was committed."""
    metadata: str
    lag: int | None
    """Number of offsets from there to the end of the log; null if the partition is not in the folder."""


class KafkaGroupJson(TypedDict):
    """A consumer group."""

    group: str
    type: Literal["classic", "consumer", "share", "streams"]
    state: str | None
    """Null for share and streams groups."""
    epoch: int | None
    """Generation of a classic group, epoch of another."""
    protocol: str | None
    leader: str | None
    members: list[KafkaMemberJson]
    offsets: list[KafkaOffsetJson]


class KafkaJson(TypedDict):
    """What the data folder of a Kafka broker holds beside records."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    clean_shutdown: bool
    """Whether the broker has ended cleanly; else it runs, or was killed."""
    topics: tuple[TopicFacts, ...]
    groups: list[KafkaGroupJson]
    transactions: tuple[TransactionState, ...]
    cluster: Cluster | None
    """Null without its metadata in the folder."""
    bad: list[BadJson]
    """Files beside the segments, and records of Kafka's own topics, that cannot be read."""


def kafka_json(found: FolderInspection) -> KafkaJson:
    """Return what the data folder of a broker holds as the values of its document."""
    node = found.properties.get("node.id", found.properties.get("broker.id", ""))
    names = found.topic_names
    return {
        "cluster_id": found.properties.get("cluster.id"),
        "node_id": int(node) if is_digits(node) and len(node) < DIGITS else None,
        "directory_id": found.properties.get("directory.id"),
        "clean_shutdown": found.is_clean,
        "topics": found.topics,
        "groups": [_group_json(group, found.end_offsets, names) for group in found.groups],
        "transactions": found.transactions,
        "cluster": found.cluster,
        "bad": bad_json(found.problems),
    }


def _group_json(group: StoredGroup, ends: dict[tuple[str, int], int], names: dict[UUID, str]) -> KafkaGroupJson:
    return {
        "group": group.name,
        "type": group.kind,  # type: ignore[typeddict-item]  # a test compares the names
        "state": group.state,
        "epoch": group.epoch,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": [
            {
                "member_id": each.member_id,
                "instance": each.instance,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [_topic_partition_json(topic, number, names) for topic, number in each.partitions],
            }
            for each in group.members.values()
        ],
        "offsets": [
            {
                "topic": topic,
                "partition": partition,
                "offset": each.offset,
                "leader_epoch": None if each.leader_epoch < 0 else each.leader_epoch,
                "committed": each.time,
                "metadata": each.metadata,
                "lag": measure_lag(ends.get((topic, partition)), each.offset),
            }
            for (topic, partition), each in sorted(group.offsets.items())
        ],
    }


def _topic_partition_json(topic: str | UUID, number: int, names: dict[UUID, str]) -> KafkaTopicPartitionJson:
    if isinstance(topic, UUID):
        return {"topic": names.get(topic), "topic_id": format_id(topic), "partition": number}
    return {"topic": topic, "topic_id": None, "partition": number}
