"""A RocketMQ broker's store: what fits is counted and the rest reported, wherever the log is cut off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.rocketmq.commit import CommitRecord
from bindings.archive.rocketmq.find import find_by_id, find_by_key
from bindings.archive.rocketmq.inspection import StoreInspection, TopicKind, inspect_store
from bindings.archive.rocketmq.store import is_store, open_store
from bindings.auditing.spark.growth import Growth
from bindings.commands.archive import archive_command
from exchange.errors import InputError
from tests.support.archives.reads import FILES
from tests.support.archives.rocketmq_files import Sent, message, store, unit

SENT = (
    Sent("a", 0, {"TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "U1"}), Sent("a", 1, {"TAGS": "blue", "KEYS": "k1"}),
    Sent("b", 0, {"KEYS": "Aa"}), Sent("a", 0, {"KEYS": "BB"}), Sent("b", 0, {"KEYS": "BB", "TAGS": "red"}, b"body"),
    Sent("a", 0, {"TAGS": "red"}),
)  # fmt: skip
"""Six messages in three queues."""


def inspect_at(folder: Path) -> StoreInspection:
    return inspect_store(open_store(str(folder)))


def offsets(found: StoreInspection) -> dict[str, tuple[int, int, int]]:
    """Topic and queue -> the ends of the queue, and its messages."""
    return {
        f"{topic.name}/{queue.queue}": (queue.min_offset, queue.max_offset, queue.messages)
        for topic in found.topics for queue in topic.queues
    }  # fmt: skip


WHOLE = {"a/0": (0, 3, 3), "a/1": (0, 1, 1), "b/0": (0, 2, 2)}


def test_a_whole_store_is_counted_and_nothing_is_bad(tmp_path: Path) -> None:
    store(tmp_path, SENT)
    found = inspect_at(tmp_path)
    assert not found.problems.bad
    assert offsets(found) == WHOLE
    assert {topic.name: topic.tags for topic in found.topics} == {
        "a": {"red": 2, None: 1, "blue": 1}, "b": {None: 1, "red": 1},
    }  # fmt: skip
    assert (found.records, found.messages, found.keys, found.behind_index) == (6, 6, 7, 0)
    assert (found.first_stored, found.last_stored) == (1, 5001)
    assert [(row.group, row.topic, row.queue, row.offset, row.lag) for row in found.groups] == [
        ("group", "a", 0, 1, 2), ("group", "a", 1, 0, 1),
    ]  # fmt: skip


def test_messages_deleted_with_their_file_are_not_bad(tmp_path: Path) -> None:
    places = store(tmp_path, SENT)
    log = tmp_path / "commitlog" / f"{0:020}"
    data = log.read_bytes()
    log.unlink()
    (tmp_path / "commitlog" / f"{places[2]:020}").write_bytes(data[places[2] :])
    found = inspect_at(tmp_path)
    assert not found.problems.bad
    assert offsets(found) == {"a/0": (1, 3, 2), "a/1": (1, 1, 0), "b/0": (0, 2, 2)}
    assert sum(queue.deleted for topic in found.topics for queue in topic.queues) == 2
    assert find_by_key(open_store(str(tmp_path)), "k1").deleted == 2


def write_at(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def units_of(folder: Path, queue: str) -> list[bytes]:
    data = (folder / "consumequeue" / queue / f"{0:020}").read_bytes()
    return [data[at : at + 20] for at in range(0, len(data), 20)]


@pytest.mark.parametrize(
    ("queue", "at", "make", "reason"),
    [
        ("a/0", 0, lambda place, size: unit(place + 1, size, 112785), "points at no message"),
        ("a/0", 0, lambda place, size: unit(1 << 20, size, 112785), "points behind the end of the log"),
        ("a/0", 0, lambda place, size: unit(place, size + 1, 112785), "has another size than its message"),
        ("a/0", 0, lambda place, size: unit(place, size, 5), "has another code than its message's tag"),
        ("b/0", 1, unit, "is not at its message's offset"),
        ("a/1", 0, unit, "points at another queue's message"),
    ],
)
def test_a_unit_that_does_not_fit_is_reported_with_its_queue_and_offset(
    tmp_path: Path, queue: str, at: int, make: Callable[[int, int], bytes], reason: str
) -> None:
    store(tmp_path, SENT)
    first = units_of(tmp_path, "b/0" if queue == "b/0" else "a/0")[0]
    place, size = int.from_bytes(first[:8], "big"), int.from_bytes(first[8:12], "big")
    write_at(tmp_path / "consumequeue" / queue / f"{0:020}", 20 * at, make(place, size))
    bad = inspect_at(tmp_path).problems
    text = f"a unit of a queue that {reason}"
    assert [(each.source, each.offset) for each in bad.samples[text]] == [(queue, at)]
    misses = reason != "has another code than its message's tag"
    assert bad.bad == Counter({text: 1, **({"a message whose queue has no unit for it": 1} if misses else {})})


def test_messages_in_no_queue_are_reported_with_the_reason(tmp_path: Path) -> None:
    places = store(tmp_path, (*SENT, Sent("c"), *SENT[:2]))
    for path in (tmp_path / "consumequeue" / "c" / "0").iterdir():
        path.unlink()
    (tmp_path / "consumequeue" / "c" / "0").rmdir()
    for queue, units in (("a/0", 3), ("a/1", 1)):
        write_at(tmp_path / "consumequeue" / queue / f"{0:020}", 20 * units, bytes(20))
    write_at(tmp_path / "consumequeue" / "b" / "0" / f"{0:020}", 0, unit(0, 0x7FFFFFFF))
    found = inspect_at(tmp_path)
    assert found.problems.bad == {"a message that is in no queue yet": 3, "a message whose queue has no unit for it": 1}
    assert [each.offset for each in found.problems.samples["a message that is in no queue yet"]] == [
        places[7], places[8], places[6],
    ]  # fmt: skip
    assert offsets(found)["b/0"] == (1, 2, 1)


def test_a_queue_of_a_running_broker_may_be_behind_others(tmp_path: Path) -> None:
    """For they were not read at one moment."""
    store(tmp_path, SENT)
    write_at(tmp_path / "consumequeue" / "a" / "1" / f"{0:020}", 0, bytes(20))
    assert inspect_at(tmp_path).problems.bad == {"a message whose queue has no unit for it": 1}
    (tmp_path / "abort").touch()
    assert inspect_at(tmp_path).problems.bad == {"a message that is in no queue yet": 1}
    write_at(tmp_path / "consumequeue" / "a" / "0" / f"{0:020}", 0, unit(0, 0x7FFFFFFF))
    assert inspect_at(tmp_path).problems.bad["a message whose queue has no unit for it"] == 1


@FILES
@given(st.data())
def test_a_log_cut_off_anywhere_in_its_last_message_loses_that_one_only(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("store")
    places = store(folder, SENT)
    log = folder / "commitlog" / f"{0:020}"
    whole = log.read_bytes().rstrip(b"\0")
    cut = data.draw(st.integers(places[-1], len(whole) - 1))
    is_filled = data.draw(st.booleans())
    log.write_bytes(whole[:cut].ljust(len(whole) + 8 if is_filled else cut, b"\0"))
    found = inspect_at(folder)
    assert offsets(found) == WHOLE | {"a/0": (0, 3, 2)}
    torn = [each for reason, bad in found.problems.samples.items() if "record" in reason for each in bad]
    assert [each.offset for each in torn] == (
        [places[-1]] if any(whole[places[-1] : cut]) or (places[-1] < cut and not is_filled) else []
    )
    behind = found.problems.samples["a unit of a queue that points behind the end of the log"]
    assert [(each.source, each.offset) for each in behind] == [("a/0", 2)]
    assert sum(found.problems.bad.values()) == len(torn) + 1


def test_the_last_message_is_lost_whatever_byte_the_log_is_cut_off_at(tmp_path: Path) -> None:
    places = store(tmp_path, SENT)
    log = tmp_path / "commitlog" / f"{0:020}"
    whole = log.read_bytes().rstrip(b"\0")
    assert len(whole) == places[-1] + len(message(0, "a", {"TAGS": "red"}, b"b"))
    for cut in range(places[-1], len(whole)):
        log.write_bytes(whole[:cut])
        assert inspect_at(tmp_path).messages == 5


def test_light_queues_share_the_messages_of_others(tmp_path: Path) -> None:
    (place,) = store(tmp_path, [Sent("a", 2, {"INNER_MULTI_DISPATCH": "%LMQ%x,b", "INNER_MULTI_QUEUE_OFFSET": "0,0"})])
    units = units_of(tmp_path, "a/2")
    assert int.from_bytes(units[0][:8], "big") == place
    for queue in ("%LMQ%x/0", "b/2"):
        folder = tmp_path / "consumequeue" / queue
        folder.mkdir(parents=True)
        (folder / f"{0:020}").write_bytes(units[0])
    found = inspect_at(tmp_path)
    assert not found.problems.bad
    assert offsets(found) == {"a/2": (0, 1, 1), "%LMQ%x/0": (0, 1, 1), "b/2": (0, 1, 1)}


def test_a_key_finds_its_messages_and_passes_over_others_of_its_hash(tmp_path: Path) -> None:
    places = store(tmp_path, SENT)
    opened = open_store(str(tmp_path))
    assert [each.place for each in find_by_key(opened, "k1").messages] == [places[0], places[1]]
    assert [each.place for each in find_by_key(opened, "U1").messages] == [places[0]]
    of_b = find_by_key(opened, "BB", ("b",))
    assert ([each.place for each in of_b.messages], of_b.others) == ([places[4]], 1)
    assert find_by_key(opened, "none") == ((), 0, 0, ())
    (found,) = of_b.messages
    assert [part.body for part in found.parts()] == [b"body"]
    assert find_by_id(opened, found.message_id.lower()).messages == (found,)
    assert [each.place for each in find_by_id(opened, "U1").messages] == [places[0]]
    assert find_by_id(opened, "0" * 32).messages == ()


def test_a_unit_of_the_index_without_a_message_is_reported(tmp_path: Path) -> None:
    places = store(tmp_path, SENT)
    log = tmp_path / "commitlog" / f"{0:020}"
    log.write_bytes(log.read_bytes()[: places[4]])
    opened = open_store(str(tmp_path))
    assert [each.offset for each in find_by_key(opened, "BB", ("b",)).problems] == [places[4]]
    assert inspect_store(opened).problems.bad["a unit of the index that points at no message"] == 1


def test_delayed_messages_are_listed_with_their_times(tmp_path: Path) -> None:
    wheel = {"TIMER_OUT_MS": "9000", "REAL_TOPIC": "a", "UNIQ_KEY": "u"}
    store(tmp_path, [
        Sent("SCHEDULE_TOPIC_XXXX", 2, {"DELAY": "3"}), Sent("SCHEDULE_TOPIC_XXXX", 2, {"DELAY": "3"}),
        Sent("rmq_sys_wheel_timer", 0, wheel), Sent("rmq_sys_wheel_timer", 0, wheel),
        Sent("rmq_sys_wheel_timer", 0, wheel | {"UNIQ_KEY": "v", "TIMER_OUT_MS": "3000"}),
    ])  # fmt: skip
    queue = tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2" / f"{0:020}"
    for n in range(2):
        write_at(queue, 20 * n + 12, (1000 * n + 1 + 10_000).to_bytes(8, "big"))
    (tmp_path / "config" / "delayOffset.json").write_text('{"offsetTable":{3:1}}')
    (tmp_path / "config" / "timercheck").write_bytes((3000).to_bytes(8, "big").ljust(4096, b"\0"))
    found = inspect_at(tmp_path)
    assert not found.problems.bad
    assert found.levels == ((3, 10_000, 1, 1, 11_001, 11_001),)
    assert found.wheel == (1, 9000, 9000)


def test_topics_of_rocketmqs_own_are_known_by_their_names() -> None:
    kinds = {
        "a": "USER", "%RETRY%g": "RETRY", "%DLQ%g": "DEAD", "TBW102": "SYSTEM",
        "RMQ_SYS_TRANS_HALF_TOPIC": "TRANSACTION", "SCHEDULE_TOPIC_XXXX": "DELAY", "rmq_sys_wheel_timer": "WHEEL",
    }  # fmt: skip
    assert {name: TopicKind.from_name(name).name for name in kinds} == kinds


def test_a_store_with_parts_missing_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    store(tmp_path, SENT)
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "abort").write_bytes(b"")
    (tmp_path / "config" / "topics.json").write_text("{")
    (tmp_path / "config" / "consumerOffset.json").write_text('{"offsetTable":[]}')
    (tmp_path / "config" / "consumerOffset.json.bak").write_text("{}")
    (tmp_path / "index" / "20260101000000001").write_bytes(b"short")
    opened = open_store(str(tmp_path))
    assert opened.has_abort
    assert opened.checkpoint is None
    assert sorted((Path(each.source).name, each.reason.partition(":")[0]) for each in opened.problems) == [
        ("20260101000000001", "no file of an index"), ("checkpoint", "missing"),
        ("consumerOffset.json", "not what a broker writes"), ("topics.json", "cannot be read"),
    ]  # fmt: skip
    assert offsets(inspect_store(opened)) == WHOLE
    assert len(find_by_key(opened, "k1").messages) == 2


@pytest.mark.parametrize(("read", "write", "perm", "shown"), [
    (2, 8, 6, "8 write queues and 2 read queues: what is written to 6 of them is never read"),
    (-3, 4, 6, "4 write queues and -3 read queues: what is written to 4 of them is never read"),
    (8, 8, 6, None), (8, 2, 6, None), (2, 8, 2, None), (2, 8, 4, None),
])  # fmt: skip
def test_queues_that_are_written_and_never_read_are_shown(
    read: int, write: int, perm: int, shown: str | None, tmp_path: Path
) -> None:
    store(tmp_path, SENT)
    topic = {"readQueueNums": read, "writeQueueNums": write, "perm": perm}
    (tmp_path / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {"a": topic}}))
    text = CliRunner().invoke(archive_command, ["inspect", str(tmp_path)]).stdout
    assert ("is never read" in text) == (shown is not None)
    assert shown is None or shown in text
    answer = json.loads(CliRunner().invoke(archive_command, ["inspect", str(tmp_path), "--json"]).stdout)
    numbers = {row["topic"]: (row["read_queues"], row["write_queues"]) for row in answer["topics"]}
    assert numbers == {"a": (read, write), "b": (None, None)}


def test_a_young_store_misses_nothing(tmp_path: Path) -> None:
    """The store of a broker without any message or consumer."""
    for name in ("commitlog", "consumequeue", "config"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    found = inspect_at(tmp_path)
    assert not found.problems.bad
    assert (found.records, found.topics, found.groups, found.first_stored) == (0, (), (), None)


def test_files_that_must_be_there_are_missed(tmp_path: Path) -> None:
    store(tmp_path, SENT)
    for name in ("checkpoint", "config/topics.json", f"commitlog/{0:020}"):
        (tmp_path / name).unlink()
    (tmp_path / "commitlog").rmdir()
    (tmp_path / "abort").touch()
    found = inspect_at(tmp_path)
    missing = {Path(each.source).name for each in found.problems.samples["missing"]}
    assert missing == {"checkpoint", "topics.json", "commitlog"}
    assert found.problems.bad["a unit of a queue that points behind the end of the log"] == 6
    assert offsets(found) == {where: (*ends[:2], 0) for where, ends in WHOLE.items()}


def test_queues_in_a_damaged_database_are_named_and_counted_by_the_log(tmp_path: Path) -> None:
    store(tmp_path, SENT)
    for path in sorted((tmp_path / "consumequeue").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / "consumequeue" / "CURRENT").write_text("MANIFEST-000005\n")
    opened = open_store(str(tmp_path))
    assert opened.in_database == ("consume queues",)
    found = inspect_store(opened)
    (reason,) = found.problems.bad
    assert reason.startswith("RocksDB cannot read it: ")
    assert offsets(found) == WHOLE


def test_a_store_is_an_archive_of_its_commit_log_alone(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    store(tmp_path / "one", SENT)
    for path in (tmp_path, tmp_path / "one"):
        archive = detect(str(path))
        assert archive.formats == ("RocketMQ commit log",)
        assert [Path(str(file)).parent.name for file, _ in archive.files] == ["commitlog"]
        assert archive.others == ()
    assert is_store(str(tmp_path / "one"))
    assert not is_store(str(tmp_path))
    with pytest.raises(InputError, match="not the store of a RocketMQ broker"):
        open_store(str(tmp_path))


def test_the_id_of_a_message_with_ipv6_has_its_place(tmp_path: Path) -> None:
    store(tmp_path, [Sent("a", flag=0x30)])
    found = open_store(str(tmp_path)).log.at(0)
    assert isinstance(found, CommitRecord)
    assert found.stored_host == "[7f7f:7f7f:7f7f:7f7f:7f7f:7f7f:7f7f:7f7f]:9"
    assert len(found.message_id) == 56
    assert find_by_id(open_store(str(tmp_path)), found.message_id).messages == (found,)


def test_following_a_store_reads_its_log(tmp_path: Path) -> None:
    store(tmp_path / "store", SENT)
    growth = Growth(str(tmp_path / "store"), tmp_path / "state" / "files")
    splits = [split for step in growth.steps(0, growth.look()) for split in step.splits]
    assert {Path(split.source).relative_to(tmp_path).as_posix() for _, split in splits} == {
        f"store/commitlog/{0:020}",
    }  # fmt: skip
