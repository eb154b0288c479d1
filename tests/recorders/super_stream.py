"""Record where the Java stream client sends keys of a super stream: ``python -m tests.recorders.super_stream``.

Writes tests/golden/super-stream-VERSION.json for each of `VERSIONS`. Needs Maven and Java 17.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.recorders import golden, jvm
from tests.recorders.keys import COUNTS, KEYS

VERSIONS: Final = ("0.10.0", "1.9.0")
LONE: Final = ("\ud800", "a\udc00b", "\ude00\ud83d")
"""Texts that only UTF-16 can hold: Java writes question marks for what UTF-8 cannot."""


def record(version: str) -> None:
    """Ask one version, and write its answers."""
    jars = jvm.find_classpath(f"com.rabbitmq:stream-client:{version}")
    keys = [key.encode("utf-16-be", "surrogatepass").hex() for key in (*KEYS, *LONE)]
    answers = jvm.ask(Path(__file__).parent / "SuperStreams.java", jars, [*COUNTS, *keys])
    hashes, *places = zip(*answers, strict=True)
    golden.write(
        f"super-stream-{version}", "com.rabbitmq:stream-client", version,
        {"hashes": hashes, "streams": dict(zip(map(str, COUNTS), places, strict=True))},
    )  # fmt: skip


if __name__ == "__main__":
    for each in VERSIONS:
        record(each)
