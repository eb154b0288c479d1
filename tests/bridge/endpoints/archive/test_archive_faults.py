"""Archives, whatever publishers write and operators do: nothing hangs, nothing is lost, everything is reported."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import shutil
import struct
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bindings.archive.formats.detect import detect
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.reading import COPIES, Bias
from bindings.archive.record import Record, build_batch, to_records
from bridge.cli import hashstar
from bridge.endpoint import BridgeLayout, Delivery, Disconnected, Finding, Misfit, Outgoing
from bridge.endpoints.archive import reading, replay
from bridge.endpoints.archive.columns import prepare_batch
from bridge.endpoints.archive.config import ArchiveSource, ArchiveTarget
from bridge.endpoints.archive.files import NEVER_SEEN, ArchiveFile, RecordPosition
from bridge.endpoints.archive.replay import Replay, ReplayWindow
from bridge.endpoints.archive.rotation import Rotator, rotate
from bridge.endpoints.archive.rows import restore_message, to_rows
from bridge.endpoints.archive.spool import Spool, find_spools
from bridge.endpoints.memory import MemorySource
from bridge.interop import bind_identity
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Message, Topology
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.amqp.content import RAW_HEADER
from exchange.values.field_values import Typed
from tests.bridge.endpoints.archive.test_archive import (
    NOON,
    find_hidden,
    make_spool,
    numbered,
    read_bodies,
    read_records,
    replay_all,
    write_and_close,
    write_part,
)
from tests.support.archives.kafka_files import KafkaRecord, batch
from tests.support.archives.parts import find_parts
from tests.support.bridge.behaviour import Reports, Silent, on_a_loop, router_to, send_to
from tests.support.waiting import find_limit

FAST = Policy(300, reconnect=Backoff(0.01, 0.02))
NEW_FILE = ArchiveFile("a", NEVER_SEEN)


def make_outgoing(message: Message, **known: Any) -> Outgoing:
    return Outgoing(message, Delivery(message, **known), "queue")


# What publishers write.


@pytest.mark.parametrize("odd", [2**63, 1_763_800_000_000_000 * 1_000_000, -(2**63) - 1, 2**80])
def test_a_message_whose_time_or_position_has_more_than_64_bits_is_archived(odd: int) -> None:
    messages = numbered(3)
    outgoing = [make_outgoing(messages[0], time=NOON, position=1, origin="t at 1")]
    outgoing.append(make_outgoing(messages[1], time=odd, position=odd, origin=f"t at {odd}"))
    outgoing.append(make_outgoing(messages[2], time=NOON + 1, position=2, origin="t at 2"))
    made = prepare_batch(outgoing, {"queue": ""}, NOON + 5)
    assert not made.refused
    assert made.batch.column("time").to_pylist() == [NOON, NOON + 5, NOON + 1]
    assert made.batch.column("offset").to_pylist() == [1, odd if abs(odd) < 2**63 else None, 2]


@pytest.mark.parametrize(("time", "kept"), [(None, NOON), (0, 0), (-1, -1)])
def test_only_a_time_that_is_unknown_becomes_that_of_writing(time: int | None, kept: int) -> None:
    made = prepare_batch([make_outgoing(Message("x", "k"), time=time)], {"queue": ""}, NOON)
    assert made.batch.column("time").to_pylist() == [kept]


@pytest.mark.parametrize(
    ("origin", "position", "source", "number"),
    [
        ("orders-3 at 1207", 1207, "orders-3", 1207),
        ("orders at broker:3 at 7", 7, "orders at broker:3", 7),
        ("queue orders", 4, "queue orders", None),
        ("queue tea at 5", 6, "queue tea at 5", None),
        ("orders-3 at 1207", (4, 1207), "orders-3 at 1207", None),
        ("", None, "", None),
        ("day at 1.jsonl at 0", RecordPosition(9, NEW_FILE, 0), "day at 1.jsonl", 0),
        ("a.jsonl at 12", RecordPosition(3, NEW_FILE, 12), "a.jsonl", 12),
    ],
)
def test_an_archived_message_has_its_source_and_its_number_there_or_null_if_that_is_unknown(
    origin: str, position: Any, source: str, number: int | None
) -> None:
    outgoing = make_outgoing(Message("x", "k"), origin=origin, position=position)
    made = prepare_batch([outgoing], {"queue": ""}, NOON)
    assert [made.batch.column(name).to_pylist() for name in ("source", "offset")] == [[source], [number]]


@on_a_loop
async def test_a_message_with_a_timestamp_in_microseconds_does_not_hold_up_others(tmp_path: Path) -> None:
    stamp = Typed("timestamp", 1_763_800_000_000_000)
    messages = [Message("in", "key.1", {}, {"timestamp": stamp} if n == 1 else {}, b"%d" % n) for n in range(4)]
    source = MemorySource(messages)
    source.end()

    class Odd(MemorySource):
        async def read(self, limit: int) -> Sequence[Delivery]:
            found = await source.read(limit)
            for delivery in found:
                if "timestamp" in delivery.message.properties:
                    delivery.time = stamp.value * 1_000_000  # as a source that does not look
            return found

        def settle(self, delivery: Delivery) -> None:
            source.settle(delivery)

    target = ArchiveTarget("a", tmp_path, {"queue": ""})
    await Pump([Inlet(Odd())], router_to("queue"), {"queue": target}, Silent(), FAST).run()
    assert sorted(read_bodies(tmp_path)) == [b"0", b"1", b"2", b"3"]
    assert [r.message.properties["timestamp"] for r in read_records(tmp_path) if r.message.body == b"1"] == [stamp]
    assert not source.unsettled


ODD_ERRORS = [
    struct.error("x"),
    RecursionError(),
    OverflowError("x"),
    UnicodeError("x"),
    KeyError("x"),
    ZeroDivisionError(),
]


@pytest.mark.parametrize("error", ODD_ERRORS, ids=lambda error: type(error).__name__)
def test_a_message_that_cannot_be_written_is_refused_alone(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(message: Message) -> ContentHeader:
        if message.body in (b"3", b"7", b"8"):
            raise error
        return get_content(message)

    monkeypatch.setattr("bridge.endpoints.archive.columns.get_content", fail)
    made = prepare_batch([make_outgoing(message, time=NOON) for message in numbered(20)], {"queue": ""}, NOON)
    assert [each.message.body for each, _ in made.refused] == [b"3", b"7", b"8"]
    assert all(failure.final and failure.reason for _, failure in made.refused)
    assert [each.message.body for each in made.messages] == [b"%d" % n for n in range(20) if n not in (3, 7, 8)]
    assert made.batch.num_rows == 17


def test_a_memory_error_is_not_blamed_on_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Message) -> ContentHeader:
        raise MemoryError

    monkeypatch.setattr("bridge.endpoints.archive.columns.get_content", fail)
    with pytest.raises(MemoryError):
        prepare_batch([make_outgoing(Message())], {"queue": ""}, NOON)


# Tasks that end.


@pytest.mark.parametrize("error", [RuntimeError("broken"), OSError(5, "Input/output error"), MemoryError()])
@on_a_loop
async def test_any_error_that_ends_the_writing_is_a_lost_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Spool, "append", fail)
    target, reports = ArchiveTarget("a", tmp_path, {"queue": ""}), Reports()
    await target.open(reports)
    send_to(target, reports, numbered(3), "queue")
    await reports.loss()
    assert not reports.confirmations
    assert type(error).__name__ in str(reports.losses[0]) or str(tmp_path) in str(reports.losses[0])
    await target.close()


@on_a_loop
async def test_any_error_that_ends_the_making_of_parts_is_a_lost_connection_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        async def fail(*_: object) -> None:
            raise RuntimeError("broken")

        patched.setattr(Rotator, "rotate", fail)
        target, reports = ArchiveTarget("a", tmp_path, {"queue": ""}, rotate_bytes=1, gather_seconds=0), Reports()
        await target.open(reports)
        send_to(target, reports, numbered(3), "queue")
        await reports.loss()
        assert "broken" in str(reports.losses[0])
        await target.close()
    await write_and_close(target, [])
    assert sorted(read_bodies(tmp_path)) == [b"0", b"1", b"2"]


# Headers that could be forged.


def to_record(message: Message) -> Record:
    """Return the record that a target makes of a message."""
    [record] = to_records(to_rows(prepare_batch([make_outgoing(message)], {"queue": ""}, NOON).batch))
    return record


@pytest.mark.parametrize(
    "forged", [b"", b"\x20", b"\x80\0\x05ab", ContentHeader.encode({"tenant": "victim"}, {"user_id": "admin"}).raw]
)
def test_a_header_named_as_the_raw_header_forges_nothing(forged: bytes) -> None:
    message = Message("e", "k", {RAW_HEADER: forged, "tenant": "attacker"}, {"user_id": "attacker"}, b"body")
    again = restore_message(to_record(message).message)
    assert dict(again.headers) == {RAW_HEADER: forged, "tenant": "attacker"}
    assert again.properties["user_id"] == "attacker"


def test_the_bytes_of_a_header_are_where_no_publisher_can_write() -> None:
    content = ContentHeader(b"\x20\0\0\0\0\x05\x01aZzz")
    record = to_record(build_lazy_message("e", "k", content, b"body"))
    assert record.message.properties == {RAW_HEADER: content.raw}
    assert RAW_HEADER not in record.message.headers


@on_a_loop
async def test_a_forged_header_does_not_stop_a_replay(tmp_path: Path) -> None:
    messages = [*numbered(2), Message("in", "k", {RAW_HEADER: b""}, {}, b"2")]
    await write_and_close(ArchiveTarget("a", tmp_path, {"queue": ""}), messages)
    found = await replay_all(ArchiveSource("r", str(tmp_path), None))
    assert [delivery.message.body for delivery in found] == [b"0", b"1", b"2"]


@on_a_loop
async def test_an_older_archive_is_replayed_with_the_headers_it_shows(tmp_path: Path) -> None:
    raw = ContentHeader.encode({"CC": "no array"}, {"message_id": "m"}).raw
    write_part(tmp_path / "a", [Message("e", "k", {"hashstar-reason": "why", RAW_HEADER: raw}, {}, b"body")])
    [delivery] = await replay_all(ArchiveSource("r", str(tmp_path / "a"), None))
    assert dict(delivery.message.headers) == {"hashstar-reason": "why", RAW_HEADER: raw}


@pytest.mark.parametrize("error", [None, *ODD_ERRORS], ids=lambda error: type(error).__name__)
@on_a_loop
async def test_a_record_that_cannot_be_restored_is_counted_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    write_part(
        tmp_path / "a", [*numbered(2), Message("e", "k", {}, {RAW_HEADER: b""}, b"bad"), Message("e", "k", body=b"3")]
    )
    if error is not None:

        def fail(message: Message) -> Message:
            if message.body == b"bad":
                raise error
            return message

        monkeypatch.setattr(reading, "restore_message", fail)
    source = ArchiveSource("r", str(tmp_path / "a"), None)
    assert [delivery.message.body for delivery in await replay_all(source)] == [b"0", b"1", b"3"]
    assert sum(source.unreadable.values()) == 1
    assert "parquet at 2: cannot be restored" in caplog.text


@pytest.mark.parametrize(
    "odd",
    [
        {"properties": {"nonsense": 1}},
        {"properties": {"headers": {}}},
        {"properties": {"delivery_mode": "two"}},
        {"properties": {"priority": 256}},
        {"properties": {"type": "x" * 256}},
        {"headers": {"h" * 256: 1}, "origin": {"source": "kafka", "offset": 1}},
    ],
    ids=["unknown", "headers", "text", "beyond an octet", "long text", "long name"],
)
@on_a_loop
async def test_what_no_target_can_send_is_left_out_of_a_replay(tmp_path: Path, odd: dict[str, Any]) -> None:
    """An audit counts it, since it is routed without its properties; it must not hold what comes after it."""
    path = tmp_path / "a.jsonl"
    lines = [
        {"exchange": "x", "routing_key": "k", "body": "0"},
        {"exchange": "x", "routing_key": "k", "body": "1", **odd},
    ]
    lines.append({"exchange": "x", "routing_key": "k", "body": "2", "properties": {"priority": 255}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = ArchiveSource("r", str(path), None)
    given = await replay_all(source)
    assert [delivery.message.body for delivery in given] == [b"0", b"2"]
    assert given[1].message.properties == {"priority": 255}
    assert sum(source.unreadable.values()) == 1


@on_a_loop
async def test_a_message_with_a_malformed_header_is_read_with_the_identity_of_its_row(tmp_path: Path) -> None:
    content = ContentHeader(b"\x20\0\0\0\xff\xff")
    message = build_lazy_message("e", "k", content, b"body")
    target, reports = ArchiveTarget("a", tmp_path, {"queue": ""}), Reports()
    await target.open(reports)
    identity = bind_identity("id-1", b"k", b"body")
    target.send([Outgoing(message, Delivery(message, identity=identity), "queue")])
    await reports.answers(1)
    await target.close()
    [delivery] = await replay_all(ArchiveSource("r", str(tmp_path), None))
    assert delivery.identity == identity
    assert delivery.message.headers.content.raw == content.raw  # type: ignore[attr-defined]  # it is lazy


# Spools that are bad.


def make_bad_spool(folder: Path) -> Path:
    """Make a spool with a folder whose name is too long for any file system."""
    spool = Spool(folder)
    message = Message("", "k", body=b"bad")
    spool.append(prepare_batch([make_outgoing(message, time=NOON)], {"queue": "queue=" + "x" * 250}, 0).batch)
    spool.close()
    return spool.path


@on_a_loop
async def test_a_bad_spool_is_logged_and_the_others_become_parts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_spool(tmp_path, numbered(3)).close()
    bad = make_bad_spool(tmp_path)
    make_spool(tmp_path, numbered(6)[3:]).close()
    reports = await write_and_close(ArchiveTarget("a", tmp_path, {"queue": ""}), [Message("", "k", body=b"6")])
    assert len(reports.confirmations) == 1
    assert sorted(read_bodies(tmp_path)) == [b"%d" % n for n in range(7)]
    assert find_spools(tmp_path) == [bad]
    assert [r.levelno for r in caplog.records if str(bad) in r.getMessage()] == [logging.ERROR]


@on_a_loop
async def test_a_bad_spool_does_not_stop_the_target_that_wrote_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = ArchiveTarget("a", tmp_path, {"bad": "x" * 256, "good": ""}, rotate_bytes=1, gather_seconds=0)
    reports = Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", "k", body=b"bad")], "bad")
    await reports.answers(1)
    send_to(target, reports, [Message("", "k", body=b"good")], "good", 2)
    await reports.answers(2)
    await target.close()
    assert not reports.losses
    assert read_bodies(tmp_path) == [b"good"]
    assert len(find_spools(tmp_path)) == 1
    assert "stays there" in caplog.text


@on_a_loop
async def test_the_last_spool_becomes_parts_whenever_those_before_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before become parts after the target was told to close, and before the last one is handed on."""
    may_rotate, has_rotated, may_open = asyncio.Event(), asyncio.Event(), threading.Event()
    rotate_at_once, open_at_once, spools = Rotator.rotate, Spool, itertools.count(1)

    async def rotate(self: Rotator, path: Path) -> Any:
        await may_rotate.wait()
        rotated = await rotate_at_once(self, path)
        has_rotated.set()
        return rotated

    def open_spool(root: Path) -> Spool:
        if next(spools) == 3:
            may_open.wait(find_limit())
        return open_at_once(root)

    monkeypatch.setattr(Rotator, "rotate", rotate)
    monkeypatch.setattr("bridge.endpoints.archive.writing.Spool", open_spool)
    target, reports = ArchiveTarget("a", tmp_path, {"queue": ""}, rotate_bytes=1, gather_seconds=0), Reports()
    await target.open(reports)
    for number in (1, 2):
        send_to(target, reports, [Message("", "k", body=b"%d" % number)], "queue", number)
        await reports.answers(number)
    closing = asyncio.create_task(target.close())
    await asyncio.sleep(0)
    may_rotate.set()
    await has_rotated.wait()
    may_open.set()
    await closing
    assert sorted(read_bodies(tmp_path)) == [b"1", b"2"]


