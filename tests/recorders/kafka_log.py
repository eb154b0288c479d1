"""Record the segments of real brokers: ``python -m tests.recorders.kafka_log``.

A broker of each version runs on this machine; Kafka's own producers of the same version fill topics in every way that
shows in a log, its consumers tell what there is to be read, and the folders of the topics are kept in an archive of
tar. Messages of the old formats, which no such broker writes any more, are written by Kafka's classes alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.brokers import install, run_server
from tests.recorders.jvm import ask
from tests.support.unique import free_ports

JAVA: Final = Path(__file__).parent / "kafka_java"
VERSIONS: Final = ("3.9.2", "4.3.1")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL: Final = {"segment.index.bytes": "4096", "index.interval.bytes": "200", "retention.ms": "-1"}
ROLLED: Final = {"segment.ms": "500"}
"""Settings that begin a new segment with records that are appended after a while."""
TOPICS: Final[dict[str, dict[str, str]]] = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "transactions": {},
    "rolled-transactions": ROLLED,
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"} | ROLLED,
    "preallocated": {"preallocate": "true", "segment.bytes": str(1 << 20)},
}


def _record(random: Random, n: int, key: bytes | None = None) -> dict[str, Any]:
    def text(data: bytes | None) -> str | None:
        return None if data is None else b64encode(data).decode()

    words = (b"order", b"paid", "größe".encode(), b"\xff\0", b"")
    headers = [("h", str(n).encode()), ("h", None), ("b\xfc", random.choice(words)), ("", b"")]
    return {
        "key": text(key if key is not None else random.choice((None, b"", b".".join(random.choices(words, k=3))))),
        "value": text(random.choice((None, b"", random.choice(words) * random.randrange(40)))),
        "headers": [(name, text(value)) for name, value in headers[: random.randrange(5)]],
        "time": 1_700_000_000_000 + n * 7,
    }


def _send(topic: str, count: int, producer: str = "/", keys: int = 0) -> dict[str, Any]:
    random = Random(f"{topic} {count} {producer}")
    records = [_record(random, n, b"k%d" % (n % keys) if keys else None) for n in range(count)]
    return {"do": "send", "topic": topic, "producer": producer, "records": records}


def _steps() -> list[dict[str, Any]]:
    def act(what: str, producer: str) -> dict[str, Any]:
        return {"do": what, "producer": producer}

    one, two, three = "/one", "zstd/two", "/three"
    steps = [_send(f"codec-{codec}", count, f"{codec}/") for codec in CODECS for count in (13, 1, 12, 2, 11, 3)]
    steps += [_send("append-time", 20), _send("preallocated", 30)]
    both = "transactions"
    steps += [
        act("begin", one), _send(both, 3, one), act("begin", two), _send(both, 4, two), _send(both, 2),
        _send(both, 1, one), act("commit", one), _send(both, 5, two), act("abort", two), _send(both, 2),
        act("begin", one), _send(both, 6, one), act("abort", one), act("begin", two), _send(both, 7, two),
        act("commit", two), act("begin", three), _send(both, 3, three), _send(both, 2),
    ]  # fmt: skip
    rolled, pause = "rolled-transactions", {"sleep": 1500}
    steps += [
        act("begin", one), _send(rolled, 3, one), act("begin", two), _send(rolled, 4, two), pause,
        _send(rolled, 2, two), act("commit", one), pause, _send(rolled, 2), act("abort", two), pause, _send(rolled, 1),
    ]  # fmt: skip
    for _ in range(4):
        steps += [_send("compacted", 40, "lz4/", keys=9), pause]
    steps += [_send("compacted", 1, keys=1), {"sleep": 8000}]
    later = 0
    for step in steps:
        later += 10_000 if "sleep" in step else 0
        for fields in step.get("records", ()):
            fields["time"] += later  # new segments begin as the times of records say, not as the clock does
    return steps


def record(version: str) -> None:
    """One version."""
    with install("kafka", version) as home, tempfile.TemporaryDirectory() as folder:
        data, jars = Path(folder) / "data", f"{home}/libs/*"
        port, controller = map(str, free_ports(2))
        environment = {
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
            "KAFKA_LOG_DIRS": str(data),
            "KAFKA_LOG_CLEANER_BACKOFF_MS": "500",
        }
        subprocess.run([home / "kafka", "format"], env=os.environ | environment, check=True, timeout=60)
        with run_server([str(home / "kafka"), "run"], environment, Path(folder) / "log", b"Kafka Server started"):
            question = {
                "bootstrap": f"127.0.0.1:{port}",
                "topics": {topic: settings | SMALL for topic, settings in TOPICS.items()},
                "steps": _steps(),
            }
            ask(JAVA / "Log.java", jars, question)
            answers = ask(JAVA / "Log.java", jars, {"bootstrap": question["bootstrap"], "consume": [*TOPICS]})
            with tarfile.open(golden.GOLDEN / f"kafka-log-{version}.tar.gz", "w:gz") as kept:
                for topic in TOPICS:  # while it runs: it cuts off what it keeps free when it ends
                    kept.add(data / f"{topic}-0", f"{topic}-0", filter=drop_owner)
        recording = {
            topic: {
                "records": read["read_uncommitted"],
                "committed": [each["offset"] for each in read["read_committed"]],
            }
            for topic, read in answers.items()
        }
        golden.write(f"kafka-log-{version}", "kafka-clients KafkaProducer, KafkaConsumer", version, recording)
        if version.startswith("3."):
            old = ask(JAVA / "OldLog.java", jars, None)
            golden.write(f"kafka-old-log-{version}", "kafka-clients MemoryRecords", version, {"logs": old})


def drop_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of an archive without owner and time, so that a recording has neither."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    for recorded in sys.argv[1:] or VERSIONS:
        record(recorded)
