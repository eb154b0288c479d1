"""Inspect the data folder of a Kafka broker, one of its ``log.dirs``: topics, groups, transactions, metadata.

=====================================  ===============================================================================
``TOPIC-PARTITION/``                   the log of a partition (`bindings.archive.kafka.partition`)
``__consumer_offsets-N/``              groups and their offsets (`bindings.archive.kafka.groups`)
``__transaction_state-N/``             transactional producers (`bindings.archive.kafka.transaction_state`)
``__cluster_metadata-0/``              topics of a KRaft cluster (`bindings.archive.kafka.cluster`)
``meta.properties``                    the ids of cluster, node and folder
``replication-offset-checkpoint``      high watermarks: offsets up to which all replicas in sync have the records
``recovery-point-offset-checkpoint``   offsets up to which records are certainly on the disk
``log-start-offset-checkpoint``        offsets below which records were deleted, though a segment still has them
``.kafka_cleanshutdown``               exists after the broker has ended cleanly, until it starts again
=====================================  ===============================================================================

Brokers write the checkpoints from time to time: while one runs, logs are ahead of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from bindings.archive.kafka import cluster, groups, transaction_state
from bindings.archive.kafka.cluster import Cluster, read_cluster
from bindings.archive.kafka.groups import Groups, StoredGroup
from bindings.archive.kafka.partition import PartitionFacts, inspect_partition, list_segments, read_partition_records
from bindings.archive.kafka.side_files import format_id, read_offsets, read_or_report, read_properties
from bindings.archive.kafka.transaction_state import TransactionState, read_transaction_states
from bindings.archive.sums import Unread
from exchange.errors import InputError, name_os_errors
from exchange.values.documents import document

META: Final = "meta.properties"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEAN: Final = ".kafka_cleanshutdown"
FOLDER: Final = re.compile(r"(.+)-([0-9]{1,9})")
OWN_TOPICS: Final = frozenset({
    "__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state", "__remote_log_metadata",
})  # fmt: skip


@document(
    "KafkaPartitionJson",
    "facts.partition, start_offset, facts.end_offset, high_watermark, last_stable_offset, recovery_point, "
    "facts.segments, bytes = facts.size, facts.batches, facts.records, facts.markers, facts.bad, facts.formats, "
    "facts.first_time, facts.last_time, leader_epochs = facts.epochs, producers = facts.by_id, facts.aborted",
)
class LocatedPartition(NamedTuple):
    """A partition of a topic, with what the folder's checkpoints have on it."""

    facts: PartitionFacts
    start_offset: int
    """Offset of the first record that consumers get."""
    high_watermark: int | None
    """As the broker saved it last; None if no checkpoint has it."""
    recovery_point: int | None
    """Offset up to which records are certainly on the disk."""

    @property
    def last_stable_offset(self) -> int:
        """Offset of the first record of a transaction that has not ended; else the end of the log."""
        return min([each.open_since or 0 for each in self.facts.open_transactions], default=self.facts.end_offset)


@document("KafkaTopicJson", "topic = name, topic_id, own = is_own, partitions")
class TopicFacts(NamedTuple):
    """A topic of which the folder has partitions."""

    name: str
    topic_id: str | None
    """In base64, as Kafka writes it."""
    partitions: tuple[LocatedPartition, ...]

    @property
    def is_own(self) -> bool:
        """Whether it is Kafka's own."""
        return self.name in OWN_TOPICS


