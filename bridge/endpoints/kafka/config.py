"""Kafka: topics as sources, with a consumer group, and as targets, with an idempotent producer or in transactions.

Tables of a configuration::

    [sources.orders]                       [targets.audit]
    url = "kafka://HOST:9092,HOST:9092"    url = "kafka://HOST:9092"
    topics = ["orders", "^eu-.*"]          queues = { audit = { topic = "audit", key = "word 2" } }
    group = "bridge"                       transactional = true
    until_end = false
    transactional = true
"""

from __future__ import annotations

from bridge.endpoint import Target
from bridge.endpoints.kafka import keys
from bridge.endpoints.kafka.cluster.addresses import check_settings, read_settings
from bridge.endpoints.kafka.consumer.source import KafkaSource
from bridge.endpoints.kafka.producer.plain import KafkaTarget
from bridge.endpoints.kafka.producer.transactional import TransactionalTarget
from bridge.endpoints.topics import TopicDestination, parse_destination
from bridge.pump.policy import Policy
from bridge.table import Table

__all__ = [
    "KafkaSource", "KafkaTarget", "TransactionalTarget", "caller_target", "dead_letter_target", "source",
    "target",
]  # fmt: skip


def source(name: str, url: str, table: Table, policy: Policy) -> KafkaSource:
    """Build the source of a configuration; see `bridge.endpoints`."""
    topic = keys.TOPIC.read(table)
    topics = keys.TOPICS.read(table) if topic is None else [topic]
    if not topics:
        raise table.error("topics", 'there is none; write topics = ["..."]')
    keys.REPLY_TOPICS.read(table)  # for `caller_target`
    until_end, transactional = keys.UNTIL_END.read(table), keys.TRANSACTIONAL.read(table)
    settings, group = read_settings(url, table), keys.GROUP.read(table, f"hashstar-{name}")
    made = KafkaSource(
        name,
        lambda: {**settings(), "group.id": group},
        topics,
        until_end=until_end,
        window=policy.window,
        window_bytes=policy.window_bytes,
        transactional=transactional,
    )
    check_settings(table, made.make_offline)
    return made


def target(name: str, url: str, table: Table) -> tuple[Target, list[str]]:
    """Build the target of a configuration, and return it with its queues; see `bridge.endpoints`."""
    destinations = keys.QUEUES.read(table).convert(lambda value: parse_destination(value, ("topic", "key")))
    settings = read_settings(url, table)
    made: KafkaTarget | TransactionalTarget
    if not keys.TRANSACTIONAL.read(table):
        made = KafkaTarget(name, settings, destinations)
    else:
        every, messages = keys.TRANSACTION_TIME.read(table), keys.TRANSACTION_MESSAGES.read(table)
        own_id = keys.TRANSACTIONAL_ID.read(table)
        made = TransactionalTarget(name, settings, destinations, messages, every, own_id)
    check_settings(table, made.make_offline)
    return made, list(destinations)


def dead_letter_target(name: str, url: str, table: Table) -> KafkaTarget:
    """Build the target of dead letters of a configuration; see `bridge.endpoints`."""
    made = KafkaTarget(name, read_settings(url, table), {"": TopicDestination(keys.DEAD_LETTER_TOPIC.read(table))})
    check_settings(table, made.make_offline)
    return made


def caller_target(name: str, url: str, table: Table) -> tuple[KafkaTarget, frozenset[str]] | None:
    """Build the target for replies to the callers of a source, and return it with its topics; None if it has none.

    See `bridge.endpoints`.
    """
    topics = keys.REPLY_TOPICS.read(table)
    if not topics:
        return None
    made = KafkaTarget(name, read_settings(url, table), {topic: TopicDestination(topic) for topic in topics})
    check_settings(table, made.make_offline)
    return made, frozenset(topics)
