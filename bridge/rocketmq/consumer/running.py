"""The state of a consumer, for administrators: its settings, its subscriptions, and the progress of its queues.

``mqadmin consumerStatus`` and ``getConsumerStatus`` ask a broker, which asks the consumer. Rates are not measured here,
so their table is empty. Tables by queue are not JSON, as their keys are objects; see
`bridge.rocketmq.consumer.offsets`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any, Final

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.pop.popping import PopQueue
from bridge.rocketmq.consumer.room import PulledQueue

CLIENT_VERSION: Final = "V5_5_0"
"""Name of the version whose number is in commands (`MQVersion.Version`)."""
MIB: Final = 1 << 20


def build_running_info(
    group: Group,
    readings: Iterable[PulledQueue],
    name_servers: Iterable[str],
    started: int,
    jstack: str | None = None,
    popped: Iterable[PopQueue] = (),
) -> bytes:
    """Return the answer's body to GET_CONSUMER_RUNNING_INFO (`ConsumerRunningInfo`).

    ``started`` is in milliseconds since 1970.
    """
    now = asyncio.get_running_loop().time()
    info = {
        "properties": _properties(group, name_servers, started),
        "statusTable": {},
        "subscriptionSet": [each.to_json() for each in group.subscriptions.values()],
        "userConsumerInfo": {},
        **({} if jstack is None else {"jstack": jstack}),
    }
    queues = {reading.assigned.queue: _queue_info(reading, now) for reading in readings}
    pops = {
        each.queue: {"waitAckCount": len(each.held), "droped": each.leaving, "lastPopTimestamp": each.popped_ms}
        for each in popped
    }
    return _with_tables(info, {"mqTable": queues, "mqPopTable": pops})


def encode_offsets(readings: Iterable[PulledQueue], topic: str) -> bytes:
    """Return the answer's body to GET_CONSUMER_STATUS_FROM_CLIENT: the offsets in a topic (`GetConsumerStatusBody`)."""
    queues = [reading.assigned for reading in readings]
    offsets = {queue.queue: _offset(queue) for queue in queues if queue.queue.topic == topic}
    return _with_tables({"consumerTable": {}}, {"messageQueueTable": offsets})


def format_stacks() -> str:
    """Return the stacks of all tasks of the event loop, where a Java client has those of threads (`UtilAll.jstack`)."""
    text = StringIO()
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        task.print_stack(file=text)
    return text.getvalue()


def _properties(group: Group, name_servers: Iterable[str], started: int) -> dict[str, str]:
    """Return the settings, with the names of `DefaultMQPushConsumer`, and the properties that all clients have."""
    settings: ConsumerSettings = group.settings
    limits = settings.limits
    own: dict[str, Any] = {
        "consumerGroup": group.name,
        "messageModel": settings.message_model.value,
        "consumeFromWhere": settings.consume_from.value,
        "allocateMessageQueueStrategy": type(settings.allocation).__name__,
        "maxReconsumeTimes": settings.max_reconsume_times,
        "pullBatchSize": limits.pull_batch_size,
        "pullThresholdForQueue": limits.pull_threshold_for_queue,
        "pullThresholdSizeForQueue": limits.pull_threshold_size_for_queue // MIB,
        "pullThresholdForTopic": limits.pull_threshold_for_topic,
        "consumeConcurrentlyMaxSpan": limits.consume_concurrently_max_span,
        "clientIP": group.client.client_id.partition("@")[0],
        "instanceName": group.client.client_id.partition("@")[2],
        "language": "PYTHON",
        "PROP_NAMESERVER_ADDR": "".join([f"{address};" for address in name_servers]),
        "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY" if settings.is_active else "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": str(settings.orderly).lower(),
        "PROP_CLIENT_VERSION": CLIENT_VERSION,
        "PROP_CONSUMER_START_TIMESTAMP": started,
    }
    return {name: str(value) for name, value in own.items()}


def _queue_info(reading: PulledQueue, now: float) -> dict[str, Any]:
    """Describe a queue as `ProcessQueue.fillProcessQueueInfo` does.

    There, ``transaction`` means the messages handed out of a queue that is read in order, and ``cached`` all others.
    """
    queue = reading.assigned
    out, ready = queue.offsets()
    cached, transaction = (ready, out) if queue.ordered else (out + ready, [])
    return {
        "commitOffset": _offset(queue),
        **_summarize("cached", cached),
        "cachedMsgSizeInMiB": queue.size // MIB,
        **_summarize("transaction", transaction),
        "locked": queue.ordered and now < queue.locked_until,
        "tryUnlockTimes": 0,
        "lastLockTimestamp": reading.locked_ms,
        "droped": queue.dropped,
        "lastPullTimestamp": reading.pulled_ms,
        "lastConsumeTimestamp": reading.consumed_ms,
    }


def _summarize(kind: str, offsets: Sequence[int]) -> dict[str, int]:
    first, last = (offsets[0], offsets[-1]) if offsets else (0, 0)
    return {f"{kind}MsgMinOffset": first, f"{kind}MsgMaxOffset": last, f"{kind}MsgCount": len(offsets)}


def _offset(queue: AssignedQueue) -> int:
    return queue.next_offset if queue.committable is None else queue.committable


def _with_tables(fields: Mapping[str, Any], tables: Mapping[str, Mapping[TopicQueue, Any]]) -> bytes:
    """Return ``fields`` as JSON, with ``tables`` by queue, which are not JSON."""
    members = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items()]
    for name, table in tables.items():
        rows = [f"{json.dumps(queue.to_json())}:{json.dumps(value)}" for queue, value in table.items()]
        members.append(f'"{name}":{{{",".join(rows)}}}')
    return f"{{{','.join(members)}}}".encode()
