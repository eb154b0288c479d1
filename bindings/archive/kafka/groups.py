"""Read consumer groups and their committed offsets from the topic ``__consumer_offsets``.

Of each key the last record counts, and null deletes; offsets that are committed in a transaction count once it is
committed. The version in a key is the kind of the record (`CoordinatorRecordType`): offsets (0 and 1), groups of the
classic protocol (2), and parts of groups of the protocols of KIP-848 (3 to 8), of share groups (10 to 15) and of
streams groups (17 to 23). Of the latter two, name and epoch are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from bindings.archive.figures import Timestamp
from bindings.archive.kafka.partition import LoggedRecord
from bindings.archive.kafka.schemas import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    NEVER,
    STRING,
    UUID_FIELD,
    Array,
    Field,
    FieldReader,
    ValueSchema,
)
from bindings.archive.reading import Bad, take_sample
from bindings.archive.sums import Unread
from exchange.errors import InputError

TOPIC: Final = "__consumer_offsets"

OFFSETS: Final = (0, 1)
CLASSIC: Final = 2
GroupKind: TypeAlias = Literal["classic", "consumer", "share", "streams"]
"""The protocol of a consumer group; consumer is KIP-848."""
EPOCH_KINDS: Final[dict[int, GroupKind]] = {3: "consumer", 11: "share", 17: "streams"}
"""Kind of a record with the epoch of a group -> type of the group."""
MEMBER: Final = 5
TARGET: Final = 6
ASSIGNED: Final = 8
MEMBER_KEYS: Final = frozenset({MEMBER, ASSIGNED})
LAST_KIND: Final = 23
STABLE: Final = 0
"""State of a member that has all that is assigned to it (`MemberState`)."""

GROUP_KEY: Final = ValueSchema(NEVER - 1, NEVER, (Field("group", STRING),))
MEMBER_KEY: Final = ValueSchema(NEVER - 1, NEVER, (Field("group", STRING), Field("member", STRING)))
OFFSET_KEY: Final = ValueSchema(1, NEVER, (Field("group", STRING), Field("topic", STRING), Field("partition", INT32)))
OFFSET_VALUE: Final = ValueSchema(
    4, 4,
    (
        Field("offset", INT64), Field("leader_epoch", INT32, since=3), Field("metadata", STRING),
        Field("time", INT64), Field("expires", INT64, since=1, until=1),
    ),
)  # fmt: skip
"""`OffsetCommitValue`."""
GROUP_VALUE: Final = ValueSchema(
    4, 4,
    (
        Field("protocol_type", STRING), Field("generation", INT32), Field("protocol", STRING), Field("leader", STRING),
        Field("time", INT64, since=2),
        Field("members", Array((
            Field("member", STRING), Field("instance", STRING, since=3), Field("client_id", STRING),
            Field("host", STRING), Field("rebalance_timeout", INT32, since=1), Field("session_timeout", INT32),
            Field("subscription", BYTES), Field("assignment", BYTES),
        ))),
    ),
)  # fmt: skip
"""`GroupMetadataValue`."""
MEMBER_VALUE: Final = ValueSchema(
    0, 0,
    (
        Field("instance", STRING), Field("rack", STRING), Field("client_id", STRING), Field("host", STRING),
        Field("topics", Array(STRING)), Field("pattern", STRING), Field("rebalance_timeout", INT32),
        Field("assignor", STRING),
    ),
)  # fmt: skip
"""`ConsumerGroupMemberMetadataValue`."""
PARTITIONS: Final = Array((Field("topic_id", UUID_FIELD), Field("partitions", Array(INT32))))
ASSIGNED_VALUE: Final = ValueSchema(
    0, 0,
    (
        Field("epoch", INT32), Field("previous_epoch", INT32), Field("state", INT8), Field("assigned", PARTITIONS),
        Field("revoked", PARTITIONS),
    ),
)  # fmt: skip
"""`ConsumerGroupCurrentMemberAssignmentValue`."""
ASSIGNMENT: Final = Array((Field("topic", STRING), Field("partitions", Array(INT32))))
"""The topics in a classic assignment (`ConsumerProtocolAssignment`), in all of its versions."""


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for a partition: it consumes that record next."""

    offset: int
    leader_epoch: int
    """-1 if the consumer gave none."""
    metadata: str
    time: Timestamp
    """When it was committed."""


@dataclass(slots=True)
class StoredMember:
    """A member of a group."""

    member_id: str
    instance: str | None = None
    """Its id if it is a static member."""
    client_id: str = ""
    host: str = ""
    partitions: list[tuple[str | UUID, int]] = field(default_factory=list)
    """Topic, or the id of the topic, and partition."""
    epoch: int = -1
    """Epoch of its assignment; -1 in the classic protocol."""
    state: int = STABLE


