"""Run members as processes, and find what went wrong: losses, wrong order, partitions without an owner, moves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from pathlib import Path

from exchange.partition.slots import count_moves
from tests.support.bridge.groups.member import RECORD
from tests.support.waiting import find_limit


@dataclass
class Members:
    """Processes of members, by name."""

    url: str
    queue: str
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0

    def start(self, count: int = 1) -> None:
        """Start members."""
        for _ in range(count):
            name = f"m{self.started}"
            self.started += 1
            self.processes[name] = start_module(
                "member", self.url, self.queue, str(self.folder), name, log=self.folder / f"{name}.log"
            )

    def kill(self) -> None:
        """Kill the oldest member: the one that plans."""
        name = next(iter(self.processes))
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self, count: int = 1) -> None:
        """Ask the oldest members to leave, and wait for them."""
        leaving = [self.processes.pop(name) for name in list(self.processes)[:count]]
        for process in leaving:
            process.send_signal(signal.SIGTERM)
        for process in leaving:
            assert process.wait(find_limit()) == 0

    def pause(self, seconds: float, at: int = 0) -> None:
        """Stop a member's process for a time, as a debugger or a busy host does."""
        process = list(self.processes.values())[at]
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def handled(self) -> int:
        """Return the number of handled messages, those that were handled twice included."""
        return sum(path.stat().st_size for path in self.folder.glob("*.handled")) // RECORD.size

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def start_module(name: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a module of this folder as a process."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", f"tests.support.bridge.groups.{name}", *arguments], stdout=out, stderr=out
        )


@dataclass(frozen=True)
class Findings:
    """What all members handled together."""

    handled: int
    lost: int
    duplicates: int
    out_of_order: int
    """Number of messages that were handled before an earlier one of their key was handled for the first time."""
    longest_gap: float
    """Longest time in seconds for which no message of some partition was handled."""
    plans: int
    worst_moves: list[str]
    """Changes of the plan that moved more than a share and one partition for each member that came or went."""


def find(folder: Path, keys: int, each: int, partition_of: Callable[[int], int]) -> Findings:
    """Read what the members wrote. ``partition_of`` maps a key to its partition."""
    records = sorted(
        record
        for path in folder.glob("*.handled")
        for record in RECORD.iter_unpack(path.read_bytes()[: path.stat().st_size // RECORD.size * RECORD.size])
    )
    expected = [0] * keys
    ahead: Counter[int] = Counter()
    duplicates = out_of_order = 0
    last: dict[int, float] = {}
    gap = 0.0
    seen: set[tuple[int, int]] = set()
    for when, key, number in records:
        if (key, number) in seen:
            duplicates += 1
        else:
            seen.add((key, number))
            if number == expected[key]:
                expected[key] += 1
                while ahead and (key, expected[key]) in seen:
                    expected[key] += 1
            else:
                out_of_order += 1
                ahead[key] += 1
        partition = partition_of(key)
        gap = max(gap, when - last.get(partition, when))
        last[partition] = when
    return Findings(len(records), keys * each - len(seen), duplicates, out_of_order, gap, *_judge_plans(folder))


def _judge_plans(folder: Path) -> tuple[int, list[str]]:
    plans: dict[tuple[int, str], dict[str, list[int]]] = {}
    for path in folder.glob("*.plans"):
        for line in path.read_text().splitlines():
            epoch, planner, assignment = json.loads(line)
            plans[epoch, planner] = assignment
    in_order = [plans[key] for key in sorted(plans)]
    worst = []
    for before, after in pairwise(in_order):
        changed = len(before.keys() ^ after.keys())
        count = sum(map(len, before.values()))
        most = changed * (ceil(count / min(len(before), len(after))) + 1)
        if (moved := count_moves(before, after)) > most:
            worst.append(
                f"{moved} of {count} partitions moved, at most {most} should: {sorted(before)} -> {sorted(after)}"
            )
    return len(plans), worst
