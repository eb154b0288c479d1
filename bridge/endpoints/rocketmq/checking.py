"""Checks of a cluster for a source or a target, which leave no trace: routes, permissions, groups.

No producer or consumer registers, no heartbeat and no message is sent, and nothing is pulled. No request makes a broker
create something: a broker creates files for any queue whose end offset is requested, so this is requested only for
queues that exist. Where brokers have access control, the permission to read is checked; the permission to write shows
only when a client writes, and a finding says that it is not checked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from bindings.sources.address import name_cluster
from bridge.aside import call_aside
from bridge.endpoint import Disconnected, Finding, Place
from bridge.endpoints.outages import judge_removals
from bridge.endpoints.rocketmq.backlog import look_up_removals
from bridge.endpoints.rocketmq.lite import WAY_OUT, holds_lite_topics
from bridge.endpoints.rocketmq.placing import WritableQueues, list_sizes, route_of
from bridge.endpoints.rocketmq.positions import check_positions
from bridge.endpoints.topics import ANY_SIZE, TopicDestination
from bridge.interop.rocketmq_topics import name_of
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import read_json
from bridge.rocketmq.remoting.errors import BrokerError, ConnectError, RemotingError
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import MASTER, READ, WRITE, MessageQueue, TopicRoute, subscribe_queues
from exchange.partition.partitioning.specification import Partitioning
from exchange.text.display import count_noun

PATIENCE: Final = 20.0
"""Seconds until a check must have ended."""
CLOSING: Final = 2.0
"""Seconds until its client must be closed."""


def find_places(settings: ClientSettings, topics: Iterable[str]) -> frozenset[Place]:
    """Return topics as places; the first of its name servers identifies the cluster."""
    cluster = name_cluster(settings.name_servers[0])
    return frozenset([Place("rocketmq", cluster, f"topic {name_of(topic)}") for topic in topics])


async def check_source(
    settings: ClientSettings, group: str, subscriptions: Sequence[Subscription], *, from_last: bool = False
) -> list[Finding]:
    """Return findings for a group that reads these topics, new ones perhaps ``from_last``."""

    async def look(client: Client, findings: list[Finding]) -> None:
        await _look_at_source(client, findings, group, subscriptions)
        if not any(each.level == "error" for each in findings):
            topics = [each.topic for each in subscriptions]
            findings += await check_positions(client, group, topics, from_last=from_last)

    return await _look(settings, look)


async def check_target(
    settings: ClientSettings, destinations: Mapping[str, TopicDestination], partitioned: Mapping[str, Partitioning]
) -> list[Finding]:
    """Return findings for a target; ``partitioned`` has the partitionings of the topology's queues."""
    findings = await _look(
        settings, lambda client, findings: _look_at_target(client, findings, destinations, partitioned)
    )
    if settings.channel.credentials is not None and not any(each.level == "error" for each in findings):
        text = "whether this user may write: brokers answer that only when something is written"
        findings.append(Finding("not checked", text, "queues"))
    return findings


async def _look(settings: ClientSettings, look: Callable[[Client, list[Finding]], Awaitable[None]]) -> list[Finding]:
    """Check with a client that registers at no broker; an error that prevents the check becomes a finding."""
    findings: list[Finding] = []
    client: Client | None = None
    try:
        async with asyncio.timeout(PATIENCE):
            client = Client(await call_aside(settings.current))
            await client.open()
            await look(client, findings)
    except TimeoutError:
        findings.append(Finding("error", f"{settings.namesrv_addr}: not all was answered in {PATIENCE:g} s", "url"))
    except ConnectError as error:
        text = f"{error}; is a name server there (its port is 9876), and does it speak TLS where tls = true says so?"
        findings.append(Finding("error", text, "url"))
    except HashstarError as error:
        findings.append(Finding.from_error(error, "url"))
    except Exception as error:  # noqa: BLE001  whatever a server answers, a check ends with its findings
        text, *_ = f"{type(error).__name__}: {error}".splitlines()
        findings.append(Finding("error", text, "url"))
    finally:
        if client is not None:
            try:
                async with asyncio.timeout(CLOSING):
                    await client.close()
            except TimeoutError:
                pass
            finally:
                client.abort()
    return findings


