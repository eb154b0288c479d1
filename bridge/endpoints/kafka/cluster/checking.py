"""The checks of ``hashstar bridge check`` for Kafka. They only read: no group is joined and no topic is created."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import ConsumerGroupType, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.kafka.cluster.addresses import is_new_protocol
from bridge.endpoints.kafka.cluster.asking import (
    NEW_PROTOCOL,
    fetch_committed,
    fetch_metadata,
    find_missing_request,
    make_admin,
    make_asking_consumer,
)
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import MOVING, Reasons, describe_error
from bridge.endpoints.kafka.cluster.topics import ANSWER, Partitioned, check_partitions, fetch_removals
from bridge.endpoints.outages import judge_removals
from bridge.endpoints.topics import ANY_SIZE, MAX_LISTED_TOPICS, describe_missing
from exchange.errors import HashstarError
from exchange.text.display import count_noun, list_some

WITHIN: Final = 14.0
"""Seconds that a check may take."""


async def run_check(check: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    """Run a check that waits for brokers, on a thread, and return its findings; no answer in time is an error."""
    calls = Calls()
    try:
        async with asyncio.timeout(WITHIN):
            return await calls.call(check)
    except TimeoutError:
        return [
            Finding("error", f"the brokers have not answered in {WITHIN:.0f} s: are they up, and reachable?", "url")
        ]
    except HashstarError as error:
        return [Finding.from_error(error, "url")]
    finally:
        calls.end()


def check_source(
    settings: Mapping[str, Any],
    topics: Sequence[str],
    check_positions: Callable[[Mapping[str, Any], Sequence[tuple[str, int]]], Sequence[Finding]],
) -> list[Finding]:
    """Check topics, group and permissions of a source; wait for answers. Raises HashstarError.

    ``check_positions`` looks where the group goes on in partitions.
    """
    own = {name: value for name, value in settings.items() if name != "statistics.interval.ms"}
    admin, metadata = _connect(own)
    named = [topic for topic in topics if not topic.startswith("^")]
    findings = list(_check_topics(admin, named, AclOperation.READ, "read"))
    read = [topic for topic in named if topic in metadata.topics]
    for pattern in [topic for topic in topics if topic.startswith("^")]:
        try:
            matching = [topic for topic in metadata.topics if re.match(pattern, topic)]
        except re.error:  # librdkafka has regular expressions of its own
            findings.append(Finding("not checked", f"which topics match {pattern!r}", "topics"))
            continue
        read += matching
        if matching:
            matches = count_noun(len(matching), "topic matches", "topics match")
            findings.append(Finding("ok", f"{matches} {pattern!r}", "topics"))
        else:
            findings.append(Finding("warning", f"no topic matches {pattern!r} yet", "topics"))
    findings += _judge_outage(admin, read, "topics")
    about_group = [*_check_group(admin, settings)]
    findings += about_group
    partitions = [
        (topic, partition) for topic in dict.fromkeys(read) for partition in metadata.topics[topic].partitions
    ]
    if partitions and about_group[0].level == "ok":
        findings += check_positions(own, partitions)
    if is_new_protocol(settings) and (problem := find_missing_request(own, NEW_PROTOCOL)):
        findings.append(Finding("error", problem, "librdkafka"))
    return findings


def check_share_source(
    settings: Mapping[str, Any], topics: Sequence[str], check_group: Callable[[AdminClient], Iterator[Finding]]
) -> list[Finding]:
    """Check the topics and the share group of a source; as `check_source`."""
    admin, metadata = _connect(settings)
    findings = list(_check_topics(admin, topics, AclOperation.READ, "read"))
    findings += _judge_outage(admin, [topic for topic in topics if topic in metadata.topics], "topics")
    return [*findings, *check_group(admin)]


def check_target(settings: Mapping[str, Any], topics: Sequence[str], partitioned: Partitioned) -> list[Finding]:
    """Check topics and permissions of a target, and that its topics fit the topology; as `check_source`."""
    admin, _ = _connect(settings)
    counts: dict[str, int] = {}
    findings = list(_check_topics(admin, topics, AclOperation.WRITE, "write", counts, dict(partitioned.values())))
    for queue, (topic, wanted) in partitioned.items():
        if topic in counts:
            try:
                check_partitions(topic, counts[topic], queue, wanted)
            except Disconnected as problem:
                findings.append(Finding.from_error(problem, f"queues.{queue}"))
    if not counts:  # librdkafka takes no empty list
        return findings
    limits = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in counts], request_timeout=ANSWER
    )
    for resource, answer in limits.items():
        try:
            limit = int(answer.result(2 * ANSWER)["max.message.bytes"].value)
        except (KafkaException, KeyError, TypeError, ValueError):
            text = f"topic {resource.name!r}: how large a message may be: this user is not shown it"
            findings.append(Finding("not checked", f"{text}; librdkafka's own limit holds", "queues"))
        else:
            text = f"topic {resource.name!r}: messages of up to {limit:,} bytes; a larger one is a dead letter"
            findings.append(Finding("ok", text, "queues"))
    return [*findings, *_judge_outage(admin, [*counts], "queues")]


def _judge_outage(admin: AdminClient, topics: Sequence[str], key: str) -> Iterator[Finding]:
    """Yield which outage the records of topics survive, and of which topics the brokers do not answer."""
    hidden: list[str] = []
    yield from judge_removals([*fetch_removals(admin, topics, hidden)], key, is_written=key == "queues")
    if hidden:
        text = (
            f"how long {list_some(list(map(repr, hidden)), MAX_LISTED_TOPICS)} keep{'s' * (len(hidden) == 1)} records"
        )
        yield Finding("not checked", f"{text}: this user is not shown it; allow DESCRIBE_CONFIGS", key)


def _connect(settings: Mapping[str, Any]) -> tuple[AdminClient, Any]:
    """Return an AdminClient and the metadata of its cluster. Raises HashstarError."""
    reasons = Reasons(settings)
    try:
        admin = make_admin(settings, reasons)
        return admin, fetch_metadata(admin, reasons)
    except KafkaException as error:
        raise reasons.explain(error) from None


def _check_topics(
    admin: AdminClient,
    names: Sequence[str],
    operation: AclOperation,
    verb: str,
    counts: dict[str, int] | None = None,
    wanted: Mapping[str, int] = ANY_SIZE,
) -> Iterator[Finding]:
    """Yield findings about topics; ``counts`` gets their numbers of partitions, ``wanted`` has those they must have."""
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
                yield Finding("error", f"{describe_missing([name], wanted)}, or allow this user to see it", key)
            else:
                yield Finding("error", f"topic {name!r}: {describe_error(error)}", key)
            continue
        if counts is not None:
            counts[name] = len(topic.partitions)
        if topic.authorized_operations and operation not in topic.authorized_operations:
            yield Finding("error", f"topic {name!r}: this user may not {verb} it; allow {operation.name}", key)
            continue
        away = [each.id for each in topic.partitions if each.leader is None]
        if away:
            yield Finding("warning", f"topic {name!r}: partitions {', '.join(map(str, away))} have no leader now", key)
        yield Finding("ok", f"topic {name!r}: {count_noun(len(topic.partitions), 'partition')}", key)
        if topic.authorized_operations is None:
            yield Finding("not checked", f"topic {name!r}: whether this user may {verb} it: brokers do not answer", key)


def _check_group(admin: AdminClient, settings: Mapping[str, Any]) -> Iterator[Finding]:
    group = str(settings["group.id"])
    consumer = make_asking_consumer(settings)
    try:
        # First a request by a consumer, for any partition, which fails if the group has no coordinator. Only an
        # AdminClient can ask for members and permissions, and it may end the process where there is no coordinator
        # (see `make_asking_consumer`).
        fetch_committed(consumer, [("hashstar", 0)])
        [answer] = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=ANSWER
        ).values()
        description = answer.result(2 * ANSWER)
    except KafkaException as problem:
        error: KafkaError = problem.args[0]
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:  # the answer of newer brokers for one that was never used
            yield Finding("ok", f"group {group!r}: new", "group")
        elif error.code() in MOVING:
            text = "its coordinator is moving, as after a restart of a broker: check again in a minute"
            yield Finding("not checked", f"group {group!r}: {text} ({error.name()})", "group")
        else:
            yield Finding("error", f"group {group!r}: {describe_error(error)}", "group")
        return
    finally:
        consumer.close()
    if description.authorized_operations and AclOperation.READ not in description.authorized_operations:
        yield Finding("error", f"group {group!r}: this user may not read with it; allow READ", "group")
        return
    yield Finding("ok", f"group {group!r}: {count_noun(len(description.members), 'member')}", "group")
    theirs, ours = description.partition_assignor, str(settings.get("partition.assignment.strategy", ""))
    is_classic = getattr(description, "type", None) == ConsumerGroupType.CLASSIC  # others take members of any strategy
    if is_classic and description.members and theirs and ours and theirs not in ours.split(","):
        text = f"group {group!r}: its members divide partitions by {theirs}, and this source by {ours}"
        way_out = "give it a group of its own, or set partition.assignment.strategy in librdkafka to theirs"
        yield Finding("error", f"{text}: {way_out}", "group")
    if description.authorized_operations is None:
        text = f"group {group!r}: whether this user may read with it: brokers do not answer"
        yield Finding("not checked", text, "group")
