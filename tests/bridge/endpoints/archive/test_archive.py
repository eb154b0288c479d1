"""Archives as endpoints: what is confirmed is there once after any crash, and a replay continues where it was left."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from bindings.archive.formats.detect import detect
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.reading import Bias
from bindings.archive.record import Record, Rows, build_batch, to_records
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Outgoing
from bridge.endpoints.archive import spool as spool_module
from bridge.endpoints.archive.columns import prepare_batch, to_folder_name
from bridge.endpoints.archive.config import ArchiveSource, ArchiveTarget
from bridge.endpoints.archive.replay import ReplaySelection, ReplayWindow
from bridge.endpoints.archive.rotation import rotate
from bridge.endpoints.archive.rows import restore_message, to_rows
from bridge.endpoints.archive.spool import Spool, find_spools, lock_spool, read_frames
from bridge.endpoints.memory import MemorySource
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import InputError, Message
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.route import Placement
from exchange.values.field_values import Typed, resolve_type
from tests.exchange.amqp.test_codec import properties as any_properties
from tests.exchange.amqp.test_codec import tables as any_tables
from tests.support.archives.parts import find_parts
from tests.support.bridge.behaviour import (
    Place,
    Reports,
    Silent,
    SourceBehaviour,
    TargetBehaviour,
    on_a_loop,
    router_to,
    send_to,
)
from tests.support.tiers import examples
from tests.support.waiting import until

FOUR = Partitioning.parse("kafka.murmur2 over 4")
NOON = 1_700_000_000_000_000
"""A time, in microseconds since 1970."""

CHANGED: dict[str, Any] = {}
UNHELD = Message("", "key.0", CHANGED)
CHANGED["an object"] = object()  # a message keeps the mapping, and checks it once


def read_records(path: Path) -> list[Record]:
    """Return all records of an archive, in the order of its files."""
    return [
        record for form, split in detect(str(path)).plan() for item in form.read(split) for record in to_records(item)
    ]


def find_hidden(path: Path) -> list[Path]:
    """Return the files that others do not see."""
    return sorted(path.glob(".*"))


def read_bodies(path: Path) -> list[bytes]:
    return [record.message.body for record in read_records(path)]


def write_part(path: Path, messages: Sequence[Message], times: Sequence[int | None] = ()) -> None:
    """Write an archive of these messages, which appears at once."""
    times = times or [NOON + n for n in range(len(messages))]
    with ParquetWriter(path.with_name(f".{path.name}"), Bias.EVERYTHING) as writer:
        writer.write(build_batch([Record(m, t) for m, t in zip(messages, times, strict=True)]))
    path.with_name(f".{path.name}").rename(path)


def numbered(count: int) -> list[Message]:
    return [Message("in", f"key.{n % 3}", {"n": n}, {"message_id": str(n)}, b"%d" % n) for n in range(count)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    written, read = tmp_path / "written", tmp_path / "read"
    read.mkdir()
    parts = iter(range(10_000))
    return Place(
        make_source=lambda: ArchiveSource("replay", str(read), tmp_path / "state.json", follow=True),
        make_target=lambda: ArchiveTarget("archive", written, {"queue": ""}),
        put=lambda messages: write_part(read / f"{next(parts):05}", messages),
        read_all=lambda count: [record.message for record in read_records(written)],
        refused=("queue", UNHELD),
    )


class TestArchiveSource(SourceBehaviour):
    """`ArchiveSource`, which follows a folder."""


class TestArchiveTarget(TargetBehaviour):
    """`ArchiveTarget`, in a new folder."""


async def write_and_close(target: ArchiveTarget, messages: Sequence[Message], queue: str = "queue") -> Reports:
    """Write messages, wait until they are answered, close the target, and return what it reported."""
    reports = Reports()
    await target.open(reports)
    send_to(target, reports, messages, queue)
    await reports.answers(len(messages))
    await target.close()
    return reports


@on_a_loop
async def test_an_archived_message_has_all_its_parts(tmp_path: Path) -> None:
    headers = {"a": Typed("short", 1), "CC": ["other"], "b": 1.5, "n": {"x": [None, True]}}
    message = Message(
        "ex\udcff", "k\0.\udc80", headers, {"delivery_mode": 2, "priority": 0, "message_id": "m"}, b"\0\xff"
    )
    target = ArchiveTarget("a", tmp_path, {"queue": ""})
    reports = Reports()
    await target.open(reports)
    target.send(
        [Outgoing(message, Delivery(message, position=7, identity="id-1", time=NOON, origin="t-1 at 7"), "queue")]
    )
    await reports.answers(1)
    await target.close()
    [record] = read_records(tmp_path)
    assert resolve_type(record.message.headers) == resolve_type({**headers, "x-hashstar-id": "id-1"})
    assert record.message.properties == message.properties
    assert (record.message.exchange, record.message.routing_key) == (message.exchange, message.routing_key)
    assert record.message.body == message.body
    assert (record.time, record.source, record.offset, record.size) == (NOON, "t-1", 7, 2)
    assert [path.parent.name for path in find_parts(tmp_path)] == ["day=2023-11-14"]
    assert not find_hidden(tmp_path)


@examples(60)
@given(any_tables, any_properties)
def test_rows_of_a_spool_equal_those_made_of_the_messages(headers: dict[str, Any], properties: dict[str, Any]) -> None:
    message = build_lazy_message("e", "k", ContentHeader.encode(headers, properties), b"body")
    rows = Rows("somewhere")
    try:
        rows.add(message, NOON)
        "".join([text for text in properties.values() if isinstance(text, str)]).encode()
    except (InputError, UnicodeEncodeError):
        return  # the next tests have those
    outgoing = Outgoing(message, Delivery(message, position=3, time=NOON, origin="somewhere"), "queue")
    assert to_rows(prepare_batch([outgoing], {"queue": ""}, 0).batch).equals(rows.batch())


@examples(60)
@given(any_tables, any_properties)
def test_a_message_restored_from_its_row_equals_the_original(
    headers: dict[str, Any], properties: dict[str, Any]
) -> None:
    content = ContentHeader.encode(headers or None, properties)
    message = build_lazy_message("e", "k", content, b"body")
    outgoing = Outgoing(message, Delivery(message), "queue")
    [record] = to_records(to_rows(prepare_batch([outgoing], {"queue": ""}, NOON).batch))
    again = get_content(restore_message(record.message))
    assert again.properties() == properties
    assert resolve_type(again.headers()) == resolve_type(content.headers())


@pytest.mark.parametrize(
    "content",
    [
        ContentHeader.encode({"CC": "no array"}, {"message_id": "m"}),
        ContentHeader(b"\x20\0\0\0\0\x05\x01aZzz"),
        ContentHeader(b"\x20\0\0\0\xff\xff"),
        ContentHeader(b"\x80\0\x05ab"),
    ],
)
def test_headers_that_the_archive_cannot_hold_are_kept_as_bytes_and_restored(content: ContentHeader) -> None:
    message = build_lazy_message("e", "k", content, b"body")
    outgoing = Outgoing(message, Delivery(message, identity="id-1"), "queue")
    [record] = to_records(to_rows(prepare_batch([outgoing], {"queue": ""}, NOON).batch))
    assert record.message.headers["hashstar-reason"]
    assert record.message.headers["x-hashstar-id"] == "id-1"
    again = restore_message(record.message)
    assert again.headers.content.raw == content.raw  # type: ignore[attr-defined]  # it is lazy
    assert again.body == b"body"


@on_a_loop
async def test_each_queue_and_partition_has_its_folder(tmp_path: Path) -> None:
    target = ArchiveTarget("a", tmp_path, {"one": "queue=one", "two": "deep/er", "three": ""})
    reports = Reports()
    await target.open(reports)
    messages = []
    for n, (queue, partition) in enumerate([("one", 0), ("one", 3), ("two", None), ("three", None), ("one", 3)]):
        message = Message("", "k", body=b"%d" % n)
        placement = Placement(queue, partition, None, "k", None, "", FOUR) if queue == "one" else None
        messages.append(Outgoing(message, Delivery(message, time=NOON), queue, placement, n))
    target.send(messages)
    await reports.answers(5)
    await target.close()
    parts = find_parts(tmp_path)
    day = "day=2023-11-14"
    assert [str(path.parent.relative_to(tmp_path)) for path in parts] == [
        day, f"deep/er/{day}", f"queue=one/partition=0/{day}", f"queue=one/partition=3/{day}",
    ]  # fmt: skip
    assert [read_bodies(path) for path in parts] == [[b"3"], [b"2"], [b"0"], [b"1", b"4"]]


def test_a_queue_of_any_name_is_a_folder_of_one_name() -> None:
    assert [to_folder_name(name) for name in ("orders", "a/b", "ü=1", "50%", "x y")] == [
        "orders", "a%2Fb", "%C3%BC%3D1", "50%25", "x y",
    ]  # fmt: skip


@on_a_loop
async def test_an_archive_can_be_audited_while_it_grows(tmp_path: Path) -> None:
    target = ArchiveTarget("a", tmp_path, {"queue": ""}, rotate_seconds=0.5)
    reports = Reports()
    await target.open(reports)
    send_to(target, reports, numbered(10), "queue")
    await reports.answers(10)
    assert not find_parts(tmp_path)
    await until(lambda: find_parts(tmp_path))
    assert len(read_records(tmp_path)) == 10
    send_to(target, reports, numbered(5), "queue")
    await reports.answers(15)
    assert len(read_records(tmp_path)) in (10, 15)  # never some of a spool
    await target.close()
    assert len(read_records(tmp_path)) == 15
    assert not find_hidden(tmp_path)


@on_a_loop
async def test_a_spool_that_is_large_enough_becomes_parts(tmp_path: Path) -> None:
    target = ArchiveTarget("a", tmp_path, {"queue": ""}, rotate_bytes=1_000, gather_seconds=0)
    reports = Reports()
    await target.open(reports)
    for n in range(5):
        send_to(target, reports, [Message("", "k", body=b"%d" % n * 2_000)], "queue")
        await reports.answers(n + 1)
    await target.close()
    assert len(find_parts(tmp_path)) == 5
    assert [body[:1] for body in read_bodies(tmp_path)] == [b"0", b"1", b"2", b"3", b"4"]


# Crashes.


def make_spool(folder: Path, messages: Sequence[Message], batches: int = 3) -> Spool:
    """Make a spool of these messages, in several batches."""
    spool = Spool(folder)
    step = -(-len(messages) // batches)
    for n in range(0, len(messages), step):
        outgoing = [Outgoing(m, Delivery(m, time=NOON), "queue") for m in messages[n : n + step]]
        spool.append(prepare_batch(outgoing, {"queue": ""}, 0).batch)
    return spool


def test_a_tail_that_is_torn_anywhere_is_dropped_and_all_before_it_is_there(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    spool = make_spool(whole, numbered(30))
    spool.close()
    data = spool.path.read_bytes()
    sizes = [frame.size for frame in read_frames(spool.path)]
    begin = len(data) - sum(sizes)
    for cut in {*range(0, len(data), 97), begin, begin + sizes[0], len(data) - 1, len(data)}:
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        path = folder / spool.path.name
        # As after a loss of power: the length may be there already, and not what is in it.
        path.write_bytes(data[:cut] + (b"\xaa" * 50 if cut % 2 else b""))
        ends = [begin + sum(sizes[: n + 1]) for n in range(len(sizes))]
        expected = 10 * sum(end <= cut for end in ends)
        rotated = rotate(path)
        assert rotated is not None
        assert rotated.rows == expected
        assert not rotated.damaged
        assert not find_hidden(folder)
        if expected:
            assert [record.message.headers["n"] for record in read_records(folder)] == list(range(expected))


def test_damage_in_the_middle_loses_no_other_batch_and_keeps_the_spool(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, numbered(30))
    spool.close()
    data = bytearray(spool.path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    spool.path.write_bytes(data)
    rotated = rotate(spool.path)
    assert rotated is not None
    assert rotated.damaged
    assert [record.message.headers["n"] for record in read_records(tmp_path)] == [*range(10), *range(20, 30)]
    assert [path.name[:9] for path in tmp_path.glob(".*")] == [".damaged-"]


def test_a_crash_between_naming_the_parts_and_removing_the_spool_duplicates_nothing(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, numbered(30))
    spool.close()
    data = spool.path.read_bytes()
    rotate(spool.path)
    before = {path: path.stat().st_mtime_ns for path in find_parts(tmp_path)}
    spool.path.write_bytes(data)
    (tmp_path / f".making-{spool_module.read_token(spool.path)}").mkdir()
    assert rotate(spool.path) is not None
    assert {path: path.stat().st_mtime_ns for path in find_parts(tmp_path)} == before
    assert len(read_records(tmp_path)) == 30
    assert not find_hidden(tmp_path)


def test_a_spool_that_has_an_owner_is_left_alone(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, numbered(3))
    assert lock_spool(spool.path) is None
    assert rotate(spool.path) is None
    assert find_spools(tmp_path) == [spool.path]
    spool.close()
    assert rotate(spool.path) is not None
    assert rotate(spool.path) is None


def test_tokens_rise_even_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = spool_module._new_token()
    monkeypatch.setattr(spool_module, "time_ns", lambda: 0)
    assert first < spool_module._new_token() < spool_module._new_token()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.archive.config import ArchiveTarget
from exchange import Message

class Reports:
    count = 0
    def confirmed(self, messages):
        for outgoing in messages:
            print(outgoing.message.body.decode(), flush=True)

async def main():
    target = ArchiveTarget("a", Path(sys.argv[1]), {"queue": ""}, rotate_bytes=20_000)
    await target.open(Reports())
    n = int(sys.argv[2])
    while True:
        messages = [Message("", "k", body=b"%d" % each) for each in range(n, n + 20)]
        target.send([Outgoing(message, Delivery(message), "queue") for message in messages])
        n += 20
        await asyncio.sleep(0.002)

asyncio.run(main())
"""


