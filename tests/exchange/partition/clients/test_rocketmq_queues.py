"""RocketMQ's list of queues: as its clients and its proxy made it, and the rules one by one."""

from __future__ import annotations

import json
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import (
    BrokerData,
    QueueData,
    QueueMapping,
    TopicRoute,
    group_by_broker,
    publish_queues,
    subscribe_queues,
)
from exchange.partition.partitions import Partitions
from tests.recorders import golden
from tests.recorders.rocketmq_select import ROUTES

CLIENTS = [name for name in golden.names("rocketmq-select-") if "publish" in golden.read(name)]


def names_of(partitions: Partitions) -> list[str]:
    return [partition.name for partition in partitions]


def listed(make: Any, route: TopicRoute) -> list[str]:
    """Return the names of the queues; none if there are none, or if the client failed."""
    try:
        return names_of(make(route))
    except InputError:
        return []


def route_for(version: str, text: str) -> TopicRoute:
    """Return a route as a client of this version reads it: those before 5 know no static topics."""
    fields = json.loads(text)
    if version < "5":
        fields.pop("topicQueueMappingByBroker", None)
    return TopicRoute.from_json(fields)


def test_the_routes_have_lists_of_all_kinds() -> None:
    routes = [json.loads(text) for text in ROUTES]
    publish = golden.read("rocketmq-select-5.5.0")["publish"]
    assert len(CLIENTS) == 3
    assert sum(bool(names) for names in publish) > 200
    assert sum(names is None for names in publish) > 5
    assert (
        sum(bool(names) and "topicQueueMappingByBroker" in route for names, route in zip(publish, routes, strict=True))
        > 20
    )
    assert (
        sum(bool(names) and bool(route.get("orderTopicConf")) for names, route in zip(publish, routes, strict=True))
        > 20
    )


@pytest.mark.parametrize("name", CLIENTS)
def test_a_producers_queues_are_those_the_client_listed(name: str) -> None:
    answers = golden.read(name)
    ours = [listed(publish_queues, route_for(answers["version"], text)) for text in ROUTES]
    assert ours == [names or [] for names in answers["publish"]]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_consumers_queues_are_those_the_client_listed(name: str) -> None:
    answers = golden.read(name)
    ours = [listed(subscribe_queues, route_for(answers["version"], text)) for text in ROUTES]
    assert ours == [names or [] for names in answers["subscribe"]]


MASTER = ((0, "10.0.0.1:10911"),)
SLAVE = ((1, "10.0.0.2:10911"),)


def route(*queues: QueueData, lost: tuple[str, ...] = (), order: str | None = None) -> TopicRoute:
    brokers = [BrokerData(data.broker, SLAVE if data.broker in lost else MASTER) for data in queues]
    return TopicRoute(queues, tuple(brokers), order)


A, B = QueueData("a", 3, 2), QueueData("b", 1, 2)


def test_brokers_are_sorted_whatever_the_route_says() -> None:
    assert names_of(publish_queues(route(B, A))) == ["a:0", "a:1", "b:0", "b:1"]


def test_positions_are_ids_and_masters_have_their_hosts() -> None:
    queues = publish_queues(route(B, A))
    assert [queue.id for queue in queues] == [0, 1, 2, 3]
    assert queues[0].leader is not None
    assert queues[0].leader.host == "10.0.0.1"


def test_a_lost_master_shortens_a_producers_list_and_not_a_consumers() -> None:
    assert names_of(publish_queues(route(A, B, lost=("a",)))) == ["b:0", "b:1"]
    assert names_of(subscribe_queues(route(A, B, lost=("a",)))) == ["a:0", "a:1", "a:2", "b:0"]


def test_an_order_configuration_keeps_the_list_and_its_own_order() -> None:
    ordered = route(A, B, lost=("a",), order="b:2;a:2")
    assert names_of(publish_queues(ordered)) == ["b:0", "b:1", "a:0", "a:1"]


def test_permissions_say_who_sees_a_broker() -> None:
    closing = route(A._replace(perm=4), B._replace(perm=2))
    assert names_of(publish_queues(closing)) == ["b:0", "b:1"]
    assert names_of(subscribe_queues(closing)) == ["a:0", "a:1", "a:2"]


def test_a_static_topic_has_logical_queues() -> None:
    static = TopicRoute(mappings=(QueueMapping(2), QueueMapping(3)))
    assert names_of(publish_queues(static)) == [f"__syslo__global__:{at}" for at in range(3)]
    assert publish_queues(static) == subscribe_queues(static)


def test_a_static_topic_of_two_scopes_is_not_guessed() -> None:
    with pytest.raises(InputError, match="2 scopes"):
        publish_queues(TopicRoute(mappings=(QueueMapping(2), QueueMapping(2, "mine"))))


@pytest.mark.parametrize("order", ["a", "a:", "a:x", "a:1;;b:1", "a: 1"])
def test_an_order_configuration_must_be_readable(order: str) -> None:
    with pytest.raises(InputError, match="is not BROKER:NUMBER"):
        publish_queues(route(A, order=order))


def test_no_queue_is_an_error() -> None:
    with pytest.raises(InputError, match="No route info"):
        publish_queues(TopicRoute())
    with pytest.raises(InputError, match="twice"):
        publish_queues(route(A, order="a:1;a:1"))


@pytest.mark.parametrize(
    "text",
    [{"queueDatas": [{}]}, {"queueDatas": 5}, {"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"x": ""}}]}, []],
)
def test_a_route_with_something_missing_is_an_error(text: Any) -> None:
    with pytest.raises(InputError, match="not a topic route"):
        TopicRoute.from_json(text)


BROKERS = st.sampled_from(["a", "b", "B", "ab", "\uffee", "\U0001f600"])
QUEUES = st.builds(QueueData, BROKERS, st.integers(0, 3), st.integers(0, 3), st.integers(0, 7))
SERVERS = st.dictionaries(st.integers(0, 2), st.just("h:1"), max_size=2)
KNOWN = st.builds(BrokerData, BROKERS, SERVERS.map(lambda servers: tuple(servers.items())))


def first_of_each(items: list[Any]) -> tuple[Any, ...]:
    return tuple({item[0]: item for item in reversed(items)}.values())


def java_order(one: str, other: str) -> int:
    """Compare as String.compareTo does, step by step."""
    left, right = one.encode("utf-16-be"), other.encode("utf-16-be")
    for at in range(0, min(len(left), len(right)), 2):
        if left[at : at + 2] != right[at : at + 2]:
            return int.from_bytes(left[at : at + 2]) - int.from_bytes(right[at : at + 2])
    return len(left) - len(right)


@given(st.lists(QUEUES, max_size=5).map(first_of_each), st.lists(KNOWN, max_size=8))
def test_a_list_is_every_writable_queue_of_a_master_in_order(
    queues: tuple[QueueData, ...], known: list[BrokerData]
) -> None:
    expected = []
    for name in sorted([data.broker for data in queues], key=cmp_to_key(java_order)):
        (data,) = [data for data in queues if data.broker == name]
        servers = next((one.addresses for one in known if one.broker == name), ())
        if data.perm in (2, 3, 6, 7) and any(server == 0 for server, _ in servers):
            expected += [f"{name}:{at}" for at in range(data.write_queues)]
    assert listed(publish_queues, TopicRoute(queues, tuple(known))) == expected


def test_queues_given_in_another_order_are_sorted_by_broker() -> None:
    assert [queue.name for queue in group_by_broker(Partitions.queues({"b": 2, "a": 1}))] == ["a:0", "b:0", "b:1"]
