"""Instructions of the bridge for each message, of two checkouts with the same brokers: figures that no load changes.

    HASHSTAR_BENCH_RABBITMQ=IMAGE HASHSTAR_BENCH_KAFKA=IMAGE python -m benchmarks.bridge_instructions BEFORE AFTER

It needs valgrind with its headers, and a C compiler. Each checkout is imported once under callgrind, and forks for each
pair. Instructions count from when `FIRST` messages are confirmed until `COUNT` more are; those of librdkafka and of the
C library do not: librdkafka waits, and prints statistics, by the clock.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final

FIRST: Final = 3_000
COUNT: Final = 5_000
MORE: Final = 4_000
"""Number of messages that are left at the end: what was read and not yet written is as much as at the beginning."""

WINDOW: Final = 1_000
PAIRS: Final = (
    "RabbitMQ -> Kafka",
    "RabbitMQ -> RabbitMQ",
    "RabbitMQ -> archive",
    "Kafka -> RabbitMQ",
    "Kafka -> archive",
)
LEFT_OUT: Final = ("librdkafka", "libc.", "libc-", "ld-linux")

SWITCH: Final = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void end(void) { CALLGRIND_STOP_INSTRUMENTATION; CALLGRIND_DUMP_STATS_AT("end"); }
"""


def serve(switch: str) -> None:
    """Run a pair in a fork for each line: its name, addresses of RabbitMQ and Kafka, and a topic, with tabs between.

    The modules of the checkout in PYTHONPATH are imported before.
    """
    from benchmarks.bridge_brokers import TO
    from benchmarks.bridge_pumps import Counting, from_queue, from_topic, pump_of, to_queue, to_topic
    from bridge.endpoint import Target
    from bridge.endpoints.archive.config import ArchiveTarget
    from bridge.endpoints.kafka.config import KafkaTarget  # noqa: F401  imported once, as all is that the forks need

    marks = ctypes.CDLL(switch)

    class Switching(Counting):
        begun = 0

        def confirmed(self, _: str, messages: Sequence[object], __: float) -> None:
            self.count += len(messages)
            if not self.begun and self.count >= FIRST:
                self.begun = self.count
                marks.begin()
            elif self.begun and self.count >= self.begun + COUNT:
                marks.end()
                print("counted", os.getpid(), self.count - self.begun, flush=True)
                os._exit(0)

    async def run(pair: str, rabbit: str, log: str, topic: str) -> None:
        source = from_queue(rabbit) if pair.startswith("RabbitMQ") else from_topic(log, topic)
        target: Target = ArchiveTarget("bench", Path(mkdtemp()), {TO: ""})
        if not pair.endswith("archive"):
            target = to_queue(rabbit) if pair.endswith("RabbitMQ") else to_topic(log)
        await pump_of(source, target, Switching(None, 0), WINDOW).run()

    print("ready", flush=True)
    for line in sys.stdin:
        if not (child := os.fork()):
            asyncio.run(run(*line.rstrip("\n").split("\t")))
        os.waitpid(child, 0)
        print("done", flush=True)
    os._exit(0)


def count_instructions(path: Path) -> Counter[str]:
    """Return object file -> its own instructions, of a file of callgrind's."""
    names: dict[str, str] = {}
    found: Counter[str] = Counter()
    current, is_call = "", False
    for line in path.read_text(errors="replace").splitlines():
        kind, _, rest = line.partition("=")
        if kind in {"ob", "cob"}:
            number, _, name = rest.partition(" ")
            name = names.setdefault(number, name)
            current = name if kind == "ob" else current
        elif kind == "calls":
            is_call = True
        elif re.match(r"[0-9+*-]\S* [0-9]", line):
            if not is_call:
                found[current.rpartition("/")[2]] += int(line.split()[1])
            is_call = False
    return found


class Checkout:
    """A checkout, imported by a process under callgrind."""

    def __init__(self, path: str, switch: Path) -> None:
        self._out = switch.parent
        command = [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self._out}/out.%p",
            sys.executable, "-P", str(Path(__file__).resolve()), "--serve", str(switch),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603  of ours
            command, cwd=path, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def measure(self, *line: str) -> float:
        """Return the number of instructions for each message of a pair."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(line) + "\n")
        self._process.stdin.flush()
        found: list[str] = []
        while (words := self._process.stdout.readline().split()) != ["done"]:
            found = words if words[:1] == ["counted"] else found
        counts = count_instructions(self._out / f"out.{found[1]}.1")
        return sum(count for name, count in counts.items() if not name.startswith(LEFT_OUT)) / int(found[2])

    def close(self) -> None:
        """End its process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(before: str, after: str, rabbitmq_image: str, kafka_image: str) -> None:
    """Print a row for each pair."""
    from benchmarks.bridge_brokers import TO, declare, fill_queue, fill_topic, kafka, make_topic, rabbitmq

    count = FIRST + COUNT + MORE
    with TemporaryDirectory() as folder, rabbitmq(rabbitmq_image) as queues, kafka(kafka_image) as log:
        switch = Path(folder, "switch.so")
        switch.with_suffix(".c").write_text(SWITCH)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", switch, switch.with_suffix(".c")], check=True)  # noqa: S603, S607
        checkouts = [Checkout(path, switch) for path in (before, after)]
        topic = make_topic(log.url, "bench-from", 6)
        fill_topic(log.url, topic, count)
        make_topic(log.url, TO, 6)
        print("| | before | after | |\n|---|---:|---:|---:|", flush=True)
        for pair in PAIRS:
            found = []
            for each in checkouts:
                if pair.startswith("Kafka"):
                    declare(queues.url)
                else:
                    fill_queue(queues.url, count)
                found.append(each.measure(pair, queues.url, log.url, topic))
            print(f"| {pair} | {found[0]:,.0f} | {found[1]:,.0f} | {found[1] / found[0] - 1:+.1%} |", flush=True)
        for each in checkouts:
            each.close()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        compare(sys.argv[1], sys.argv[2], os.environ["HASHSTAR_BENCH_RABBITMQ"], os.environ["HASHSTAR_BENCH_KAFKA"])