@pytest.mark.process
def test_confirmed_messages_are_there_once_after_kill_9(tmp_path: Path) -> None:
    confirmed: list[int] = []
    for turn in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(turn * 1_000_000)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(700)]
        process.kill()
        lines += process.stdout.readlines()
        process.stdout.close()
        process.wait()
        confirmed += [int(line) for line in lines if line.endswith("\n")]
    asyncio.run(write_and_close(ArchiveTarget("a", tmp_path, {"queue": ""}), []))
    found = [int(body) for body in read_bodies(tmp_path)]
    assert len(found) == len({*found})
    assert {*confirmed} <= {*found}
    assert not list(tmp_path.glob(".spool-*"))


@on_a_loop
async def test_two_writers_of_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    targets = [ArchiveTarget(name, tmp_path, {"queue": ""}, rotate_bytes=5_000) for name in "ab"]
    both_reports = [Reports(), Reports()]
    for target, reports in zip(targets, both_reports, strict=True):
        await target.open(reports)
    for n in range(20):
        for which, (target, reports) in enumerate(zip(targets, both_reports, strict=True)):
            send_to(
                target,
                reports,
                [Message("", "k", body=b"%d %d" % (which, m)) for m in range(n * 10, n * 10 + 10)],
                "queue",
            )
        await asyncio.sleep(0.01)
    for reports in both_reports:
        await reports.answers(200)
    for target in targets:
        await target.close()
    found = read_bodies(tmp_path)
    assert len(found) == 400
    assert {*found} == {b"%d %d" % (which, n) for which in (0, 1) for n in range(200)}


