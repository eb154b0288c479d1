"""Record how RocketMQ's Java client writes and reads messages: ``python -m tests.recorders.rocketmq_message``.

No broker is asked: records, batches, properties, ids and the rules for names are made by the classes of the client.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSIONS: Final = ("4.9.7", "5.5.0")
SOURCE: Final = Path(__file__).parent / "RocketmqMessage.java"

STRINGS: Final = (
    "", "a", "a\x01", "\x01b", "a\x01b", "a\x01b\x02", "a\x01b\x02c\x01d", "a\x01\x02b\x01c\x02", "a\x01b\x01c\x02",
    "\x02\x02a\x01b\x02\x02", "a\x01b\x02a\x01c\x02", "a\x02b\x01c\x02", "\x01\x02a\x01b",
    "größe\x01ß\x02\U0001f600\x01ü", " \x01 \x02", "a\x01b\x02tail", "ab\x02", "\x01\x01\x02", "a\x01\x01\x02",
    "TAGS\x01x\x02KEYS\x01k1 k2\x02", "a\0\x01\0\x02",
)  # fmt: skip
"""Properties as they travel."""

TOPICS: Final = (
    "", " ", "\t", "a", "a.b", "a/b", "a-b_c|d%e", "%RETRY%g", "ä", "a b", "a\n", "x" * 127, "x" * 128, "TBW102", "0",
    "a\0", "^", "a#", "a*", "a:b", "a@b", "中",
)  # fmt: skip
GROUPS: Final = ("", " ", "g", "a.b", "%DLQ%", "x" * 120, "x" * 121, "g|h-1_2", "ü", "DEFAULT_CONSUMER")
USER_PROPERTIES: Final = (
    ("a", "b"), ("", "b"), ("a", ""), (" ", "b"), ("a", " "), ("TAGS", "x"), ("KEYS", "x"), ("tags", "x"),
    ("WAIT", "x"), ("INNER_NUM", "1"), ("__SHARDINGKEY", "k"), ("TRACE_CONTEXT", "x"), ("a\x01", "b"),
    ("UNIQ_KEY", "1"), ("CORRELATION_ID", "1"), ("a", "\u3000"), ("a", "\x02"), ("__transactionId__", "1"),
    ("a", "\x1f"), ("a", "\xa0"),
)  # fmt: skip

WORDS: Final = ("", "x", "größe", "\U0001f600", "a b", "1", "true", "x" * 300)


def message(random: Random) -> dict[str, Any]:
    """Return a message with a random body, flag and properties."""
    names = ("TAGS", "KEYS", "WAIT", "UNIQ_KEY", "region", "größe", "a b", "DELAY")
    properties = {name: random.choice(WORDS) for name in random.sample(names, random.randrange(5))}
    if "DELAY" in properties:
        properties["DELAY"] = "3"
    return {
        "body": b64encode(random.randbytes(random.choice((0, 1, 7, 200)))).decode(),
        "flag": random.choice((0, 1, -1, 2**31 - 1, -(2**31), 12345)),
        "properties": properties,
    }


def _batches() -> list[list[dict[str, Any]]]:
    random = Random(1)
    return [[message(random) for _ in range(count)] for count in (1, 1, 2, 3, 7)]


def _records() -> list[dict[str, Any]]:
    random = Random(2)
    hosts = ("127.0.0.1:10911", "10.0.0.7:65535", "255.255.255.255:0")
    wide = ("[2001:db8:0:0:0:0:0:1]:10911", "[fe80:0:0:0:1:2:3:4]:1")
    records = []
    for n in range(40):
        system_flag = random.choice((0, 0, 1, 0x101, 0x201, 0x301, 2, 8)) | random.choice((0, 0, 0x10, 0x20, 0x30))
        records.append({
            **message(random),
            "topic": random.choice(("t", "orders", "%RETRY%g", "x" * 127)),
            "queue": random.choice((0, 3, 2**31 - 1)),
            "offset": random.choice((0, n, 2**40)),
            "place": random.choice((0, 12345, 2**50)),
            "system flag": system_flag,
            "born": 1_700_000_000_000 + n,
            "stored": 1_700_000_000_500 + n,
            "born host": random.choice(wide if system_flag & 0x10 else hosts),
            "store host": random.choice(wide if system_flag & 0x20 else hosts),
            "reconsumed": random.choice((0, 1, 16)),
            "prepared": random.choice((0, 99)),
        })  # fmt: skip
    return records


BATCHES: Final = _batches()
RECORDS: Final = _records()


def main(versions: tuple[str, ...]) -> None:
    """Ask each version's client."""
    for version in versions:
        records = [each for each in RECORDS if not (version.startswith("4.") and each["system flag"] & 0x700)]
        question = {
            "strings": STRINGS, "batches": BATCHES, "records": records, "topics": TOPICS, "groups": GROUPS,
            "user properties": USER_PROPERTIES,
        }  # fmt: skip
        jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}", "com.alibaba:fastjson:1.2.83")
        answers = ask(SOURCE, jars, question, "--add-opens", "java.base/java.util=ALL-UNNAMED")
        golden.write(f"rocketmq-message-{version}", "org.apache.rocketmq:rocketmq-client", version, answers)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or VERSIONS)
