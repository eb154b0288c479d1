"""Fuzzing one target: the process that atheris runs in, what it is limited to, and what came of it."""

from __future__ import annotations

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

from tests.fuzz.target import Target, offline

__all__ = ["HEADING", "Campaign", "Limits", "Outcome"]

LONGEST: Final = 1 << 20
"""Maximum size in bytes of an input."""
STRETCHED: Final = 200
"""One mutation of so many repeats a part of the input, up to `LONGEST`: what is not linear shows by it."""
RESTARTS: Final = 20
"""Maximum number of times that a target which was killed is started again."""
PATIENCE: Final = 6
MEBIBYTE: Final = 1 << 20
ADDRESS_SPACE: Final = 2 * 1024
"""Address space in MiB above the limit of memory: threads and arenas reserve what they do not use."""
PROJECT: Final = ("/exchange/", "/bindings/", "/bridge/", "/tests/fuzz/")
STATUS: Final = re.compile(rb"#(\d+)\s+(\w+)\s+cov: (\d+) ft: (\d+)")


class Limits(NamedTuple):
    """What one input may take."""

    memory: int
    """In MiB, of the process."""
    seconds: int
    """Of processor time. What has not ended after `PATIENCE` times as long, however busy the machine is, is killed."""
    runs: int = -1
    """Of the target, at most; -1 is no limit."""
    seed: int = 0
    """Of chance; 0 is another one each time."""


HEADING: Final = f"{'target':<20} {'runs':>11} {'edges at first':>14} {'at last':>8} {'s':>6} findings"
"""Of a table of outcomes."""


class Outcome(NamedTuple):
    """What came of fuzzing one target."""

    name: str
    runs: int
    coverage: tuple[int, int]
    """Edges that the corpus covers, and those that are covered at the end."""
    seconds: float
    findings: tuple[Path, ...]

    @property
    def line(self) -> str:
        """A line of a table."""
        first, last = self.coverage
        return f"{self.name:<20} {self.runs:>11,} {first:>14,} {last:>8,} {self.seconds:>6.0f} {len(self.findings)}"


class Campaign:
    """Runs a target until its time is over, in one process after another if they are killed."""

    pid = 0

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
        for folder in ("corpus", "findings"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        self._known = frozenset((work / "findings").iterdir())

    def start(self) -> None:
        """Fork the process that fuzzes."""
        self._begun = self._begun or time.monotonic()
        left = max(1, round(self._begun + self._seconds - time.monotonic()))
        self._logs.append(self._work / f"log-{self._restarts}")
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            try:
                self._fuzz(left)
            finally:
                traceback.print_exc()
                os._exit(3)

    def restart(self, status: int) -> bool:
        """Start again after an end that was not in time; return whether it was."""
        if not status or time.monotonic() >= self._begun + self._seconds or self._restarts >= RESTARTS:
            return False
        self._restarts += 1
        self.start()
        return True

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
        return Outcome(self.name, runs, (first, last), time.monotonic() - self._begun, tuple(new))

    def _fuzz(self, seconds: int) -> NoReturn:
        import atheris

        os.chdir(self._work)
        log = os.open(self._logs[-1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
        with offline():
            atheris.Setup(arguments, self._keeping(findings), custom_mutator=_mutated)
            atheris.Fuzz()
        os._exit(0)

    def _keeping(self, findings: Path) -> Callable[[bytes], None]:
        """Return the target; what it raises is kept once for each place, what is slow once, and it goes on."""
        met: set[str] = set()
        check, most = self._target.check, self._limits.seconds

        def keep(name: str, data: bytes, text: str) -> None:
            if name not in met:
                met.add(name)
                (findings / name).write_bytes(data)
                (findings / f"{name}.txt").write_text(text[-8000:])

        def run(data: bytes) -> None:
            begun = time.process_time()
            try:
                check(data)
            except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
                keep(_place(error), data, "".join(traceback.format_exception(error)))
            taken = time.process_time() - begun
            if taken > most:
                keep("slow", data, f"{taken:.1f} s of processor time for {len(data):,} bytes\n")

        return run


def _place(error: Exception) -> str:
    """Return a name for an error: its type, and the last line of the project that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if any(p in frame.filename for p in PROJECT)]
    last = frames[-1]
    inner = "-".join(frame.name.strip("<>_") for frame in frames[-2:])
    text = f"{type(error).__name__}-{Path(last.filename).stem}-{last.lineno}-{inner}"
    return f"{text[:80]}-{blake2b(text.encode(), digest_size=3).hexdigest()}"


def _mutated(data: bytes, longest: int, seed: int) -> bytes:
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
