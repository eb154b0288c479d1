"""Records of Kafka's coordinators and controllers: each version is read, the last one counts, and junk is reported."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.kafka.groups import CommittedOffset, Groups, StoredGroup, StoredMember
from bindings.archive.kafka.partition import LoggedRecord
from bindings.archive.kafka.transaction_state import STATES, TransactionState, read_transaction_states
from bindings.archive.sums import Unread

TOPIC_ID = UUID(int=7)
TAGS = b"\x01\x00\x08" + struct.pack(">q", 5)
"""One tagged field, of number 0 and 8 bytes."""


def text(value: str | None, *, flexible: bool = False) -> bytes:
    data = b"" if value is None else value.encode()
    if flexible:
        return (b"\0" if value is None else bytes([len(data) + 1])) + data
    return struct.pack(">h", -1 if value is None else len(data)) + data


def blob(data: bytes, *, flexible: bool = False) -> bytes:
    return (bytes([len(data) + 1]) if flexible else struct.pack(">i", len(data))) + data


def offset_record(version: int, offset: int) -> tuple[bytes, bytes]:
    key = struct.pack(">h", version % 2) + text("g") + text("orders") + struct.pack(">i", 3)
    flexible = version >= 4
    value = struct.pack(">hq", version, offset) + (struct.pack(">i", 9) if version >= 3 else b"")
    value += text("note", flexible=flexible) + struct.pack(">q", 1000)
    return key, value + (struct.pack(">q", 2000) if version == 1 else b"") + (TAGS if flexible else b"")


def group_record(version: int) -> tuple[bytes, bytes]:
    flexible = version >= 4
    assignment = struct.pack(">hi", 1, 1) + text("orders") + struct.pack(">iii", 2, 0, 3) + struct.pack(">i", -1)
    member = text("m", flexible=flexible) + (text("static", flexible=flexible) if version >= 3 else b"")
    member += text("client", flexible=flexible) + text("/host", flexible=flexible)
    member += (struct.pack(">i", 60) if version >= 1 else b"") + struct.pack(">i", 30)
    member += blob(b"s", flexible=flexible) + blob(assignment, flexible=flexible) + (b"\0" if flexible else b"")
    value = struct.pack(">h", version) + text("consumer", flexible=flexible) + struct.pack(">i", 4)
    value += text("range", flexible=flexible) + text("m", flexible=flexible)
    value += struct.pack(">q", 99) if version >= 2 else b""
    value += (b"\x02" if flexible else struct.pack(">i", 1)) + member + (b"\0" if flexible else b"")
    return struct.pack(">h", 2) + text("g"), value


def collect(records: Sequence[tuple[bytes | None, bytes | None]]) -> tuple[list[StoredGroup], Unread]:
    problems = Unread()
    groups = Groups(problems)
    groups.add([LoggedRecord(n, 0, key, value) for n, (key, value) in enumerate(records)], "f")
    return groups.all(), problems


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_each_version_are_read(version: int) -> None:
    (group,), problems = collect([offset_record(version, 42)])
    assert group.offsets == {("orders", 3): CommittedOffset(42, 9 if version >= 3 else -1, "note", 1000)}
    assert (group.kind, group.state, problems.bad) == ("classic", "Empty", {})


@pytest.mark.parametrize("version", range(5))
def test_groups_of_each_version_are_read(version: int) -> None:
    (group,), problems = collect([group_record(version)])
    static = "static" if version >= 3 else None
    assert group.members == {"m": StoredMember("m", static, "client", "/host", [("orders", 0), ("orders", 3)])}
    assert (group.epoch, group.protocol, group.leader, group.state, problems.bad) == (4, "range", "m", "Stable", {})


def test_the_last_record_of_a_key_counts_and_null_deletes() -> None:
    first, second = offset_record(3, 1), offset_record(3, 2)
    assert collect([first, second])[0][0].offsets["orders", 3].offset == 2
    assert collect([first, (first[0], None)])[0] == []
    assert collect([group_record(3), (group_record(3)[0], None), first])[0][0].members == {}


def modern(kind: int, names: Sequence[str], value: bytes | None) -> tuple[bytes, bytes | None]:
    return struct.pack(">h", kind) + b"".join(map(text, names)), value


def test_groups_of_the_consumer_protocol_are_read_and_their_states_told_apart() -> None:
    member = struct.pack(">h", 0) + b"".join(text(each, flexible=True) for each in ("i", None, "client", "/host"))
    member += b"\x02" + text("orders", flexible=True) + text(None, flexible=True) + struct.pack(">i", 5)
    member += text(None, flexible=True) + b"\0"

    def assigned(epoch: int, state: int) -> bytes:
        partitions = b"\x02" + TOPIC_ID.bytes + b"\x03" + struct.pack(">ii", 1, 2) + b"\0"
        return struct.pack(">hiib", 0, epoch, epoch - 1, state) + partitions + b"\x01" + b"\0"

    epoch = modern(3, ["g"], struct.pack(">hi", 0, 6) + b"\0")
    known = [epoch, modern(5, ["g", "m"], member)]
    for records, state in (
        ([epoch], "Empty"),
        (known, "Assigning"),
        (
            [*known, modern(6, ["g"], struct.pack(">hi", 0, 6) + b"\0"), modern(8, ["g", "m"], assigned(5, 0))],
            "Reconciling",
        ),
        (
            [*known, modern(6, ["g"], struct.pack(">hi", 0, 6) + b"\0"), modern(8, ["g", "m"], assigned(6, 1))],
            "Reconciling",
        ),
        ([*known, modern(6, ["g"], struct.pack(">hi", 0, 6) + b"\0"), modern(8, ["g", "m"], assigned(6, 0))], "Stable"),
    ):
        (group,), problems = collect(records)
        assert (group.kind, group.epoch, group.state, problems.bad) == ("consumer", 6, state, {})
    assert group.members["m"] == StoredMember("m", "i", "client", "/host", [(TOPIC_ID, 1), (TOPIC_ID, 2)], 6, 0)
    assert collect([*records, modern(5, ["g", "m"], None)])[0][0].members == {}
    for kind, name in ((11, "share"), (17, "streams")):
        (group,), _ = collect([modern(kind, ["g"], struct.pack(">hiq", 0, 3, 1) + b"\0")])
        assert (group.kind, group.epoch, group.state) == (name, 3, None)


def transaction(version: int, state: int) -> tuple[bytes, bytes]:
    flexible = version >= 1
    count = b"\x02" if flexible else struct.pack(">i", 1)
    numbers = (b"\x03" if flexible else struct.pack(">i", 2)) + struct.pack(">ii", 4, 1)
    topics = count + text("paid", flexible=flexible) + numbers + (b"\0" if flexible else b"")
    value = struct.pack(">hqhib", version, 8, 2, 60_000, state) + topics + struct.pack(">qq", 2000, -1)
    return struct.pack(">h", 0) + text("tx"), value + (TAGS if flexible else b"")


@pytest.mark.parametrize("version", [0, 1])
def test_transactions_of_each_version_are_read(version: int) -> None:
    problems = Unread()
    for number, state in enumerate(STATES):
        records = [LoggedRecord(0, 0, *transaction(version, number))]
        assert read_transaction_states([("f", records)], problems) == [
            TransactionState("tx", 8, 2, 60_000, state, (("paid", 1), ("paid", 4)), 2000, None)
        ]
    key, value = transaction(version, 0)
    deleted = [LoggedRecord(0, 0, key, value), LoggedRecord(1, 0, key, None)]
    assert read_transaction_states([("f", deleted)], problems) == []
    assert not problems.bad
    assert not read_transaction_states([("f", [LoggedRecord(0, 0, *transaction(version, 9))])], problems)
    assert problems.bad_records == 1


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=60)), max_size=5), st.data()
)
def test_junk_is_reported_and_never_raises(junk: list[tuple[bytes | None, bytes | None]], data: st.DataObject) -> None:
    records: list[tuple[bytes | None, bytes | None]] = [offset_record(3, 7), group_record(4), *junk]
    for n in range(2):
        key, value = records[n]
        assert value is not None
        cut = data.draw(st.integers(0, len(value)))
        records.append((key, value[:cut] + data.draw(st.binary(max_size=8))))
    _, problems = collect(records)
    assert problems.bad_records <= len(records)
    logged = [LoggedRecord(n, 0, key, value) for n, (key, value) in enumerate(records)]
    read_transaction_states([("f", logged)], problems)


def test_a_count_of_gigabytes_takes_no_memory() -> None:
    key, value = group_record(3)
    huge = value[:-100] + struct.pack(">i", 2**31 - 1)
    _, problems = collect([(key, huge)])
    assert problems.bad_records == 1
