"""What a bridge asks of topics: whether they exist and their partitions fit the topology, and how long records stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected, Removal
from bridge.endpoints.kafka.cluster.asking import ASKING, METADATA_WITHIN, fetch_metadata, make_admin
from bridge.endpoints.kafka.cluster.errors import PERMISSIONS, Reasons, describe_error
from bridge.endpoints.topics import ANY_SIZE, describe_missing
from exchange.errors import InputError
from exchange.partition.partitions import Broker, Partition, Partitions
from exchange.text.display import count_noun, write_milliseconds

Racks: TypeAlias = Mapping[int, str | None]
"""Number of a broker -> its rack."""

Partitioned: TypeAlias = Mapping[str, tuple[str, int]]
"""Queue of the topology -> its topic, and over how many partitions the topology spreads it."""


TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", re.ASCII)
"""A name that Kafka allows."""


def check_topic(name: str) -> str:
    """Return the name of a topic. Raises InputError for one that Kafka does not allow."""
    if TOPIC_NAME.fullmatch(name) is None:
        allowed = "1 to 249 letters without accents, digits, dots, _ and -, and not . or .. alone"
        raise InputError(f"no topic can have the name {name[:250]!r}: Kafka allows {allowed}")
    return name


class KafkaTopic(NamedTuple):
    """A topic that exists."""

    partitions: int
    most_bytes: int | None
    """``max.message.bytes``: maximum size of a batch, and so of a message, in bytes; None: this user may not see it."""
    leaders: Partitions | None = None
    """The partitions with their leaders, for partitioners of the owner."""
    racks: Racks = MappingProxyType({})
    """Racks of the cluster's brokers, where a partitioner may read them."""


def count_partitions(metadata: Any, names: Sequence[str], wanted: Mapping[str, int] = ANY_SIZE) -> dict[str, int]:
    """Return topic -> number of partitions, by a cluster's metadata.

    Raises Disconnected for those that are missing, with the numbers that are ``wanted`` of them.
    """
    missing = [name for name in dict.fromkeys(names) if name not in metadata.topics]
    if missing:
        raise Disconnected(describe_missing(missing, wanted))
    for name in names:
        if (error := metadata.topics[name].error) is not None:
            raise Disconnected(f"topic {name!r}: {describe_error(error)}")
    return {name: len(metadata.topics[name].partitions) for name in names}


def list_partitions(metadata: Any, name: str, racks: Racks) -> Partitions:
    """Return the partitions of a topic in the order of the metadata, with their leaders, None while there is none."""
    brokers = {
        number: Broker(str(number), str(broker.host), racks.get(number)) for number, broker in metadata.brokers.items()
    }
    partitions = metadata.topics[name].partitions.values()
    return Partitions([Partition(each.id, brokers.get(each.leader)) for each in partitions])


def fetch_topics(
    settings: Mapping[str, Any],
    names: Sequence[str],
    reasons: Reasons,
    *,
    with_racks: bool = False,
    wanted: Mapping[str, int] = ANY_SIZE,
) -> dict[str, KafkaTopic]:
    """Return the topics of these names; wait for the answers. Raises KafkaException; Disconnected if one is missing."""
    admin = make_admin(settings, reasons)
    metadata = fetch_metadata(admin, reasons)
    check_rights(admin, [name for name in names if name not in metadata.topics])
    counts = count_partitions(metadata, names, wanted)
    racks = _fetch_racks(admin) if with_racks else {}
    limits: dict[str, int] = {}
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=METADATA_WITHIN
    )
    for resource, answer in asked.items():
        try:
            limits[resource.name] = int(answer.result()["max.message.bytes"].value)
        except (KafkaException, KeyError, TypeError, ValueError):
            continue  # who may write a topic need not be allowed to see how it is configured
    return {
        name: KafkaTopic(count, limits.get(name), list_partitions(metadata, name, racks), racks)
        for name, count in counts.items()
    }


