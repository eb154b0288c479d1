"""RocketMQ: topics as sources, with a consumer group, and as targets, each message on the queue that is chosen for it.

`bridge.rocketmq` is the client; this is the configuration::

    [sources.orders]                       [targets.audit]
    url = "rocketmq://HOST:9876"           url = "rocketmq://HOST:9876,HOST:9876"
    topics = ["orders.eu", "orders.us"]    queues = { audit = { topic = "audit", key = "word 2", tag = "word 1" } }
    group = "bridge"                       access_key = "bridge"
    sql = "amount > 100"                   secret_key = { env = "SECRET" }

Names that RocketMQ does not allow are topics by `bridge.interop.rocketmq_topics`.
"""

from __future__ import annotations

from bridge.endpoints.rocketmq import keys
from bridge.endpoints.rocketmq.addresses import read_settings
from bridge.endpoints.rocketmq.replying import CallerTarget
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.endpoints.rocketmq.target import RocketmqTarget
from bridge.endpoints.topics import TopicDestination, parse_destination, read_topics
from bridge.interop import build_topic, group_of
from bridge.pump.inlet import warn_of_bars
from bridge.pump.policy import Policy
from bridge.rocketmq.consumer.subscription import SUB_ALL, Subscription
from bridge.rocketmq.remoting.client import ClientSettings
from bridge.table import Table
from exchange.errors import HashstarError, InputError
from exchange.selector import Selector

__all__ = ["RocketmqSource", "RocketmqTarget", "caller_target", "dead_letter_target", "source", "target"]


def source(name: str, url: str, table: Table, policy: Policy) -> RocketmqSource:
    """Return the source of a configuration; see `bridge.endpoints`."""
    settings = read_settings(url, table)
    topic = keys.TOPIC.read(table)
    topics = read_topics(table, keys.TOPICS, topic)
    tags, sql = keys.SUBSCRIPTION.read(table), keys.SQL.read(table)
    if sql is not None and tags != SUB_ALL:
        table.keep(table.error("sql", "is instead of a subscription to tags, and there are both"))
    subscriptions: list[Subscription] = []
    for each in topics:
        key = "topics" if topic is None else "topic"
        try:
            encoded = build_topic(each)
        except InputError as error:
            table.keep(table.error(key, str(error)), each)
            continue
        subscriptions.append(_subscription(encoded, tags, sql, table))
    for subscription in subscriptions[:1]:
        warn_of_bars(table, keys.SUBSCRIPTION.name, subscription.tags)
    try:
        group = group_of(keys.GROUP.read(table, f"hashstar-{name}"))
    except InputError as error:
        raise table.error("group", str(error)) from None
    return RocketmqSource(
        name,
        settings,
        group,
        subscriptions,
        orderly=keys.ORDERLY.read(table),
        until_end=keys.UNTIL_END.read(table),
        from_last=keys.OFFSET.read(table) == keys.LAST,
        window=policy.window,
        window_bytes=policy.window_bytes,
    )


def _subscription(topic: str, tags: str, sql: str | None, table: Table) -> Subscription:
    """Return the subscription to a topic. Raises InputError, also for a condition of which brokers ignore a part."""
    try:
        if sql is None:
            return Subscription.to_tags(topic, tags)
        Selector.parse(sql)
        return Subscription.to_sql(topic, sql)
    except HashstarError as error:
        raise table.error("subscription" if sql is None else "sql", str(error)) from None


def target(name: str, url: str, table: Table) -> tuple[RocketmqTarget, list[str]]:
    """Return the target of a configuration, and its queues; see `bridge.endpoints`."""
    settings = read_settings(url, table)
    destinations = keys.QUEUES.read(table).convert(
        lambda value: parse_destination(value, ("topic", "key", "tag"), build_topic)
    )
    return _target(name, settings, table, destinations), list(destinations)


def dead_letter_target(name: str, url: str, table: Table) -> RocketmqTarget:
    """Return the target of a configuration's dead letters; see `bridge.endpoints`."""
    settings = read_settings(url, table)
    try:
        topic = build_topic(keys.DEAD_LETTER_TOPIC.read(table))
    except InputError as error:
        raise table.error("topic", str(error)) from None
    return _target(name, settings, table, {"": TopicDestination(topic)})


def caller_target(name: str, url: str, table: Table) -> tuple[CallerTarget, None]:
    """Return the target for replies to the callers of a source; see `bridge.endpoints`."""
    return CallerTarget(name, read_settings(url, table)), None


def _target(
    name: str, settings: ClientSettings, table: Table, destinations: dict[str, TopicDestination]
) -> RocketmqTarget:
    confirms = keys.NOT_STORE_OK.read(table) == keys.CONFIRM
    return RocketmqTarget(name, settings, destinations, confirm_not_store_ok=confirms)
