"""What ``hashstar bridge check`` finds at Kafka: it asks for metadata only. No group is joined and no topic is made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.errors import Reasons, told
from bridge.endpoints.kafka.topics import Partitioned, Topic, admin_of, agreed, metadata_of
from exchange.errors import HashstarError

__all__ = ["found_at_source", "found_at_target", "found_within"]

WITHIN: Final = 14.0
"""Seconds that a check may take."""
ANSWER: Final = 4.0
"""Seconds that brokers may take to answer a question."""


async def found_within(look: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    """Return what a look finds, which waits for brokers; that they do not answer in time is an error."""
    calls = Calls()
    try:
        async with asyncio.timeout(WITHIN):
            return await calls.call(look)
    except TimeoutError:
        return [
            Finding("error", f"the brokers have not answered in {WITHIN:.0f} s: are they up, and reachable?", "url")
        ]
    except HashstarError as error:
        return [Finding("error", str(error), "url")]
    finally:
        calls.end()


def found_at_source(settings: Mapping[str, Any], topics: Sequence[str]) -> list[Finding]:
    """Return what there is for a source, and what it is not allowed; waits for answers. Raises HashstarError."""
    reasons = Reasons()
    try:
        admin = admin_of({name: value for name, value in settings.items() if name != "statistics.interval.ms"}, reasons)
        metadata = metadata_of(admin, reasons)
    except KafkaException as error:
        raise reasons.why(error) from None
    named = [topic for topic in topics if not topic.startswith("^")]
    found = list(_topics(admin, named, AclOperation.READ, "read"))
    for pattern in [topic for topic in topics if topic.startswith("^")]:
        try:
            matching = [topic for topic in metadata.topics if re.match(pattern, topic)]
        except re.error:
            continue  # librdkafka has regular expressions of its own
        if matching:
            found.append(Finding("ok", f"{len(matching)} topic(s) match {pattern!r}", "topics"))
        else:
            found.append(Finding("warning", f"no topic matches {pattern!r} yet", "topics"))
    found += _group(admin, str(settings["group.id"]))
    return found


def found_at_target(settings: Mapping[str, Any], topics: Sequence[str], partitioned: Partitioned) -> list[Finding]:
    """Return what there is for a target, as `found_at_source`; and whether topics fit the topology."""
    reasons = Reasons()
    try:
        admin = admin_of(settings, reasons)
        metadata_of(admin, reasons)
    except KafkaException as error:
        raise reasons.why(error) from None
    counts: dict[str, int] = {}
    found = list(_topics(admin, topics, AclOperation.WRITE, "write", counts))
    for queue, (topic, count) in partitioned.items():
        if topic in counts:
            try:
                agreed({topic: Topic(counts[topic], None)}, {queue: (topic, count)})
            except Disconnected as problem:
                found.append(Finding("error", str(problem), f"queues.{queue}"))
    if not counts:  # librdkafka takes no empty list
        return found
    limits = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in counts], request_timeout=ANSWER
    )
    for resource, answer in limits.items():
        try:
            limit = int(answer.result(2 * ANSWER)["max.message.bytes"].value)
        except (KafkaException, KeyError, TypeError, ValueError):
            text = f"topic {resource.name!r}: how large a message may be is not shown to this user"
            found.append(Finding("ok", f"{text}; librdkafka's own limit holds", "queues"))
        else:
            text = f"topic {resource.name!r}: messages of up to {limit:,} bytes; a larger one is a dead letter"
            found.append(Finding("ok", text, "queues"))
    return found


def _topics(
    admin: AdminClient, names: Sequence[str], operation: AclOperation, verb: str, counts: dict[str, int] | None = None
) -> Iterator[Finding]:
    """Yield what is found of topics; ``counts`` gets their numbers of partitions."""
    if not names:
        return
    key = "topics" if operation is AclOperation.READ else "queues"
    asked = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=ANSWER
    )
    for name, answer in asked.items():
        try:
            topic = answer.result(2 * ANSWER)
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                yield Finding("error", f"there is no topic {name!r} that this user can see; create it", key)
            else:
                yield Finding("error", f"topic {name!r}: {told(error)}", key)
            continue
        if counts is not None:
            counts[name] = len(topic.partitions)
        if topic.authorized_operations and operation not in topic.authorized_operations:
            yield Finding("error", f"topic {name!r}: this user may not {verb} it; allow {operation.name}", key)
            continue
        away = [each.id for each in topic.partitions if each.leader is None]
        if away:
            yield Finding("warning", f"topic {name!r}: partitions {', '.join(map(str, away))} have no leader now", key)
        yield Finding("ok", f"topic {name!r}: {len(topic.partitions)} partition(s)", key)


def _group(admin: AdminClient, group: str) -> Iterator[Finding]:
    [answer] = admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=ANSWER
    ).values()
    try:
        found = answer.result(2 * ANSWER)
    except KafkaException as problem:
        if problem.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:  # as newer brokers say of one that nobody used yet
            yield Finding("ok", f"group {group!r}: new", "group")
            return
        yield Finding("error", f"group {group!r}: {told(problem.args[0])}", "group")
        return
    if found.authorized_operations and AclOperation.READ not in found.authorized_operations:
        yield Finding("error", f"group {group!r}: this user may not read with it; allow READ", "group")
        return
    yield Finding("ok", f"group {group!r}: {len(found.members)} member(s)", "group")
