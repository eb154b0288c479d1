r"""Instructions of the bridge for each message, of two checkouts with the same brokers: figures that no load changes.

    HASHSTAR_BENCH_RABBITMQ=IMAGE HASHSTAR_BENCH_KAFKA=IMAGE \
        python -m benchmarks.bridge_instructions BEFORE AFTER ["Kafka -> RabbitMQ" ...] [--window 1000]

It needs valgrind with its headers, and a C compiler. Each checkout is imported once under callgrind, and forks for each
pair. `FIRST` messages are moved first. When all are confirmed the source gets `COUNT` more, whose instructions count
until all are confirmed: nothing is under way at the beginning and at the end. Those of librdkafka and the C library
do not count: librdkafka waits, and prints statistics, by the clock.

Under callgrind the bridge is `SLOWER`, and brokers are not: what it does by the clock (commits, statistics, looks at a
source that has nothing) would be done `SLOWER` times as often for each message as it is. So its clock is slower, too.
Brokers that seem so fast confirm a window at once: a small window shows what each batch costs.
The checkouts take turns, before, after, after, before, and medians of `ROUNDS` are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from selectors import DefaultSelector
from statistics import median
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Final

FIRST: Final = 1_000
COUNT: Final = 2_000
WINDOW: Final = 1_000
SLOWER: Final = 50
"""How many times as long Python takes under callgrind, about."""
ROUNDS: Final = 6
STATISTICS: Final = "statistics.interval.ms"
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


class SlowClock:
    """A clock that is `SLOWER` from the call of `slow` on."""

    def __init__(self) -> None:
        self._since: float | None = None

    def slow(self) -> None:
        """Be slow from now on."""
        self._since = time.monotonic()

    def time(self) -> float:
        """Return seconds."""
        now = time.monotonic()
        return now if self._since is None else self._since + (now - self._since) / SLOWER

    def last(self, seconds: float) -> float:
        """Return how long these seconds last by another clock."""
        return seconds if self._since is None else seconds * SLOWER


CLOCK: Final = SlowClock()


class SlowSelector(DefaultSelector):
    """Waits by the slow clock."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Wait for files, at most for ``timeout`` seconds."""
        return super().select(None if timeout is None else CLOCK.last(timeout))


class SlowLoop(asyncio.SelectorEventLoop):
    """An event loop with the slow clock."""

    def __init__(self) -> None:
        super().__init__(SlowSelector())

    def time(self) -> float:
        """Return seconds of the slow clock."""
        return CLOCK.time()


def slow_clients() -> None:
    """Have clients of Kafka give their statistics by the slow clock. Called before the bridge imports them."""
    import confluent_kafka

    def slow(kind: Any) -> Any:
        def make(settings: dict[str, Any], *given: Any, **named: Any) -> Any:
            return kind({**settings, STATISTICS: settings.get(STATISTICS, 0) * SLOWER}, *given, **named)

        return make

    for name in ("Consumer", "Producer"):
        setattr(confluent_kafka, name, slow(getattr(confluent_kafka, name)))


