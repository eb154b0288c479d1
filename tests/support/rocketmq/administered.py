"""A name server and brokers in memory that answer questions about a topic as brokers of 4.9 or 5.x do.

They serve on a thread of their own, so a command can be run beside. Messages are numbers: a queue has a first offset
and an end. What brokers do with a request is in the source of `AdminBrokerProcessor`; live tests have the real ones.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import RESPONSE, Command, Decoder, SerializeType, encode
from tests.support.archives.rocketmq_files import message
from tests.support.waiting import find_limit

TOPIC = "orders"
SCHEDULED = "SCHEDULE_TOPIC_XXXX"
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"


@dataclass
class Held:
    """A message that a broker will store in a queue of the topic: in a room of its own, at an offset."""

    room: str
    queue: int
    topic: str = TOPIC


@dataclass
class Node:
    """A broker."""

    name: str
    write: int = 4
    read: int = 4
    perm: int = 6
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    has_master: bool = True
    first: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    """Group -> queue -> committed offset."""
    held: list[Held] = field(default_factory=list)
    delivered: dict[str, int] = field(default_factory=dict)
    """Room -> offset up to which its messages have left it."""
    sets: list[tuple[int, int]] = field(default_factory=list)
    """Write and read number of each change, in order."""
    on_set: Callable[[Node], None] = lambda _: None
    port: int = 0

    def room(self, topic: str) -> list[Held]:
        return [each for each in self.held if each.room == topic]


@dataclass
class Cluster:
    """Brokers, and the name server that knows them."""

    nodes: list[Node]
    version: int = 5
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Group -> the JSON of its members, as `ConsumerConnection`."""
    order_conf: str | None = None
    deny: bool = False
    """Whether administration is refused, as by access control."""
    route: Callable[[Node], tuple[int, int]] = lambda node: (node.write, node.read)
    """What the name server has as write and read number of a broker."""
    lists_topic: bool = False
    """Whether brokers list the topic among the groups that read it, as those of 5.3.3 do."""
    asked: list[int] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, request: Command, node: Node | None) -> Command:
        self.asked.append(request.code)
        if node is None:
            return self._route(request)
        if self.deny and request.code == RequestCode.UPDATE_AND_CREATE_TOPIC:
            return request.response(ResponseCode.SYSTEM_ERROR, "AclException: No default permission for admin")
        handler = HANDLERS.get(request.code)
        if handler is None or (self.version < 5 and request.code in NEW):
            return request.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
        return handler(self, node, request)

    def _route(self, request: Command) -> Command:
        if request.fields.get("topic") != TOPIC:
            return request.response(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
        rows = [(node, *self.route(node)) for node in self.nodes]
        return request.response(0, None, json.dumps({
            "queueDatas": [
                {"brokerName": node.name, "writeQueueNums": write, "readQueueNums": read, "perm": node.perm}
                for node, write, read in rows
            ],
            "brokerDatas": [
                {"brokerName": node.name, "brokerAddrs": {("0" if node.has_master else "1"): f"127.0.0.1:{node.port}"}}
                for node in self.nodes
            ],
            "orderTopicConf": self.order_conf,
        }).encode())  # fmt: skip

    def config(self, node: Node) -> dict[str, Any]:
        return {
            "topicName": TOPIC, "writeQueueNums": node.write, "readQueueNums": node.read, "perm": node.perm,
            "order": node.order, "attributes": node.attributes, "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": node.flag,
        }  # fmt: skip


def reply(request: Command, body: Any) -> Command:
    return request.response(0, None, json.dumps(body).encode())


def table(request: Command, rows: dict[int, str]) -> Command:
    """Return a table whose names are queues as objects, as fastjson writes it."""
    topic = request.fields["topic"]
    cells = [f'{{"brokerName":"b","queueId":{queue},"topic":"{topic}"}}:{row}' for queue, row in rows.items()]
    return request.response(0, None, ('{"offsetTable":{' + ",".join(cells) + "}}").encode())


def topic_stats(cluster: Cluster, node: Node, request: Command) -> Command:
    topic = request.fields["topic"]
    if topic != TOPIC:
        held = node.room(topic)
        if not held and topic != SCHEDULED:
            return request.response(ResponseCode.TOPIC_NOT_EXIST, "not exist")
        return table(request, {0: f'{{"minOffset":0,"maxOffset":{len(held)}}}'})
    count = node.write if cluster.version < 5 else max(node.write, node.read)
    rows = {
        queue: f'{{"minOffset":{node.first.get(queue, 0)},"maxOffset":{node.ends.get(queue, 0)}}}'
        for queue in range(count)
    }
    return table(request, rows)


def consume_stats(cluster: Cluster, node: Node, request: Command) -> Command:
    topic, group = request.fields["topic"], request.fields["consumerGroup"]
    if topic != TOPIC:
        return table(request, {0: f'{{"brokerOffset":0,"consumerOffset":{node.delivered.get(topic, 0)}}}'})
    members = cluster.members.get(group)
    if members is not None and TOPIC not in members.get("subscriptionTable", {TOPIC: {}}):
        return table(request, {})
    known = node.offsets.get(group, {})
    return table(request, {
        queue: f'{{"brokerOffset":{node.ends.get(queue, 0)},"consumerOffset":{known.get(queue, 0)}}}'
        for queue in range(node.read)
    })  # fmt: skip


def groups(cluster: Cluster, node: Node, request: Command) -> Command:
    return reply(request, {"groupList": sorted({*node.offsets, *cluster.members, *[TOPIC][: cluster.lists_topic]})})


def connections(cluster: Cluster, node: Node, request: Command) -> Command:
    members = cluster.members.get(request.fields["consumerGroup"])
    if members is None:
        return request.response(ResponseCode.CONSUMER_NOT_ONLINE, "not online")
    return reply(request, {"connectionSet": [{"clientId": "c"}], "messageModel": "CLUSTERING", **members})


def set_topic(cluster: Cluster, node: Node, request: Command) -> Command:
    fields = request.fields
    node.write, node.read = int(fields["writeQueueNums"]), int(fields["readQueueNums"])
    node.perm, node.order, node.flag = int(fields["perm"]), fields["order"] == "true", int(fields["topicSysFlag"])
    assert not fields.get("attributes"), "a change keeps the attributes"
    node.sets.append((node.write, node.read))
    node.on_set(node)
    return request.response()


def topic_config(cluster: Cluster, node: Node, request: Command) -> Command:
    return reply(request, cluster.config(node))


def all_topics(cluster: Cluster, node: Node, request: Command) -> Command:
    return reply(request, {"topicConfigTable": {TOPIC: cluster.config(node)}})


def all_offsets(cluster: Cluster, node: Node, request: Command) -> Command:
    cells = [
        f'"{TOPIC}@{group}":{{{",".join([f"{queue}:{offset}" for queue, offset in known.items()])}}}'
        for group, known in node.offsets.items()
    ]
    return request.response(0, None, ('{"offsetTable":{' + ",".join(['"other@g":{0:1}', *cells]) + "}}").encode())


def queue_offset(cluster: Cluster, node: Node, request: Command) -> Command:
    queue = int(request.fields["queueId"])
    if request.fields["topic"] != TOPIC:
        return request.response()._replace(fields={"offset": str(len(node.room(request.fields["topic"])))})
    if request.code == RequestCode.QUERY_CONSUMER_OFFSET:
        known = node.offsets.get(request.fields["consumerGroup"], {})
        if queue not in known and node.first.get(queue, 0) > 0:
            return request.response(ResponseCode.QUERY_NOT_FOUND, "Not found")
        offset = known.get(queue, 0)
    else:
        offset = (node.first if request.code == RequestCode.GET_MIN_OFFSET else node.ends).get(queue, 0)
    return request.response()._replace(fields={"offset": str(offset)})


def commit(cluster: Cluster, node: Node, request: Command) -> Command:
    group, queue = request.fields["consumerGroup"], int(request.fields["queueId"])
    node.offsets.setdefault(group, {})[queue] = int(request.fields["commitOffset"])
    return request.response()


def delays(cluster: Cluster, node: Node, request: Command) -> Command:
    return request.response(0, None, f'{{"offsetTable":{{1:{node.delivered.get(SCHEDULED, 0)}}}}}'.encode())


def pull(cluster: Cluster, node: Node, request: Command) -> Command:
    room, at = request.fields["topic"], int(request.fields["queueOffset"])
    held = node.room(room)
    records = b"".join([
        message(number, room, {"REAL_TOPIC": each.topic, "REAL_QID": str(each.queue)}, b"x", queue=0, offset=number)
        for number, each in enumerate(held) if at <= number < at + 2
    ])  # fmt: skip
    fields = {
        "nextBeginOffset": str(min(at + 2, len(held))), "minOffset": "0", "maxOffset": str(len(held)),
        "suggestWhichBrokerId": "0",
    }  # fmt: skip
    code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
    return request.response(code, None, records)._replace(fields=fields)


NEW = (RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_TIMER_METRICS)
HANDLERS: dict[int, Callable[[Cluster, Node, Command], Command]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: set_topic,
    RequestCode.GET_TOPIC_CONFIG: topic_config,
    RequestCode.GET_ALL_TOPIC_CONFIG: all_topics,
    RequestCode.GET_TOPIC_STATS_INFO: topic_stats,
    RequestCode.GET_CONSUME_STATS: consume_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: connections,
    RequestCode.GET_ALL_CONSUMER_OFFSET: all_offsets,
    RequestCode.GET_MAX_OFFSET: queue_offset,
    RequestCode.GET_MIN_OFFSET: queue_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: queue_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: commit,
    RequestCode.GET_ALL_DELAY_OFFSET: delays,
    RequestCode.GET_TIMER_METRICS: lambda cluster, node, request: reply(request, {"timingCount": {}}),
    RequestCode.PULL_MESSAGE: pull,
}


@contextmanager
def cluster(*nodes: Node, **settings: Any) -> Iterator[Cluster]:
    """Serve a cluster until the end of the block."""
    served = Cluster(list(nodes), **settings)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    writers: set[asyncio.StreamWriter] = set()

    async def serve(node: Node | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = Decoder()
        writers.add(writer)
        try:
            while data := await reader.read(1 << 16):
                for request in decoder.feed(data):
                    answer = served.answer(request, node)._replace(opaque=request.opaque, flag=RESPONSE)
                    writer.write(encode(answer, SerializeType.JSON))
        except ConnectionError:
            pass  # the command was ended
        finally:
            writer.close()

    async def start() -> list[asyncio.Server]:
        servers = []
        for node in (None, *served.nodes):
            server = await asyncio.start_server(partial(serve, node), "127.0.0.1", 0)
            (node or served).port = server.sockets[0].getsockname()[1]
            servers.append(server)
        return servers

    def run() -> None:
        asyncio.set_event_loop(loop)
        servers = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        for server in servers:
            server.close()
        for writer in writers:
            writer.transport.abort()
        loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop)))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(find_limit())
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(find_limit())
