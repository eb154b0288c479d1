"""Record the stores of real brokers: ``python -m tests.recorders.rocketmq_log``.

A name server and a broker of each version run on this machine, with commit logs of 64 KiB, and queues and indexes that
are small enough that there are several of each. A Java producer sends `sends`, a consumer fails until messages are
tried again and then dead, the broker is asked for its queues' ends and for messages by their keys, and when it has
ended, RocketMQ's own decoder tells what its files hold. The store is kept in an archive of tar, beside what producer,
broker and decoder told.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.brokers import find_rocketmq_ports, install, run_server
from tests.recorders.jvm import ask

SOURCE: Final = Path(__file__).parent / "RocketmqLog.java"
VERSIONS: Final = ("4.9.7", "5.5.0")
FILE_BYTES: Final = 1 << 16
SMALL: Final = {
    "mappedFileSizeCommitLog": FILE_BYTES, "mappedFileSizeConsumeQueue": 200, "mapperFileSizeBatchConsumeQueue": 460,
    "mappedFileSizeConsumeQueueExt": 4096, "maxHashSlotNum": 10, "maxIndexNum": 60,
}  # fmt: skip
"""Settings of a broker (`MessageStoreConfig`): 10 units a queue's file, 10 of batches, 59 in an index."""
EXTENDED: Final = {"4.9.7": {"enableConsumeQueueExt": "true"}}
"""Settings of one version."""
KEPT: Final = (
    "abort", "batchconsumequeue", "checkpoint", "commitlog", "config", "consumequeue", "consumequeue_ext", "index",
)  # fmt: skip
"""Files of a store that are recorded: all but databases and the timer wheel."""
COLLIDING: Final = ("AaAa", "AaBB", "BBAa", "BBBB", "C#Aa", "C#BB", "Cb")
"""Keys, and tags, of which some have one hashCode."""
OPEN: Final = ("--add-opens", "java.base/java.nio=ALL-UNNAMED")
WAIT: Final = 8_000
"""Milliseconds until what is delayed has come; not that of level 18, two hours."""


def message(topic: str, body: bytes = b"", **fields: Any) -> dict[str, Any]:
    """Return a message for `RocketmqLog.java`: tags, keys, properties, level (of delay), delay (in milliseconds)."""
    return {"topic": topic, "body": b64encode(body).decode(), "properties": {}, **fields}


