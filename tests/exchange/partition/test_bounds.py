"""Texts about partitions from outside are refused with an error, or cost next to nothing."""

from __future__ import annotations

import copy
import pickle
import re
import time

import pytest

from exchange.errors import InputError, TextError
from exchange.limits import PARTITIONS
from exchange.partition.clients.rocketmq.queues import TopicRoute, publish_queues, subscribe_queues
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from exchange.partition.partitions import Partition, Partitions
from exchange.values.json_text import parse_fastjson
from tests.support.cases import with_each


@with_each(
    ("text", "words"),
    [
        ("kafka.murmur2 over 2147483648", "'2147483648' is no number of partitions, which are 200,000 at most"),
        ("kafka.murmur2 over 200001", "at most 200,000 partitions"),
        ("kafka.murmur2 over 0", "at least one partition"),
        (f"kafka.murmur2 over {'9' * 5_000}", "is no number of partitions"),
        ("rocketmq.hash over a:99999999", "at most 200,000 partitions"),
        ("kafka.nearest(rack=x) over a@x:200000,b:1", "at most 200,000 partitions"),
        ("rocketmq.hash over a:4,a:4", "broker 'a' is named twice"),
        ("rocketmq.hash over a:-1,b:2", "'-1' is no number of partitions"),
        ("rocketmq.hash over a:x", "'x' is no number of partitions"),
        ("kafka.murmur2 over -1", "only super streams have names"),
        ("kafka.murmur2 over 12.5", "only super streams have names"),
        ("kafka.murmur2 over 1e3", "only super streams have names"),
        ("kafka.murmur2 over orders", "only super streams have names"),
        ("rocketmq.hash over %%", "only super streams have names"),
        ("rabbitmq.consistent_hash(weight=0) over 3", "a weight is at least 1"),
        (f"kafka.murmur2 over 3 by word {'1' * 5_000}", "expected a key"),
        ('kafka.murmur2 over 3 by header "a\\q"', "not a text in quotes"),
        ('kafka.murmur2 over 3 by header "a\nb"', "not a text in quotes"),
        ('kafka.murmur2 over 3 by header "a\x1bb"', "not a text in quotes"),
        ('rabbitmq.super_stream over "a\\u00",b', "not a text in quotes"),
    ],
)
def test_a_partitioning_that_cannot_be_is_refused(text: str, words: str) -> None:
    with pytest.raises((InputError, TextError), match=re.escape(words)):
        Partitioning.parse(text)


def test_numbered_partitions_cost_nothing_until_one_is_asked_for() -> None:
    """A file of others may have very many queues that are partitioned."""
    began = time.process_time()
    many = [Partitioning.parse(f"kafka.murmur2 over {PARTITIONS - at}") for at in range(64)]
    assert str(many[0]) == f"kafka.murmur2 over {PARTITIONS} by routing_key"
    assert len({hash(each.partitions) for each in many}) == 64
    assert time.process_time() - began < 5  # building them all takes half a minute


def test_partitions_are_equal_whether_they_are_built_or_only_numbered() -> None:
    built = Partitions([Partition(at) for at in range(12)])
    numbered = Partitions.from_count(12)
    assert built == numbered
    assert hash(built) == hash(numbered)
    assert (numbered.all, numbered.available, list(numbered)) == (built.all, built.available, list(built))
    assert numbered[11] == built[11]
    assert 11 in numbered
    assert 12 not in numbered
    for each in (built, numbered, Partitions.from_count(13), Partitions.queues({"a": 2})):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301  our own
        assert copy.deepcopy(each) == each
    with pytest.raises(AttributeError, match="do not change"):
        numbered.all = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        numbered.nothing  # noqa: B018


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_key_that_a_publisher_can_write_has_a_choice_and_raises_nothing(strategy: str) -> None:
    keys = [10**20, -(10**20), 2**63, 2**31, float("nan"), float("inf"), "\ud800", b"\xff", True, None, [1], {"a": 1}]
    for partitions in ("3", "a:2,b:2", "x,y,z"):
        try:
            partitioning = Partitioning.parse(f"{strategy} over {partitions}")
        except (InputError, TextError):
            continue
        for key in [*keys, 10**400, 0.1, "x" * 100_000]:
            partitioning.choose_for(key)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",-1:{2 : [1,{3:4}]}}', {"0": "a", "-1": {"2": [1, {"3": 4}]}}),
        ('{"a,1:":"b{2:",3:"\\",4:"}', {"a,1:": "b{2:", "3": '",4:'}),
        ('{"a": [1, 2, -3]}', {"a": [1, 2, -3]}),
    ],
)
def test_names_that_are_numbers_become_texts_and_texts_stay(text: str, value: object) -> None:
    assert parse_fastjson(text) == value


HOSTILE = {
    "quotes": '{0:1,"' + '\\"' * 500_000,
    "commas": "{0:1" + ",1" * 500_000,
    "digits": "{0:1," + "1" * 1_000_000,
    "blanks": "{0:1," + " " * 1_000_000 + "1" + " " * 1_000_000,
    "open": "{0:1,0" * 200_000,
    "deep": "[" * 100_000,
    "deep names": "{0:" * 100_000,
    "huge": '{"code":1e999}',
    "nan": '{"code":NaN}',
    "long": '{"code":' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_text_that_is_no_json_is_refused_in_linear_time(name: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=r"."):
        parse_fastjson(HOSTILE[name])
    assert time.process_time() - began < 5  # a quadratic one takes hours


def route(**queue: object) -> dict[str, object]:
    data = {"brokerName": "a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, **queue}
    return {"queueDatas": [data], "brokerDatas": [{"brokerName": "a", "brokerAddrs": {"0": "127.0.0.1:1"}}]}


@with_each("count", ["4", -1, 2**31, 1.5, True, None, [4]])
@with_each("name", ["readQueueNums", "writeQueueNums", "perm"])
def test_a_route_with_what_is_no_number_of_queues_is_refused(name: str, count: object) -> None:
    with pytest.raises(InputError, match="not a topic route"):
        TopicRoute.from_json(route(**{name: count}))


def test_a_route_with_more_queues_than_any_topic_is_refused_before_they_are_listed() -> None:
    wide = TopicRoute.from_json(route(readQueueNums=2**31 - 1, writeQueueNums=2**31 - 1))
    ordered = TopicRoute.from_json({**route(), "orderTopicConf": "a:2000000000"})
    static = TopicRoute.from_json({**route(), "topicQueueMappingByBroker": {"a": {"totalQueues": 2**31 - 1}}})
    for each, listing in [
        (wide, publish_queues), (wide, subscribe_queues), (ordered, publish_queues),
        (static, publish_queues), (static, subscribe_queues),
    ]:  # fmt: skip
        with pytest.raises(InputError, match="more than 200,000 queues"):
            listing(each)
