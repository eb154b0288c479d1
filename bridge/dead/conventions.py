"""Headers by which a dead letter shows why it died: one row for each system that writes some.

The first row counts that has a mark in the message: who wrote last comes first, as a message that a broker
dead-lettered may be given up by an application later, and keeps the headers of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from exchange.values.json_text import parse_leniently

DEATHS: Final = "x-death"
FIRST: Final = "x-first-death-"
ADDED: Final = (DEATHS, FIRST, "x-last-death-", "x-delivery-count", "x-acquired-count")
"""Headers that brokers add, or how their names begin: a message that is published again has none."""


class Death(NamedTuple):
    """What dead letters of one group have in common. What is not known is ""."""

    by: str
    """Name of the `Convention`; "" for a message without headers of any."""
    reason: str
    """Of RabbitMQ: rejected, expired, maxlen, delivery_limit; of others a text, with ``#`` for numbers."""
    queue: str
    """Queue in which it died, or topic that it was read from."""
    first: str
    """The first death, where that is another one: ``rejected in 'orders'``."""
    exchange: str | None
    """Exchange that it was published to; of Kafka and RocketMQ the topic. Null where its headers do not name it, or not
    the routing key."""
    key: str
    """Shape of its routing key, where ``exchange`` is null of that of the dead letter: words that vary are ``*``."""
    exception: str
    """Class of the exception."""
    error: str
    """Text of the exception, with ``#`` for numbers."""


class Convention(NamedTuple):
    """The headers of one system; each is the name of a header, "" for none."""

    name: str
    marks: tuple[str, ...]
    """Headers of which each dead letter has one."""
    seen: str
    """Where they are written."""
    reason: str = ""
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    exception: str = ""
    error: str = ""
    tries: str = ""
    """Header with the number of tries."""
    constant: str = ""
    """The reason where no header has it."""
    has_topics: bool = False
    """Whether what is its queue is a topic, which messages are published to: no exchange of a topology is known."""
    partition: str = ""
    """Header with the partition that it was in: four bytes, or digits where `has_digits`."""
    has_digits: bool = False
    added: tuple[str, ...] = ()
    """How the names of the headers begin that it adds to a record of Kafka."""

    @property
    def headers(self) -> tuple[str, ...]:
        """All headers that are read."""
        fields = (self.reason, self.queue, self.exchange, self.routing_key, self.exception, self.error, self.tries)
        return (*self.marks, *filter(None, fields))


CONVENTIONS: Final = (
    Convention(
        "hashstar", ("hashstar-reason",), "a bridge's dead letters, `bridge.pump.dead_letters`",
        "hashstar-reason", "hashstar-queue", "hashstar-exchange", "hashstar-routing-key", tries="hashstar-attempts",
    ),
    Convention(
        "Kafka Connect", ("__connect.errors.topic", "__connect.errors.exception.class.name"),
        "sink connectors with errors.deadletterqueue.context.headers.enable, `DeadLetterQueueReporter`",
        "__connect.errors.stage", "__connect.errors.topic", exception="__connect.errors.exception.class.name",
        error="__connect.errors.exception.message", has_topics=True, partition="__connect.errors.partition",
        has_digits=True, added=("__connect.errors.",),
    ),
    Convention(
        "Spring Kafka, retry topics", ("kafka_original-topic",), "`@RetryableTopic`, `KafkaHeaders.ORIGINAL_TOPIC`",
        "kafka_exception-cause-fqcn", "kafka_original-topic", exception="kafka_exception-fqcn",
        error="kafka_exception-message", constant="retried too often", has_topics=True,
        partition="kafka_original-partition",
        added=("kafka_original-", "kafka_exception-", "kafka_key-exception-", "kafka_dlt-", "retry_topic-"),
    ),
    Convention(
        "Spring Kafka", ("kafka_dlt-original-topic", "kafka_dlt-exception-fqcn"),
        "`DeadLetterPublishingRecoverer`, `KafkaHeaders.DLT_*`",
        "kafka_dlt-exception-cause-fqcn", "kafka_dlt-original-topic", exception="kafka_dlt-exception-fqcn",
        error="kafka_dlt-exception-message", has_topics=True, partition="kafka_dlt-original-partition",
        added=("kafka_dlt-",),
    ),
    Convention(
        "Spring Cloud Stream", ("x-original-topic", "x-exception-fqcn"), "the binder for Kafka, `BinderHeaders`",
        queue="x-original-topic", exception="x-exception-fqcn", error="x-exception-message", constant="republished",
        has_topics=True, partition="x-original-partition", added=("x-original-", "x-exception-"),
    ),
    Convention(
        "Spring AMQP", ("x-exception-message", "x-exception-stacktrace"), "`RepublishMessageRecoverer`",
        exchange="x-original-exchange", routing_key="x-original-routingKey", error="x-exception-message",
        constant="republished",
    ),
    Convention(
        "RocketMQ", ("x-rocketmq-DLQ_ORIGIN_TOPIC", "x-rocketmq-RETRY_TOPIC"),
        "`%DLQ%` and `%RETRY%` topics, `MessageConst`",
        queue="x-rocketmq-RETRY_TOPIC", exchange="x-rocketmq-DLQ_ORIGIN_TOPIC", tries="x-rocketmq-RECONSUME_TIME",
        constant="consumed too often", has_topics=True,
    ),
    Convention(
        "RabbitMQ", (DEATHS, f"{FIRST}reason"), "each release, `rabbit_dead_letter`, `mc`",
        f"{FIRST}reason", f"{FIRST}queue", f"{FIRST}exchange",
    ),
)  # fmt: skip
"""The table, those who write last first. Of RabbitMQ the entries of x-death say more than the columns: `find_death`."""