async def _look_at_source(
    client: Client, findings: list[Finding], group: str, subscriptions: Sequence[Subscription]
) -> None:
    for each in subscriptions:
        route = await _route(client, each.topic, findings)
        if route is None:
            continue
        topic = name_of(each.topic)
        try:
            queues = subscribe_queues(route).all
        except InputError:
            text = f"topic {topic!r} has no queue that may be read; give it read queues and perm 6"
            findings.append(Finding("error", text, "topics"))
            continue
        brokers = {MessageQueue.from_partition(queue).broker for queue in queues}
        findings.append(
            Finding(
                "ok",
                f"topic {topic!r}: {count_noun(len(queues), 'queue')} to read at {count_noun(len(brokers), 'broker')}",
            )
        )
        findings += _unread(topic, route)
        if await holds_lite_topics(client, each.topic, find_servers(route)):
            text = "messages of all are read, each with its own in the header x-rocketmq-__LITE_TOPIC"
            findings.append(Finding("ok", f"topic {topic!r} holds lite topics: {text}"))
        for address, broker in find_servers(route).items():
            findings += await _ask_broker(client, address, broker, each, group)
    findings += await _group(client, group, subscriptions)
    findings += await _judge_outage(client, [each.topic for each in subscriptions], "topics")


async def _look_at_target(
    client: Client,
    findings: list[Finding],
    destinations: Mapping[str, TopicDestination],
    partitioned: Mapping[str, Partitioning],
) -> None:
    topics = sorted({destination.topic for destination in destinations.values()})
    wanted = list_sizes(destinations, partitioned)
    for topic in topics:
        route = await _route(client, topic, findings, wanted)
        if route is None:
            continue
        try:
            spread = WritableQueues.from_route(topic, route)
        except Disconnected as error:
            findings.append(Finding.from_error(error, "queues"))
            continue
        names = ", ".join([queue.name for queue in spread.queues])
        findings.append(
            Finding("ok", f"topic {name_of(topic)!r}: {count_noun(len(spread.queues), 'queue')} to write ({names})")
        )
        for queue, partitioning in partitioned.items():
            if destinations[queue].topic == topic:
                findings += _disagreement(spread, queue, partitioning)
        findings += _without_master(name_of(topic), route)
        findings += _unread(name_of(topic), route)
        if await holds_lite_topics(client, topic, find_servers(route)):
            findings.append(Finding("error", f"topic {name_of(topic)!r} holds lite topics: {WAY_OUT}", "queues"))
        for address, broker in find_servers(route).items():
            findings += await _ask_broker(client, address, broker, Subscription(topic), None)
    findings += await _judge_outage(client, topics, "queues")


async def _judge_outage(client: Client, topics: Iterable[str], key: str) -> list[Finding]:
    """Return which outage messages of these topics survive, as far as their brokers show it."""
    servers: dict[str, str] = {}
    for topic in topics:
        if topic in client.routes():
            servers |= find_servers(client.routes()[topic])
    hidden: list[str] = []
    findings = [*judge_removals(await look_up_removals(client, servers, hidden), key, is_written=key == "queues")]
    if hidden:
        text = f"how long broker(s) {', '.join(sorted(hidden))} keep messages: this user is not shown it"
        findings.append(Finding("not checked", text, key))
    return findings


async def _route(
    client: Client, topic: str, findings: list[Finding], wanted: Mapping[str, int] = ANY_SIZE
) -> TopicRoute | None:
    try:
        return await route_of(client, topic, wanted)
    except (Disconnected, BrokerError) as error:
        findings.append(Finding.from_error(error, "topics"))
        return None


def _unread(topic: str, route: TopicRoute) -> list[Finding]:
    """Return a warning for each broker at which producers use queues that no consumer reads."""
    return [
        Finding(
            "warning",
            f"topic {topic!r} has {data.write_queues} write queues and {data.read_queues} read queues at broker "
            f"{data.broker!r}: what is written to {data.write_queues - data.read_queues} of {data.write_queues} of "
            f"them is never read; hashstar rocketmq scale {topic} --queues {data.write_queues} has them read",
        )
        for data in route.queues
        if data.perm & WRITE and data.perm & READ and data.read_queues < data.write_queues
    ]


def _without_master(topic: str, route: TopicRoute) -> list[Finding]:
    with_master = {data.broker for data in route.brokers if MASTER in dict(data.addresses)}
    return [
        Finding("warning", f"topic {topic!r}: broker {data.broker!r} has no master now; its queues are left out")
        for data in route.queues
        if data.perm & WRITE and data.write_queues and data.broker not in with_master
    ]


