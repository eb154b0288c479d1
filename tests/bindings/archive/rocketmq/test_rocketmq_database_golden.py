"""Stores of real brokers whose queues, configuration and timer are in RocksDB: shown as mqadmin showed them."""

from __future__ import annotations

import json
import struct
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.timer import SLOT, UNIT, read_timer_files
from exchange.text.site import build_install_command
from tests.recorders import golden
from tests.recorders.rocketmq_database import GROUP, TOPICS, VARIANTS
from tests.support.program import invoke

WAITING = 9
"""Messages that are due in an hour; three more were delivered after two seconds."""


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["running", "ended"])
def folder(variant: str, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    golden.unpack(f"rocketmq-database-{variant}-{request.param}", tmp_path / "store")
    return tmp_path / "store"


run = partial(invoke, "archive", "inspect")


def inspect(folder: Path) -> dict[str, Any]:
    result = run(folder, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_figure_is_that_of_mqadmin_and_the_store_is_not_touched(variant: str, folder: Path) -> None:
    recorded, before = golden.read(f"rocketmq-database-{variant}"), listing(folder)
    found = inspect(folder)
    assert (found["bad"], found["in_database"]) == ([], [])
    queues = {topic["topic"]: topic["queues"] for topic in found["topics"]}
    for topic in TOPICS:
        assert [[each["queue"], each["min_offset"], each["max_offset"]] for each in queues[topic]] == [
            row
            for row in recorded["queues"][topic]
            if row[2]  # a queue without messages is in no store
        ]
        assert sum(each["messages"] for each in queues[topic]) == sum(
            row[2] - row[1] for row in recorded["queues"][topic]
        )
    groups = [
        [each["topic"], each["queue"], each["offset"] + each["lag"], each["offset"], each["lag"]]
        for each in found["groups"] if each["group"] == GROUP and each["topic"] == "orders"
    ]  # fmt: skip
    assert groups == recorded["progress"]
    assert listing(folder) == before


def test_delayed_messages_are_counted_by_log_and_timer_alike(variant: str, folder: Path) -> None:
    delayed = inspect(folder)["delayed"]
    timer, by_time = delayed["timer"], delayed["by_time"]
    assert by_time["waiting"] == WAITING
    if variant == "single" and inspect(folder)["abort"]:  # while it runs, the broker has this database in memory
        assert (timer["kind"], timer["entries"]) == ("database", 0)
        return
    assert timer["kind"] == ("database" if variant == "single" else "files")
    assert [timer[name] for name in ("waiting", "first_due", "last_due")] == [
        by_time[name] for name in ("waiting", "first_due", "last_due")
    ]
    assert timer["waiting"] == WAITING
    (level,) = [each for each in delayed["levels"] if each["waiting"]]
    assert (level["level"], level["waiting"]) == (18, 4)
    text = run(folder).stdout
    assert f"timer, in {'RocksDB' if variant == 'single' else 'timerwheel and timerlog'}: {WAITING} waiting" in text


def test_without_the_library_the_rest_is_shown_and_the_extra_named(
    folder: Path, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    found = inspect(folder)
    expected = {"separate": ["consume queues", "config", "timer"], "single": ["consume queues", "config", "timer"]}
    assert sorted(found["in_database"]) == sorted(expected.get(variant, found["in_database"]))
    assert {topic["topic"]: topic["messages"] for topic in found["topics"]}["orders"] == 60
    if variant in expected:
        assert f"config; {build_install_command('rocksdb')}" in run(folder).stdout


def test_a_damaged_database_is_reported_and_the_log_is_shown(variant: str, folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and (path.suffix == ".sst" or path.name.startswith("MANIFEST")):
            data = bytearray(path.read_bytes())
            data[len(data) // 3 : len(data) // 2] = b"\xa5" * (len(data) // 2 - len(data) // 3)
            path.write_bytes(data)
    found = inspect(folder)
    assert {topic["topic"]: topic["messages"] for topic in found["topics"]}["orders"] == 60
    if variant != "files":
        assert any("RocksDB cannot read it" in bad["reason"] for bad in found["bad"])


def wheel(*slots: tuple[int, int]) -> bytes:
    """Return a wheel with these slots: seconds since 1970, and number of messages."""
    data = bytearray(10 * SLOT.itemsize)
    for second, count in slots:
        struct.pack_into(">qqqii", data, second % 10 * SLOT.itemsize, second, 0, 52, count, 0)
    return bytes(data)


def unit(due: int, place: int, magic: int = 1) -> bytes:
    data = struct.pack(">iqiqiqiiq", UNIT.itemsize, -1, magic, 1_000_000, due - 1_000_000, place, 306, 7, 0)
    assert len(data) == UNIT.itemsize
    return data


def test_the_wheel_and_the_log_of_the_timer_are_read(tmp_path: Path) -> None:
    for name in ("commitlog", "consumequeue", "timerlog", "config"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint").write_bytes(bytes(40))
    (tmp_path / "config" / "timercheck").write_bytes(struct.pack(">qqqq", 2_000_000, 0, 0, 0) + bytes(8))
    units = [
        unit(1_500_000, 10),
        unit(3_000_000, 20),
        unit(4_000_000, 20),
        unit(5_000_000, 30),
        unit(9_000_000, 40, 1 | 4),
    ]
    (tmp_path / "timerlog" / "00000000000000000000").write_bytes(b"".join(units) + bytes(520))
    (tmp_path / "timerwheel").write_bytes(wheel((1, 1)))
    (tmp_path / "timerwheel.3").write_bytes(wheel((3000, 2), (4003, 5)))
    (tmp_path / "timerwheel.12").write_bytes(wheel((3000, 2), (4003, 1), (4005, 1)))
    timer = inspect(tmp_path)["delayed"]["timer"]
    assert timer == {
        "kind": "files", "entries": 5, "waiting": 2, "first_due": "1970-01-01T01:06:40Z",
        "last_due": "1970-01-01T01:23:20Z", "slots": 3, "in_slots": 4,
    }  # fmt: skip
    (tmp_path / "timerlog" / "00000000000000000000").write_bytes(units[0] + bytes(52) + units[1] + b"\xff" * 60)
    found = inspect(tmp_path)
    assert "no unit of the timer log, with units behind it" in [bad["reason"] for bad in found["bad"]]
    assert found["delayed"]["timer"]["entries"] == 2


@pytest.mark.parametrize("cut", range(1, UNIT.itemsize))
def test_a_timer_log_cut_within_a_unit_has_a_bad_one(cut: int, tmp_path: Path) -> None:
    """A full file ends in a blank of 16 to 67 bytes, which is none."""
    (tmp_path / "timerlog").mkdir()
    log = tmp_path / "timerlog" / "00000000000000000000"
    problems: list[Bad] = []
    log.write_bytes(unit(1_500_000, 10) + unit(3_000_000, 20)[:cut])
    timer = read_timer_files(tmp_path, None, problems)
    assert timer is not None
    assert timer.entries == 1
    assert [(bad.offset, bad.reason) for bad in problems] == [(52, "a unit of the timer log that is not whole")]
    log.write_bytes(unit(1_500_000, 10) + struct.pack(">i", cut + 15) + b"\1" * (cut + 11))
    (tmp_path / "timerwheel").write_bytes(wheel((3000, 2))[:-cut])
    assert read_timer_files(tmp_path, None, problems) is not None
    assert [bad.reason for bad in problems[1:]] == ["a slot of the timer wheel that is not whole"] * bool(cut % 32)


def test_the_bytes_of_rocketmqs_own_wheel_are_read(tmp_path: Path) -> None:
    """As `TimerWheel` of 5.5.0 wrote them: ten slots, of which 1795418000 s has two messages and three s later one."""
    for name in ("commitlog", "consumequeue"):
        (tmp_path / name).mkdir()
    written = {0: (1795418000, 52, 104, 2, 0), 3: (1795418003, 156, 156, 1, 0)}
    slots = [struct.pack(">qqqii", *written.get(n, (0,) * 5)) for n in range(20)]
    (tmp_path / "timerwheel").write_bytes(b"".join(slots))
    timer = inspect(tmp_path)["delayed"]["timer"]
    assert (timer["slots"], timer["in_slots"], timer["waiting"]) == (2, 3, 0)
