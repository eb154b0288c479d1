"""Record the segments of brokers before 0.11: ``python -m tests.recorders.kafka_old_log``.

A ZooKeeper and a broker of each version run on this machine, from the jars of Maven, as Kafka's start scripts run them.
The producer of the same version fills topics with each compression, its consumer tells what there is to be read, and
the folders of the topics are kept in an archive of tar. Brokers of 0.8 write message format 0. Those of 0.10 write
format 1, and format 0 into topics whose setting says so; a topic of which the setting changes has both.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.recorders import golden
from tests.recorders.brokers import run_server
from tests.recorders.jvm import QUICK, find_classpath, make_command
from tests.recorders.kafka_log import drop_owner
from tests.support.unique import free_ports

JAVA: Final = Path(__file__).parent / "kafka_java"
VERSIONS: Final = ("0.8.2.2", "0.10.2.2")
CODECS: Final = ("none", "gzip", "snappy", "lz4")
SETTINGS: Final = {
    "host.name": "127.0.0.1", "advertised.host.name": "127.0.0.1", "broker.id": "0", "num.partitions": "1",
    "index.interval.bytes": "400", "log.index.interval.bytes": "400", "log.index.size.max.bytes": "65536",
    "log.cleaner.enable": "true", "log.cleaner.dedupe.buffer.size": "4000000", "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "200", "log.cleaner.min.cleanable.ratio": "0.01", "controlled.shutdown.enable": "false",
    "log.retention.hours": "200000", "offsets.topic.num.partitions": "1",
}  # fmt: skip
COUNT: Final = 160
"""Number of records of each recorded topic; `MIXED` has as many of each format."""
MIXED: Final = "both-formats"


class OldRecord(NamedTuple):
    """A record as a consumer of the release read it."""

    topic: str
    offset: int
    time: int
    """Milliseconds since 1970; -1 in format 0."""
    kind: str
    """Type of the time: NoTimestampType, CreateTime, LogAppendTime."""
    key: str | None
    """Base64."""
    value: str | None


class OldBroker(NamedTuple):
    """A broker that runs."""

    version: str
    address: str
    zookeeper: str
    data: Path
    jars: str

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of Kafka's own; its main class is ``program``."""
        command = ["java", *QUICK, "-cp", self.jars, program, *arguments]
        subprocess.run(command, check=True, timeout=120, capture_output=True)

    def create(self, topic: str, **settings: str) -> None:
        """Create a topic with one partition."""
        config = [
            word for name, value in settings.items() for word in ("--config", f"{name.replace('_', '.')}={value}")
        ]
        where = ["--zookeeper", self.zookeeper, "--topic", topic, "--partitions", "1", "--replication-factor", "1"]
        self.run("kafka.admin.TopicCommand", "--create", *where, *config)

    def change(self, topic: str, setting: str, value: str) -> None:
        """Change a setting of a topic; the broker obeys it a moment later."""
        where = ["--zookeeper", self.zookeeper, "--entity-type", "topics", "--entity-name", topic]
        self.run("kafka.admin.ConfigCommand", "--alter", *where, "--add-config", f"{setting}={value}")
        time.sleep(2)

    def send(self, count: int, *topics: tuple[str, str]) -> None:
        """Send this many records to each topic, by the producer of the release with a compression."""
        names = [f"{topic}={codec}" for topic, codec in topics]
        command = make_command(JAVA / "OldProducer.java", self.jars)
        subprocess.run([*command, self.address, str(count), *names], check=True, timeout=1800, capture_output=True)

    def read(self, *topics: str) -> Iterator[OldRecord]:
        """Yield all records of the topics, as the consumer of the release reads them."""
        source = "ScalaConsumer.java" if self.version.startswith("0.8.") else "OldConsumer.java"
        with tempfile.TemporaryFile("w+") as output:
            command = make_command(JAVA / source, self.jars)
            subprocess.run(
                [*command, self.address, *topics], stdout=output, stderr=subprocess.DEVNULL, check=True, timeout=1800
            )
            output.seek(0)
            for line in output:
                topic, offset, time, kind, *data = line.split()
                key, value = (None if text == "-" else text[1:] for text in data)
                yield OldRecord(topic, int(offset), int(time), kind, key, value)


