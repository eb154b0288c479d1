"""Where a broker stores messages with a priority, or of a lite topic: ``python -m tests.recorders.rocketmq_placed``.

A broker of 5.5 runs on this machine in each of `VARIANTS`. The Java client sends `SENDS`, each to the queue that is
named; the broker may put it elsewhere. Consumer, admin tool and, where lite topics have queues, the store are recorded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.brokers import find_rocketmq_ports, install, run_server
from tests.recorders.jvm import ask
from tests.recorders.rocketmq_database import ROCKSDB, SMALL, keep
from tests.recorders.rocketmq_log import OPEN

__all__ = ["LITE", "LITE_TOPIC", "QUEUES", "SENDS", "SOURCE", "TOPICS", "VARIANTS"]

SOURCE: Final = Path(__file__).parent / "RocketmqPlaced.java"
VERSION: Final = "5.5.0"
DISPATCHES: Final = {"enableLmq": "true", "enableMultiDispatch": "true"}
"""Settings of a broker that has queues of lite topics."""
VARIANTS: Final[dict[str, dict[str, str]]] = {"plain": {}, "files": DISPATCHES, "database": ROCKSDB | DISPATCHES}
"""Name of a recording -> settings of its broker."""

QUEUES: Final = 4
TOPICS: Final = {
    name: {"queues": QUEUES, "type": kind}
    for name, kind in (("urgent", "PRIORITY"), ("plain", "NORMAL"), ("mixed", "DELAY"), ("chats", "LITE"))
}
"""Name of a topic -> its number of queues and its message type."""
PRIORITY, LITE_TOPIC = "_SYS_MSG_PRIORITY_", "__LITE_TOPIC"
PRIORITIES: Final = ("0", "1", "2", "3", "4", "9", "255", "2147483647", "2147483648", "-1", "x", "007", " 1")
BESIDE: Final[tuple[dict[str, str], ...]] = (
    {},
    {"__SHARDINGKEY": "key"},
    {"DELAY": "18"},
    {"DELAY": "0"},
    {"TIMER_DELIVER_MS": "1"},
    {"KEYS": "k", "TAGS": "t"},
    {LITE_TOPIC: "a"},
)
"""Properties beside a priority."""
LITE: Final = ("a", "b-1", "user_7", "Z" * 60)


def _sends() -> list[dict[str, Any]]:
    sends: list[dict[str, Any]] = []
    for topic in ("urgent", "plain"):
        sends += [{"topic": topic, "queue": 2, "messages": [{PRIORITY: priority}]} for priority in PRIORITIES]
    sends += [
        {"topic": "mixed", "queue": queue, "messages": [{PRIORITY: "1", **beside}]}
        for queue in (0, 3)
        for beside in BESIDE
    ]
    sends += [{"topic": "urgent", "queue": 2, "messages": [{PRIORITY: "0"}, {PRIORITY: "1"}, {}]}]
    for n in range(24):
        properties = {LITE_TOPIC: LITE[n % 5]} if n % 5 < len(LITE) else {}
        sends.append({"topic": "chats", "queue": n % QUEUES, "messages": [{"n": str(n), **properties}]})
    sends += [
        {"topic": "chats", "queue": 0, "messages": [{LITE_TOPIC: "b-1", "__SHARDINGKEY": "key", "TAGS": "t"}]},
        {"topic": "chats", "queue": 1, "messages": [{LITE_TOPIC: "b-1"}, {LITE_TOPIC: "a"}]},
    ]
    return sends


SENDS: Final = tuple(_sends())
"""Topic, queue that the client chose, and properties of the messages, which are a batch if there are several."""


def record(home: Path, variant: str) -> None:
    """Record one variant."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        namesrv, port = find_rocketmq_ports()
        options = SMALL | VARIANTS[variant] | {"listenPort": port, "brokerIP1": "127.0.0.1"}
        settings = {"NAMESRV_PORT": namesrv, "ROCKETMQ_DATA": str(data)}
        settings |= {f"ROCKETMQ_{name}": value for name, value in options.items()}
        with run_server([str(home / "rocketmq"), "run"], settings, data / "log", b"The broker["):
            question = {
                "namesrv": f"127.0.0.1:{namesrv}", "address": f"127.0.0.1:{port}", "topics": TOPICS, "sends": SENDS,
                "lite": [["chats", name] for name in LITE],
            }  # fmt: skip
            answers = ask(SOURCE, f"{home}/libs/*", question, *OPEN)
        if variant != "plain":
            keep(data, f"rocketmq-placed-{variant}")
    golden.write(f"rocketmq-placed-{variant}", "rocketmq-client, rocketmq-broker", VERSION, answers)


if __name__ == "__main__":
    with install("rocketmq", VERSION) as installed:
        for recorded in sys.argv[1:] or VARIANTS:
            record(installed, recorded)
