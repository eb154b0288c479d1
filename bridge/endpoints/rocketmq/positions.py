"""Where a group goes on: its offsets, beside what the queues have now. Nothing is pulled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bridge.endpoint import Finding
from bridge.endpoints.positions import KeptPosition, judge_positions
from bridge.interop.rocketmq_topics import name_of
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.errors import RemotingError
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue, subscribe_queues


async def check_positions(client: Client, group: str, topics: Iterable[str], *, from_last: bool) -> list[Finding]:
    """Return where a group goes on in the queues of topics, those that exist."""
    queues: list[TopicQueue] = []
    for topic in dict.fromkeys(topics):
        if topic in client.routes():
            try:
                readable = map(MessageQueue.from_partition, subscribe_queues(client.routes()[topic]).all)
            except InputError:  # reported elsewhere
                continue
            queues += [TopicQueue(topic, each.broker, each.queue_id) for each in readable]
    found = await asyncio.gather(*[_look(BrokerQueues(client, group), each) for each in queues])
    keeper, known = f"group {name_of(group)!r}", [each for each in found if each is not None]
    findings = [*judge_positions(known, keeper, "group", "start", begins="end" if from_last else "start")]
    if hidden := found.count(None):
        findings.append(Finding("not checked", f"{keeper}: where it goes on in {hidden} queues", "group"))
    return findings


async def _look(brokers: BrokerQueues, queue: TopicQueue) -> KeptPosition | None:
    try:
        position = await brokers.committed_offset(queue)
        return KeptPosition(str(queue), position, await brokers.min_offset(queue), await brokers.max_offset(queue))
    except RemotingError:
        return None