# Folders that are moved or removed.


def move(root: Path) -> None:
    root.rename(root.with_name("moved"))


def move_parent(root: Path) -> None:
    root.parent.rename(root.parent.with_name("moved-parent"))


def replace_by_file(root: Path) -> None:
    root.rename(root.with_name("moved"))
    root.with_name("file").touch()


def remove_spool(root: Path) -> None:
    for path in find_spools(root):
        path.unlink()


def rename_spool(root: Path) -> None:
    for path in find_spools(root):
        path.rename(path.with_name("another-name"))


HARMS = [move, move_parent, replace_by_file, shutil.rmtree, remove_spool, rename_spool]


@pytest.mark.parametrize(
    ("harm", "when"),
    [
        *[(harm, "between") for harm in HARMS],
        (move, "idle"),
        (remove_spool, "idle"),
        (move, "end"),
        (shutil.rmtree, "end"),
    ],
)
@on_a_loop
async def test_confirmed_messages_are_in_an_archive_whatever_is_moved_or_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None], when: str
) -> None:
    root = tmp_path / "parent" / "archive"
    target = ArchiveTarget("a", root, {"queue": ""}, rotate_seconds=0.2 if when == "idle" else 60, gather_seconds=0)
    reports = Reports()
    await target.open(reports)
    send_to(target, reports, numbered(50), "queue")
    await reports.answers(50)
    harm(root)
    if when == "between":
        left = send_to(target, reports, numbered(60)[50:], "queue", 51)
        await reports.loss()
        assert len(reports.confirmations) == 50  # nothing that went after the harm
        await target.close()
        again = Reports()
        await target.open(again)
        target.send(left)
        await again.answers(10)
    elif when == "idle":
        await reports.loss()
    await target.close()
    found = [int(body) for path in find_parts(tmp_path) for body in read_bodies(path)]
    assert sorted(found) == list(range(60 if when == "between" else 50))
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors
    assert all("50 confirmed messages" in error for error in errors)