HEADERS: Final = tuple(dict.fromkeys([name for each in CONVENTIONS for name in each.headers]))
"""All headers that decide about a group, and the number of tries."""

VARYING: Final = r"[^.]*[0-9][^.]*[0-9][^.]*[0-9][^.]*"
"""A word of a key that stands for one thing only: it has three digits or more."""
SHORT: Final = r"(^|\.)[0-9]{1,2}(\.|$)"
"""Another one: a number. Of two in turn one is found, so it is to be replaced twice."""
NUMBER: Final = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f-]{22}|0x[0-9A-Fa-f]+|[0-9]+"
"""Identifiers of 128 bits, addresses and numbers in texts of errors."""
TEXT: Final = 200
"""Maximum number of characters of a reason or an error; what follows does not distinguish groups."""
KEY: Final = 255
"""The same of a key: those of Kafka may have any length."""
DIGITS: Final = frozenset("0123456789")


def shape_key(key: str) -> str:
    """Return the beginning of a routing key with ``*`` for each word that is a number, or has three digits or more."""
    return ".".join(["*" if _varies(word) else word for word in key[:KEY].split(".")])


def _varies(word: str) -> bool:
    digits = sum([each in DIGITS for each in word])
    return digits >= 3 or 0 < digits == len(word)


def shape_text(text: str) -> str:
    """Return a text of an error with ``#`` for numbers and identifiers, clipped."""
    return re.sub(NUMBER, "#", text)[:TEXT]


def find_death(headers: Mapping[str, str | None], exchange: str, key: str) -> tuple[Death, str]:
    """Return the death that headers show, as archives have them, and the routing key that was published.

    ``exchange`` and ``key`` are those of the message. The shape of the key in the death is `shape_key`'s.
    """
    convention = next((each for each in CONVENTIONS if any(headers.get(mark) is not None for mark in each.marks)), None)
    if convention is None:
        return Death("", "", "", "", exchange, shape_key(key), "", ""), key

    def read(name: str) -> str:
        return (headers.get(name) or "") if name else ""

    reason, queue, first = read(convention.reason) or convention.constant, read(convention.queue), ""
    published: str | None
    if convention.has_topics:
        published = (read(convention.exchange) if convention.exchange else exchange) or queue or None
    else:
        deaths = _parse_deaths(headers.get(DEATHS))
        origin = _find_first(headers, deaths)
        published, key = _find_published(convention, headers, origin) or (None, key)
        if convention.name == "RabbitMQ":
            reason, queue = reason or _text(origin, "reason"), queue or _text(origin, "queue")
            last = (_text(deaths[0], "reason"), _text(deaths[0], "queue")) if deaths else (reason, queue)
            if last != (reason, queue):
                first = f"{reason} in '{queue}'"
                reason, queue = last
    exception, error = read(convention.exception), shape_text(read(convention.error))
    return Death(convention.name, shape_text(reason), queue, first, published, shape_key(key), exception, error), key


def _find_first(headers: Mapping[str, str | None], deaths: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry of x-death of the first death; empty if there is none."""
    first = tuple([headers.get(f"{FIRST}{name}") or "" for name in ("queue", "reason")])
    same = (each for each in deaths if (each.get("queue"), each.get("reason")) == first)
    return next(same, deaths[-1] if deaths else {})


def _find_published(
    convention: Convention, headers: Mapping[str, str | None], origin: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Return the exchange and the routing key with which it was published; None where headers do not name both.

    Those of the system count, else those of the broker: an exchange is never joined with the key of another writer.
    """
    own = headers.get(convention.exchange), headers.get(convention.routing_key)
    exchange, keys = headers.get(f"{FIRST}exchange"), origin.get("routing-keys")
    exchange = origin.get("exchange") if exchange is None else exchange
    of_broker = exchange, keys[0] if isinstance(keys, list) and keys else None
    for exchange, key in (own, of_broker):
        if isinstance(exchange, str) and isinstance(key, str):
            return exchange, key
    return None


def _parse_deaths(text: str | None) -> list[dict[str, Any]]:
    """Return the entries of x-death, the latest first; none if it is no array of tables."""
    try:
        value = parse_leniently(text or "[]")
    except ValueError:
        return []
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""
