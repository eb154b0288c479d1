"""Administration of a cluster, as far as bridge and tests need it: list, create and delete topics and groups.

Each change is made as `mqadmin` makes it: at every master, then at the name servers
(`org.apache.rocketmq.tools.admin.DefaultMQAdminExt`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from bridge.rocketmq.remoting.client import AUTO_CREATE_TOPIC_KEY_TOPIC, Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import read_json
from bridge.rocketmq.remoting.errors import BrokerError, ClientError
from exchange.partition.clients.rocketmq.queues import MASTER, READ, WRITE

KNOWN_SECONDS: Final = 10.0
"""Seconds until the name servers must know a new topic."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic as a broker has it (`org.apache.rocketmq.common.TopicConfig`)."""

    name: str
    read_queues: int = 4
    write_queues: int = 4
    perm: int = READ | WRITE
    order: bool = False
    attributes: Mapping[str, str] | None = None
    """Attributes of RocketMQ 5: ``{"+message.type": "FIFO"}`` to set them, ``{"message.type": "FIFO"}`` as read."""
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A consumer group as a broker has it (`SubscriptionGroupConfig`); the defaults are Java's."""

    name: str
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16


async def fetch_cluster(client: Client) -> dict[str, dict[int, str]]:
    """Return the brokers that the name servers know: name -> brokerId -> address (`examineBrokerClusterInfo`)."""
    answer = await client.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)

    def brokers(body: Any) -> dict[str, dict[int, str]]:
        table = body.get("brokerAddrTable") or {}
        return {name: {int(at): str(host) for at, host in data["brokerAddrs"].items()} for name, data in table.items()}

    return read_json(answer.body, brokers)


async def list_masters(client: Client) -> dict[str, str]:
    """Return the address of each broker's master, by the broker's name."""
    return {name: servers[MASTER] for name, servers in (await fetch_cluster(client)).items() if MASTER in servers}


async def fetch_topics(client: Client) -> set[str]:
    """Return the names of all topics (`fetchAllTopicList`), with the servers' own and those of groups."""
    answer = await client.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return read_json(answer.body, lambda body: set(map(str, body.get("topicList") or ())))


async def create_topic(client: Client, topic: TopicConfig, brokers: Collection[str] | None = None) -> None:
    """Create or change a topic on the masters of these brokers, by default of all, and wait until its route has them.

    Raises BrokerError where one refuses, ClientError for an unknown broker or a route that does not change in time.
    """
    _require(topic, TopicConfig, "topic")
    known = await list_masters(client)
    wanted = set(known) if brokers is None else set(brokers)
    if not wanted <= set(known):
        raise ClientError(f"no broker {', '.join(sorted(wanted - set(known)))}; there are {', '.join(sorted(known))}")
    for name in sorted(wanted):
        await set_topic(client, known[name], topic)
    expected = {(name, topic.read_queues, topic.write_queues, topic.perm) for name in wanted}
    deadline = time.monotonic() + KNOWN_SECONDS
    while True:
        with suppress(ClientError):
            if expected <= set((await client.update_route(topic.name)).queues):
                return
        if time.monotonic() > deadline:
            raise ClientError(f"topic {topic.name} was created, but the name servers do not know it yet")
        await asyncio.sleep(0.05)


async def set_topic(client: Client, address: str, topic: TopicConfig) -> None:
    """Create or change a topic at the master with this address alone. Raises BrokerError where it refuses."""
    _require(topic, TopicConfig, "topic")
    fields = {
        "topic": topic.name,
        "defaultTopic": AUTO_CREATE_TOPIC_KEY_TOPIC,
        "readQueueNums": str(topic.read_queues),
        "writeQueueNums": str(topic.write_queues),
        "perm": str(topic.perm),
        "topicFilterType": topic.filter_type,
        "topicSysFlag": str(topic.sys_flag),
        "order": "true" if topic.order else "false",
        "attributes": ",".join([f"{name}={value}" for name, value in (topic.attributes or {}).items()]),
    }
    await client.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def fetch_topic_config(client: Client, address: str, topic: str) -> TopicConfig | None:
    """Return a topic as the broker at an address has it, None if it has none.

    Brokers before 5.0 answer only with all their topics (`examineTopicConfig`).
    """
    try:
        answer = await client.ask(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        return read_json(answer.body, _read_config)
    except BrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    answer = await client.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)

    def find(body: Any) -> TopicConfig | None:
        config = (body.get("topicConfigTable") or {}).get(topic)
        return None if config is None else _read_config(config)

    return read_json(answer.body, find)


async def delete_topic(client: Client, topic: str) -> None:
    """Delete a topic from all brokers and name servers, if it exists."""
    for address in (await list_masters(client)).values():
        with suppress(BrokerError):  # 5.x refuses a topic that does not exist
            await client.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    for address in client.settings.name_servers:
        await client.ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    client.forget_route(topic)


async def create_group(client: Client, group: GroupConfig) -> None:
    """Create or change a consumer group on all masters. Raises BrokerError where one refuses."""
    _require(group, GroupConfig, "group")
    config = {
        "groupName": group.name, "consumeEnable": group.consume_enable, "consumeFromMinEnable": True,
        "consumeBroadcastEnable": group.consume_broadcast_enable, "retryQueueNums": group.retry_queue_nums,
        "retryMaxTimes": group.retry_max_times, "brokerId": MASTER, "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
    }  # fmt: skip
    body = json.dumps(config).encode()
    for address in (await list_masters(client)).values():
        await client.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)


async def set_request_mode(
    client: Client, topic: str, group: str, mode: Literal["POP", "PULL"], share_queues: int = 0
) -> None:
    """Have a group consume a topic by POP or by pulls, on all masters (``mqadmin setConsumeMode``).

    It counts for members whose queues the broker assigns. With POP, 0 ``share_queues`` let each member pop all queues;
    else each member pops its own queues, and those of this number of other members. Both must exist. Raises BrokerError
    where a broker refuses, as those before 5.0 do.
    """
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share_queues}
    for address in (await list_masters(client)).values():
        await client.ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(body).encode())


def _require(value: object, kind: type, name: str) -> None:
    """Raise TypeError, as for a name in place of what is to be created, before anything is asked."""
    if not isinstance(value, kind):
        way_out = f"; write {kind.__name__}({value!r:.60})" if isinstance(value, str) else ""
        raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}{way_out}")


def _read_config(config: Any) -> TopicConfig:
    """Return the topic in a broker's JSON. Raises the errors that `read_json` expects."""
    return TopicConfig(
        str(config["topicName"]),
        int(config["readQueueNums"]),
        int(config["writeQueueNums"]),
        int(config["perm"]),
        bool(config.get("order")),
        {str(name): str(value) for name, value in (config.get("attributes") or {}).items()},
        str(config.get("topicFilterType") or "SINGLE_TAG"),
        int(config.get("topicSysFlag") or 0),
    )