@on_a_loop
async def test_a_spool_removed_while_it_waits_to_become_parts_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()
    rotate_in_process = Rotator.rotate

    async def late(self: Rotator, path: Path) -> Any:
        waiting.set()
        await go_on.wait()
        return await rotate_in_process(self, path)

    monkeypatch.setattr(Rotator, "rotate", late)
    target, reports = ArchiveTarget("a", tmp_path, {"queue": ""}, rotate_bytes=1, gather_seconds=0), Reports()
    await target.open(reports)
    send_to(target, reports, numbered(5), "queue")
    await reports.answers(5)
    await waiting.wait()
    remove_spool(tmp_path)
    go_on.set()
    await reports.loss()
    await target.close()
    assert sorted(read_bodies(tmp_path)) == [b"%d" % n for n in range(5)]


@on_a_loop
async def test_a_spool_that_another_process_made_parts_of_is_not_written_again(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, numbered(3))
    spool.release()
    assert not spool.is_lost()
    assert rotate(spool.path) is not None
    assert not spool.is_lost()
    spool.close()


@on_a_loop
async def test_a_spool_that_cannot_be_saved_is_logged_and_saved_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "archive"
    target, reports = ArchiveTarget("a", root, {"queue": ""}, gather_seconds=0), Reports()
    await target.open(reports)
    send_to(target, reports, numbered(5), "queue")
    await reports.answers(5)
    shutil.rmtree(root)
    root.touch()  # in the way
    await target.close()
    assert "5 confirmed messages are in spools that were removed" in caplog.text
    with pytest.raises(Disconnected, match="there is a file"):
        await target.open(reports)
    root.unlink()
    await target.open(reports)
    await target.close()
    assert sorted(read_bodies(root)) == [b"%d" % n for n in range(5)]