def check_rights(admin: Any, names: Sequence[str]) -> None:
    """Raise Disconnected if one of these topics is not listed because this user has no right to it.

    Brokers list the topics that a user may see, and answer a question about another one that the user has no right, or
    else that there is none.
    """
    if not names:
        return
    for name, answer in admin.describe_topics(TopicCollection(list(names)), request_timeout=METADATA_WITHIN).items():
        try:
            answer.result(2 * METADATA_WITHIN)
        except KafkaException as error:
            if error.args[0].code() in PERMISSIONS:
                raise Disconnected(f"topic {name!r}: {describe_error(error.args[0])}") from None


def _fetch_racks(admin: Any) -> Racks:
    """Return the racks of a cluster's brokers; none if this user may not see them."""
    try:
        nodes = admin.describe_cluster(request_timeout=METADATA_WITHIN).result().nodes
    except KafkaException:
        return {}
    return {node.id: node.rack for node in nodes}


def check_topics(topics: Mapping[str, KafkaTopic], partitioned: Partitioned) -> None:
    """Raise Disconnected if the topology spreads a queue over more or fewer partitions than its topic has."""
    for queue, (topic, wanted) in partitioned.items():
        check_partitions(topic, topics[topic].partitions, queue, wanted)


def check_partitions(topic: str, count: int, queue: str, wanted: int) -> None:
    """Raise Disconnected unless ``count``, a topic's partitions, are as many as the topology spreads the queue over.

    This is no error of the configuration: a topic may be changed at any time, and changed back.
    """
    if count != wanted:
        raise Disconnected(
            f"topic {topic!r} has {count_noun(count, 'partition')}, and the topology spreads queue {queue!r} over "
            f"{wanted}: change one of them; the bridge waits for that"
        )


ASKED: Final = 200
"""Maximum number of topics whose configuration is asked for."""
ANSWER: Final = 4.0
"""Seconds that brokers may take to answer a question."""


def fetch_removals(admin: AdminClient, topics: Sequence[str], hidden: list[str]) -> Iterator[Removal]:
    """Yield what deletes records of these topics; ``hidden`` gets those whose settings this user is not shown."""
    names = [*dict.fromkeys(topics)]  # a name that is asked for twice spoils librdkafka's whole answer
    hidden += names[ASKED:]
    if not names:  # librdkafka takes no empty list
        return
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names[:ASKED]], request_timeout=ANSWER
    )
    for resource, answer in asked.items():
        try:
            configured = answer.result(2 * ANSWER)
            policy, milliseconds = str(configured["cleanup.policy"].value), int(configured["retention.ms"].value)
            size = int(configured["retention.bytes"].value)
        except (KafkaException, KeyError, TypeError, ValueError):
            hidden.append(resource.name)
            continue
        what = f"topic {resource.name!r} deletes records, read or not,"
        if "delete" in policy and milliseconds >= 0:
            yield Removal(f"{what} after {write_milliseconds(milliseconds)} (retention.ms)", milliseconds / 1_000)
        if "delete" in policy and size >= 0:
            yield Removal(f"{what} beyond {size:,} bytes of a partition (retention.bytes)")


def find_topics(metadata: Any, names: Sequence[str]) -> list[str]:
    """Return the topics of these names; those that begin with ``^`` are regular expressions."""
    return [topic for topic in metadata.topics if any(_is_named(topic, each) for each in names)]


def _is_named(topic: str, name: str) -> bool:
    """Return whether a topic is that of this name, or matches it; librdkafka has regular expressions of its own."""
    try:
        return topic == name or (name.startswith("^") and re.match(name, topic) is not None)
    except re.error:
        return False


def look_up_removals(settings: Mapping[str, Any], names: Sequence[str]) -> Sequence[Removal] | None:
    """Return what deletes records of the topics of these names, as `find_topics` finds them, by a client of its own;
    None if brokers do not answer for all.
    """
    own = {name: value for name, value in settings.items() if name != "statistics.interval.ms"}
    hidden: list[str] = []
    reasons = Reasons(settings)
    try:
        admin = make_admin({**own, **ASKING}, reasons)
        has_patterns = any(name.startswith("^") for name in names)
        topics = find_topics(fetch_metadata(admin, reasons), names) if has_patterns else names
        found = [*fetch_removals(admin, topics, hidden)]
    except KafkaException:
        return None
    return found if found or not hidden else None
