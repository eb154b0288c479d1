"""Topics of a live broker for the tests of Kafka's endpoints: made, written to, read, and deleted at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from tests.support.unique import unique_name
from tests.support.waiting import find_limit, stretch, wait_until

ANSWER = 10.0


class Topics:
    """Makes topics at some brokers."""

    def __init__(self, bootstrap: str, settings: Mapping[str, Any] | None = None) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2, **(settings or {})}
        self.admin = AdminClient(self.settings)
        self.made: list[str] = []
        self._askers: dict[str, Consumer] = {}
        """Group -> a client that is no member of it, and only asks."""

    def make(
        self, partitions: int = 1, name: str = "", config: Mapping[str, str] | None = None, replicas: int = 1
    ) -> str:
        """Make a topic, and return its name."""
        topic = name or unique_name("topic")
        made = self.admin.create_topics([NewTopic(topic, partitions, replicas, config=dict(config or {}))])
        made[topic].result(find_limit())
        self.made.append(topic)
        deadline = time.monotonic() + find_limit()
        while topic not in self.admin.list_topics(timeout=find_limit()).topics:
            assert time.monotonic() < deadline
        return topic

    def configure(self, topic: str, setting: str, value: object) -> None:
        """Change a setting of a topic, while it is used."""
        self._configure(ConfigResource.Type.TOPIC, topic, setting, value)

    def configure_group(self, group: str, setting: str, value: object) -> None:
        """Change a setting of a group, which need not be there yet."""
        self._configure(ConfigResource.Type.GROUP, group, setting, value)

    def _configure(self, kind: Any, name: str, setting: str, value: object) -> None:
        entry = ConfigEntry(setting, str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for changed in self.admin.incremental_alter_configs([resource]).values():
            changed.result(find_limit())

    def put(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], **settings: Any) -> None:
        """Write keys and values, each to the partition that the Java client chooses for the key."""
        producer = Producer({**self.settings, "partitioner": "murmur2_random", "linger.ms": 5, **settings})
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
        assert producer.flush(find_limit()) == 0
        producer.close()

    def read(self, topic: str, count: int, seconds: float | None = None, **settings: Any) -> list[Any]:
        """Return all messages when there are ``count``, each partition in its order, without aborted ones."""
        consumer = Consumer(
            {**self.settings, "group.id": unique_name("group"), "enable.partition.eof": True, **settings}
        )
        found: list[Any] = []
        try:
            partitions = consumer.list_topics(topic, find_limit()).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
            deadline = time.monotonic() + (find_limit() if seconds is None else stretch(seconds))
            ends: set[int | None] = set()
            while (len(found) < count or len(ends) < len(partitions)) and time.monotonic() < deadline:
                for message in consumer.consume(1_000, 0.1):
                    if message.error() is None:
                        ends.discard(message.partition())
                        found.append(message)
                    else:
                        ends.add(message.partition())
        finally:
            consumer.close()
        return found

    def find_end(self, topic: str) -> int:
        """Return the end of the first partition of a topic."""
        at = TopicPartition(topic, 0)
        [answer] = self.admin.list_offsets({at: OffsetSpec.latest()}).values()  # type: ignore[no-untyped-call]
        return int(answer.result(find_limit()).offset)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Partition -> the offset that the group committed; what an open transaction would change it to is not."""
        return {each.partition: each.offset for each in self.positions(group, topic)}

    def positions(self, group: str, topic: str) -> list[TopicPartition]:
        """Return what the group committed for each partition."""
        deadline = time.monotonic() + find_limit()
        # By default, brokers answer only when no transaction is open, be it that of a process that was killed.
        own = {"group.id": group, "isolation.level": "read_uncommitted", "reconnect.backoff.max.ms": 1_000}
        if group not in self._askers:
            self._askers[group] = Consumer({**self.settings, **own})
        consumer = self._askers[group]
        while True:
            try:
                partitions = consumer.list_topics(topic, ANSWER).topics[topic].partitions
                found = consumer.committed([TopicPartition(topic, number) for number in partitions], ANSWER)
            except KafkaException:  # as from a broker that is starting
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return found

    @contextmanager
    def not_allowed(
        self, topic: str, operation: AclOperation, what: ResourceType = ResourceType.TOPIC
    ) -> Iterator[None]:
        """With everybody's right to a topic, or to what else has this name, taken away."""
        where = (what, topic, ResourcePatternType.LITERAL, "User:*", "*")
        rest = (*where, AclOperation.ALL, AclPermissionType.ALLOW)
        denied = (*where, operation, AclPermissionType.DENY)
        for made in self.admin.create_acls([AclBinding(*rest), AclBinding(*denied)]).values():
            made.result(find_limit())
        if what == ResourceType.TOPIC:  # a broker hears of it a moment later
            wait_until(lambda: not self._is_allowed(topic, operation))
        try:
            yield
        finally:
            for gone in self.admin.delete_acls([AclBindingFilter(*rest), AclBindingFilter(*denied)]).values():
                gone.result(find_limit())

    def _is_allowed(self, topic: str, operation: Any) -> bool:
        asked = self.admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
        try:
            return operation in asked[topic].result(find_limit()).authorized_operations
        except KafkaException:  # not even to be described
            return False

    def delete(self) -> None:
        """All that were made. Nothing can be asked from now on."""
        for asker in self._askers.values():
            asker.close()
        if self.made:
            # One that was there while a broker was restarted may wait for ever for the controller.
            admin = AdminClient(self.settings)
            for deleted in admin.delete_topics(self.made).values():
                deleted.result(find_limit())


@contextmanager
def topics_at(bootstrap: str, settings: Mapping[str, Any] | None = None) -> Iterator[Topics]:
    """Topics that are deleted at the end."""
    topics = Topics(bootstrap, settings)
    try:
        yield topics
    finally:
        topics.delete()
