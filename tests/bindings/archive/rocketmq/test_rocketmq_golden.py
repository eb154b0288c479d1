"""Commit logs that real RocketMQ brokers wrote: read as RocketMQ's own decoder reads them, and as they were sent."""

from __future__ import annotations

import gzip
from base64 import b64decode, b64encode
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.record import Record
from bindings.archive.rocketmq.log import OWN_TOPICS, SYSTEM, RocketmqLog
from tests.recorders import golden
from tests.recorders.rocketmq_log import FILE_BYTES, sends
from tests.support.archives.reads import Read, read
from tests.support.archives.rocketmq_files import recorded_store
from tests.support.tiers import some

LOG = RocketmqLog(FieldMapping(routing_key="=k"))
RECORDINGS = golden.names("rocketmq-log-")


@pytest.fixture(scope="module", params=RECORDINGS)
def recording(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"name": request.param, **golden.read(request.param)}


@pytest.fixture
def log(recording: dict[str, Any], tmp_path: Path) -> Path:
    """Return the folder of the log, as the broker left it."""
    return recorded_store(recording["name"], tmp_path) / "commitlog"


def is_own(held: dict[str, Any]) -> bool:
    return str(held["topic"]).startswith(OWN_TOPICS)


def expected_facts(held: dict[str, Any]) -> tuple[Any, ...]:
    headers = {name: value for name, value in held["properties"].items() if name not in SYSTEM}
    return held["place"], held["topic"], held["born"] * 1000, sorted(headers.items()), held["size"], held["body"]


def read_facts(record: Record) -> tuple[Any, ...]:
    message = record.message
    digest = b64encode(sha256(message.body).digest()).decode()
    headers = sorted(message.headers.items())
    return record.offset, message.exchange, record.time, headers, record.size, digest


def read_all(folder: Path, split_bytes: int = FILE_BYTES) -> Read:
    archive = detect(str(folder), LOG.mapping)
    assert archive.formats == ("RocketMQ commit log",)
    parts = [read(form, path, split_bytes) for path, form in archive.files]
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.skipped)
    return Read([r for part in parts for r in part.records], [b for part in parts for b in part.bad], dict(skipped))


def test_there_is_a_recording_of_each_era() -> None:
    assert RECORDINGS == ["rocketmq-log-4.9.7", "rocketmq-log-5.5.0"]


@pytest.mark.parametrize("split_bytes", [FILE_BYTES, 5000, 700])
def test_a_brokers_log_is_read_as_rocketmq_decodes_it(recording: dict[str, Any], log: Path, split_bytes: int) -> None:
    result = read_all(log, split_bytes)
    assert not result.bad
    assert [read_facts(record) for record in result.records] == [
        expected_facts(held) for held in recording["held"] if not is_own(held)
    ]
    assert list(result.skipped.values()) == [sum(map(is_own, recording["held"]))]


def test_each_message_that_was_sent_is_read_once_but_those_that_were_never_published(
    recording: dict[str, Any], log: Path
) -> None:
    """Rolled back, never ended, or still delayed: they are in the log, and are no publishings.

    For a batch that is kept in one piece, the producer gets only the id of the batch.
    """
    sent = Counter(name for each in recording["sent"] if each["topic"] != "pieces" for name in each["id"].split(","))
    unpublished = {
        held["properties"]["UNIQ_KEY"]
        for held in recording["held"]
        if held["properties"].get("TAGS") in ("ROLLBACK_MESSAGE", "UNKNOW")
        or held["properties"].get("DELAY") == "18"
        or held["properties"].get("TIMER_DELAY_MS") == "3600000"
    }
    records = read_all(log).records
    read_ids = Counter(r.message.properties["message_id"] for r in records if r.message.exchange != "pieces")
    assert read_ids == Counter({name: count for name, count in sent.items() if name not in unpublished})
    assert len(unpublished) == (5 if recording["version"].startswith("4.") else 6)
    pieces = [
        b64decode(each["body"])
        for send in sends(recording["version"]) if send["how"] == "batch"
        for each in send["messages"] if each["topic"] == "pieces"
    ]  # fmt: skip
    assert [record.message.body for record in records if record.message.exchange == "pieces"] == pieces


def test_the_mapping_takes_tags_keys_and_properties(recording: dict[str, Any], log: Path) -> None:
    path = log / recording["files"][0]
    held = [
        each for each in recording["held"] if each["topic"] == "orders" and each["place"] < FILE_BYTES
    ]  # fmt: skip
    for place, name in (("tag", "TAGS"), ("key", "KEYS"), ("header:größe", "größe")):
        keys = [record.message.routing_key for record in read(RocketmqLog(FieldMapping("topic", place)), path).records]
        held_by = [each["properties"] for each in held]
        values = [properties.get(name, "") for properties in held_by if place == "key" or name in properties]
        expected = [value.partition(" ")[0] for value in values] if place == "key" else values
        assert keys[: len(expected)] == expected


@pytest.mark.scaled
def test_a_log_that_a_killed_broker_left_is_read_up_to_where_it_is_torn(recording: dict[str, Any], log: Path) -> None:
    path = log / recording["files"][0]
    data = path.read_bytes()
    held = [each for each in recording["held"] if each["place"] < FILE_BYTES]
    places = sorted({each["place"] for each in held})
    for place in some(places[::7], 3):
        following = min([each for each in places if each > place], default=None)
        if following is None:
            continue
        for cut in (place, place + 1, place + 40, following - 1):
            for tail in (b"", bytes(3000)):  # cut off, or not written to the file's full length
                path.write_bytes(data[:cut] + tail)
                result = read(LOG, path)
                assert [read_facts(record) for record in result.records] == [
                    expected_facts(each) for each in held if each["place"] < place and not is_own(each)
                ]
                assert [bad.offset for bad in result.bad] == (
                    [place] if any(data[place:cut]) or (cut > place and not tail) else []
                )


def test_a_gzipped_log_is_read_as_one_that_is_not(recording: dict[str, Any], log: Path) -> None:
    whole = read_all(log)
    for name in recording["files"]:
        (log / f"{name}.gz").write_bytes(gzip.compress((log / name).read_bytes()))
        (log / name).unlink()
    packed = read_all(log, 1000)
    assert (packed.bad, packed.skipped) == (whole.bad, whole.skipped)
    assert [read_facts(record) for record in packed.records] == [read_facts(record) for record in whole.records]