def sends(version: str, broker: str = "") -> list[dict[str, Any]]:
    """Return the messages that are sent to a broker, whose address is needed since 5.0."""
    random = Random(0)
    is_new = not version.startswith("4.")
    words = ("order.created", "order.paid", "größe", "a|b", "x" * 60)
    orders = [
        message(
            "orders", random.randbytes(random.randrange(1, 200)), tags=random.choice((*words[:4], None)),
            keys=random.choice(("k1", "k2 k3", "schlüssel", None)),
            properties={name: random.choice(words) for name in ("region", "rk", "größe")[: random.randrange(4)]},
        )
        for _ in range(60)
    ]  # fmt: skip
    text = "".join(random.choice(words) for _ in range(800)).encode()
    half = [message("paid", b"t", tags=tag, keys=tag) for tag in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW")]
    messages: list[dict[str, Any]] = [
        {"how": "send", "messages": orders},
        {"how": "ordered", "messages": [message("lanes", b"%d" % n, keys=f"key{n % 7}") for n in range(20)]},
        {"how": "send", "messages": [message("t" * 127, b"long", tags="a", keys="k")]},
        {
            "how": "send",
            "messages": [message("alike", b"%d" % n, tags=key, keys=key) for n, key in enumerate(COLLIDING * 2)],
        },
        {"how": "batch", "messages": [message("batches", b"%d" % n, tags="b", keys=f"k{n}") for n in range(10)]},
        {"how": "transaction", "messages": half * 2},
        {"how": "send", "messages": [message("later", b"in a second", keys="k", level=1)] * 2},
        {"how": "send", "messages": [message("later", b"in two hours", keys="k", level=18)]},
    ]
    messages += [
        {"how": "send", "packing": packing, "messages": [message("packed", text, keys=packing)] * 2}
        for packing in ("ZLIB", "LZ4", "ZSTD")
    ]
    if is_new:
        in_one = [message("pieces", b"%d" % n, tags="c", keys=f"k{n}", properties={"n": str(n)}) for n in range(5)]
        messages += [
            {"how": "send", "messages": [message("later", b"by the wheel", keys="k", delay=1500)]},
            {"how": "send", "messages": [message("later", b"by the wheel, in an hour", keys="k", delay=3_600_000)]},
            {"how": "topic", "topic": "pieces", "broker": broker},
            {"how": "batch", "messages": in_one},
            {"how": "batch", "packing": "LZ4", "messages": [message("pieces", text, keys=f"k{n}") for n in range(3)]},
        ]
    messages += [
        {"how": "send", "messages": [message("failing", b"dead", keys="k")] * 2},
        {"how": "fail", "topic": "failing", "group": "g" * 120, "failures": 4},
        {"how": "send", "messages": [message("filling", b"x" * 4000, keys="k")] * 24},
        {"how": "send", "messages": [message("orders", b"the last", keys="k")]},
    ]
    return messages


@contextmanager
def broker(home: Path, data: Path, version: str) -> Iterator[tuple[str, str]]:
    """Yield the addresses of a name server and of its broker."""
    namesrv, port = find_rocketmq_ports()
    options = SMALL | EXTENDED.get(version, {}) | {"listenPort": port}
    settings = {"NAMESRV_PORT": namesrv, "ROCKETMQ_DATA": str(data)}
    settings |= {f"ROCKETMQ_{name}": str(value) for name, value in options.items()}
    with run_server([str(home / "rocketmq"), "run"], settings, data / "log", b"The broker["):
        yield f"127.0.0.1:{namesrv}", f"127.0.0.1:{port}"


def asks(data: Path, version: str) -> list[dict[str, Any]]:
    """Return the questions to the broker: the ends of all queues that have a folder, and the messages with each key."""
    folders = [*data.glob("consumequeue/*/*"), *data.glob("batchconsumequeue/*/*")]
    queues = [{"topic": folder.parent.name, "queue": int(folder.name)} for folder in sorted(folders)]
    keys = {
        (each["topic"], key)
        for send in sends(version) for each in send.get("messages", ())
        for key in (each.get("keys") or "").split(" ") if key
    }  # fmt: skip
    return [*queues, *({"topic": topic, "key": key} for topic, key in sorted(keys))]


def record(version: str) -> None:
    """One version."""
    with install("rocketmq", version) as home, tempfile.TemporaryDirectory() as folder:
        data, jars = Path(folder), f"{home}/libs/*"
        with broker(home, data, version) as (namesrv, address):
            question = {"namesrv": namesrv, "sends": sends(version, address), "wait": WAIT}
            sent = ask(SOURCE, jars, question, *OPEN)
            asked = {"namesrv": namesrv, "broker": "broker", "known": "orders", "asks": asks(data, version)}
            answered = ask(SOURCE, jars, asked, *OPEN)
        log = data / "commitlog"
        held = ask(SOURCE, jars, {"log": str(log)}, *OPEN)
        files = sorted(path.name for path in log.iterdir())
        with tarfile.open(golden.GOLDEN / f"rocketmq-log-{version}.tar.gz", "w:gz") as kept:
            for name in KEPT:
                if (data / name).exists():
                    kept.add(data / name, name)
    answers = {"files": files, "sent": sent, "answered": answered, "held": held}
    golden.write(f"rocketmq-log-{version}", "rocketmq-client DefaultMQProducer, MessageDecoder", version, answers)


if __name__ == "__main__":
    for recorded in sys.argv[1:] or VERSIONS:
        record(recorded)