@dataclass(slots=True)
class FolderInspection:
    """What the data folder of a broker holds."""

    properties: Mapping[str, str] = field(default_factory=dict)
    is_clean: bool = False
    """Whether the broker has ended cleanly, and does not run."""
    topics: tuple[TopicFacts, ...] = ()
    groups: tuple[StoredGroup, ...] = ()
    transactions: tuple[TransactionState, ...] = ()
    cluster: Cluster | None = None
    """None without a log of the cluster's metadata in the folder."""
    problems: Unread = field(default_factory=Unread)
    """What cannot be read: files beside the segments, and records of Kafka's own topics."""

    @property
    def end_offsets(self) -> dict[tuple[str, int], int]:
        """Topic and partition -> offset behind the last record, of the partitions in the folder."""
        return {
            (topic.name, each.facts.partition): each.facts.end_offset
            for topic in self.topics
            for each in topic.partitions
        }

    @property
    def topic_names(self) -> dict[UUID, str]:
        """Id -> name of the topics of the cluster and of the folder."""
        names = {} if self.cluster is None else {number: topic.name for number, topic in self.cluster.topics.items()}
        for topic in self.topics:
            names |= {each.facts.topic_id: topic.name for each in topic.partitions if each.facts.topic_id is not None}
        return names

    def keep_topic(self, name: str) -> None:
        """Leave out what is about other topics. Raises InputError if the folder has no partition of this one."""
        self.topics = tuple([topic for topic in self.topics if topic.name == name])
        if not self.topics:
            raise InputError(f"there are no partitions of a topic {name!r}")
        for group in self.groups:
            group.offsets = {where: offset for where, offset in group.offsets.items() if where[0] == name}
        self.groups = tuple([group for group in self.groups if group.offsets])
        self.transactions = tuple(
            [each for each in self.transactions if any(topic == name for topic, _ in each.partitions)]
        )


def is_data_folder(path: str) -> bool:
    """Return whether a path is the data folder of a broker: it has partitions, and files that only brokers write."""
    root = Path(path)
    known = (META, HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS)
    return root.is_dir() and any((root / name).is_file() for name in known) and any(_list_partitions(root))


def inspect_folder(path: str, step: Callable[[int, int], None] = lambda done, total: None) -> FolderInspection:
    """Inspect the data folder of a broker; ``step`` is called with the numbers of partitions read and to read.

    Raises InputError if the folder or a segment cannot be opened.
    """
    root, found = Path(path), FolderInspection()
    found.is_clean = (root / CLEAN).exists()
    found.properties = read_or_report(root / META, read_properties, found.problems) or {}
    high, points, starts = (
        read_or_report(root / name, read_offsets, found.problems) or {}
        for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS)
    )
    folders = sorted(_list_partitions(root), key=lambda each: each[1:])
    topics: dict[str, list[LocatedPartition]] = {}
    for number, (folder, topic, partition) in enumerate(folders):
        step(number, len(folders))
        facts = inspect_partition(folder, topic, partition, found.problems)
        where = (topic, partition)
        start = max(facts.start_offset, starts.get(where, 0))
        topics.setdefault(topic, []).append(LocatedPartition(facts, start, high.get(where), points.get(where)))
    found.topics = tuple([TopicFacts(name, _topic_id(each), tuple(each)) for name, each in topics.items()])
    collected = Groups(found.problems)
    for folder in _folders_of(folders, groups.TOPIC):
        collected.add(read_partition_records(folder, found.problems), str(folder))
    found.groups = tuple(collected.all())
    states = [
        (str(folder), read_partition_records(folder, found.problems))
        for folder in _folders_of(folders, transaction_state.TOPIC)
    ]
    found.transactions = tuple(read_transaction_states(states, found.problems))
    if (root / cluster.FOLDER).is_dir():
        found.cluster = read_cluster(root / cluster.FOLDER, found.problems)
    return found


def _list_partitions(root: Path) -> Iterator[tuple[Path, str, int]]:
    """Yield folder, topic and number of each partition, in no order, without those being deleted or moved."""
    with name_os_errors(root):
        for path in root.iterdir():
            match = FOLDER.fullmatch(path.name)
            if match is not None and path.is_dir() and list_segments(path):
                yield path, match[1], int(match[2])


def _folders_of(folders: list[tuple[Path, str, int]], topic: str) -> list[Path]:
    return [folder for folder, name, _ in folders if name == topic]


def _topic_id(partitions: list[LocatedPartition]) -> str | None:
    ids = [each.facts.topic_id for each in partitions if each.facts.topic_id is not None]
    return format_id(ids[0]) if ids else None
