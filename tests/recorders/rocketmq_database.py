"""Record stores whose queues, configuration and timer are in RocksDB: ``python -m tests.recorders.rocketmq_database``.

A broker of 5.5 runs on this machine in each of `VARIANTS`. Messages are sent, delayed and consumed in part, mqadmin
tells of queues and of a group, and the store is kept in an archive of tar: as it is while the broker runs, and after it
has ended.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from tests.recorders import golden
from tests.recorders.brokers import find_rocketmq_ports, install, run_server
from tests.recorders.kafka_log import drop_owner
from tests.support.rocketmq.groups import consumer_of

VERSION: Final = "5.5.0"
ROCKSDB: Final = {"storeType": "defaultRocksDB"}
VARIANTS: Final[dict[str, dict[str, str]]] = {
    "separate": ROCKSDB,
    "single": ROCKSDB | {"useSingleRocksDBForAllConfigs": "true", "timerRocksDBEnable": "true"},
    "files": {},
}
"""Name of a recording -> settings of its broker; the last one has the timer and all else in files."""
SMALL: Final = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "mappedFileSizeTimerLog": "5200",
}
TOPICS: Final = {"orders": 4, "later": 2, "rmq_sys_wheel_timer": 1, "SCHEDULE_TOPIC_XXXX": 18}
GROUP: Final = "g1"
LEFT_OUT: Final = ("logs", "lock", "timerwheel", "LOCK")
"""Names of files that are large and empty, or say nothing."""
STATUS: Final = re.compile(r"^(\S+) +(\d+) +(\d+) +(\d+) ", re.MULTILINE)
PROGRESS: Final = re.compile(r"^(\S+) +(\S+) +(\d+) +(\d+) +(\d+) +(\d+) ", re.MULTILINE)


async def fill(namesrv: str) -> None:
    """Send messages, of which some are delayed, and consume a part of them."""
    async with Client(ClientSettings(namesrv)) as client:
        for topic in ("orders", "later"):
            await admin.create_topic(client, admin.TopicConfig(topic, TOPICS[topic], TOPICS[topic]))
        async with Producer(client, ProducerSettings("recorder")) as producer:
            for n in range(60):
                tag = ("red", "blue", None)[n % 3]
                await producer.send(
                    RocketMessage.build("orders", b"body %d" % n, {"n": str(n)}, tags=tag, keys=(f"k{n % 7}",))
                )
            now = int(time.time() * 1000)
            delays = [3_600_000 + n * 60_000 for n in range(9)] + [2_000] * 3
            for delay in delays:
                await producer.send(RocketMessage.build("later", b"timer", {}, deliver_ms=now + delay))
            for _ in range(4):
                await producer.send(RocketMessage.build("later", b"level", {}, delay_level=18))
        async with consumer_of(client, "orders", group=GROUP) as consumer:
            count = 0
            while count < 30:
                found = await consumer.receive(10)
                count += len(found)
                assert all(consumer.done(each) for each in found)
            await consumer.persist()
        await asyncio.sleep(8)


def ask(home: Path, namesrv: str) -> dict[str, Any]:
    """Return what mqadmin shows of the topics and of the group."""

    def run(*arguments: str) -> str:
        main = "org.apache.rocketmq.tools.command.MQAdminStartup"
        command = ["java", "-cp", f"{home}/libs/*", main, *arguments, "-n", namesrv]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    queues = {
        topic: [[int(each) for each in row[1:]] for row in STATUS.findall(run("topicStatus", "-t", topic))]
        for topic in TOPICS
    }
    progress = PROGRESS.findall(run("consumerProgress", "-g", GROUP))
    return {"queues": queues, "progress": [[topic, *map(int, numbers)] for topic, _, *numbers in progress]}


def keep(folder: Path, name: str) -> None:
    """Keep a store in an archive of tar."""
    with tarfile.open(golden.GOLDEN / f"{name}.tar.gz", "w:gz") as kept:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and not {*LEFT_OUT}.intersection(parts):
                kept.add(path, "/".join(parts), filter=drop_owner)


def record(variant: str) -> None:
    """Record one variant."""
    with install("rocketmq", VERSION) as home, tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        namesrv, port = find_rocketmq_ports()
        options = SMALL | VARIANTS[variant] | {"listenPort": port, "brokerIP1": "127.0.0.1"}
        settings = {"NAMESRV_PORT": namesrv, "ROCKETMQ_DATA": str(data)}
        settings |= {f"ROCKETMQ_{name}": value for name, value in options.items()}
        with run_server([str(home / "rocketmq"), "run"], settings, data / "log", b"The broker["):
            time.sleep(5)
            asyncio.run(fill(f"127.0.0.1:{namesrv}"))
            answers = ask(home, f"127.0.0.1:{namesrv}")
            running = Path(shutil.copytree(data, Path(folder) / "running"))
        keep(running, f"rocketmq-database-{variant}-running")
        keep(data, f"rocketmq-database-{variant}-ended")
    golden.write(f"rocketmq-database-{variant}", "mqadmin topicStatus, consumerProgress", VERSION, answers)


if __name__ == "__main__":
    for recorded in sys.argv[1:] or VARIANTS:
        record(recorded)
