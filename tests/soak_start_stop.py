"""``python -m tests.soak_start_stop``: bridges are started and stopped at random moments; each must end in time.

A round starts `bridge.daemon.run.run`, or the program itself, and sends SIGTERM some milliseconds later: while it
connects, reads, reconnects, or has not begun. Sources and targets work, are missing, refuse, hang or break, in memory
and at a real RabbitMQ. A round fails if it does not end within its `drain` and some seconds, or leaves tasks behind;
then what its tasks wait for is printed. In the end every message that was published must still be where it was, or
where it should get to.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import pika

from bridge.daemon.config import Config, read_config
from bridge.daemon.journal import Journal
from bridge.daemon.run import run
from bridge.daemon.signals import CLOSING
from bridge.endpoint import Delivery, Disconnected, Outgoing, Receiver
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.pump import Inlet
from exchange import Message
from tests.support.servers import SERVERS, server_set
from tests.support.starting import Unavailable
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, stretch

DRAIN: Final = 0.3
SLACK: Final = 3.0
"""Seconds beyond the promised time, for a busy machine."""
BOUND: Final = DRAIN + CLOSING + SLACK
LATEST: Final = 0.3
"""Maximum number of seconds from the start of a bridge to its stop."""
LATEST_PROCESS: Final = 1.5
"""The same for a process, which takes half a second to start."""
BATCH: Final = 50
"""Number of messages that are published at once, every tenth round."""

FAILURES: Final = 5
"""Number of failed rounds after which the others are left out: what hangs disturbs later rounds."""

TOPOLOGY: Final = 'vhost "/"\nexchange all: fanout\nqueue out\nall -> out\n'

CONFIG: Final = """\
topology = "t.bindings"
http = "off"
[policy]
window = 100
drain = {drain}
reconnect = "20 ms"
reconnect_most = "100 ms"
backoff = "20 ms"
[sources.from]
exchange = "all"
{source}
[targets.to]
{target}
[dead_letters]
url = "archive:dead"
"""


@dataclass
class Outcome:
    """The result of several rounds."""

    rounds: int = 0
    slowest: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, name: str, seconds: float, code: object, failure: str | None) -> None:
        """Count a round."""
        self.rounds += 1
        self.slowest = max(self.slowest, seconds)
        self.codes[f"{name}: {code}"] += 1
        if failure is not None:
            self.failures.append(f"{name}, round {self.rounds}: {failure}")


# Endpoints in memory that work, and that do not.


class From(MemorySource):
    """An endpoint that opens after a while, or never, and breaks at times."""

    def __init__(self, chance: random.Random, way: str) -> None:
        super().__init__([Message("all", "k", body=b"%d" % n) for n in range(500)], name="from")
        self._chance = chance
        self._way = way

    async def open(self) -> None:
        await _open(self._chance, self._way)
        await super().open()
        if self._way == "breaks":
            asyncio.get_running_loop().call_later(self._chance.random() * 0.05, self.break_connection)

    async def read(self, limit: int) -> Sequence[Delivery]:
        return await super().read(min(limit, 7))

    async def close(self) -> None:
        await asyncio.sleep(self._chance.random() * 0.01)
        await super().close()


class To(MemoryTarget):
    """An endpoint that opens after a while, or never, and breaks at times."""

    def __init__(self, chance: random.Random, way: str) -> None:
        def fault(_: Outgoing) -> Disconnected | None:
            return Disconnected("broken") if way == "breaks" and chance.random() < 0.1 else None

        super().__init__("to", fault)
        self._chance = chance
        self._way = way

    async def open(self, receiver: Receiver) -> None:
        await _open(self._chance, self._way)
        await super().open(receiver)

    async def close(self) -> None:
        await asyncio.sleep(self._chance.random() * 0.01)
        await super().close()


async def _open(chance: random.Random, way: str) -> None:
    await asyncio.sleep(chance.random() * 0.02)
    if way == "refuses":
        raise Disconnected("refused")
    if way == "hangs":
        await asyncio.Event().wait()


WAYS: Final = ("works", "breaks", "refuses", "hangs")


def in_memory(base: Config, chance: random.Random) -> tuple[str, Config]:
    """Return a name and a configuration with endpoints in memory."""
    source, target = chance.choice(WAYS), chance.choice(WAYS)
    config = replace(
        base, inlets=(Inlet(From(chance, source), "all"),), targets={"out": To(chance, target)}, dead_letters=None
    )
    return f"memory, source {source}, target {target}", config


# Rounds.


async def round_of(config: Config, delay: float) -> tuple[float, object, str | None]:
    """Start and stop a bridge in this process; return the seconds that stopping took, its result, and the failure."""
    log = io.StringIO()
    before = asyncio.all_tasks()
    journal = Journal(out=log, level="debug")
    with journal.listen():
        running_it = asyncio.create_task(run(config, journal, handle_signals=True))
        await asyncio.sleep(0)  # its handlers are there from its first step on
        await asyncio.sleep(delay)
        asked = time.monotonic()
        if not running_it.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait([running_it], timeout=stretch(BOUND))
        seconds = time.monotonic() - asked
    if not running_it.done():
        return seconds, "hangs", f"does not end in {BOUND:.1f} s\n{_stacks()}\n{log.getvalue()[-3_000:]}"
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    if left:
        return seconds, "leaves tasks", f"leaves tasks behind\n{_stacks()}\n{log.getvalue()[-3_000:]}"
    error = running_it.exception()
    if error is not None:
        return seconds, type(error).__name__, f"ends with {error!r}\n{log.getvalue()[-3_000:]}"
    return seconds, "settled" if running_it.result() else "not settled", None


def _stacks() -> str:
    """Describe what each task waits for: its coroutine and those that it awaits, with their lines."""
    lines = []
    for task in asyncio.all_tasks():
        waiting: Any = task.get_coro()
        way = []
        while waiting is not None and getattr(waiting, "cr_frame", None) is not None:
            way.append(f"{waiting.__qualname__} at {waiting.cr_code.co_filename}:{waiting.cr_frame.f_lineno}")
            waiting = waiting.cr_await
        lines.append(f"{task.get_name()}, cancelling {task.cancelling()}: " + "\n    ".join(way))
    return "\n".join(lines)


def process_round(config: Path, delay: float, *, after_start: bool) -> tuple[float, object, str | None]:
    """Do the same with the program; with ``after_start``, the delay begins when its log shows that it has started."""
    log = config.with_name("log")
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "bridge.cli", "bridge", "run", str(config)], stderr=out)
    if after_start:
        until = time.monotonic() + find_limit()
        while "started" not in log.read_text() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
    time.sleep(delay)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(stretch(BOUND))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return BOUND, "hangs", f"does not end in {BOUND:.1f} s\n{log.read_text()[-3_000:]}"
    seconds = time.monotonic() - asked
    # Before it handles signals it is ended by the signal itself, and has read nothing.
    good = code in (0, 1, -signal.SIGTERM) and "ended by force" not in log.read_text()
    return seconds, code, None if good else f"exit code {code}\n{log.read_text()[-3_000:]}"


def soak(
    configs: Sequence[Callable[[random.Random], tuple[str, Config]]],
    times: int,
    chance: random.Random,
    after: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Run rounds in this process, each with one of the configurations."""
    outcome = Outcome()

    async def rounds() -> None:
        for number in range(times):
            name, config = chance.choice(configs)(chance)
            outcome.add(name, *await round_of(config, chance.random() * LATEST))
            after(number)
            if outcome.failures and len(outcome.failures) >= FAILURES:
                return

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(rounds())
    finally:
        loop.close()
    return outcome


