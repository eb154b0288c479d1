"""Record data folders of real brokers: ``python -m tests.recorders.kafka_folder``.

A broker of each version runs on this machine and is filled with topics, transactions and groups. While groups have
members and a transaction is open, Kafka's own tools tell of it, and the folder is kept in an archive of tar.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.recorders import golden
from tests.recorders.brokers import install, run_server
from tests.recorders.kafka_log import drop_owner
from tests.support.kafka.folder import ask_tools, dump, filled
from tests.support.unique import free_ports

VERSIONS: Final = ("3.9.2", "4.3.1")
SMALL: Final = {
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "2", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "2", "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1", "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_LOG_SEGMENT_BYTES": "1048576", "KAFKA_REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS": "500",
}  # fmt: skip
LEFT_OUT: Final = (".index", ".timeindex", ".lock")
"""Suffixes of files that are large and empty, or locked."""


def record(version: str) -> None:
    """Record one version."""
    with install("kafka", version) as home, tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        port, controller = map(str, free_ports(2))
        environment = SMALL | {
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
            "KAFKA_LOG_DIRS": str(data),
        }
        subprocess.run([home / "kafka", "format"], env=os.environ | environment, check=True, timeout=60)
        with run_server([str(home / "kafka"), "run"], environment, Path(folder) / "log", b"Kafka Server started"):
            address = f"127.0.0.1:{port}"
            with filled(address, is_modern=version.startswith("4.")):
                time.sleep(2)  # until the checkpoints have been written
                answers = ask_tools(version, address)
                copy = Path(shutil.copytree(data, Path(folder) / "copy"))
        answers["dumped"] = dump(version, copy)
        with tarfile.open(golden.GOLDEN / f"kafka-folder-{version}.tar.gz", "w:gz") as kept:
            for path in sorted(copy.rglob("*")):
                if path.is_file() and not path.name.endswith(LEFT_OUT):
                    kept.add(path, str(path.relative_to(copy)), filter=drop_owner)
    golden.write(
        f"kafka-folder-{version}", "kafka-consumer-groups, kafka-transactions, kafka-dump-log", version, answers
    )


if __name__ == "__main__":
    for recorded in sys.argv[1:] or VERSIONS:
        record(recorded)