def serve(switch: str) -> None:
    """Run a pair in a fork for each line: its name, its window, URLs of RabbitMQ and Kafka, a topic, with tabs between.

    The modules of the checkout in PYTHONPATH are imported before.
    """
    slow_clients()
    from benchmarks.bridge_brokers import TO
    from benchmarks.bridge_pumps import Counting, from_queue, from_topic, pump_of, to_queue, to_topic
    from bridge.endpoint import Target
    from bridge.endpoints.archive.config import ArchiveTarget
    from bridge.endpoints.kafka.config import KafkaTarget  # noqa: F401  imported once, as all is that the forks need

    marks = ctypes.CDLL(switch)

    class Switching(Counting):
        begun = batches = 0

        def confirmed(self, _: str, messages: Sequence[object], __: float) -> None:
            self.count += len(messages)
            self.batches += 1
            if not self.begun and self.count >= FIRST:
                self.batches = 0
                self.begun = self.count
                CLOCK.slow()
                print("idle", flush=True)
                marks.begin()
            elif self.begun and self.count >= self.begun + COUNT:
                marks.end()
                print("counted", os.getpid(), self.count - self.begun, self.batches, flush=True)
                os._exit(0)

    async def run(pair: str, window: str, rabbit: str, log: str, topic: str) -> None:
        source = from_queue(rabbit) if pair.startswith("RabbitMQ") else from_topic(log, topic)
        target: Target = ArchiveTarget("bench", Path(mkdtemp(dir=Path(switch).parent)), {TO: ""})
        if not pair.endswith("archive"):
            target = to_queue(rabbit) if pair.endswith("RabbitMQ") else to_topic(log)
        await pump_of(source, target, Switching(None, 0), int(window)).run()

    print("ready", flush=True)
    for line in sys.stdin:
        if not (child := os.fork()):
            with asyncio.Runner(loop_factory=SlowLoop) as runner:
                runner.run(run(*line.rstrip("\n").split("\t")))
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

    def measure(self, fill: Callable[[], None], *line: str) -> tuple[float, float]:
        """Return the number of instructions for each message of a pair, and how many were confirmed at once.

        ``fill`` puts the messages into the source that count.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(line) + "\n")
        self._process.stdin.flush()
        found: list[str] = []
        while (words := self._process.stdout.readline().split()) != ["done"]:
            if self._process.poll() is not None:
                raise RuntimeError(f"valgrind has ended with exit code {self._process.returncode}")
            found = words if words[:1] == ["counted"] else found
            if words == ["idle"]:
                fill()
        if not found:
            raise RuntimeError(f"{line[0]} has ended before all messages were moved")
        messages, batches = int(found[2]), int(found[3])
        counts = count_instructions(self._out / f"out.{found[1]}.1")
        instructions = sum([count for name, count in counts.items() if not name.startswith(LEFT_OUT)])
        return instructions / messages, messages / batches

    def close(self) -> None:
        """End its process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(before: str, after: str, pairs: Sequence[str], window: int) -> None:
    """Print a row for each pair."""
    images = os.environ["HASHSTAR_BENCH_RABBITMQ"], os.environ["HASHSTAR_BENCH_KAFKA"]
    from benchmarks.bridge_brokers import TO, declare, fill_topic, kafka, make_topic, publish_all, rabbitmq
    from benchmarks.bridge_pumps import unique

    with TemporaryDirectory() as folder, rabbitmq(images[0]) as queues, kafka(images[1]) as log:
        switch = Path(folder, "switch.so")
        switch.with_suffix(".c").write_text(SWITCH)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", switch, switch.with_suffix(".c")], check=True)  # noqa: S603, S607
        checkouts = [Checkout(path, switch) for path in (before, after)]
        make_topic(log.url, TO, 6)
        print("| | before | after | | at once |\n|---|---:|---:|---:|---:|", flush=True)
        for pair in pairs:
            found: list[list[tuple[float, float]]] = [[], []]
            for turn in range(ROUNDS):
                for n in (0, 1) if turn % 2 == 0 else (1, 0):
                    declare(queues.url)
                    topic = make_topic(log.url, unique("bench"), 6)

                    def fill(count: int = COUNT, pair: str = pair, topic: str = topic) -> None:
                        if pair.startswith("Kafka"):
                            fill_topic(log.url, topic, count)
                        else:
                            asyncio.run(publish_all(queues.url, count))

                    fill(FIRST)
                    line = (pair, str(window), f"{queues.url}?heartbeat=0", log.url, topic)
                    found[n].append(checkouts[n].measure(fill, *line))
                print(f"{pair}: {[each[-1] for each in found]}", file=sys.stderr, flush=True)
            print(_row(pair, *found), flush=True)
        for each in checkouts:
            each.close()


def _row(pair: str, before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]]) -> str:
    """Return a row: medians, with least and most, and how many messages were confirmed at once."""
    cells = []
    for each in (before, after):
        counts = sorted(count for count, _ in each)
        cells.append(f"{median(counts):,.0f} ({counts[0]:,.0f} to {counts[-1]:,.0f})")
    change = median([count for count, _ in after]) / median([count for count, _ in before]) - 1
    at_once = " and ".join([f"{median([size for _, size in each]):,.0f}" for each in (before, after)])
    return f"| {pair} | {' | '.join(cells)} | {change:+.1%} | {at_once} |"


def main() -> None:
    """Compare two checkouts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bridge_instructions")
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("pairs", nargs="*", default=PAIRS, metavar="pair", help=f"one of {', '.join(PAIRS)}")
    parser.add_argument("--window", type=int, default=WINDOW, help=f"window of the bridge, in messages [{WINDOW:,}]")
    given = parser.parse_args()
    if unknown := {*given.pairs} - {*PAIRS}:
        parser.error(f"no pair {', '.join(sorted(unknown))}; there are {', '.join(PAIRS)}")
    compare(given.before, given.after, given.pairs, given.window)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
