"""Read the topics of a KRaft cluster from its metadata: the log ``__cluster_metadata`` and its newest snapshot.

A snapshot is a file of record batches, ``OFFSET-EPOCH.checkpoint``, with the state before that offset. The value
of a record is the version of this frame, the kind of the record and its version as varints, and the record. Of the many
kinds those are read that make and delete topics and partitions, or set features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from bindings.archive.kafka.partition import LoggedRecord, list_segments, read_committed
from bindings.archive.kafka.schemas import INT16, INT32, STRING, UUID_FIELD, Field, FieldReader
from bindings.archive.kafka.side_files import TopicId
from bindings.archive.reading import Bad, take_sample
from bindings.archive.sums import Unread
from exchange.errors import InputError
from exchange.values.documents import document

FOLDER: Final = "__cluster_metadata-0"
SNAPSHOT: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
TOPIC: Final = 2
PARTITION: Final = 3
REMOVE_TOPIC: Final = 9
FEATURE: Final = 12
FIELDS: Final = {
    TOPIC: (Field("name", STRING), Field("topic_id", UUID_FIELD)),
    PARTITION: (Field("partition", INT32), Field("topic_id", UUID_FIELD)),
    REMOVE_TOPIC: (Field("topic_id", UUID_FIELD),),
    FEATURE: (Field("name", STRING), Field("level", INT16)),
}
"""Kind of a record (`MetadataRecordType`) -> its first fields. Versions add fields behind them, which are not read."""


@document("KafkaClusterTopicJson", "topic = name, topic_id, partitions = count")
@dataclass(slots=True)
class ClusterTopic:
    """A topic of the cluster."""

    name: str
    topic_id: TopicId
    partitions: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Number of partitions."""
        return len(self.partitions)


@document("KafkaClusterJson", "topics = by_name, features = levels")
@dataclass(slots=True)
class Cluster:
    """Metadata of a KRaft cluster, if the folder has it."""

    topics: dict[UUID, ClusterTopic] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    """Name, such as metadata.version -> level."""

    @property
    def by_name(self) -> list[ClusterTopic]:
        """The topics, sorted by name."""
        return sorted(self.topics.values(), key=lambda topic: topic.name)

    @property
    def levels(self) -> dict[str, int]:
        """Name -> level, sorted by name."""
        return dict(sorted(self.features.items()))


def read_cluster(folder: Path, problems: Unread) -> Cluster:
    """Return the topics in the folder of ``__cluster_metadata``; what cannot be read is added to the problems.

    Records that are not committed by the quorum of controllers yet are read, too. Raises InputError if a file cannot be
    opened.
    """
    cluster = Cluster()
    for source, record in _list_records(folder, problems):
        try:
            _apply(cluster, record.value)
        except InputError as error:
            reason = f"a record of the cluster's metadata that cannot be read: {error}"
            problems.add_bad(Bad(source, record.offset, reason, take_sample(record.value or b"")))
    return cluster


def _list_records(folder: Path, problems: Unread) -> Iterator[tuple[str, LoggedRecord]]:
    snapshots = sorted(path for path in folder.iterdir() if SNAPSHOT.fullmatch(path.name))
    begin = 0
    if snapshots:
        begin = int(snapshots[-1].name[:20])
        for record in read_committed(snapshots[-1], problems):
            yield str(snapshots[-1]), record
    for path in list_segments(folder):
        for record in read_committed(path, problems):
            if record.offset >= begin:
                yield str(path), record


def _apply(cluster: Cluster, value: bytes | None) -> None:
    reader = FieldReader(value or b"")
    frame, kind, version = reader.varint(), reader.varint(), reader.varint()
    if frame != 1:
        raise InputError(f"the version {frame} of its frame is not known")
    if kind not in FIELDS:
        return
    found = {each.name: each.read(reader, version, True) for each in FIELDS[kind]}
    if kind == TOPIC:
        cluster.topics[found["topic_id"]] = ClusterTopic(found["name"] or "", found["topic_id"])
    elif kind == PARTITION and found["topic_id"] in cluster.topics:
        cluster.topics[found["topic_id"]].partitions.add(found["partition"])
    elif kind == REMOVE_TOPIC:
        cluster.topics.pop(found["topic_id"], None)
    elif kind == FEATURE:
        cluster.features[found["name"] or ""] = found["level"]
