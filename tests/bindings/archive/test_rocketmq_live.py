"""Commit logs that real RocketMQ brokers write while they run: each message that was sent is read, once."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from bindings.archive.detect import detect
from bindings.archive.mapping import Mapping
from tests.bindings.archive.containers import copied
from tests.bindings.archive.reads import read
from tests.recorders.jvm import ask, classpath
from tests.recorders.rocketmq_log import OPEN, SOURCE, sends
from tests.servers import Server, missing

pytestmark = pytest.mark.live

CLIENTS: Final = {4: "4.9.8", 5: "5.5.0"}
"""The first number of a broker's version -> the version of the producer."""
LOG: Final = "/var/lib/rocketmq/commitlog"
PLAIN: Final = ("send", "ordered", "transaction", "batch")


def _sent(server: Server) -> list[dict[str, Any]]:
    """What the Java producer tells of the messages that it sent, in every plain way."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            missing(f"there is no {program} to run RocketMQ's own producer with")
    client = CLIENTS[server.version_info[0]]
    try:
        jars = classpath(f"org.apache.rocketmq:rocketmq-client:{client}")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as reason:
        missing(f"Maven cannot fetch rocketmq-client {client} ({reason})")
    plain = [send for send in sends("4.9") if send["how"] in PLAIN]
    told: list[dict[str, Any]] = ask(SOURCE, jars, {"namesrv": server.url, "sends": plain, "wait": 4000}, *OPEN)
    return told


def test_each_message_that_was_sent_is_read_once(rocketmq_servers: list[Server], tmp_path: Path) -> None:
    for server in rocketmq_servers:
        sent = Counter(name for told in _sent(server) for name in told["id"].split(","))
        folder = tmp_path / server.version
        folder.mkdir()
        copied(server, LOG, folder)
        archive = detect(str(folder), Mapping("topic", "=k"))
        assert (archive.names, archive.others) == (("RocketMQ commit log",), ())
        results = [read(form, path, 1 << 20) for path, form in archive.files]
        assert not [bad for result in results for bad in result.bad]
        records = [record for result in results for record in result.records]
        found = Counter(str(record.message.properties["message_id"]) for record in records)
        unpublished = [name for name in sent if name not in found]
        assert {name: found[name] for name in sent if name in found} == {
            name: count for name, count in sent.items() if name not in unpublished
        }
        assert len(unpublished) == 5  # two rolled back, two that never end, one that is delayed by hours