def _disagreement(spread: WritableQueues, queue: str, partitioning: Partitioning) -> list[Finding]:
    try:
        spread.agree(queue, partitioning)
        for number in range(partitioning.partitions.count):
            spread.queue_of(queue, partitioning, number)
    except Disconnected as error:
        return [Finding.from_error(error, "queues")]
    return [Finding("ok", f"queue {queue!r}: spread over {partitioning.partitions.count} queues, which are there")]


def find_servers(route: TopicRoute) -> dict[str, str]:
    """Return the address to ask of each broker of a route, its master if there is one, and the broker's name."""
    with_queues = {data.broker for data in route.queues}
    return {
        dict(data.addresses).get(MASTER, data.addresses[0][1]): data.broker
        for data in route.brokers
        if data.addresses and data.broker in with_queues
    }


async def _ask_broker(
    client: Client, address: str, broker: str, subscription: Subscription, group: str | None
) -> list[Finding]:
    """Return a finding if a broker refuses the user, the group or the condition. For a target, ``group`` is None."""
    topic, key = subscription.topic, "topics" if group is not None else "queues"
    requests: list[tuple[RequestCode, dict[str, str], bytes, str]] = []
    if _has_queue(client, topic, broker):
        requests.append((RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0", "bname": broker}, b"", key))
    if group is not None:
        if requests:
            fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "bname": broker}
            requests.append((RequestCode.QUERY_CONSUMER_OFFSET, fields, b"", "group"))
        requests.append((RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}, b"", "group"))
        if subscription.type != "TAG":
            body = {"clientId": client.client_id, "group": group, "subscriptionData": subscription.to_json()}
            requests.append((RequestCode.CHECK_CLIENT_CONFIG, {}, json.dumps(body).encode(), "sql"))
    for code, fields, body_, about in requests:
        try:
            answer = await client.invoke(address, code, fields, body_)
        except RemotingError as error:
            text = f"broker {broker!r}: {error}; clients go to the address that it registers (brokerIP1)"
            return [Finding("error", text, "url")]
        if _is_refusal(code, answer.code, answer.remark or ""):
            refusal = BrokerError(answer.code, answer.remark, address)
            return [Finding("error", f"broker {broker!r}: topic {name_of(topic)!r}: {refusal}", about)]
    return []


def _has_queue(client: Client, topic: str, broker: str) -> bool:
    queues = client.routes()[topic].queues
    return any(data.broker == broker and max(data.read_queues, data.write_queues) > 0 for data in queues)


def _is_refusal(code: RequestCode, answer: int, remark: str) -> bool:
    """Return whether an answer refuses the user or the condition.

    The code alone does not decide: 4.x answers SYSTEM_ERROR for a missing permission, and for a group without members.
    """
    if answer == ResponseCode.NO_PERMISSION or "AclException" in remark:
        return True
    return code == RequestCode.CHECK_CLIENT_CONFIG and answer != ResponseCode.SUCCESS


async def _group(client: Client, group: str, subscriptions: Sequence[Subscription]) -> list[Finding]:
    """Return findings about which brokers have the group, as far as these brokers answer that."""
    findings: list[Finding] = []
    missing: list[str] = []
    present: list[str] = []
    silent: list[str] = []
    asked: dict[str, str] = {}
    for each in subscriptions:
        if each.topic in client.routes():
            asked |= find_servers(client.routes()[each.topic])
    for address, broker in asked.items():
        try:
            is_there = await _has_group(client, address, group)
        except RemotingError:  # only administrators may ask this
            silent.append(broker)
            continue
        if is_there:
            present.append(broker)
        else:
            missing.append(broker)
    if missing:
        text = (
            f"group {name_of(group)!r}: not there at broker(s) {', '.join(sorted(missing))}; the first consumer makes "
            "it where autoCreateSubscriptionGroup is on, else create it (mqadmin updateSubGroup)"
        )
        findings.append(Finding("warning", text, "group"))
    elif present:
        findings.append(Finding("ok", f"group {name_of(group)!r}: there at {count_noun(len(present), 'broker')}"))
    if silent:
        text = f"group {name_of(group)!r}: whether broker(s) {', '.join(sorted(silent))} have it: they do not answer"
        findings.append(Finding("not checked", text, "group"))
    return findings


async def _has_group(client: Client, address: str, group: str) -> bool:
    """Return whether a broker has a group. Raises RemotingError where it does not answer that.

    All groups are requested: a broker of 5.x creates a group that is requested by itself.
    """
    answer = await client.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return read_json(answer.body, lambda body: group in (body.get("subscriptionGroupTable") or {}))
