"""What an archive holds, as JSON: ``hashstar archive inspect --json``. ``docs/inspect-json.md`` explains the fields.

The field ``kafka`` is what the data folder of a Kafka broker holds; most of it are `bindings.archive.kafka`'s values.

Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict
from uuid import UUID

from bindings.archive.figures import Time, Timestamp
from bindings.archive.formats.detect import Archive
from bindings.archive.inspection import Inspection
from bindings.archive.kafka.cluster import Cluster
from bindings.archive.kafka.folder import FolderInspection, TopicFacts
from bindings.archive.kafka.groups import StoredGroup
from bindings.archive.kafka.side_files import format_id
from bindings.archive.kafka.transaction_state import KafkaTopicPartitionJson, TransactionState
from bindings.archive.reading import Bias
from bindings.report.inspection import BadJson, encode_bad
from bindings.report.kafka import measure_lag
from exchange.text.numbers import is_digits
from exchange.values.documents import encode_as

__all__ = ["BiasKey", "InspectionJson", "KafkaJson", "encode_inspection", "encode_kafka"]

BiasKey = Literal["EVERYTHING", "SURVIVORS", "SAMPLE", "UNKNOWN"]
DIGITS: Final = 19
"""Maximum number of digits of the id of a node."""


class FileJson(TypedDict):
    """A file that is read."""

    path: str
    format: str
    bias: BiasKey


class WindowJson(TypedDict):
    """When the first and the last message were published."""

    first: Time | None
    last: Time | None
    records_without_time: int


class BodiesJson(TypedDict):
    """The bodies of the messages."""

    bytes: int
    records_without_size: int


class OutcomeJson(TypedDict):
    """What the broker did with the messages."""

    known: int
    """Messages whose routed queues are known."""
    nowhere: int
    """Number of these that went nowhere."""


class ExchangeCountJson(TypedDict):
    """Messages to an exchange."""

    vhost: str | None
    exchange: str
    records: int


class InspectionJson(TypedDict):
    """What an archive holds: `hashstar archive inspect --json`."""

    version: Literal[1]
    path: str
    """What was asked for."""
    formats: list[str]
    files: list[FileJson]
    not_archives: list[str]
    """Files that are no archives; each is also a bad record."""
    bias: list[BiasKey]
    """How the messages were taken, one for each format."""
    notes: list[str]
    """Sentences that a reader must know before the numbers."""
    auditable: bool
    """Whether `hashstar audit` can use it: there are records."""
    records: int
    skipped: dict[str, int]
    """Reason -> records that are no messages, or cannot be audited."""
    window: WindowJson
    bodies: BodiesJson
    outcome: OutcomeJson
    exchanges: list[ExchangeCountJson]
    bad: list[BadJson]
    kafka: NotRequired[KafkaJson]
    """What else is in the data folder of a Kafka broker; absent for other archives."""


def encode_inspection(archive: Archive, inspection: Inspection, folder: FolderInspection | None = None) -> Any:
    """Return what an archive holds as one JSON object; ``folder`` is the data folder of a broker that it is in."""
    span = inspection.span
    value: InspectionJson = {
        "version": 1,
        "path": archive.path,
        "formats": list(archive.names),
        "files": [
            {"path": path, "format": form.name, "bias": _bias_key(form.bias_of(path))} for path, form in archive.files
        ],
        "not_archives": list(archive.others),
        "bias": [_bias_key(bias) for bias in archive.biases],
        "notes": list(archive.notes),
        "auditable": bool(inspection.records),
        "records": inspection.records,
        "skipped": dict(inspection.unread.skipped),
        "window": {"first": span.first, "last": span.last, "records_without_time": inspection.untimed},
        "bodies": {"bytes": inspection.body_bytes, "records_without_size": inspection.without_size},
        "outcome": {"known": inspection.with_outcome, "nowhere": inspection.unrouted},
        "exchanges": [
            {"vhost": vhost, "exchange": name, "records": count}
            for (vhost, name), count in inspection.exchanges.most_common()
        ],
        "bad": encode_bad(inspection.unread),
    }
    if folder is not None:
        value["kafka"] = encode_kafka(folder)
    return encode_as(InspectionJson, value)


def _bias_key(bias: Bias) -> BiasKey:
    key: BiasKey = bias.name  # type: ignore[assignment]  # a test compares the names
    return key


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


def encode_kafka(found: FolderInspection) -> KafkaJson:
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
        "bad": encode_bad(found.problems),
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