# Copies.


@pytest.mark.parametrize("queues", [["all"], ["all", "other"]])
@on_a_loop
async def test_an_archive_of_several_queues_notes_that_it_has_copies(tmp_path: Path, queues: list[str]) -> None:
    target = ArchiveTarget("a", tmp_path / "a", {queue: f"queue={queue}" for queue in queues})
    reports = Reports()
    await target.open(reports)
    for queue in queues:
        send_to(target, reports, numbered(2), queue, len(reports.confirmations) + 1)
        await reports.answers(len(reports.confirmations) + 2)
    await target.close()
    assert (COPIES in detect(str(tmp_path / "a")).list_contents().notes) is (len(queues) > 1)
    topology = tmp_path / "t.bindings"
    topology.write_text('exchange "in": fanout\nqueue all\n"in" -> all\n')
    result = CliRunner().invoke(hashstar, ["audit", "--no-spark", "-t", str(topology), str(tmp_path / "a")])
    assert ("numbers of messages are too high" in " ".join(result.output.split())) is (len(queues) > 1)
    again = CliRunner().invoke(hashstar, ["archive", "convert", str(tmp_path / "a"), str(tmp_path / "b")])
    assert again.exit_code == 0
    assert (COPIES in detect(str(tmp_path / "b")).list_contents().notes) is (len(queues) > 1)


