"""RocketMQ's commit log: every message once however it is split, blanks, torn tails, damage passed over."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.record import Record
from bindings.archive.rocketmq.log import RocketmqLog
from tests.support.archives.reads import FILES, read
from tests.support.archives.rocketmq_files import blank, message, part

LOG = RocketmqLog(FieldMapping(routing_key="=k"))
BASE = 1 << 30

TEXT = st.text("aäZ0.\udcff", max_size=4)
MESSAGES = st.lists(
    st.tuples(
        TEXT.filter(bool), st.dictionaries(TEXT.filter(bool), TEXT, max_size=3), st.binary(max_size=30),
        st.sampled_from([1, 2]), st.sampled_from([0, 0x10, 0x20, 0x30]),
    ),
    max_size=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / f"{BASE:020}"


def write_log(messages: list[Any]) -> list[bytes]:
    parts: list[bytes] = []
    for topic, properties, body, version, flag in messages:
        place = BASE + sum(map(len, parts))
        parts.append(message(place, topic, properties, body, version=version, flag=flag))
    return parts


def facts(record: Record) -> tuple[Any, ...]:
    return record.message.exchange, repr(sorted(record.message.headers)), record.message.body, record.time


def expected_facts(messages: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (topic, repr(sorted(name for name, value in properties.items() if value)), body, 1_000_000)
        for topic, properties, body, *_ in messages
    ]  # RocketMQ's own decoder gives no property without a value


@FILES
@given(MESSAGES, st.sampled_from([b"", bytes(500), blank(60)]), st.integers(1, 200))
def test_all_messages_are_read_once_however_the_file_is_split(
    path: Path, messages: list[Any], tail: bytes, size: int
) -> None:
    path.write_bytes(b"".join(write_log(messages)) + tail)
    result = read(LOG, path, size)
    assert not result.bad
    assert [facts(record) for record in result.records] == expected_facts(messages)


@FILES
@given(MESSAGES.filter(bool), st.data(), st.integers(20, 200))
def test_a_file_torn_anywhere_gives_the_whole_messages_before_and_reports_the_torn_one(
    path: Path, messages: list[Any], data: st.DataObject, size: int
) -> None:
    parts = write_log(messages)
    cut = data.draw(st.integers(0, sum(map(len, parts))))
    path.write_bytes(b"".join(parts)[:cut])
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    whole = sum(end <= cut for end in ends)
    last = [0, *ends][whole]
    result = read(LOG, path, size)
    assert [facts(record) for record in result.records] == expected_facts(messages[:whole])
    assert [bad.offset for bad in result.bad] == ([BASE + last] if last < cut else [])


@FILES
@given(MESSAGES.filter(bool), st.data(), st.integers(20, 200))
def test_damage_hides_no_message_but_the_damaged_one(
    path: Path, messages: list[Any], data: st.DataObject, size: int
) -> None:
    parts = write_log(messages)
    which = data.draw(st.integers(0, len(parts) - 1))
    at = data.draw(st.integers(0, 11))  # size, magic or checksum
    damaged = bytearray(parts[which])
    damaged[at] ^= data.draw(st.integers(1, 127) if at == 8 else st.integers(1, 255))
    parts[which] = bytes(damaged)
    path.write_bytes(b"".join(parts))
    result = read(LOG, path, size)
    assert [facts(record) for record in result.records] == expected_facts(messages[:which] + messages[which + 1 :])
    assert [bad.offset for bad in result.bad] == [BASE + sum(map(len, parts[:which]))]


@FILES
@given(st.binary(max_size=300), st.integers(1, 100))
def test_anything_at_all_is_read_without_an_exception(path: Path, junk: bytes, size: int) -> None:
    path.write_bytes(message(BASE, "a", {}) + junk)
    assert len(read(LOG, path, size).records) == 1


def test_bodies_are_unpacked_and_what_is_rocketmqs_own_is_skipped(path: Path) -> None:
    packed = zlib.compress(b"body" * 99)
    parts = write_log([("a", {"KEYS": "k1 k2", "TAGS": "t", "UNIQ_KEY": "u", "own": "1"}, packed, 2, 0x301)])
    place = BASE + len(parts[0])
    for topic, flag in (("%RETRY%group", 0), ("b", 0x4)):
        parts.append(message(place, topic, {}, flag=flag))
        place += len(parts[-1])
    parts.append(message(place, "b", {}, b"body"))
    parts.append(message(place + len(parts[-1]), "b", {"TAGS": "t"}, b"junk", flag=0x101))
    path.write_bytes(b"".join(parts))
    result = read(RocketmqLog(FieldMapping("tag", "key")), path)
    (record,) = result.records
    assert (record.message.exchange, record.message.routing_key) == ("t", "k1")
    assert record.message.headers == {"KEYS": "k1 k2", "TAGS": "t", "own": "1"}
    assert record.message.properties == {"message_id": "u"}
    assert record.message.body == b"body" * 99
    assert list(result.skipped.values()) == [2]
    assert [bad.reason.partition(":")[0] for bad in result.bad] == [
        "a message without tag, which is to be its exchange", "a body that cannot be unpacked",
    ]  # fmt: skip


def test_a_message_without_a_time_of_birth_has_none(path: Path) -> None:
    births = (5, 1, 0, -1)
    parts: list[bytes] = []
    for born in births:
        parts.append(message(BASE + sum(map(len, parts)), "a", {}, born=born))
    path.write_bytes(b"".join(parts))
    assert [record.time for record in read(LOG, path).records] == [5000, 1000, None, None]


def test_a_batch_in_one_record_is_its_messages(path: Path) -> None:
    parts = [part(b"1", "KEYS\x01k1\x02n\x011\x02"), part(b"", ""), part(b"3", "KEYS\x01k3\x02")]
    whole = message(BASE, "a", {"INNER_NUM": "3"}, b"".join(parts), flag=0xC0)
    torn = message(BASE + len(whole), "a", {}, b"".join(parts)[:-1], flag=0xC0)
    path.write_bytes(whole + torn)
    result = read(RocketmqLog(), path)
    assert [(r.message.routing_key, r.message.headers, r.message.body, r.offset) for r in result.records] == [
        ("k1", {"KEYS": "k1", "n": "1"}, b"1", BASE), ("", {}, b"", BASE), ("k3", {"KEYS": "k3"}, b"3", BASE),
    ]  # fmt: skip
    assert [(bad.offset, bad.reason) for bad in result.bad] == [
        (BASE + len(whole), "a batch whose messages do not fit in it")
    ]


def test_a_log_is_no_segment_of_kafka_whatever_its_checksum_is(tmp_path: Path) -> None:
    """The checksum stands where a message of Kafka's old formats has its length; of this one, in a file cut off."""
    for n in range(200):
        record = message(0, "a", {}, b"%d" % n * 5000)
        (tmp_path / f"{n:020}").write_bytes(record[:9000])
    assert detect(str(tmp_path)).formats == ("RocketMQ commit log",)
