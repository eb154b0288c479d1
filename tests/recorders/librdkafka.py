"""What the real librdkafka does: ``python -m tests.recorders.librdkafka``.

Its public hash functions are asked, and its producer, which sends to the mock cluster inside librdkafka; the delivery
reports tell the partitions. The mock cluster is of a second librdkafka handle, opened by ctypes, since confluent-kafka
has no way to say how many partitions a topic has, or to take a partition's leader away.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS

PARTITIONERS: Final = (
    "random", "consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random",
)  # fmt: skip

LEAST_FNV1A: Final = ("Hfma8K", "Y7Tdo2", "my6hYD")
"""Strings whose FNV-1a is 0x80000000, the least integer when signed."""

SAMPLE: Final = 60
"""How many records are sent over the most partitions where chance may decide; it would not decide alike for all."""

PRODUCER: Final = 0
NO_LEADER: Final = -1


class MockCluster:
    """Brokers inside librdkafka, with topics of as many partitions as one likes."""

    def __init__(self) -> None:
        package = Path(confluent_kafka.__file__).parent
        (file,) = package.parent.glob("confluent_kafka.libs/librdkafka*")
        self._library: Final = ctypes.CDLL(str(file))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        said = ctypes.create_string_buffer(512)
        configuration = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        handle = self._library.rd_kafka_new(PRODUCER, configuration, said, ctypes.c_size_t(len(said)))
        if not handle:
            raise RuntimeError(said.value.decode())
        self._cluster: Final = ctypes.c_void_p(
            self._library.rd_kafka_mock_cluster_new(ctypes.c_void_p(handle), ctypes.c_int(1))
        )

    @property
    def bootstrap(self) -> str:
        """Value for ``bootstrap.servers``."""
        return str(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1))

    def lead(self, topic: str, partition: int | None, broker: int) -> None:
        """Give a partition to a broker, or to none."""
        self._check(self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker))

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise RuntimeError(confluent_kafka.KafkaError(code).str())


@contextmanager
def _producer(bootstrap: str, **properties: Any) -> Iterator[confluent_kafka.Producer]:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    producer = confluent_kafka.Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000, **names,
    })  # fmt: skip
    yield producer
    if producer.flush(60):
        raise RuntimeError("librdkafka did not deliver all records")


def partitions_of(bootstrap: str, topic: str, keys: Iterable[bytes | None], **properties: Any) -> list[int]:
    """Return the partitions that a producer with these properties sends the keys to, by the delivery reports, in order.

    The value of each record is its place.
    """
    asked = list(keys)
    chosen: dict[int, int] = {}

    def delivered(place: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            if error is not None:
                raise RuntimeError(error.str())
            chosen[place] = message.partition()

        return report

    with _producer(bootstrap, **properties) as producer:
        # Records sent before the topic is known are partitioned together later, which time would show.
        producer.list_topics(topic, 30)
        for place, key in enumerate(asked):
            if place and key is None and asked[place - 1] is not None:
                # A partition is available once the thread of its broker has it; until then the sticky one changes.
                producer.flush(60)
            producer.produce(topic, str(place), key, on_delivery=delivered(place))
            producer.poll(0)
    return [chosen[place] for place in range(len(asked))]


def _sticky_window(bootstrap: str, topic: str, linger: int) -> dict[str, Any]:
    """Send records without a key every few milliseconds; return times, partitions and librdkafka's logged draws."""
    said: list[str] = []

    class Log:
        """librdkafka's debug messages."""

        @staticmethod
        def log(level: int, line: str, *arguments: Any) -> None:
            said.append(line % arguments)

    sent: list[int] = []
    chosen: list[int | None] = []
    names = {"debug": "topic", "logger": Log, "sticky.partitioning.linger.ms": linger}
    with _producer(bootstrap, partitioner="murmur2_random", **names) as producer:
        producer.list_topics(topic, 30)
        start = time.monotonic()
        for _ in range(SAMPLE):
            sent.append(round((time.monotonic() - start) * 1000))
            producer.produce(topic, b"", on_delivery=lambda _, message: chosen.append(message.partition()))
            producer.flush(10)
            time.sleep(0.02)
    drawn = [int(found[1]) for line in said if (found := re.search(r"\[(\d+)\] is the new sticky partition", line))]
    return {"linger": linger, "sent": sent, "partitions": chosen, "drawn": drawn}


def _leader_lost(cluster: MockCluster, topic: str, partitions: int) -> dict[str, Any]:
    """Return the partitions of records without a key before and after their sticky partition has lost its leader."""
    cluster.create(topic, partitions)
    properties: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 100, "sticky.partitioning.linger.ms": 900_000}
    before: list[int | None] = []
    after: list[int | None] = []

    def report_to(chosen: list[int | None]) -> Callable[[Any, Any], None]:
        return lambda _, message: chosen.append(message.partition())

    with _producer(cluster.bootstrap, **properties) as producer:
        for chosen in before, after:
            for _ in range(20):
                producer.produce(topic, b"", on_delivery=report_to(chosen))
                producer.flush(10)
            cluster.lead(topic, chosen[-1], NO_LEADER)
            # Several refreshes of the metadata.
            time.sleep(1)
    return {"before": before, "after": after}


def main() -> None:
    """Record."""
    keys = [key.encode() for key in (*KEYS, *LEAST_FNV1A)]
    answers: dict[str, Any] = {}
    for name in ("consistent", "murmur2", "fnv1a"):
        function = getattr(confluent_kafka, name)
        for count in COUNTS:
            answers[f"{name}() {count}"] = [function(key, count) for key in keys]
    cluster = MockCluster()
    for count in COUNTS:
        cluster.create(f"of-{count}", count)
    for name in PARTITIONERS:
        for count in COUNTS if name != "random" else ():
            partitions = partitions_of(cluster.bootstrap, f"of-{count}", keys, partitioner=name)
            answers[f"{name} {count}"] = partitions
        for kind, key in ("null", None), ("empty", b""), ("other", b"other"):
            for linger in (0, 900_000):
                sample = partitions_of(
                    cluster.bootstrap, f"of-{max(COUNTS)}", [key] * SAMPLE, partitioner=name,
                    sticky_partitioning_linger_ms=linger,
                )  # fmt: skip
                answers[f"{name} {kind} linger {linger}"] = sample
    answers["sticky window"] = _sticky_window(cluster.bootstrap, f"of-{max(COUNTS)}", 100)
    answers["leader lost"] = _leader_lost(cluster, "leader-lost", max(COUNTS))
    library, _ = confluent_kafka.libversion()
    golden.write(
        f"librdkafka-{library}", f"librdkafka, by confluent-kafka {confluent_kafka.__version__}", library, answers
    )


if __name__ == "__main__":
    main()