def base_config(folder: Path) -> Config:
    """Make a configuration whose endpoints can be replaced by endpoints in memory."""
    write_config(folder, 'url = "archive:in"', 'url = "archive:into"\nqueues = ["out"]')
    return read_config(folder / "bridge.toml", {})


def write_config(folder: Path, source: str, target: str, name: str = "bridge.toml") -> Path:
    """Write a configuration with its topology."""
    (folder / "t.bindings").write_text(TOPOLOGY)
    path = folder / name
    path.write_text(CONFIG.format(drain=DRAIN, source=source, target=target))
    return path


# RabbitMQ.


class Rabbit:
    """A queue with numbered messages to read and one to write to, and configurations for both."""

    def __init__(self, url: str, folder: Path) -> None:
        own = pika.URLParameters(url)
        own.heartbeat = 0  # nobody answers heartbeats between rounds
        self._connection = pika.BlockingConnection(own)
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._name = unique_name("soak")
        self._published = 0
        for queue in (self._name, f"{self._name}-out"):
            self._channel.queue_declare(
                queue, durable=True, arguments={"x-single-active-consumer": queue == self._name}
            )
        parameters = pika.URLParameters(url)
        there = f"amqp://guest@{parameters.host}:{parameters.port}"
        source = f'url = "{there}"\npassword = "guest"\nqueue = "{self._name}"'
        sources = {
            "works": source,
            "is missing": source.replace(self._name, f"{self._name}-none"),
            "refuses": source.replace(str(parameters.port), "1"),
        }
        target = f'url = "{there}"\npassword = "guest"\nqueues = {{ out = "{self._name}-out" }}'
        targets = {
            "works": target,
            "is missing": target.replace("-out", "-none"),
            "refuses": target.replace(str(parameters.port), "1"),
            "has another password": target.replace('"guest"', '"wrong"'),
        }
        pairs = [(s, t) for s in sources for t in targets if s == "works" or t == "works"]
        self.files = {
            f"RabbitMQ, source {s}, target {t}": write_config(folder, sources[s], targets[t], f"{n}.toml")
            for n, (s, t) in enumerate(pairs)
        }

    def configs(self) -> list[Callable[[random.Random], tuple[str, Config]]]:
        """Return functions that read a configuration for each round."""
        return [lambda _, name=name, path=path: (name, read_config(path, {})) for name, path in self.files.items()]  # type: ignore[misc]

    def publish(self, count: int = BATCH) -> None:
        """Add some messages."""
        for _ in range(count):
            self._channel.basic_publish("", self._name, b"%d" % self._published)
            self._published += 1

    def after(self, number: int) -> None:
        """Publish messages between rounds."""
        if number % 10 == 0:
            self.publish()

    def missing(self) -> set[int]:
        """Return the messages that are in neither queue after all bridges have ended."""
        there: set[int] = set()
        for queue in (f"{self._name}-out", self._name):
            while True:
                method, _, body = self._channel.basic_get(queue, auto_ack=True)
                if method is None:
                    break
                there.add(int(body))
        return set(range(self._published)) - there

    def close(self) -> None:
        """Remove the queues."""
        with suppress(pika.exceptions.AMQPError):
            for queue in (self._name, f"{self._name}-out"):
                self._channel.queue_delete(queue)
            self._connection.close()