# Reads are bounded in bytes.


def write_large(path: Path, count: int, size: int) -> None:
    with ParquetWriter(path.with_name(f".{path.name}"), Bias.EVERYTHING) as writer:
        for n in range(count):
            writer.write(build_batch([Record(Message("in", "k", {"n": n}, {}, bytes(size)), NOON)]))
    path.with_name(f".{path.name}").rename(path)


def test_the_bodies_of_a_chunk_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_large(tmp_path / "a", 100, 100_000)
    made: list[int] = []

    def watched(rows: Any) -> list[Record]:
        made.append(rows.num_rows)
        return to_records(rows)

    monkeypatch.setattr("bindings.archive.record.to_records", watched)
    items = Replay(str(tmp_path / "a"), ReplayWindow(), {}, grows=False, chunk_bytes=1_000_000).read_items()
    chunks = [item for item in items if isinstance(item, replay.Chunk)]
    assert [number for chunk in chunks for number, _ in chunk.records] == list(range(100))
    assert max(made) == 10
    items = Replay(str(tmp_path / "a"), ReplayWindow(), {}, grows=False, chunk_bytes=1).read_items()
    assert [len(chunk.records) for chunk in items if isinstance(chunk, replay.Chunk)] == [1] * 100


def test_few_rows_of_large_bodies_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.archive.formats.parquet.BATCH_BYTES", 1_000_000)
    write_large(tmp_path / "a", 50, 100_000)
    [(form, split)] = detect(str(tmp_path / "a")).plan()
    sizes = [item.num_rows for item in form.read(split)]  # type: ignore[union-attr]
    assert sum(sizes) == 50
    assert max(sizes) <= 10


