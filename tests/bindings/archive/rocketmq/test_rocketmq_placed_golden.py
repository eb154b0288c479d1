"""Messages with a priority, and of lite topics, in what real brokers stored: read as their clients read them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.rocketmq.log import GREATEST_PRIORITY, RocketmqLog
from bridge.cli import hashstar
from exchange.partition.clients.rocketmq.priority import PRIORITY, parse_priority
from tests.recorders import golden
from tests.recorders.rocketmq_placed import LITE, LITE_TOPIC, VARIANTS
from tests.support.archives.reads import read

NO_LITE_TOPIC = f"a message without header:{LITE_TOPIC}, which is to be its routing key"
STORES = [variant for variant in VARIANTS if variant != "plain"]


@pytest.fixture(params=STORES)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(variant: str, tmp_path: Path) -> Path:
    golden.unpack(f"rocketmq-placed-{variant}", tmp_path / "store")
    return tmp_path / "store"


def archived(folder: Path, places: FieldMapping = USUAL) -> list[Any]:
    """Return all messages of the topics of users; where the lite topic is the routing key, those that have one."""
    found: list[Any] = []
    for path in sorted((folder / "commitlog").iterdir()):
        part = read(RocketmqLog(places), path)
        assert {bad.reason for bad in part.bad} <= ({NO_LITE_TOPIC} if places is not USUAL else set())
        found += [record.message for record in part.records]
    return found


def as_number(text: str | None) -> int | str | None:
    """Return a priority as an archive has it: of AMQP up to 255, else as it was sent."""
    priority = parse_priority(text or "")
    return text if priority is None or priority > GREATEST_PRIORITY else priority


def test_each_message_has_its_lite_topic_and_its_priority(variant: str, folder: Path) -> None:
    recorded = golden.read(f"rocketmq-placed-{variant}")["read"]
    wanted = Counter(
        (topic, properties.get(LITE_TOPIC), as_number(properties.get(PRIORITY)))
        for topic, messages in recorded.items()
        for _, _, properties in messages
    )
    found = Counter(
        (
            message.exchange,
            message.headers.get(LITE_TOPIC),
            message.properties.get("priority", message.headers.get(PRIORITY)),
        )
        for message in archived(folder)
    )
    assert wanted == found
    assert {name for _, name, _ in found} == {*LITE, None}
    numbers = [message.properties["priority"] for message in archived(folder) if "priority" in message.properties]
    assert max(numbers) == GREATEST_PRIORITY


def test_the_lite_topic_can_be_the_routing_key(folder: Path) -> None:
    keys = Counter(
        message.routing_key
        for message in archived(folder, FieldMapping(routing_key=f"header:{LITE_TOPIC}"))
        if message.exchange == "chats"
    )
    assert set(keys) == set(LITE)


def test_a_store_shows_the_queues_of_lite_topics_as_the_broker_does(variant: str, folder: Path) -> None:
    """Their messages are those of the topic, and are counted with it."""
    run = CliRunner().invoke(hashstar, ["archive", "inspect", str(folder), "--json"])
    assert run.exit_code == 0, run.output
    found, recorded = json.loads(run.stdout), golden.read(f"rocketmq-placed-{variant}")
    assert found["bad"] == []
    topics = {topic["topic"]: topic for topic in found["topics"]}
    lite = {name: topic for name, topic in topics.items() if name.startswith("%LMQ%")}
    assert {name: topic["kind"] for name, topic in lite.items()} == {
        f"%LMQ%${name}": "lite" for name in ["mixed$a", *[f"chats${lite}" for lite in LITE]]
    }
    for name, (first, after) in recorded["lite"].items():
        parent, _, own = name.partition("/")
        (queue,) = lite[f"%LMQ%${parent}${own}"]["queues"]
        assert (queue["queue"], queue["min_offset"], queue["max_offset"]) == (0, first, after)
        assert queue["messages"] == after - first
    for topic, messages in recorded["read"].items():
        assert topics[topic]["messages"] == len(messages)
        assert Counter({each["queue"]: each["messages"] for each in topics[topic]["queues"] if each["messages"]}) == (
            Counter(queue for queue, _, _ in messages)
        )


def test_the_text_has_lite_topics_apart(folder: Path) -> None:
    text = CliRunner().invoke(hashstar, ["archive", "inspect", str(folder)]).stdout
    own = text.partition("topics of RocketMQ's own:")[2]
    assert "%LMQ%$chats$a: " in own
    assert "(a lite topic, whose messages are those of its topic, too)" in own
