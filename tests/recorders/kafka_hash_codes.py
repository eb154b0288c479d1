"""Records hashes and partitions of keys of Java's types, by ``Math.abs(key.hashCode()) % n`` in a real `Partitioner`.

``python -m tests.recorders.kafka_hash_codes``. The hashes are the Java library's own, and those of Kafka's `Bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath
from tests.recorders.keys import COUNTS, KEYS, LEAST_HASH

VERSION: Final = "4.4.0"
NAME: Final = f"kafka-hash-codes-{VERSION}"
SOURCE: Final = Path(__file__).parent / "kafka_java" / "HashCodes.java"

RANGES: Final = {"integer": 32, "long": 64, "short": 16, "byte": 8}
"""Type -> its bits."""
FLOATS: Final = (
    "0", "-0.0", "1", "-1.5", "0.1", "3.14159265358979", "1e300", "-1e-300", "1e-45", "NaN", "Infinity", "-Infinity",
    "3.4028235e38", "1.7976931348623157E308", "4.9E-324", "16777217", "5.", ".5", "+2e+2",
    "3.4028235677973366e38", "3.4028235677973365e38", "3.41e38", "7.006492321624085e-46", "7.0064923216240854e-46",
    "1.00000017881393432617187499", "1.00000017881393432617187500", "1.00000017881393432617187501", "2f", "3D", " 4 ",
)  # fmt: skip


def _cases() -> Iterator[tuple[str, str, int]]:
    """Yield type, text (hexadecimal for bytes) and number of partitions."""
    random = Random(3)
    for key in [*LEAST_HASH, *random.sample(KEYS, 150)]:
        yield "string", key, random.choice(COUNTS)
    for kind, bits in RANGES.items():
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        for number in [low, low + 1, -1, 0, 1, high - 1, high, *[random.randint(low, high) for _ in range(40)]]:
            yield kind, str(number), random.choice(COUNTS)
        yield kind, "+7", 3
        yield kind, "007", 5
    for kind in ("float", "double"):
        for text in FLOATS:
            yield kind, text, 16
        for _ in range(40):
            yield kind, repr(random.uniform(-1e6, 1e6)), random.choice(COUNTS)
    for text in ("true", "false", "TRUE", "True", "yes", ""):
        yield "boolean", text, 7
    for text in ("a", "\x00", "\uffff", "ä", "中"):
        yield "character", text, random.choice(COUNTS)
    for _ in range(60):
        yield "uuid", str(UUID(int=random.getrandbits(128))), random.choice(COUNTS)
    for number in (0, (1 << 128) - 1, 0x80000000_00000000_00000000_00000000):
        yield "uuid", str(UUID(int=number)), 12
    for kind in ("bytes", "byte_buffer"):
        for length in [*range(12), 33, 100, 1000, *random.choices(range(40), k=30)]:
            yield kind, random.randbytes(length).hex(), random.choice(COUNTS)


CASES: Final = tuple(_cases())


def _hex(kind: str, text: str) -> str:
    return text if kind in ("bytes", "byte_buffer") else text.encode("utf-16-be", "surrogatepass").hex()


def main() -> None:
    """Ask, and write what was answered."""
    asked = [f"{kind} {_hex(kind, text)} {count}" for kind, text, count in CASES]
    answers = ask(SOURCE, find_classpath(f"org.apache.kafka:kafka-clients:{VERSION}"), asked)
    golden.write(NAME, "kafka-clients, a Partitioner by hashCode", VERSION, {
        "hashes": answers[::2], "partitions": answers[1::2],
    })  # fmt: skip


if __name__ == "__main__":
    main()
