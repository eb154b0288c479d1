"""Records what the Java producer's own classes choose, a version of each era: ``python -m tests.recorders.kafka``.

Keys: their hashes and partitions out of each count. Sequences: what a producer without keys is made to do, step by
step, and after each step what it answered and which numbers it drew from Java's random generator. They are recorded
with their answers, so that the tests need only the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath
from tests.recorders.keys import COUNTS, KEYS

JAVA: Final = Path(__file__).parent / "kafka_java"

LONE: Final = ("\ud800", "a\udfff", "\udc00\ud800b")
"""Strings with halves of surrogate pairs, which UTF-8 has no bytes for."""


def _bytes() -> tuple[bytes, ...]:
    random = Random(1)
    return tuple(random.randbytes(length) for length in (*range(1, 40), 100, 255, 256, 257, 1000))


BYTES: Final = _bytes()
"""Keys that are not UTF-8, but for the first ones by chance."""

DEFAULT: Final = "internals.DefaultPartitioner"
BUILT_IN: Final = "internals.BuiltInPartitioner 16384"

VERSIONS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "0.8.2.2": ("internals.Partitioner", {"one counter": "internals.Partitioner"}),
    "0.9.0.1": (DEFAULT, {"one counter": DEFAULT}),
    "0.10.2.2": (DEFAULT, {"counter": DEFAULT}),
    "2.4.1": (
        DEFAULT,
        {"sticky": DEFAULT, "uniform sticky": "UniformStickyPartitioner", "round robin": "RoundRobinPartitioner"},
    ),
    "3.3.2": (BUILT_IN, {"built in": "internals.BuiltInPartitioner", "round robin": "RoundRobinPartitioner"}),
    "3.9.2": (
        BUILT_IN,
        {
            "built in": "internals.BuiltInPartitioner",
            "sticky": DEFAULT,
            "uniform sticky": "UniformStickyPartitioner",
            "round robin": "RoundRobinPartitioner",
        },
    ),
    "4.4.0": (BUILT_IN, {"built in": "internals.BuiltInPartitioner", "round robin": "RoundRobinPartitioner"}),
}
"""Version -> the class that keys are asked of, and what is asked for sequences -> its class."""

SCALA: Final = "0.8.2.2"
ACCUMULATORS: Final = ("3.9.2", "4.4.0")


def partitions(random: Random, racks: int = 0) -> str:
    """Return random partitions in random order, in the form that the Java sources read: ``2!,0,1@rack@host``."""
    count = random.choice((1, 2, 3, 3, 4, 7, 12))
    lost = random.choice((0, 0, 0.3, 0.7, 1))
    ids = random.sample(range(count), count)
    texts = []
    for id_ in ids:
        rack = f"@r{random.randrange(racks)}@h{random.randrange(racks)}" if racks else ""
        texts.append(f"{id_}{'!' if random.random() < lost else ''}{rack}")
    return ",".join(texts)


def counted(random: Random, made: str, one: bool, again: bool) -> Iterator[str]:
    """Strategies with counters, of one topic or of two; around the greatest and the least int."""
    for start in (0, 5, -1, -7, 2**31 - 3, -(2**31), -(2**31) + 5, 123_456_789):
        topics = ("t", "u")
        yield f"new {made}"
        for topic in ("*",) if one else topics:
            yield f"counter {start} {topic}"
        known = partitions(random)
        for _ in range(40):
            known = partitions(random) if random.random() < 0.1 else known
            topic = random.choice(topics)
            yield f"choose {topic} {known}"
            if again and random.random() < 0.3:
                yield f"again {topic} {known}"


def stuck(random: Random, made: str) -> Iterator[str]:
    """Sticky strategies, with new batches for the sticky partition and for others."""
    for _ in range(12):
        yield f"new {made}"
        known = partitions(random)
        for _ in range(40):
            known = partitions(random) if random.random() < 0.1 else known
            topic = random.choice(("t", "u"))
            chance = random.random()
            if chance < 0.7:
                yield f"choose {topic} {known}"
                if chance < 0.4:
                    yield f"again {topic} {known}"
            else:
                yield f"batch {topic} {known} {random.randrange(known.count(',') + 1)}"


def built_in(random: Random, made: str, racks: int) -> Iterator[str]:
    """KIP-794: sizes and loads as they come, and more partitions than answer."""
    for turn in range(40):
        rack = " r0" if racks and turn % 2 else ""
        size = random.choice((1, 100, 16_384))
        yield f"new {made} {size}{rack}"
        known = partitions(random, racks)
        for _ in range(40):
            known = partitions(random, racks) if random.random() < 0.1 else known
            chance = random.random()
            if chance < 0.3:
                yield f"choose t {known}"
            elif chance < 0.8:
                grown = random.choice((0, 1, size // 3, size - 1, size, 2 * size))
                yield f"append {known} {grown} {random.choice(('true', 'true', 'false'))}"
            else:
                led = sorted(int(text.split("@")[0]) for text in known.split(",") if "!" not in text)
                room = known.count(",") + 1
                answering = [id_ for id_ in led if random.random() < 0.8] if random.random() < 0.5 else led
                if random.random() < 0.1 or not answering:
                    yield f"stats {known} - - {room}"
                else:
                    most = random.choice((1, 2, 5))
                    sizes = ",".join(str(random.randrange(most)) for _ in answering)
                    yield f"stats {known} {sizes} {','.join(map(str, answering))} {room}"


def accumulated(random: Random, racks: int) -> Iterator[str]:
    """Real batches: records with and without a key, batches sent, brokers that do not answer."""
    for turn in range(12):
        rack = " r0" if racks and turn % 2 else ""
        timeout = random.choice((0, 100))
        known = partitions(random, racks)
        count = known.count(",") + 1
        yield f"new 500 {timeout}{rack}"
        for id_ in range(count):
            yield f"append {known} {id_} 10"
        for _ in range(60):
            chance = random.random()
            id_ = random.randrange(count)
            if chance < 0.6:
                yield f"append {known} -1 {random.choice((0, 10, 100, 400, 700))}"
            elif chance < 0.7:
                yield f"append {known} {id_} {random.choice((10, 400))}"
            elif chance < 0.8:
                yield f"sent {id_}"
            elif chance < 0.85:
                yield f"latency {id_} {random.randrange(1000)} {random.choice(('true', 'false'))}"
            else:
                yield f"ready {known}"


def unanswered(random: Random, racks: int) -> Iterator[str]:
    """Queues of all lengths, of brokers of which some took nothing for longer than the timeout, or just as long."""
    for turn in range(60):
        rack = " r0" if racks and turn % 2 else ""
        known = partitions(random, racks)
        yield f"new 500 100{rack}"
        for id_ in range(known.count(",") + 1):
            for _ in range(random.randrange(1, 4)):
                yield f"append {known} {id_} 600"
            if random.random() < 0.4:
                yield f"sent {id_}"
            if random.random() < 0.7:
                yield f"latency {id_} 0 true"
                yield f"latency {id_} {random.choice((0, 99, 100, 101, 200))} false"
        yield f"ready {known}"
        yield f"append {known} -1 10"


def scala(random: Random) -> Iterator[str]:
    """Yield questions to the Scala producer: which partition it keeps until its metadata is refreshed."""
    for _ in range(300):
        ids = random.sample(range(7), 7)
        leaders = ["", *(random.choice(("", "!")) for _ in ids[1:])]  # without any it throws
        random.shuffle(leaders)
        known = ",".join(f"{id_}{leader}" for id_, leader in zip(ids, leaders, strict=True))
        yield f"choose {random.choice('tu')} {known}"
        if random.random() < 0.3:
            yield "refresh"


def _keys(texts: tuple[str, ...], raw: tuple[bytes, ...] = ()) -> list[str]:
    counts = ",".join(map(str, COUNTS))
    commands = [f"text {text.encode('utf-16-be', 'surrogatepass').hex()} {counts}" for text in texts]
    return commands + [f"bytes {data.hex()} {counts}" for data in raw]


def _ask(source: str, jars: str, commands: list[str]) -> list[list[Any]]:
    """Each command with its answer."""
    answers = ask(JAVA / source, jars, commands)
    return [list(pair) for pair in zip(commands, answers, strict=True)]


def _sequence(kind: str, made: str, version: str) -> list[str]:
    random = Random(f"{kind} {version}")
    later = not version.startswith("4")
    if kind in ("counter", "one counter", "round robin"):
        return list(counted(random, made, kind == "one counter", kind == "round robin" and later))
    if kind == "built in":
        return list(built_in(random, made, 0 if later else 3))
    return list(stuck(random, made))


def record(version: str) -> None:
    """One version of kafka-clients."""
    keyed, kinds = VERSIONS[version]
    jars = find_classpath(f"org.apache.kafka:kafka-clients:{version}")
    commands = [f"new {keyed}", *_keys(KEYS + LONE, BYTES)]
    answers: dict[str, Any] = {"keys": ask(JAVA / "Partitioners.java", jars, commands)[1:]}
    for kind, made in kinds.items():
        answers[kind] = _ask("Partitioners.java", jars, _sequence(kind, made, version))
    if version in ACCUMULATORS:
        random, racks = Random(f"accumulator {version}"), 0 if version.startswith("3") else 3
        commands = [*accumulated(random, racks), *unanswered(random, racks)]
        answers["accumulator"] = _ask("Accumulator.java", jars, commands)
    golden.write(f"kafka-clients-{version}", "kafka-clients", version, answers)


def record_scala() -> None:
    """Record the Scala producer."""
    jars = find_classpath(f"org.apache.kafka:kafka_2.10:{SCALA}")
    answers = {
        "keys": ask(JAVA / "ScalaProducer.java", jars, _keys(KEYS + LONE)),
        "sequence": _ask("ScalaProducer.java", jars, list(scala(Random(0)))),
    }
    golden.write(f"kafka-scala-{SCALA}", "kafka_2.10", SCALA, answers)


if __name__ == "__main__":
    for recorded in VERSIONS:
        record(recorded)
    record_scala()
