"""Record what RocketMQ's Java consumers write: ``python -m tests.recorders.rocketmq_consume``.

Subscriptions as they are told to brokers, the body that locks queues, the flags of a pull, and the file of offsets of
a broadcasting consumer, which is no JSON: its keys are objects. Our own files are read by the Java class, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.offsets import format_table
from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSIONS: Final = ("4.9.7", "5.5.0")
SOURCE: Final = Path(__file__).parent / "RocketmqConsume.java"

SUBSCRIPTIONS: Final = (
    ("orders", "*", None), ("orders", "", None), ("orders", None, None), ("orders", "TagA", None),
    ("orders", "TagA || TagB", "TAG"), ("orders", "TagA||TagB||TagA", "TAG"), ("orders", " TagA\t||\n TagB ", "TAG"),
    ("orders", "TagA | TagB", "TAG"), ("orders", "||", "TAG"), ("orders", "||||", "TAG"), ("orders", " || ", "TAG"),
    ("orders", " ", "TAG"), ("orders", "|| TagA", "TAG"), ("orders", "TagA ||", "TAG"), ("orders", "|||", "TAG"),
    ("orders", "* || TagA", "TAG"), ("orders", " *", "TAG"), ("orders", "Aa || BB", "TAG"),
    ("orders", "\u00a0x || \u3000y || \u00e9\U0001f600", "TAG"), ("orders", "a > 5 AND b = 'x'", "SQL92"),
    ("orders", "", "SQL92"), ("orders", None, "SQL92"), ("%RETRY%group", "*", "TAG"),
)  # fmt: skip
"""Topic, expression and type; Java's null is None."""

OFFSETS: Final = (
    ("orders", "broker-a", 0, 0), ("orders", "broker-a", 1, 1234567890123), ("orders", "broker-b", 0, 7),
    ("%RETRY%group", 'broker "quoted" \\ \u00e9', 15, 3),
)  # fmt: skip
"""Topic, broker, queueId and offset."""

WRITTEN: Final = (
    (), (("orders", "broker-a", 3, 42),), OFFSETS,
    (('t{"x":1}', "b}:{", 0, 1), ("t", "\u0001\u2028\U0001f600", 1, 2)),
)  # fmt: skip
"""Offsets that we write into a file."""


def record(version: str) -> None:
    """One version."""
    files = [format_table({TopicQueue(*row[:3]): row[3] for row in rows}) for rows in WRITTEN]
    question = {"subscriptions": SUBSCRIPTIONS, "offsets": OFFSETS, "files": files}
    answers = ask(SOURCE, find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}"), question)
    client = "rocketmq-client FilterAPI, LockBatchRequestBody, PullSysFlag, OffsetSerializeWrapper"
    golden.write(f"rocketmq-consume-{version}", client, version, answers)


if __name__ == "__main__":
    for recorded in VERSIONS:
        record(recorded)
