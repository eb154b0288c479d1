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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka

from bridge.endpoint import Target
from bridge.endpoints.kafka import keys
from bridge.endpoints.kafka.cluster.addresses import check_settings, read_settings
from bridge.endpoints.kafka.cluster.topics import check_topic
from bridge.endpoints.kafka.consumer.source import KafkaSource
from bridge.endpoints.kafka.consumer.topic_source import TopicSource, check_pattern
from bridge.endpoints.kafka.producer.plain import KafkaTarget
from bridge.endpoints.kafka.producer.transactional import TransactionalTarget
from bridge.endpoints.topics import TopicDestination, parse_destination, read_topics
from bridge.keys import Key
from bridge.pump.policy import Policy, Unroutable
from bridge.table import Table
from exchange.errors import InputError
from exchange.text.site import build_install_command

__all__ = [
    "KafkaSource", "KafkaTarget", "TransactionalTarget", "caller_target", "dead_letter_target", "source",
    "target",
]  # fmt: skip


def source(name: str, url: str, table: Table, policy: Policy) -> TopicSource:
    """Build the source of a configuration; see `bridge.endpoints`."""
    topic = keys.TOPIC.read(table)
    topics = read_topics(table, keys.TOPICS, topic)
    for each in dict.fromkeys(topics):
        with _keeping(table, keys.TOPICS if topic is None else keys.TOPIC, each):
            (check_pattern if each.startswith("^") else check_topic)(each)
    replies = bool(keys.REPLY_TOPICS.read(table))  # the topics are for `caller_target`
    until_end, transactional = keys.UNTIL_END.read(table), keys.TRANSACTIONAL.read(table)
    is_share = keys.GROUP_TYPE.read(table) == "share"
    settings = read_settings(url, table, {"group.id": keys.GROUP.read(table, f"hashstar-{name}")})
    if is_share:
        for key, is_set in ((keys.UNTIL_END, until_end), (keys.TRANSACTIONAL, transactional)):
            if is_set:
                table.keep(table.error(key.name, NO_OFFSETS))
        if patterns := [each for each in topics if each.startswith("^")]:
            text = f"{patterns[0]!r} is a pattern, and a share group reads topics by name only"
            table.keep(table.error((keys.TOPICS if topic is None else keys.TOPIC).name, text))
        return _build_share_source(name, settings, topics, table, policy, replies=replies)
    made = KafkaSource(
        name,
        settings,
        topics,
        until_end=until_end,
        window=policy.window,
        window_bytes=policy.window_bytes,
        transactional=transactional,
    )
    check_settings(table, made, settings, for_both=replies)
    return made


@contextmanager
def _keeping(table: Table, key: Key[Any], item: str) -> Iterator[None]:
    """Keep the InputError of the block as a mistake in an item of a key; raise it where none are kept."""
    try:
        yield
    except InputError as error:
        table.keep(table.error(key.name, str(error)), item)


NO_OFFSETS: Final = 'a share group has no offsets; take it away, or write group_type = "consumer"'


def _build_share_source(
    name: str,
    settings: Callable[[], dict[str, Any]],
    topics: Sequence[str],
    table: Table,
    policy: Policy,
    *,
    replies: bool,
) -> TopicSource:
    """Build the source whose ``group_type`` is ``share``."""
    if not hasattr(confluent_kafka, "ShareConsumer"):
        text = f"share needs confluent-kafka 2.15 or later, and this is {confluent_kafka.__version__}"
        raise table.error("group_type", f"{text}: {build_install_command('kafka')} --upgrade")
    if policy.unroutable is Unroutable.HOLD:
        table.warn(
            "group_type",
            'a message that is held (unroutable = "hold") ends the reading of a share group, and Kafka drops it after '
            "some deliveries; write [dead_letters]",
        )
    from bridge.endpoints.kafka.consumer.share import ShareSource  # an older client has nothing that it could import

    made = ShareSource(
        name,
        settings,
        topics,
        window=policy.window,
        window_bytes=policy.window_bytes,
        rate=policy.rate,
        one_at_a_time=policy.one_at_a_time,
        give_up_after=policy.give_up_after,
    )
    check_settings(table, made, settings, for_both=replies)
    return made


def target(name: str, url: str, table: Table) -> tuple[Target, list[str]]:
    """Build the target of a configuration, and return it with its queues; see `bridge.endpoints`."""
    settings = read_settings(url, table)
    destinations = keys.QUEUES.read(table).convert(
        lambda value: parse_destination(value, ("topic", "key"), check_topic)
    )
    made: KafkaTarget | TransactionalTarget
    if not keys.TRANSACTIONAL.read(table):
        made = KafkaTarget(name, settings, destinations)
    else:
        every, messages = keys.TRANSACTION_TIME.read(table), keys.TRANSACTION_MESSAGES.read(table)
        own_id = keys.TRANSACTIONAL_ID.read(table)
        made = TransactionalTarget(name, settings, destinations, messages, every, own_id)
    check_settings(table, made, settings)
    return made, list(destinations)


def dead_letter_target(name: str, url: str, table: Table) -> KafkaTarget:
    """Build the target of dead letters of a configuration; see `bridge.endpoints`."""
    settings = read_settings(url, table)
    topic = keys.DEAD_LETTER_TOPIC.read(table)
    with _keeping(table, keys.DEAD_LETTER_TOPIC, topic):
        check_topic(topic)
    made = KafkaTarget(name, settings, {"": TopicDestination(topic)})
    check_settings(table, made, settings)
    return made


def caller_target(name: str, url: str, table: Table) -> tuple[KafkaTarget, frozenset[str]] | None:
    """Build the target for replies to the callers of a source, and return it with its topics; None if it has none.

    See `bridge.endpoints`.
    """
    topics = keys.REPLY_TOPICS.read(table)
    if not topics:
        return None
    for topic in topics:
        with _keeping(table, keys.REPLY_TOPICS, topic):
            check_topic(topic)
    settings = read_settings(url, table)
    made = KafkaTarget(name, settings, {topic: TopicDestination(topic) for topic in topics})
    check_settings(table, made, settings, for_both=True)
    return made, frozenset(topics)
