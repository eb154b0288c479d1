"""The types of the field ``kafka`` in the JSON of ``hashstar archive inspect``, of a Kafka broker's data folder.

Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from bindings.report.forms.json_types import BadJson

__all__ = [
    "KafkaGroupJson", "KafkaJson", "KafkaPartitionJson", "KafkaProducerJson", "KafkaTopicJson", "KafkaTransactionJson",
]  # fmt: skip


class KafkaEpochJson(TypedDict):
    """An epoch of the leaders of a partition."""

    epoch: int
    start_offset: int


class KafkaProducerJson(TypedDict):
    """The state of an idempotent or transactional producer in a partition."""

    producer_id: int
    epoch: int
    last_sequence: int
    """-1 if it has written no records in this epoch."""
    last_offset: int
    last_time: str | None
    coordinator_epoch: int
    """-1 if none of its transactions has ended."""
    open_since: int | None
    """First offset of its transaction that has not ended."""


class KafkaAbortedJson(TypedDict):
    """A transaction that was aborted, in a partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of its marker."""
    last_stable_offset: int


class KafkaPartitionJson(TypedDict):
    """A partition of a topic."""

    partition: int
    start_offset: int
    """Offset of the first record that consumers get."""
    end_offset: int
    """Offset behind the last record of the log."""
    high_watermark: int | None
    """As the broker saved it last."""
    last_stable_offset: int
    """Offset up to which all transactions have ended."""
    recovery_point: int | None
    """Offset up to which records are certainly on the disk."""
    segments: int
    bytes: int
    batches: int
    records: int
    markers: int
    """Number of markers of transactions and other control records."""
    bad: int
    """Number of batches that cannot be read."""
    formats: list[int]
    """Message formats: 0, 1, 2."""
    first_time: str | None
    last_time: str | None
    leader_epochs: list[KafkaEpochJson]
    producers: list[KafkaProducerJson]
    aborted: list[KafkaAbortedJson]


class KafkaTopicJson(TypedDict):
    """A topic of which the folder has partitions."""

    topic: str
    topic_id: str | None
    own: bool
    """Whether it is Kafka's own."""
    partitions: list[KafkaPartitionJson]


class KafkaTopicPartitionJson(TypedDict):
    """A partition that is assigned to a member, or in a transaction."""

    topic: str | None
    """Null if only the id of the topic is known."""
    topic_id: str | None
    partition: int


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
    committed: str | None
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


class KafkaTransactionJson(TypedDict):
    """A transactional producer and the state of its newest transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    partitions: list[KafkaTopicPartitionJson]
    started: str | None
    updated: str | None


class KafkaClusterTopicJson(TypedDict):
    """A topic of the cluster."""

    topic: str
    topic_id: str
    partitions: int


class KafkaClusterJson(TypedDict):
    """Metadata of a KRaft cluster, if the folder has it."""

    topics: list[KafkaClusterTopicJson]
    features: dict[str, int]
    """Name -> level."""


class KafkaJson(TypedDict):
    """What the data folder of a Kafka broker holds beside records."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    clean_shutdown: bool
    """Whether the broker has ended cleanly; else it runs, or was killed."""
    topics: list[KafkaTopicJson]
    groups: list[KafkaGroupJson]
    transactions: list[KafkaTransactionJson]
    cluster: KafkaClusterJson | None
    """Null without its metadata in the folder."""
    bad: list[BadJson]
    """Files beside the segments, and records of Kafka's own topics, that cannot be read."""