@dataclass(slots=True)
class StoredGroup:
    """A consumer group."""

    name: str
    kind: GroupKind = "classic"
    epoch: int | None = None
    """Generation of a classic group, epoch of another."""
    protocol: str | None = None
    """Name of the assignor of a classic group, which clients call a protocol."""
    leader: str | None = None
    target_epoch: int | None = None
    """Epoch of the newest assignment; None in the classic protocol."""
    members: dict[str, StoredMember] = field(default_factory=dict)
    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    """Topic and partition -> offset."""

    @property
    def state(self) -> str | None:
        """State as `kafka-consumer-groups` shows it; None for share and streams groups, whose members are not read."""
        if self.kind in ("share", "streams"):
            return None
        if not self.members:
            return "Empty"
        if self.kind != "consumer":
            return "Stable"
        if self.epoch is not None and self.epoch > (self.target_epoch or 0):
            return "Assigning"
        is_stable = all(each.state == STABLE and each.epoch == self.target_epoch for each in self.members.values())
        return "Stable" if is_stable else "Reconciling"


class Groups:
    """Collects groups from the records of ``__consumer_offsets``; all records of a group are in one partition."""

    def __init__(self, problems: Unread) -> None:
        self._groups: dict[str, StoredGroup] = {}
        self._problems = problems

    def add(self, records: Iterable[LoggedRecord], source: str) -> None:
        """Apply the records of a partition, in order; records that are not the coordinator's go to the problems."""
        for record in records:
            try:
                self._apply(record)
            except InputError as error:
                reason = f"a record of {TOPIC} that cannot be read: {error}"
                self._problems.add_bad(Bad(source, record.offset, reason, take_sample(record.key or b"")))

    def all(self) -> list[StoredGroup]:
        """Return the groups that exist, by name: those with members, offsets or an epoch."""
        found = [each for each in self._groups.values() if each.offsets or each.members or each.epoch is not None]
        return sorted(found, key=lambda group: group.name)

    def _apply(self, record: LoggedRecord) -> None:
        reader = FieldReader(record.key or b"")
        kind = reader.number(">h")
        if kind in OFFSETS:
            key = OFFSET_KEY.read(reader, kind)
            self._set_offset(self._group(key), (key["topic"] or "", key["partition"]), record)
        elif kind == CLASSIC:
            self._set_classic(self._group(GROUP_KEY.read(reader, kind)), record.value)
        elif kind in EPOCH_KINDS:
            group = self._group(GROUP_KEY.read(reader, kind))
            group.epoch = None
            if record.value is not None:
                group.kind, group.epoch = EPOCH_KINDS[kind], _read_epoch(record.value)
        elif kind == TARGET:
            group = self._group(GROUP_KEY.read(reader, kind))
            group.target_epoch = None if record.value is None else _read_epoch(record.value)
        elif kind in MEMBER_KEYS:
            key = MEMBER_KEY.read(reader, kind)
            self._set_member(self._group(key), key["member"] or "", kind, record.value)
        elif not 0 <= kind <= LAST_KIND:
            raise InputError(f"its kind {kind} is not known")

    def _group(self, key: Mapping[str, Any]) -> StoredGroup:
        name = key["group"] or ""
        return self._groups.setdefault(name, StoredGroup(name))

    def _set_offset(self, group: StoredGroup, where: tuple[str, int], record: LoggedRecord) -> None:
        if record.value is None:
            group.offsets.pop(where, None)
            return
        value = OFFSET_VALUE.read_versioned(record.value)
        group.offsets[where] = CommittedOffset(
            value["offset"], value.get("leader_epoch", -1), value["metadata"] or "", value["time"]
        )

    def _set_classic(self, group: StoredGroup, data: bytes | None) -> None:
        group.members, group.epoch, group.protocol, group.leader = {}, None, None, None
        if data is None:
            return
        value = GROUP_VALUE.read_versioned(data)
        group.kind, group.epoch = "classic", value["generation"]
        group.protocol, group.leader = value["protocol"], value["leader"]
        for each in value["members"]:
            partitions = _read_assignment(each["assignment"]) if value["protocol_type"] == "consumer" else []
            name = each["member"] or ""
            group.members[name] = StoredMember(
                name, each.get("instance"), each["client_id"] or "", each["host"] or "", partitions
            )

    def _set_member(self, group: StoredGroup, name: str, kind: int, data: bytes | None) -> None:
        if data is None:
            if kind == MEMBER:
                group.members.pop(name, None)
            return
        if kind == MEMBER:
            value = MEMBER_VALUE.read_versioned(data)
            member = group.members.setdefault(name, StoredMember(name))
            member.instance, member.client_id = value["instance"], value["client_id"] or ""
            member.host = value["host"] or ""
            return
        value = ASSIGNED_VALUE.read_versioned(data)
        member = group.members.setdefault(name, StoredMember(name))
        member.epoch, member.state = value["epoch"], value["state"]
        member.partitions = [(each["topic_id"], number) for each in value["assigned"] for number in each["partitions"]]


def _read_epoch(data: bytes) -> int:
    """Return the epoch, which is the first field of such values; those behind it differ by the type of the group."""
    reader = FieldReader(data)
    version = reader.number(">h")
    if version:
        raise InputError(f"its version {version} is not known")
    return reader.number(">i")


def _read_assignment(data: bytes | None) -> list[tuple[str | UUID, int]]:
    """Return the partitions in the assignment of a classic member; none if its bytes are not those of a consumer."""
    try:
        reader = FieldReader(data or b"")
        INT16(reader, 0, False)
        topics = ASSIGNMENT(reader, 0, False)
    except InputError:
        return []
    return [(each["topic"] or "", number) for each in topics for number in each["partitions"]]
