"""Topics of Kafka and RocketMQ as targets: where messages go, in a configuration, and the partitions of their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from bridge.keys import Key
from bridge.table import Table
from exchange.errors import HashstarError
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import parse_key_source
from exchange.text.display import count_noun, list_some

MAX_LISTED_TOPICS: Final = 5
"""Maximum number of topics that an error or a finding names."""

REMEMBERED: Final = 65_536
"""Maximum number of keys of a topic whose partition is remembered."""

ANY_SIZE: Final[Mapping[str, int]] = MappingProxyType({})
"""Topic -> the number of partitions that it must have: none is partitioned by the topology."""

K = TypeVar("K", bound=Hashable)


def describe_missing(topics: Sequence[str], wanted: Mapping[str, int] = ANY_SIZE, unit: str = "partition") -> str:
    """Return the error about topics that are not there, one or more: what is read or written needs all of them.

    ``wanted`` maps a topic to the number of ``unit`` over which the topology spreads a queue, if it does.
    """
    listed = list_some([repr(topic) for topic in topics], MAX_LISTED_TOPICS, "or")
    named = "{0}" if len(topics) == 1 else "{1!r} with {0}"
    sizes = [named.format(count_noun(wanted[topic], unit), topic) for topic in topics if topic in wanted]
    it, joint = ("it", " with") if len(topics) == 1 else ("them", ",")
    size = f"{joint} {list_some(sizes, MAX_LISTED_TOPICS, 'and')}, as in the topology" if sizes else ""
    return f"there is no topic {listed}; create {it}{size}"


@dataclass(frozen=True, slots=True)
class TopicDestination:
    """The topic for messages of a queue of the topology."""

    topic: str
    key: KeySource | None = None
    """Source of a message's key; None: the routing key. The key decides the partition, unless the topology partitions
    the queue, and is the key of messages from other systems."""
    tag: KeySource | None = None
    """Source of the tag that is in RocketMQ's TAGS of messages from other systems; None: they have none."""


def read_topics(table: Table, key: Key[list[str]], topic: str | None) -> list[str]:
    """Read the topics of a source, which may have the key ``topic`` instead. Keeps or raises InputError."""
    if topic is None:
        topics = key.read(table)
        if not topics:
            table.keep(table.error(key.name, 'there is none; write topics = ["..."]'))
        for each in [each for each, times in Counter(topics).items() if times > 1]:
            table.keep(table.error(key.name, f"names {each!r} twice"), each)
        return topics
    if table.has(key.name):
        table.keep(table.error(key.name, "is given beside topic; write one of them"))
        key.read(table)
    return [topic]


def parse_destination(
    value: Any, names: Collection[str], topic_of: Callable[[str], str] = lambda name: name
) -> TopicDestination:
    """Return a destination from its form in a configuration, a topic or a table with these names. Raises ValueError."""
    texts = {"topic": value} if isinstance(value, str) else value
    if not isinstance(texts, dict) or not {"topic"} <= {*texts} <= {*names}:
        raise ValueError
    if not all(isinstance(each, str) for each in texts.values()):
        raise ValueError("each of them must be a text")
    try:
        key, tag = (parse_key_source(texts[name]) if name in texts else None for name in ("key", "tag"))
        return TopicDestination(topic_of(texts["topic"]), key, tag)
    except HashstarError as error:
        raise ValueError(str(error)) from None


def find_body_keys(destinations: Mapping[str, TopicDestination]) -> Collection[str]:
    """Return the queues for whose messages a key or a tag is a field of the body."""
    parts = {queue: [each.part for each in (to.key, to.tag) if each is not None] for queue, to in destinations.items()}
    return [queue for queue, each in parts.items() if "body" in each]


class KeyCache(Generic[K]):
    """The partitions of the latest keys of a topic; ``choose`` returns them first, None if a key decides nothing."""

    def __init__(self, choose: Callable[[K], int | None]) -> None:
        self._choose: Final = choose
        self._known: dict[K, int] = {}

    def partition_for(self, key: K) -> int | None:
        """Return the partition of a key."""
        partition = self._known.get(key)
        if partition is None and (partition := self._choose(key)) is not None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = partition
        return partition
