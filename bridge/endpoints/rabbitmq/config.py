"""RabbitMQ in a configuration: a queue or a stream as a source, exchanges and queues as targets.

For example::

    [sources.orders]                        [targets.audit]
    url = "amqps://HOST"                    url = "amqp://USER@HOST/VHOST"
    hosts = ["HOST", "HOST:5671"]           password = { env = "AUDIT_PASSWORD" }
    ca_file = "ca.pem"                      queues = { audit = "queue", eu = { exchange = "eu", routing_key = "new" } }
    queue = "orders"
    prefetch = 1000
    exclusive = true
    offsets = "orders.offset"               # of a stream: the file with the offset up to which it was read
    offset = "first"                        # of a stream: where to begin without that
    stream_filter = ["eu", "us"]            # of a stream: the filter values that are wanted
                                            # for a partitioned queue, one queue for each partition:
                                            # queues = { audit = "audit-{partition}" }
"""

from __future__ import annotations

from math import ceil
from typing import Any

from bridge.endpoints.rabbitmq import keys
from bridge.endpoints.rabbitmq.addresses import read_brokers, read_management
from bridge.endpoints.rabbitmq.consumer.filtering import StreamFilter
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rabbitmq.routes import PARTITION, PublishAddress
from bridge.endpoints.rabbitmq.target import RabbitmqTarget
from bridge.pump.policy import Policy
from bridge.table import Table
from exchange.text.numbers import is_digits

__all__ = [
    "PublishAddress", "RabbitmqSource", "RabbitmqTarget", "caller_target", "dead_letter_target", "source", "target",
]  # fmt: skip


def source(name: str, url: str, table: Table, policy: Policy) -> RabbitmqSource:
    """Read the table of a source; see `bridge.endpoints`. Raises InputError."""
    brokers = read_brokers(name, url, table)
    # What is not read goes back at each end, and that counts: a slow source gets no more than what it reads soon.
    rated = [] if policy.rate is None else [policy.rate * keys.RATED_SECONDS]
    prefetch = keys.PREFETCH.read(table, ceil(min(policy.window, keys.MAX_PREFETCH, *rated)))
    begins = table.has(keys.OFFSET.name)
    offsets, offset = keys.OFFSETS.read(table), keys.OFFSET.read(table)
    if not keys.STREAM_OFFSET.fullmatch(offset):
        text = f'must be "first", "last", "next", a number, or an age as "1h", and is {offset!r}'
        table.keep(table.error("offset", text))
    if begins and offsets is None:
        table.warn("offset", 'without offsets = "FILE" each start reads the stream from there again')
    return RabbitmqSource(
        name,
        brokers,
        keys.QUEUE.read(table),
        prefetch=prefetch,
        exclusive=keys.EXCLUSIVE.read(table),
        offsets=None if offsets is None else table.resolve_path(offsets),
        offset=int(offset) if is_digits(offset) else offset,
        window_bytes=policy.window_bytes,
        management=read_management(table),
        stream_filter=_read_stream_filter(table),
    )


def _read_stream_filter(table: Table) -> StreamFilter | None:
    if not table.has(keys.STREAM_FILTER.name):
        if table.has(keys.STREAM_MATCH_UNFILTERED.name):
            text = 'is for sources with stream_filter = ["VALUE"]'
            table.keep(table.error(keys.STREAM_MATCH_UNFILTERED.name, text))
            keys.STREAM_MATCH_UNFILTERED.read(table)
        return None
    values, unfiltered = keys.STREAM_FILTER.read(table), keys.STREAM_MATCH_UNFILTERED.read(table)
    if not values or not all(values):  # to the broker, an empty one is none
        raise table.error(keys.STREAM_FILTER.name, 'has no value; write stream_filter = ["VALUE", ...]')
    return StreamFilter(frozenset(values), unfiltered)


def target(name: str, url: str, table: Table) -> tuple[RabbitmqTarget, list[str]]:
    """Read the table of a target, and return it with its queues; see `bridge.endpoints`. Raises InputError."""
    brokers, management = read_brokers(name, url, table), read_management(table)
    patience = keys.UNROUTED_AFTER.read(table)
    addresses = keys.QUEUES.read(table).convert(read_address)
    made = RabbitmqTarget(name, brokers, addresses, management, unrouted_after=patience)
    return made, list(addresses)


def dead_letter_target(name: str, url: str, table: Table) -> RabbitmqTarget:
    """Read the table of a target of dead letters; see `bridge.endpoints`. Raises InputError."""
    queue, exchange = keys.DEAD_LETTER_QUEUE.read(table), keys.DEAD_LETTER_EXCHANGE.read(table)
    if queue is None and exchange is None:
        raise table.missing("queue", "give either the queue that takes dead letters, or an exchange")
    if queue is not None and exchange is not None:
        table.keep(table.error("queue", "give either the queue that takes dead letters, or an exchange"))
    routing_key = None if queue is not None else keys.DEAD_LETTER_ROUTING_KEY.read(table)
    address = PublishAddress.queue(queue) if queue is not None else PublishAddress(exchange or "", routing_key)
    if address.is_template:
        raise table.error("queue" if queue is not None else "routing_key", f"dead letters have no {PARTITION}")
    return RabbitmqTarget(name, read_brokers(name, url, table), {"": address}, read_management(table))


def caller_target(name: str, url: str, table: Table) -> tuple[RabbitmqTarget, None]:
    """Read the target for replies to the callers of a source; see `bridge.endpoints`. Raises InputError."""
    brokers = read_brokers(name, url, table)
    return RabbitmqTarget(name, brokers, {"": PublishAddress()}, read_management(table), to_callers=True), None


def read_address(value: Any) -> PublishAddress:
    """Read the address of a queue's messages. Raises ValueError."""
    if isinstance(value, str):
        return PublishAddress.queue(value)
    if not isinstance(value, dict) or not {*value} <= {"exchange", "routing_key"} or "exchange" not in value:
        raise ValueError
    if not all(isinstance(each, str) for each in value.values()):
        raise ValueError
    return PublishAddress(value["exchange"], value.get("routing_key"))
