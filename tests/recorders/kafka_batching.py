"""Records runs of the Java producer's accumulator, by `Batching.java`: ``python -m tests.recorders.kafka_batching``.

A run is a producer with settings of its own and what happens to it, step by step: records of all sizes, with and
without a key, to one topic or two, searches for ready brokers, requests that take batches, brokers that take none,
leaders that go. In other runs the producer's own sender does all this by its clock, and brokers answer. Each step is
kept with its answer, and each record with the numbers that were drawn for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from exchange.partition.hashing.librdkafka import murmur2_partition
from tests.recorders import golden
from tests.recorders.jvm import QUICK, ask, find_classpath
from tests.recorders.kafka import JAVA

VERSIONS: Final = ("3.9.2", "4.4.0")
NAME: Final = "kafka-batching"
RECORDED: Final = 2_000
"""Records in the runs of each kind that are kept with the tests."""
TOPICS: Final = (("t",), ("t",), ("t", "u"), ("payments", "orders", "a-topic"))
MEMORY: Final = ("-Xmx2g",)


def generate_runs(random: Random, records: int, racks: bool) -> Iterator[str]:
    """Yield the commands of random runs, of this number of records in all."""
    while records > 0:
        count = min(records, random.choice((40, 100, 300)))
        records -= count
        yield from _run(random, count, racks)


def _run(random: Random, records: int, racks: bool) -> Iterator[str]:
    batch_size = random.choice((1, 200, 1_000, 16_384))
    linger = random.choice((0, 0, 5, 50))
    adaptive = random.random() < 0.75
    timeout = random.choice((0, 0, 20, 100))
    rack = " r0" if racks and random.random() < 0.4 else ""
    yield f"new {batch_size} {linger} {str(adaptive).lower()} {timeout}{rack}"
    topics = {topic: random.choice((1, 2, 3, 6, 12, 20)) for topic in random.choice(TOPICS)}
    nodes = random.choice((1, 2, 3))
    leaders = {(topic, id_): random.randrange(nodes) for topic, count in topics.items() for id_ in range(count)}
    yield _cluster(leaders, {}, racks)
    now = random.choice((0, 1_000_000_000_000))
    yield f"clock {now}"
    stalled = {node for node in range(nodes) if random.random() < 0.25}
    largest = random.choice((10, 100, 300, 2_000))
    largest = max(largest, batch_size // 4) if random.random() < 0.5 else largest
    keyed = random.choice((0, 0.1, 0.7))
    muted: set[str] = set()
    while records > 0:
        chance = random.random()
        if chance < 0.6:
            for _ in range(random.choice((1, 1, 5, 20))):
                records -= 1
                topic = random.choice(tuple(topics))
                target = random.randrange(topics[topic]) if random.random() < keyed else -1
                key = random.choice((-1, 0, 7, 70)) if target >= 0 or random.random() < 0.1 else -1
                value = random.choice((-1, 0, 1, random.randrange(largest), random.randrange(largest), largest))
                headers = random.choice((0,) * 40 + (1, 3) * 10 + (65,))
                stamp = now if random.random() < 0.8 else max(0, now + random.choice((-3_000_000_000, -70, 64, 9_000)))
                yield f"append {topic} {target} {key} {value} {headers} {stamp}"
        elif chance < 0.93:
            if random.random() < 0.6:
                now += random.choice((1, 3, 5, 30, 120))
                yield f"clock {now}"
            yield from _send(random, nodes, stalled, batch_size)
        elif chance < 0.96:
            lost = {at: None for at in leaders if random.random() < random.choice((0, 0.3, 0.8))}
            moved = {at: random.randrange(nodes) for at in leaders if random.random() < 0.1}
            leaders |= moved
            yield _cluster(leaders, lost, racks)
            stalled = {node for node in range(nodes) if random.random() < 0.25}
        else:
            name = "/".join(map(str, random.choice(tuple(leaders))))
            yield f"{'un' if name in muted else ''}mute {name}"
            muted ^= {name}
    if random.random() < 0.3:
        yield "flush"
        yield from _send(random, nodes, stalled, batch_size)


def generate_sender_runs(random: Random, records: int, racks: bool) -> Iterator[str]:
    """Yield the commands of random runs in which the producer's own sender takes batches, of this number of records."""
    while records > 0:
        count = min(records, random.choice((40, 100, 300)))
        records -= count
        yield from _run_with_sender(random, count, racks)