def test_a_row_group_ends_at_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.archive.formats.parquet.GROUP_BYTES", 1_000_000)
    write_large(tmp_path / "a", 50, 100_000)
    [(_, split), *rest] = detect(str(tmp_path / "a")).plan(1)
    assert len(rest) >= 4
    assert split.end == 1


def test_batches_of_large_bodies_have_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.archive.record.BATCH_BYTES", 1_000_000)
    line = '{"exchange": "in", "routing_key": "k", "headers": {"a": 1}, "body": "%s"}\n' % ("x" * 100_000)
    (tmp_path / "a.jsonl").write_text(line.replace("x" * 100_000, "") + line * 29)
    [(form, split)] = detect(str(tmp_path / "a.jsonl")).plan()
    assert [item.num_rows for item in form.read(split)] == [11, 10, 9]  # type: ignore[union-attr]


# Kafka's records without a key.


def write_kafka_log(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(batch(0, [KafkaRecord(0, key=b"k", value=b"0"), KafkaRecord(1, value=b"1"), KafkaRecord(2)]))
    return path


@pytest.mark.parametrize(
    ("said", "keys"),
    [("", ["k", "", ""]), ('routing_key = "fixed"', ["fixed"] * 3), ('exchange = "events"', ["k", "", ""])],
)
@on_a_loop
async def test_records_need_no_key(tmp_path: Path, said: str, keys: list[str]) -> None:
    from bridge.daemon.config import read_config

    write_kafka_log(tmp_path / "orders-0")
    (tmp_path / "t.bindings").write_text("exchange events: fanout\nqueue all\nevents -> all\n")
    (tmp_path / "bridge.toml").write_text(
        f'topology = "t.bindings"\n[sources.in]\nurl = "archive:orders-0"\n{said}\n'
        '[targets.out]\nurl = "archive:out"\nqueues = ["all"]\n'
    )
    [inlet] = read_config(tmp_path / "bridge.toml", {}, None).inlets
    assert isinstance(inlet.source, ArchiveSource)
    found = await replay_all(inlet.source)
    assert [delivery.message.body for delivery in found] == [b"0", b"1", b""]
    assert [delivery.message.routing_key for delivery in found] == keys
    first, *others = [delivery.message.headers for delivery in found]
    assert first.get("x-kafka-key") == ("k" if said.startswith("routing_key") else None)
    assert [headers["x-kafka-key"] for headers in others] == [None, None]
    assert others[1]["x-kafka-tombstone"] is True


# A look from outside.


def list_levels(findings: Sequence[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def list_tree(path: Path) -> list[tuple[str, int, int]]:
    """Return all names below a folder, with times and sizes."""
    return sorted([(str(each), each.stat().st_mtime_ns, each.stat().st_size) for each in [path, *path.rglob("*")]])


@on_a_loop
async def test_a_check_of_a_target_leaves_no_trace(tmp_path: Path) -> None:
    new = ArchiveTarget("a", tmp_path / "not" / "yet", {"queue": ""}, rotate_bytes=1)
    there = tmp_path / "there"
    there.mkdir()
    spool = make_spool(there, numbered(3))
    (there / ".damaged-1.arrow").touch()
    before = list_tree(tmp_path)
    assert list_levels(await new.check()) == ["ok", "ok"]
    findings = await ArchiveTarget("a", there, {"queue": ""}, rotate_bytes=1).check()
    assert list_levels(findings) == ["ok", "ok", "ok", "warning"]
    assert list_tree(tmp_path) == before
    spool.close()


@on_a_loop
async def test_a_check_of_a_target_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        [finding] = await ArchiveTarget("a", path, {"queue": ""}).check()
        assert (finding.level, finding.key) == ("error", "url")
        assert "there is a file" in finding.text
    findings = await ArchiveTarget("a", tmp_path, {"queue": ""}, rotate_bytes=1 << 60).check()
    assert list_levels(findings) == ["ok", "warning"]
    assert "rotate_bytes" in findings[1].text


@on_a_loop
async def test_a_folder_that_the_user_may_not_write_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # who runs this may be allowed all
    for path in (tmp_path, tmp_path / "new"):
        [finding] = await ArchiveTarget("a", path, {"queue": ""}).check()
        assert finding.level == "error"
        with pytest.raises(Disconnected, match="is read-only, or this user may not write"):
            await ArchiveTarget("a", tmp_path, {"queue": ""}).open(Reports())


@on_a_loop
async def test_a_check_of_a_source_names_its_format_and_how_far_it_is(tmp_path: Path) -> None:
    write_part(tmp_path / "a", numbered(10))
    state = tmp_path / "state"
    source = ArchiveSource("r", str(tmp_path / "a"), state)
    before = list_tree(tmp_path)
    findings = await source.check()
    assert list_levels(findings) == ["ok", "ok"]
    assert "Parquet" in findings[0].text
    assert "begins at the beginning" in findings[1].text
    assert list_tree(tmp_path) == before
    await replay_all(source)
    assert "continues after 10 records" in (await source.check())[1].text
    state.write_text("[]")
    assert [(f.level, f.key) for f in await source.check()] == [("ok", "url"), ("error", "state")]
    no_folder = await ArchiveSource("r", str(tmp_path / "a"), tmp_path / "no" / "folder").check()
    assert [(f.level, f.key) for f in no_folder] == [("ok", "url"), ("error", "state")]


@on_a_loop
async def test_a_check_of_a_source_finds_what_is_wrong(tmp_path: Path) -> None:
    [missing, _] = await ArchiveSource("r", str(tmp_path / "none"), None).check()
    assert (missing.level, missing.key) == ("error", "url")
    [empty, _] = await ArchiveSource("r", str(tmp_path), None).check()
    assert empty.level == "error"
    [followed, _] = await ArchiveSource("r", str(tmp_path), None, follow=True).check()
    assert followed.level == "ok"
    (tmp_path / "a.jsonl").write_text('{"exchange": "in", "routing_key": "k"}\n')
    (tmp_path / "notes").write_text("no archive")
    assert list_levels(await ArchiveSource("r", str(tmp_path), None).check()) == ["ok", "warning", "ok"]


@pytest.mark.parametrize("below", ["", "queue=all"])
def test_a_target_refuses_a_folder_that_a_source_follows(tmp_path: Path, below: str) -> None:
    target = ArchiveTarget("out", tmp_path / "a" / below, {"queue": ""})
    followed = ArchiveSource("in", str(tmp_path / "a"), None, follow=True)
    with pytest.raises(Misfit, match="source in follows this folder"):
        target.meet(BridgeLayout([followed], {"queue": target}, Topology(), 1))
    target.meet(BridgeLayout([ArchiveSource("in", str(tmp_path / "b"), None, follow=True)], {}, Topology(), 1))
    target.meet(BridgeLayout([ArchiveSource("in", str(tmp_path / "a"), None)], {}, Topology(), 1))


def test_the_places_of_archives_are_their_folders(tmp_path: Path) -> None:
    source = ArchiveSource("in", str(tmp_path), None)
    assert ArchiveTarget("out", tmp_path, {"q": ""}).places == source.places
    assert ArchiveTarget("out", tmp_path / "b", {"q": ""}).places != source.places
    folders = ArchiveTarget("out", tmp_path, {"q": "", "r": "queue=r", "s": "queue=r"}).places
    assert {each.cluster for each in folders} == {str(tmp_path), str(tmp_path / "queue=r")}


def test_the_bytes_of_a_header_are_base64_in_the_column_of_properties() -> None:
    raw = b"\x20\0\0\0\0\x05\x01aZzz"
    made = to_rows(
        prepare_batch([make_outgoing(build_lazy_message("e", "k", ContentHeader(raw), b""))], {"queue": ""}, NOON).batch
    )
    assert made.column("properties").to_pylist() == [
        [(RAW_HEADER, {"type": "binary", "value": b64encode(raw).decode()})]
    ]


def test_no_hidden_file_is_left_in_a_folder_that_was_emptied(tmp_path: Path) -> None:
    make_spool(tmp_path, numbered(3)).close()
    [path] = find_spools(tmp_path)
    assert rotate(path) is not None
    assert not find_hidden(tmp_path)
