"""What an archive holds, as JSON: ``hashstar archive inspect --json``. ``docs/inspect-json.md`` explains the fields.

The field ``kafka`` is what the data folder of a Kafka broker holds; most of it are `bindings.archive.kafka`'s values.

Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from bindings.archive.figures import Timestamp
from bindings.archive.formats.detect import Archive, ArchiveContents
from bindings.archive.inspection import Inspection
from bindings.archive.kafka.folder import FolderInspection
from bindings.archive.kafka.groups import GroupKind, StoredGroup
from bindings.archive.kafka.side_files import format_id
from bindings.archive.kafka.transaction_state import KafkaTopicPartitionJson
from bindings.archive.reading import Bias
from bindings.report.inspection import BadJson, encode_bad
from bindings.report.kafka import measure_lag
from exchange.text.numbers import is_digits
from exchange.values.documents import by_name, document

BiasKey: TypeAlias = Annotated[Bias, by_name(Bias, str)]
DIGITS: Final = 19
"""Maximum number of digits of the id of a node."""


class FileJson(TypedDict):
    """A file that is read."""

    path: str
    format: str
    bias: BiasKey


class ExchangeCountJson(TypedDict):
    """Messages to an exchange."""

    vhost: str | None
    exchange: str
    records: int


class Inspected(NamedTuple):
    """What an archive holds: `hashstar archive inspect --json`."""

    archive: Archive
    contents: ArchiveContents
    inspection: Inspection
    folder: FolderInspection | None = None
    """What else is in the data folder of a Kafka broker; None for other archives."""


def _files(inspected: Inspected) -> list[FileJson]:
    return [{"path": path, "format": kind.format, "bias": Bias[kind.bias]} for path, kind in inspected.contents.kinds]


def _bias(inspected: Inspected) -> list[BiasKey]:
    """How the messages were taken, one for each format."""
    return list(inspected.contents.biases)


def _auditable(inspected: Inspected) -> bool:
    """Whether `hashstar audit` can use it: there are records."""
    return bool(inspected.inspection.records)


def _skipped(inspected: Inspected) -> dict[str, int]:
    """Reason -> records that are no messages, or cannot be audited."""
    return dict(inspected.inspection.unread.skipped)


def _exchanges(inspected: Inspected) -> list[ExchangeCountJson]:
    return [
        {"vhost": vhost, "exchange": name, "records": count}
        for (vhost, name), count in inspected.inspection.exchanges.most_common()
    ]


def _bad(inspected: Inspected) -> list[BadJson]:
    return encode_bad(inspected.inspection.unread)


document(
    "InspectionJson",
    "version = 1, archive.path, contents.formats, files, not_archives = contents.others, bias, "
    "contents.notes, auditable, inspection.records, skipped, "
    "window = WindowJson(inspection.span.first, inspection.span.last, records_without_time = inspection.untimed), "
    "bodies = BodiesJson(bytes = inspection.body_bytes, records_without_size = inspection.without_size), "
    "outcome = OutcomeJson(known = inspection.with_outcome, nowhere = inspection.unrouted), "
    "exchanges, bad, kafka = folder if any",
    files=_files,
    bias=_bias,
    auditable=_auditable,
    skipped=_skipped,
    exchanges=_exchanges,
    bad=_bad,
)(Inspected)


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
    type: GroupKind
    state: str | None
    """Null for share and streams groups."""
    epoch: int | None
    """Generation of a classic group, epoch of another."""
    protocol: str | None
    leader: str | None
    members: list[KafkaMemberJson]
    offsets: list[KafkaOffsetJson]


def _node_id(found: FolderInspection) -> int | None:
    node = found.properties.get("node.id", found.properties.get("broker.id", ""))
    return int(node) if is_digits(node) and len(node) < DIGITS else None


def _cluster_id(found: FolderInspection) -> str | None:
    return found.properties.get("cluster.id")


def _directory_id(found: FolderInspection) -> str | None:
    return found.properties.get("directory.id")


def _groups(found: FolderInspection) -> list[KafkaGroupJson]:
    ends, names = found.end_offsets, found.topic_names
    return [_group_json(group, ends, names) for group in found.groups]


def _problems(found: FolderInspection) -> list[BadJson]:
    """Files beside the segments, and records of Kafka's own topics, that cannot be read."""
    return encode_bad(found.problems)


document(
    "KafkaJson",
    "cluster_id, node_id, directory_id, clean_shutdown = is_clean, topics, groups, transactions, cluster, bad",
    cluster_id=_cluster_id,
    node_id=_node_id,
    directory_id=_directory_id,
    groups=_groups,
    bad=_problems,
)(FolderInspection)


def _group_json(group: StoredGroup, ends: dict[tuple[str, int], int], names: dict[UUID, str]) -> KafkaGroupJson:
    return {
        "group": group.name,
        "type": group.kind,
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
