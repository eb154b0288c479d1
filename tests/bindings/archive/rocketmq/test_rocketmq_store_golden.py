"""Stores that real RocketMQ brokers left: read as the brokers answered of them, and as their own decoder reads them."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import CommitLog, CommitRecord, list_numbered
from bindings.archive.rocketmq.find import find_by_id, find_by_key
from bindings.archive.rocketmq.inspection import TopicKind, inspect_store
from bindings.archive.rocketmq.queue import LAST_ADDRESS, ConsumeQueue, Units, encode_tag
from bindings.archive.rocketmq.store import Store, open_store
from tests.recorders import golden
from tests.recorders.rocketmq_log import COLLIDING
from tests.support.archives.rocketmq_files import recorded_store
from tests.support.documented import fields_of, words_of
from tests.support.program import invoke

RECORDINGS = golden.names("rocketmq-log-")


@pytest.fixture(scope="module", params=RECORDINGS)
def recording(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"name": request.param, **golden.read(request.param)}


@pytest.fixture(scope="module")
def folder(recording: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_store(recording["name"], tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    return open_store(str(folder))


run = partial(invoke, "archive", "inspect")


def test_a_store_that_was_closed_fits_together(store: Store, recording: dict[str, Any]) -> None:
    found = inspect_store(store)
    assert not found.problems.bad
    assert not store.has_abort
    records = Counter(held["topic"] for held in recording["held"])
    assert {topic.name: topic.messages for topic in found.topics} == dict(records)
    assert found.records == len({held["place"] for held in recording["held"]})
    assert found.behind_index == 0
    assert store.checkpoint is not None
    assert store.checkpoint.log == found.last_stored == max(held["stored"] for held in recording["held"])


def test_queues_end_where_the_broker_said(store: Store, recording: dict[str, Any]) -> None:
    """But for those of transactions, which the broker goes on with."""
    found = inspect_store(store)
    ends = {
        (topic.name, queue.queue): (queue.min_offset, queue.max_offset)
        for topic in found.topics if topic.kind is not TopicKind.TRANSACTION
        for queue in topic.queues
    }  # fmt: skip
    answered = {
        (answer["topic"], answer["queue"]): (answer["min"], answer["max"])
        for answer in recording["answered"] if "queue" in answer
    }  # fmt: skip
    assert ends == {where: each for where, each in answered.items() if where in ends}
    assert {topic for topic, _ in answered} == {topic.name for topic in found.topics}
    assert max(len(queue.files) for queue in store.queues) == 2


def test_units_lead_to_the_messages_with_their_offsets_tags_and_sizes(store: Store, recording: dict[str, Any]) -> None:
    held = {(each["topic"], each["queue"], each["offset"]): each for each in recording["held"]}
    seen = 0
    for queue in store.queues:
        for units in queue.read():
            assert isinstance(units, Units)
            for offset, place, size, code, count in zip(*[column.tolist() for column in units], strict=True):
                for at in range(offset, offset + count):
                    message = held[queue.topic, queue.queue, at]
                    assert (message["place"], message["stored size"]) == (place, size) or count > 1
                    if queue.topic != "SCHEDULE_TOPIC_XXXX":
                        assert code == encode_tag(message["properties"].get("TAGS")) or count > 1
                    seen += 1
    assert seen == len(held)


def test_queues_of_4_9_have_their_codes_in_extensions(store: Store, recording: dict[str, Any], folder: Path) -> None:
    first = (folder / "consumequeue" / "orders" / "0" / f"{0:020}").read_bytes()
    is_extended = int.from_bytes(first[12:20], "big", signed=True) <= LAST_ADDRESS
    assert is_extended == recording["version"].startswith("4.")
    assert all(bool(queue.extension) == is_extended for queue in store.queues if isinstance(queue, ConsumeQueue))


def test_keys_find_the_messages_that_the_broker_found(store: Store, recording: dict[str, Any]) -> None:
    asked = [answer for answer in recording["answered"] if "key" in answer]
    assert {each["key"] for each in asked} >= set(COLLIDING)
    for answer in asked:
        found = find_by_key(store, answer["key"], (answer["topic"],))
        assert not found.problems
        assert sorted(message.message_id for message in found.messages) == sorted(answer["ids"])
    assert find_by_key(store, "AaAa", ("alike",)).others == 10


def test_every_message_is_found_by_both_its_ids(store: Store, recording: dict[str, Any]) -> None:
    for held in recording["held"]:
        (message,) = find_by_id(store, held["id"]).messages
        expected = held["topic"], held["queue"], held["place"], held["born"], held["stored"]
        assert (message.topic, message.queue, message.place, message.born, message.stored) == expected
        assert f"/{message.born_host}" == held["born host"]
        if message.messages == 1:
            assert (message.offset, message.size) == (held["offset"], held["stored size"])
            assert message.properties == held["properties"]
            is_the_brokers = message.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC"
            assert (message.unique_id is None) == is_the_brokers
            if message.unique_id is not None:
                assert message in find_by_id(store, message.unique_id, (message.topic,)).messages


def test_what_is_delayed_still_waits(store: Store, recording: dict[str, Any]) -> None:
    found = inspect_store(store)
    (waiting,) = [level for level in found.levels if level.waiting]
    (held,) = [each for each in recording["held"] if each["properties"].get("DELAY") == "18"]
    assert (waiting.level, waiting.delay, waiting.waiting) == (18, 7_200_000, 1)
    assert waiting.first_due == waiting.last_due == held["stored"] + 7_200_000
    due = [
        int(each["properties"]["TIMER_OUT_MS"])
        for each in recording["held"] if each["properties"].get("TIMER_DELAY_MS") == "3600000"
    ]  # fmt: skip
    assert (found.wheel.waiting, found.wheel.first_due) == ((1, due[0]) if due else (0, None))


def test_the_log_cut_off_at_every_byte_of_its_last_message_loses_that_one_only(
    recording: dict[str, Any], tmp_path: Path
) -> None:
    folder = recorded_store(recording["name"], tmp_path)
    last = max(recording["held"], key=lambda held: held["place"])
    files = sorted((folder / "commitlog").iterdir())
    path = next(path for path in reversed(files) if int(path.name) <= last["place"])
    at = last["place"] - int(path.name)
    whole = path.read_bytes()
    last_files = int(files[-2].name)
    before = len({held["place"] for held in recording["held"] if held["place"] >= last_files}) - 1
    for cut in range(at, at + last["stored size"]):
        path.write_bytes(whole[:cut].ljust(len(whole) if cut % 2 else cut, b"\0"))
        items = list(CommitLog(list_numbered(folder / "commitlog")[-2:]).records())
        assert sum(isinstance(item, CommitRecord) for item in items) == before
        bad = [item for item in items if isinstance(item, Bad)]
        assert [each.offset for each in bad] == (
            [last["place"]] if any(whole[at:cut]) or (at < cut and not cut % 2) else []
        )
    found = inspect_store(open_store(str(folder)))
    assert found.problems.bad["a unit of a queue that points behind the end of the log"] == 1


def test_the_command_shows_a_store_in_lines_and_as_json(folder: Path, recording: dict[str, Any]) -> None:
    lines = run(folder)
    assert lines.exit_code == 0
    for text in (
        f"{folder}: the store of a RocketMQ broker", "orders: 61 messages, ", "queue 0: offsets 0 to 15, 15 messages",
        "größe 16 (98762257)", "(dead letters of a consumer group)", "level 18 (7200 s): 1 waiting, due ",
        "of failing: 0 behind (queue: offset; ",
    ):  # fmt: skip
        assert text in lines.stdout, text
    assert "bad:" not in lines.stdout
    printed = json.loads(run("--json", folder).stdout)
    assert (printed["version"], printed["format"], printed["bad"]) == (1, "RocketMQ store", [])
    topics = {topic["topic"]: topic for topic in printed["topics"]}
    assert topics["orders"]["messages"] == 61
    assert {"tag": "größe", "code": 98762257, "messages": 16} in topics["orders"]["tags"]
    assert sum(topic["messages"] for topic in topics.values()) == len(recording["held"])
    (one,) = json.loads(run("--json", "--topic", "lanes", folder).stdout)["topics"]
    assert one == topics["lanes"]


def test_the_command_shows_messages_by_key_and_by_id(folder: Path, recording: dict[str, Any]) -> None:
    lines = run("--key", "C#Aa", "--topic", "alike", folder)
    assert lines.exit_code == 0
    assert lines.stdout.count("KEYS: C#Aa") == 2
    assert "body: 1 byte: 4" in lines.stdout
    assert "passed over: 10 messages with another key of the same hash" in lines.stdout
    held = next(each for each in recording["held"] if each["topic"] == "packed")
    for name in (held["id"], held["properties"]["UNIQ_KEY"]):
        (found,) = json.loads(run("--json", "--message-id", name, folder).stdout)["messages"]
        assert (found["topic"], found["offset"], found["message_id"]) == ("packed", held["offset"], held["id"])
        assert found["bodies"][0]["size"] == held["size"]
    missing = run("--key", "nothing", folder)
    assert missing.exit_code == 1
    assert "no message with the key 'nothing'" in missing.stderr


def test_every_field_of_the_json_is_documented(folder: Path) -> None:
    for asked in ((), ("--key", "C#Aa", "--topic", "alike")):
        printed = json.loads(run("--json", *asked, folder).stdout)
        assert fields_of(printed, {"properties"}) <= words_of("inspect-json.md")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--key", "k", "--message-id", "i"], "give one of them"),
        (["--topic", "nothing"], "there are no queues of a topic 'nothing'"),
    ],
)
def test_impossible_questions_to_a_store_end_with_2(folder: Path, arguments: list[str], reason: str) -> None:
    result = run(*arguments, folder)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_keys_are_asked_of_stores_only(folder: Path) -> None:
    result = run("--key", "k", folder / "commitlog")
    assert result.exit_code == 2
    assert "are for the store of a RocketMQ broker" in result.stderr
    assert run(folder / "commitlog").exit_code == 0