def _run_with_sender(random: Random, records: int, racks: bool) -> Iterator[str]:
    batch_size = random.choice((1, 200, 1_000))
    linger = random.choice((0, 5, 50))
    rack = " r0" if racks and random.random() < 0.3 else ""
    adaptive = str(random.random() < 0.75).lower()
    yield f"new {batch_size} {linger} {adaptive} {random.choice((0, 0, 20, 100))}{rack}"
    topics = {topic: random.choice((1, 2, 3, 6, 12, 20)) for topic in random.choice(TOPICS)}
    nodes = random.choice((1, 2, 3))
    leaders = {(topic, id_): random.randrange(nodes) for topic, count in topics.items() for id_ in range(count)}
    lost = {at: None for at in leaders if random.random() < random.choice((0, 0, 0, 0.3))}
    yield _cluster(leaders, lost, racks)
    now = random.choice((0, 1_000_000_000_000))
    yield f"clock {now}"
    yield f"sender {','.join(f'{node}:{random.choice((0, 1, 10, 200, 5_000))}' for node in range(nodes))}"
    largest = random.choice((10, 100, 300, 2_000))
    keyed = random.choice((0, 0.1, 0.7))
    for _ in range(records):
        if random.random() < 0.4:
            now += random.choice((1, 1, 3, 5, 30, 120))
            yield f"clock {now}"
        topic = random.choice(tuple(topics))
        key = random.choice((0, 7, 70)) if random.random() < keyed else -1
        target = murmur2_partition(bytes(key), topics[topic]) if key >= 0 else -1
        yield f"append {topic} {target} {key} {random.randrange(largest)} 0 {now}"


def _send(random: Random, nodes: int, stalled: set[int], batch_size: int) -> Iterator[str]:
    """Yield what the sender does: it searches for ready brokers, and those that are not stalled take batches."""
    yield "ready"
    for node in range(nodes):
        yield f"latency {node} {str(node not in stalled).lower()}"
        if node not in stalled:
            for _ in range(random.choice((0, 1, 1, 2))):
                yield f"drain {node} {random.choice((1, batch_size, 3 * batch_size, 1_048_576))}"
    yield "ready"


def _cluster(leaders: dict[tuple[str, int], int], lost: dict[tuple[str, int], None], racks: bool) -> str:
    items = []
    for (topic, id_), node in leaders.items():
        leader = "-" if (topic, id_) in lost else f"{node}@r{node % 2}" if racks else str(node)
        items.append(f"{topic}/{id_}:{leader}")
    return f"cluster {','.join(items)}"


def ask_batching(jars: str, commands: list[str]) -> list[Any]:
    """Return the answers of the kafka-clients on this class path."""
    answers: list[Any] = ask(JAVA / "Batching.java", jars, commands, *MEMORY, *QUICK)
    return answers


def record(version: str) -> None:
    """Record one version of kafka-clients."""
    random, racks = Random(f"batching {version}"), version >= "4.4"
    jars = find_classpath(f"org.apache.kafka:kafka-clients:{version}")
    fields = {}
    for name, commands in (
        ("accumulator", list(generate_runs(random, RECORDED, racks))),
        ("sender", list(generate_sender_runs(random, RECORDED, racks))),
    ):
        answers = ask_batching(jars, commands)
        fields[name] = [[command, answer] for command, answer in zip(commands, answers, strict=True)]
    golden.write(f"{NAME}-{version}", "kafka-clients", version, fields)


if __name__ == "__main__":
    for recorded in VERSIONS:
        record(recorded)