@contextmanager
def rabbit_at(url: str, folder: Path) -> Iterator[Rabbit]:
    rabbit = Rabbit(url, folder)
    try:
        rabbit.publish()
        yield rabbit
    finally:
        rabbit.close()


def soak_processes(files: dict[str, Path], times: int, chance: random.Random) -> Outcome:
    """Run rounds with the program."""
    outcome = Outcome()
    for _ in range(times):
        name, path = chance.choice(sorted(files.items()))
        after_start = chance.random() < 0.7
        delay = chance.random() * (LATEST if after_start else LATEST_PROCESS)
        outcome.add(f"process, {name}", *process_round(path, delay, after_start=after_start))
    return outcome


@click.command(help=__doc__)
@click.option("--times", type=click.IntRange(min=0), default=10_000, show_default=True, help="Rounds in this process.")
@click.option(
    "--processes", type=click.IntRange(min=0), default=300, show_default=True, help="Rounds with the program."
)
@click.option("--memory", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="Share without a broker.")
@click.option("--seed", type=int, help="Which moments; printed, so that they can be had again.")
def main(times: int, processes: int, memory: float, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    outcomes = []
    lost: set[int] = set()
    try:
        with TemporaryDirectory() as name, server_set(SERVERS["rabbitmq"]) as servers:
            folder = Path(name)
            base = base_config(folder)
            outcomes.append(soak([lambda c: in_memory(base, c)], round(times * memory), chance))
            with rabbit_at(servers.first().url, folder) as rabbit:
                outcomes.append(soak(rabbit.configs(), times - round(times * memory), chance, rabbit.after))
                outcomes.append(soak_processes(rabbit.files, processes, chance))
                lost = rabbit.missing()
    except Unavailable as reason:
        print(f"soak: {reason}", file=sys.stderr)
        sys.exit(2)
    for outcome in outcomes:
        print(f"\n{outcome.rounds:,} rounds, the slowest end {outcome.slowest:.2f} s of {BOUND:.1f}")
        for what, count in sorted(outcome.codes.items()):
            print(f"  {count:6,}  {what}")
        for failure in outcome.failures[:5]:
            print(f"FAILED {failure}")
    print(f"\n{len(lost)} messages lost, {sum(len(each.failures) for each in outcomes)} rounds failed, seed {seed}")
    sys.exit(1 if lost or any(each.failures for each in outcomes) else 0)


if __name__ == "__main__":
    main()
