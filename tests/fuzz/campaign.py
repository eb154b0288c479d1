"""Fuzzing one target: the process that atheris runs in, what it is limited to, and what came of it."""

from __future__ import annotations

import ctypes
import os
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from tests.fuzz.target import Target, offline, remove_folder
from tests.fuzz.watch import LONGEST, Child, Progress

STRETCHED: Final = 200
"""One of this many mutations repeats a part of the input, up to `LONGEST`, which shows work that is not linear."""
RESTARTS: Final = 20
"""Maximum number of times that a target which was killed is started again."""
PATIENCE: Final = 6
MEBIBYTE: Final = 1 << 20
ADDRESS_SPACE: Final = 2 * 1024
"""Address space in MiB above the limit of memory: threads and arenas reserve what they do not use."""
PROJECT: Final = ("/exchange/", "/bindings/", "/bridge/", "/tests/fuzz/")
DONE: Final = re.compile(rb"^Done \d+ runs in ", re.MULTILINE)
"""Last line of libFuzzer when all runs are done or the time is over."""
STATUS: Final = re.compile(rb"#(\d+)\s+(\w+)\s+cov: (\d+) ft: (\d+)")


class Limits(NamedTuple):
    """The limits of one input and of a target."""

    memory: int
    """Maximum memory of the process, in MiB."""
    seconds: int
    """Maximum processor time, in seconds; after `PATIENCE` times as long by the clock the process is killed."""
    runs: int = -1
    """Maximum number of runs of the target; -1 is no limit."""
    seed: int = 0
    """Seed of the mutations; 0 is a new one each time."""
    grace: float = 30.0
    """Duration in seconds that libFuzzer has to end an input that took too long, before the process is killed."""


HEADING: Final = f"{'target':<20} {'runs':>11} {'edges at first':>14} {'at last':>8} {'s':>6} findings"
"""Head of the table of outcomes."""


class Outcome(NamedTuple):
    """The outcome of fuzzing one target."""

    name: str
    runs: int
    coverage: tuple[int, int]
    """Edges that the corpus covers, and those that are covered at the end."""
    seconds: float
    findings: tuple[Path, ...]
    note: str = ""

    @property
    def line(self) -> str:
        """A line of a table."""
        first, last = self.coverage
        figures = f"{self.runs:>11,} {first:>14,} {last:>8,} {self.seconds:>6.0f} {len(self.findings)}"
        return f"{self.name:<20} {figures} {self.note}".rstrip()


