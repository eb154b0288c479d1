"""Dead letters that brokers of RocketMQ make are published to the topic where they died, once, as they were there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.dead.restoring import REPLAY
from bridge.rocketmq.consumer.retrying import DEAD, DLQ_PREFIX, give_back, retry_topic, send_retry
from bridge.rocketmq.remoting.admin import delete_topic
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from tests.bridge.dead.logs.command import run
from tests.support.rocketmq.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import wait_until


@pytest.fixture
def topics(rocketmq: Server) -> Iterator[Topics]:
    with topics_at(rocketmq.url) as made:
        yield made


def test_letters_go_once_to_the_topic_where_they_died_and_as_they_were(topics: Topics, tmp_path: Path) -> None:
    origin, group = topics.make(queues=3), topics.group(unique_name("group"))
    properties = [{"KEYS": f"k{at % 4}", "TAGS": "t", "tenant": "ab"[at % 2], "n": str(at)} for at in range(20)]
    topics.put(origin, [RocketMessage(origin, b"%d" % at, each, at) for at, each in enumerate(properties)])
    before = topics.read(origin, 20)
    for each in before:
        topics.do(give_back(topics.client, group, each, DEAD))
    dead = DLQ_PREFIX + group
    topics.read(dead, 20)
    url, ledger = f"rocketmq://{topics.namesrv}/{dead.replace('%', '%25')}", tmp_path / "ledger"
    planned = run(url, ledger, "--dry-run")
    assert planned["goes"] == [{"kind": "topic", "name": origin, "count": 20}]
    some = run(url, ledger, "--where", "tenant = 'a'")
    assert (some["moved"], some["left"]) == (10, [])
    rest = run(url, ledger)
    assert (rest["moved"], rest["done_before"]) == (10, 10)
    assert run(url, ledger)["moved"] == 0
    after = [each for each in topics.read(origin, 40) if REPLAY in each.properties]
    assert len(after) == 20

    def show(messages: list[StoredMessage]) -> set[tuple[object, ...]]:
        return {
            (
                each.body,
                each.flag,
                each.unique_id,
                each.tags,
                each.keys,
                each.properties["tenant"],
                each.properties["n"],
            )
            for each in messages
        }

    assert show(after) == show(before)
    assert not {"RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "ORIGIN_MESSAGE_ID"} & {
        name for each in after for name in each.properties
    }
    for key in {each.keys for each in after}:
        queues = {each.queue_id for each in after if each.keys == key}
        assert len(queues) == 1  # in order: those of one key are in one queue
        for tenant in "ab":
            numbers = [
                int(each.properties["n"]) for each in after if each.keys == key and each.properties["tenant"] == tenant
            ]
            assert numbers == sorted(numbers)
    assert len(topics.read(dead, 20)) == 20


def test_retries_go_to_the_topic_that_they_were_first_read_from(topics: Topics, tmp_path: Path) -> None:
    origin, group = topics.make(), topics.group(unique_name("group"))
    topics.put(origin, [RocketMessage(origin, b"x", {"KEYS": "k"})])
    [message] = topics.read(origin, 1)
    topics.make(name=retry_topic(group))
    topics.do(send_retry(topics.client, group, message, 16))
    wait_until(lambda: len(topics.read(retry_topic(group), 1)) == 1)
    url = f"rocketmq://{topics.namesrv}/{retry_topic(group).replace('%', '%25')}"
    done = run(url, tmp_path / "ledger")
    assert (done["moved"], done["left"]) == (1, [])
    assert [REPLAY in each.properties for each in topics.read(origin, 2)] == [False, True]


def test_a_topic_that_was_made_anew_is_published_anew(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(), unique_name("dead")
    for count in (1, 2):
        topics.make(name=dead)
        topics.put(dead, [RocketMessage(dead, b"x", {"RETRY_TOPIC": origin, "UNIQ_KEY": "same"})])
        topics.read(dead, 1)
        done = run(f"rocketmq://{topics.namesrv}/{dead}", tmp_path / "ledger")
        assert (done["moved"], done["done_before"]) == (1, 0)
        assert len(topics.read(origin, count)) == count
        topics.do(delete_topic(topics.client, dead))