@contextmanager
def run_broker(version: str, **settings: str) -> Iterator[OldBroker]:
    """Yield a broker of this version, with a ZooKeeper of its own. Java 17 lacks a package that 0.10 uses."""
    jars = find_classpath(f"org.apache.kafka:kafka_2.11:{version}", "javax.xml.bind:jaxb-api:2.3.1")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        data, home = Path(folder) / "data", Path(folder)
        zookeeper, port = map(str, free_ports(2))
        (home / "log4j.properties").write_text(
            "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%m%n\n"
        )
        java = ["java", "-Xmx512m", f"-Dlog4j.configuration=file:{home}/log4j.properties", "-cp", jars]
        keeper = [*java, "org.apache.zookeeper.server.ZooKeeperServerMain", zookeeper, str(home / "zookeeper")]
        running.enter_context(run_server(keeper, {}, home / "zookeeper.log", b"binding to port"))
        own = {"port": port, "advertised.port": port, "zookeeper.connect": f"127.0.0.1:{zookeeper}", "log.dirs": data}
        lines = [f"{name}={value}\n" for name, value in {**SETTINGS, **own, **settings}.items()]
        (home / "server.properties").write_text("".join(lines))
        server = [*java, "kafka.Kafka", str(home / "server.properties")]
        running.enter_context(run_server(server, {}, home / "kafka.log", b"[Kafka Server 0], started"))
        yield OldBroker(version, f"127.0.0.1:{port}", f"127.0.0.1:{zookeeper}", data, jars)


def topics_of(version: str) -> list[tuple[str, str, dict[str, str]]]:
    """Return the topics of a recording: name, compression of the producer, settings."""
    plain: list[tuple[str, str, dict[str, str]]] = [(f"codec-{codec}", codec, {}) for codec in CODECS]
    compacted = [
        (f"compacted-{codec}", codec, {"cleanup_policy": "compact", "segment_ms": "500"}) for codec in CODECS[:2]
    ]
    if version.startswith("0.8."):
        return [*plain, *compacted]
    return [
        *plain,
        *compacted,
        *[(f"format-0-{codec}", codec, {"message_format_version": "0.9.0"}) for codec in CODECS],
        (MIXED, "none", {"message_format_version": "0.9.0"}),
        *[(f"append-time-{codec}", codec, {"message_timestamp_type": "LogAppendTime"}) for codec in CODECS[:2]],
    ]


def record(version: str) -> None:
    """Record one version."""
    with run_broker(version) as broker:
        topics = topics_of(version)
        for topic, _, settings in topics:
            broker.create(topic, **settings)
        broker.send(COUNT, *[(topic, codec) for topic, codec, _ in topics])
        time.sleep(1)  # so that what follows begins new segments, and those before it can be compacted
        broker.send(3, *[(topic, codec) for topic, codec, _ in topics if topic.startswith("compacted")])
        time.sleep(5)
        if not version.startswith("0.8."):
            broker.change(MIXED, "message.format.version", "0.10.2")
            broker.send(COUNT, (MIXED, "gzip"))
        answers: dict[str, Any] = {topic: [] for topic, _, _ in topics}
        for read in broker.read(*answers):
            answers[read.topic].append([read.offset, read.time, read.kind, read.key, read.value])
        with tarfile.open(golden.GOLDEN / f"kafka-old-log-{version}.tar.gz", "w:gz") as kept:
            for topic in answers:
                kept.add(broker.data / f"{topic}-0", f"{topic}-0", filter=drop_owner)
    client = "SimpleConsumer" if version.startswith("0.8.") else "KafkaConsumer"
    golden.write(f"kafka-old-log-{version}", f"kafka {client}", version, answers)


if __name__ == "__main__":
    for recorded in sys.argv[1:] or VERSIONS:
        record(recorded)
