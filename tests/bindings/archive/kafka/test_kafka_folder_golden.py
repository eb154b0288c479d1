"""Data folders of real Kafka brokers: the command shows what Kafka's own tools showed of broker and files."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.sums import UNKNOWN_LOSS
from tests.recorders import golden
from tests.recorders.kafka_folder import VERSIONS
from tests.support.documented import fields_of, words_of
from tests.support.kafka.folder import check_json
from tests.support.program import invoke


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    golden.unpack(f"kafka-folder-{version}", tmp_path / "data")
    return tmp_path / "data"


run = partial(invoke, "archive", "inspect")


def inspect(folder: Path, *options: str) -> dict[str, Any]:
    result = run(folder, "--routing-key", "=k", "--json", *options)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_every_figure_is_that_of_kafkas_own_tools(version: str, folder: Path) -> None:
    recorded = golden.read(f"kafka-folder-{version}")
    found = inspect(folder)
    assert not found["bad"]
    assert not found["kafka"]["bad"]
    check_json(found["kafka"], recorded, recorded["dumped"])
    assert recorded["dumped"].keys() > {"orders-0", "paid-1", "__transaction_state-0", "__consumer_offsets-1"}
    assert found["records"] == sum(
        recorded["dumped"][name]["records"] for name in ("orders-0", "orders-1", "orders-2", "paid-0", "paid-1")
    ) - sum(count for reason, count in found["skipped"].items() if reason.startswith("a record"))


def test_each_field_is_described(folder: Path) -> None:
    assert fields_of(inspect(folder)["kafka"], {"features"}) <= words_of("inspect-json.md")


def test_transactions_topics_and_members_are_named(version: str, folder: Path) -> None:
    kafka = inspect(folder)["kafka"]
    states = {each["transactional_id"]: each["state"] for each in kafka["transactions"]}
    assert states == {
        "commits": "CompleteCommit", "aborts": "CompleteAbort", "stays-open": "Ongoing",
        "commits-offsets": "CompleteAbort",
    }  # fmt: skip
    (is_open,) = [each for each in kafka["transactions"] if each["state"] == "Ongoing"]
    assert [(each["topic"], each["partition"]) for each in is_open["partitions"]] == [("paid", 0), ("paid", 1)]
    assert {each["topic"]: each["partitions"] for each in kafka["cluster"]["topics"]} == {
        "orders": 3, "paid": 2, "empty": 1, "__consumer_offsets": 2, "__transaction_state": 2,
    }  # fmt: skip
    ids = {each["topic"]: each["topic_id"] for each in kafka["topics"]}
    assert {each["topic_id"] for each in kafka["cluster"]["topics"]} <= set(ids.values())
    groups = {each["group"]: each for each in kafka["groups"]}
    assert [each["type"] for each in groups.values()] == [
        "consumer" if name == "modern" else "classic" for name in groups
    ]
    for name in groups.keys() & {"stays", "modern"}:
        (member,) = groups[name]["members"]
        assert sorted((each["topic"], each["partition"]) for each in member["partitions"]) == [
            ("orders", number) for number in range(3)
        ]
    offsets = {(each["topic"], each["partition"]): each["offset"] for each in groups["by-hand"]["offsets"]}
    assert offsets == {("paid", 0): 5, ("paid", 1): 4, ("empty", 0): 0}  # 6 was committed in an aborted transaction


def test_the_text_says_the_same_to_people(folder: Path) -> None:
    text = run(folder, "--routing-key", "=k").stdout
    for line in (
        "data folder of a Kafka broker: cluster hashstarKafkaClusterAA, node 1, it runs, or did not end cleanly",
        "  orders (id ", "3 partitions", "    partition 0: offsets 0 to ", " (high watermark ",
        "topics of Kafka's own:", "consumer groups:", "  by-hand (classic, Empty): 0 members",
        "    member größe at /127.0.0.1: 3 partitions",
        "      open transaction: producer ", "transactional producers:", "  stays-open: Ongoing in paid-0, paid-1",
        "metadata of the cluster: 5 topics",
    ):  # fmt: skip
        assert line in text, line


def test_one_topic_is_shown_alone(folder: Path) -> None:
    kafka = inspect(folder, "--topic", "paid")["kafka"]
    assert [topic["topic"] for topic in kafka["topics"]] == ["paid"]
    assert {offset["topic"] for group in kafka["groups"] for offset in group["offsets"]} == {"paid"}
    assert [each["transactional_id"] for each in kafka["transactions"]] == ["stays-open"]
    result = run(folder, "--topic", "no-such")
    assert result.exit_code == 2
    assert "no partitions of a topic 'no-such'" in result.stderr
    assert run(folder / "paid-0", "--topic", "paid").exit_code == 2


def test_what_is_damaged_is_reported_and_the_rest_is_shown(folder: Path) -> None:
    whole = inspect(folder)["kafka"]
    (folder / "replication-offset-checkpoint").write_text("0\n9\norders 0 1\n")
    (folder / "paid-0" / "leader-epoch-checkpoint").write_bytes(b"\xff\xfe")
    (folder / "paid-1" / "00000000000000000000.txnindex").write_bytes(b"\1" * 34)
    (folder / "paid-0" / "00000000000000000000.txnindex").write_bytes(bytes(34 + 33))
    (folder / "paid-1" / "00000000000000000099.snapshot").write_bytes(b"\0\1abcdefgh")
    (folder / "meta.properties").write_bytes(b"node.id=" + b"9" * 5000)
    for path in folder.glob("__consumer_offsets-*/*.log"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    found = inspect(folder)["kafka"]
    reasons = [each["reason"] for each in found["bad"]]
    for reason in (
        "it has another number of entries than it states", "no checkpoint of version 0", "its version 257 is not known",
        "its checksum is wrong", "it ends in the middle of a transaction", "a record batch whose checksum is wrong",
    ):  # fmt: skip
        assert reason in {each.removesuffix(UNKNOWN_LOSS) for each in reasons}, reason
    assert [each["end_offset"] for topic in found["topics"] for each in topic["partitions"] if not topic["own"]] == [
        each["end_offset"] for topic in whole["topics"] for each in topic["partitions"] if not topic["own"]
    ]
    assert found["node_id"] is None
    assert run(folder).exit_code in (0, 2)


def test_a_folder_with_kafkas_own_topics_only_is_shown_and_ends_with_2(folder: Path) -> None:
    for path in [*folder.glob("orders-*"), *folder.glob("paid-*"), *folder.glob("empty-*")]:
        shutil.rmtree(path)
    text, as_json = run(folder), run(folder, "--json")
    for result in (text, as_json):
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert "there is nothing in it" in result.stderr
    assert text.stdout.startswith("data folder of a Kafka broker: ")
    found = json.loads(as_json.stdout)
    assert (found["records"], found["auditable"]) == (0, False)
    assert {group["group"] for group in found["kafka"]["groups"]} >= {"left", "stays", "by-hand"}
    assert {offset["lag"] for group in found["kafka"]["groups"] for offset in group["offsets"]} == {None}


def test_a_folder_of_topics_alone_is_an_archive_as_before(folder: Path) -> None:
    for name in ("meta.properties", *[path.name for path in folder.glob("*-checkpoint")]):
        (folder / name).unlink(missing_ok=True)
    assert "kafka" not in inspect(folder)