class Campaign:
    """Runs a target until its time is over, in one process after another if they are killed."""

    _child: Child

    def __init__(self, name: str, target: Target, seconds: float, seeds: Path, work: Path, limits: Limits) -> None:
        self.name = name
        self._target = target
        self._seconds = seconds
        self._seeds = seeds
        self._work = work
        self._limits = limits
        self._begun = 0.0
        self._restarts = 0
        self._logs: list[Path] = []
        self._note = ""
        for folder in ("corpus", "findings"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        self._known = frozenset((work / "findings").iterdir())

    def start(self) -> None:
        """Fork the process that fuzzes."""
        self._begun = self._begun or time.monotonic()
        left = max(1, round(self._begun + self._seconds - time.monotonic()))
        self._logs.append(self._work / f"log-{self._restarts}")
        self._logs[-1].unlink(missing_ok=True)
        sys.stdout.flush()
        patience = PATIENCE * self._limits.seconds + self._limits.grace
        self._child = Child(lambda progress: self._fuzz(left, progress), self._logs[-1], patience)

    def has_ended(self) -> bool:
        """Return whether the target is over. A process that hangs is killed, one that was killed is started again."""
        status = self._child.poll()
        if status is None:
            if not self._child.is_stuck():
                return False
            status = self._end_hung()
        remove_folder(self._child.pid)
        if not status or time.monotonic() >= self._begun + self._seconds or self._restarts >= RESTARTS:
            return True
        self._restarts += 1
        self.start()
        return False

    def _end_hung(self) -> int:
        """Kill a process that hangs, keep what it read last, and return what it would have exited with."""
        log, progress = self._logs[-1], self._child.progress
        is_done = DONE.search(log.read_bytes()) is not None and not progress.steps % 2
        self._child.kill(log)
        if is_done:
            self._note = f"hung at exit, see {log}"
            return 0
        state = "while it read this input" if progress.steps % 2 else "after it had read this input"
        text = f"The process stood still {state}. Its log ends with:\n\n{log.read_text(errors='replace')[-8000:]}"
        finding = self._work / "findings" / "hang"
        finding.write_bytes(progress.last)
        finding.with_suffix(".txt").write_text(text)
        return 1

    def outcome(self) -> Outcome:
        """Read what libFuzzer logged."""
        runs, first, last = 0, 0, 0
        for log in self._logs:
            rows = STATUS.findall(log.read_bytes())
            if rows:
                runs += int(rows[-1][0])
                first = first or next((int(row[2]) for row in rows if row[1] == b"INITED"), 0)
                last = max(last, *(int(row[2]) for row in rows))
        new = sorted(
            path for path in (self._work / "findings").iterdir() if path not in self._known and not path.suffix
        )
        return Outcome(self.name, runs, (first, last), time.monotonic() - self._begun, tuple(new), self._note)

    def _fuzz(self, seconds: int, progress: Progress) -> NoReturn:
        import atheris

        os.chdir(self._work)
        log = os.open(self._logs[-1], os.O_WRONLY | os.O_APPEND)
        for stream, descriptor in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(stream, descriptor)
        space = (self._limits.memory + ADDRESS_SPACE) * MEBIBYTE
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        findings = self._work / "findings"
        arguments = [
            self.name, str(self._work / "corpus"), *([str(self._seeds)] if self._seeds.is_dir() else []),
            f"-max_total_time={seconds}", f"-max_len={LONGEST}",
            f"-timeout={PATIENCE * self._limits.seconds}", f"-report_slow_units={PATIENCE * self._limits.seconds}",
            f"-rss_limit_mb={self._limits.memory}", f"-artifact_prefix={findings}/", "-print_final_stats=1",
            "-reload=0", "-len_control=0",
            f"-runs={self._limits.runs}", f"-seed={self._limits.seed}",
        ]  # fmt: skip
        _exit_at_once()
        with offline():
            atheris.Setup(arguments, self._keeping(findings, progress), custom_mutator=_mutate)
            atheris.Fuzz()
        os._exit(0)

    def _keeping(self, findings: Path, progress: Progress) -> Callable[[bytes], None]:
        """Return the target; what it raises is kept once for each place, what is slow once, and it goes on."""
        met: set[str] = set()
        check, most = self._target.check, self._limits.seconds

        def keep(name: str, data: bytes, text: str) -> None:
            if name not in met:
                met.add(name)
                (findings / name).write_bytes(data)
                (findings / f"{name}.txt").write_text(text[-8000:])

        def run(data: bytes) -> None:
            progress.begin(data)
            begun = time.process_time()
            try:
                check(data)
            except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
                keep(_place(error), data, "".join(traceback.format_exception(error)))
            taken = time.process_time() - begun
            if taken > most:
                keep("slow", data, f"{taken:.1f} s of processor time for {len(data):,} bytes\n")
            progress.end()

        return run


def _exit_at_once() -> None:
    """Let exit(), with which libFuzzer ends, end the process before the libraries tidy up.

    Arrow waits there for its threads. One that reads a Python file, or frees what it read, needs the GIL, which the
    thread that exits keeps: a deadlock. Handlers run in reverse order, and Arrow adds those of its threads at their
    first use.
    """
    import pyarrow as pa

    pa.cpu_count(), pa.io_thread_count()
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)


def _place(error: Exception) -> str:
    """Return a name for an error: its type, and the last line of the project that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if any(p in frame.filename for p in PROJECT)]
    last = frames[-1]
    inner = "-".join(frame.name.strip("<>_") for frame in frames[-2:])
    text = f"{type(error).__name__}-{Path(last.filename).stem}-{last.lineno}-{inner}"
    return f"{text[:80]}-{blake2b(text.encode(), digest_size=3).hexdigest()}"


def _mutate(data: bytes, longest: int, seed: int) -> bytes:
    """Return one of libFuzzer's mutations, or now and then a part repeated many times."""
    import atheris

    chance = random.Random(seed)
    if len(data) < 2 or chance.randrange(STRETCHED):
        mutated: bytes = atheris.Mutate(data, longest)  # an attribute that `Fuzz` replaces
        return mutated
    start = chance.randrange(len(data))
    part = data[start : start + chance.choice((1, 2, 5, 20, 100, len(data)))]
    room = (1 << chance.randrange(8, 21)) - len(data)
    return (data[:start] + part * max(room // len(part), 1) + data[start:])[:longest]