# Disks.


class FullDisk:
    """A disk that has room for some bytes, until it is made larger."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, file: int, data: Any) -> int:
        if file < 3:
            return self._write(file, data)
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(file, memoryview(data)[: self.room])
        self.room -= written
        return written


@on_a_loop
async def test_a_full_disk_is_a_lost_connection_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, 20_000)
    source = MemorySource(numbered(2_000))
    source.end()
    errors: list[tuple[str, str]] = []

    class Events(Silent):
        def disconnected(self, name: str, error: Exception, wait: float) -> None:
            errors.append((name, str(error)))
            if len(errors) == 4:
                disk.room = 1 << 30

    policy = Policy(300, reconnect=Backoff(0.01, 0.02))
    target = ArchiveTarget("a", tmp_path, {"queue": ""})
    await Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Events(), policy).run()
    assert set(errors) == {("a", f"{tmp_path}: cannot be written: No space left on device")}
    assert sorted(int(body) for body in read_bodies(tmp_path)) == list(range(2_000))  # and none is twice
    assert not find_hidden(tmp_path)


@on_a_loop
async def test_a_sync_that_succeeds_after_a_failed_one_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, fail = os.fdatasync, [True]

    def fdatasync(file: int) -> None:
        if fail:
            fail.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    target, reports = ArchiveTarget("a", tmp_path, {"queue": ""}), Reports()
    await target.open(reports)
    send_to(target, reports, numbered(3), "queue")
    await reports.loss()
    assert not reports.confirmations
    await target.close()
    assert not find_parts(tmp_path)


@on_a_loop
async def test_while_parts_cannot_be_made_the_target_is_not_open_and_the_spool_stays(tmp_path: Path) -> None:
    make_spool(tmp_path, numbered(3)).close()
    (tmp_path / "day=2023-11-14").write_bytes(b"in the way")
    target = ArchiveTarget("a", tmp_path, {"queue": ""})
    for _ in range(2):
        with pytest.raises(Disconnected, match="day=2023-11-14"):
            await target.open(Reports())
    await target.close()
    assert len(find_spools(tmp_path)) == 1
    (tmp_path / "day=2023-11-14").unlink()
    await write_and_close(target, numbered(1))
    assert len(read_records(tmp_path)) == 4


@on_a_loop
async def test_a_file_where_the_folder_should_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Disconnected, match="there is a file"):
            await ArchiveTarget("a", path, {"queue": ""}).open(Reports())


# Replays.


async def replay_all(source: ArchiveSource) -> list[Delivery]:
    """Read all deliveries until the end, and settle them."""
    await source.open()
    found: list[Delivery] = []
    try:
        while True:
            found += await source.read(7)
    except EndOfStream:
        if found:
            source.settle(found[-1])
        return found
    finally:
        await source.close()


@on_a_loop
async def test_archived_messages_are_replayed_unchanged(tmp_path: Path) -> None:
    messages = numbered(100)
    await write_and_close(ArchiveTarget("a", tmp_path / "a", {"queue": ""}), messages)
    found = [delivery.message for delivery in await replay_all(ArchiveSource("r", str(tmp_path / "a"), None))]
    assert [resolve_type(m.headers) for m in found] == [resolve_type(m.headers) for m in messages]
    assert [(m.exchange, m.routing_key, dict(m.properties), m.body) for m in found] == [
        (m.exchange, m.routing_key, dict(m.properties), m.body) for m in messages
    ]


@on_a_loop
async def test_a_second_replay_has_only_messages_that_came_since_the_first(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    write_part(archive / "a", numbered(10))
    write_part(archive / "b", numbered(20)[10:])
    source = ArchiveSource("r", str(archive), tmp_path / "state")
    assert [int(d.message.body) for d in await replay_all(source)] == list(range(20))
    assert await replay_all(source) == []
    write_part(archive / "aa", numbered(25)[20:])
    again = ArchiveSource("r", str(archive), tmp_path / "state")
    assert [int(d.message.body) for d in await replay_all(again)] == list(range(20, 25))


@on_a_loop
async def test_a_file_that_others_append_to_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    line = '{"exchange": "in", "routing_key": "k", "body": "%d"}\n'
    file.write_text("".join(line % n for n in range(3)))
    source = ArchiveSource("r", str(file), tmp_path / "state", follow=True)
    await source.open()
    found = [*await source.read(10)]
    with file.open("a") as more:
        more.write((line % 3)[:-20])
        more.flush()
        await asyncio.sleep(0.6)
        more.write((line % 3)[-20:] + line % 4)
    while len(found) < 5:
        found += await source.read(10)
    source.settle(found[3])
    await source.close()
    assert [d.message.body for d in found] == [b"0", b"1", b"2", b"3", b"4"]
    again = ArchiveSource("r", str(file), tmp_path / "state")
    assert [d.message.body for d in await replay_all(again)] == [b"4"]


@on_a_loop
@pytest.mark.parametrize("other", ["cut", "replaced", "grown", "moved"])
async def test_a_check_names_files_that_are_not_those_any_more_that_were_settled(tmp_path: Path, other: str) -> None:
    archive, line = tmp_path / "archive", '{"exchange": "in", "routing_key": "k", "body": "%d"}\n'
    archive.mkdir()
    file = archive / "log.jsonl"
    file.write_text("".join(line % n for n in range(5)))
    await replay_all(ArchiveSource("r", str(archive), tmp_path / "state"))
    if other == "moved":
        file.rename(archive / "log-1.jsonl")
    more = {"cut": 3, "replaced": 9, "grown": 7, "moved": 2}[other]
    first = 0 if other in ("cut", "grown") else 20
    with file.open("r+" if other == "cut" else "w") as written:
        written.write("".join(line % n for n in range(first, first + more)))
        written.truncate()
    again = ArchiveSource("r", str(archive), tmp_path / "state")
    found = [each.text for each in await again.check() if each.level == "warning"]
    expected = [f"{tmp_path / 'state'}: replaced or cut since they were read: log.jsonl: read from the beginning"]
    assert found == (expected if other in ("cut", "replaced") else [])
    count = {"cut": 3, "replaced": 9, "grown": 2, "moved": 2}[other]
    assert len(await replay_all(ArchiveSource("r", str(archive), tmp_path / "state"))) == count


@on_a_loop
async def test_a_replay_at_a_speed_keeps_the_times(tmp_path: Path) -> None:
    write_part(tmp_path / "a", numbered(4), [NOON, NOON + 1_000_000, NOON + 500_000, NOON + 2_000_000])
    source = ArchiveSource("r", str(tmp_path / "a"), None, speed=5.0)
    await source.open()
    times: list[float] = []
    began = time.monotonic()
    while len(times) < 4:
        found = await source.read(10)
        times += [time.monotonic() - began] * len(found)
    await source.close()
    assert times[1] >= 0.2 - 0.02
    assert times[2] == pytest.approx(times[1], abs=0.1)  # it is earlier than the one before
    assert times[3] >= 0.4 - 0.02


@on_a_loop
async def test_since_and_until_bound_a_replay(tmp_path: Path) -> None:
    write_part(tmp_path / "a", numbered(6), [NOON, NOON + 1, NOON + 2, NOON + 3, None, NOON + 4])
    source = ArchiveSource("r", str(tmp_path / "a"), None, selection=ReplaySelection(ReplayWindow(NOON + 1, NOON + 4)))
    assert [int(d.message.body) for d in await replay_all(source)] == [1, 2, 3]


@on_a_loop
async def test_records_that_cannot_be_read_or_have_no_body_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = '{"exchange": "in", "routing_key": "k", "body": "x"}\n'
    (tmp_path / "a.jsonl").write_text(good + "no JSON\n" + '{"exchange": "in", "routing_key": "k"}\n' + good)
    source = ArchiveSource("r", str(tmp_path / "a.jsonl"), None)
    found = await replay_all(source)
    assert [d.message.body for d in found] == [b"x", b"x"]
    assert sum(source.unreadable.values()) == 2
    assert "a.jsonl at" in caplog.text
    with_all = ReplaySelection(without_bodies=True)
    whole = await replay_all(ArchiveSource("r", str(tmp_path / "a.jsonl"), None, selection=with_all))
    assert [d.message.body for d in whole] == [b"x", b"", b"x"]


@on_a_loop
async def test_a_file_that_is_no_archive_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Disconnected, match="no such file"):
        await ArchiveSource("r", str(tmp_path / "none"), None).open()
    (tmp_path / "state").write_text("[]")
    with pytest.raises(Disconnected, match="remove it"):
        await ArchiveSource("r", str(tmp_path), tmp_path / "state").open()
    (tmp_path / "notes").write_text("no archive")
    with pytest.raises(Disconnected, match="is an archive that can be audited"):
        await ArchiveSource("r", str(tmp_path), None).open()


@on_a_loop
async def test_a_replay_through_a_pump_into_an_archive_equals_the_archive(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    write_part(first / "a", numbered(1_000))
    source = ArchiveSource("r", str(first), tmp_path / "state")
    target = ArchiveTarget("a", tmp_path / "second", {"queue": ""})
    await Pump([Inlet(source)], router_to("queue"), {"queue": target}, Silent(), Policy()).run()
    assert read_bodies(tmp_path / "second") == read_bodies(first)
    assert [r.time for r in read_records(tmp_path / "second")] == [r.time for r in read_records(first)]
    [part] = [path.relative_to(first).as_posix() for path in find_parts(first)]
    assert [(r.source, r.offset) for r in read_records(tmp_path / "second")] == [(part, n) for n in range(1_000)]
