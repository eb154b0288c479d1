"""Watch a process that fuzzes: it shows which input it reads, and is killed when it stands still for too long.

libFuzzer ends an input that takes too long, but in the handler of a signal, within the process: it cannot end a
deadlock in the allocator, nor one while the process exits. Only another process can.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

LONGEST: Final = 1 << 20
"""Maximum size in bytes of an input."""
HEAD: Final = Struct("<QQ")
DUMP_SECONDS: Final = 5.0
"""Maximum duration in seconds that a process which hangs has to write the stacks of its threads."""


class Progress:
    """The input that a process reads, in memory that it shares with its parent."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, HEAD.size + LONGEST)
        self._steps = 0

    def begin(self, data: bytes) -> None:
        """Show an input before it is read."""
        self._steps += 1
        self._memory[HEAD.size : HEAD.size + len(data)] = data
        HEAD.pack_into(self._memory, 0, self._steps, len(data))

    def end(self) -> None:
        """Show that the input was read."""
        self._steps += 1
        self._memory[:8] = self._steps.to_bytes(8, "little")

    @property
    def steps(self) -> int:
        """Number of inputs that began plus those that ended: odd while one is read."""
        steps: int = HEAD.unpack_from(self._memory)[0]
        return steps

    @property
    def last(self) -> bytes:
        """The input that is read, or was read last."""
        size: int = HEAD.unpack_from(self._memory)[1]
        return self._memory[HEAD.size : HEAD.size + size]


class Child:
    """A forked process. `patience` is the maximum duration in seconds between two steps of its progress."""

    def __init__(
        self, run: Callable[[Progress], object], log: Path, patience: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.progress = Progress()
        self._patience = patience
        self._clock = clock
        self._seen = (0, clock())
        log.touch()
        self.pid = os.fork()
        if not self.pid:
            try:
                # libFuzzer, which comes later, handles this signal too, but leaves a handler that is there.
                faulthandler.register(signal.SIGUSR2, log.open("ab"), all_threads=True)
                run(self.progress)
            finally:
                traceback.print_exc()
                os._exit(3)

    def poll(self) -> int | None:
        """Return the exit code of the process, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def is_stuck(self) -> bool:
        """Return whether the process has made no step for longer than it may."""
        steps, now = self.progress.steps, self._clock()
        if steps != self._seen[0]:
            self._seen = steps, now
        return now - self._seen[1] > self._patience

    def kill(self, log: Path) -> None:
        """Let the process write the stacks of its threads to its log, and end it."""
        size = log.stat().st_size
        os.kill(self.pid, signal.SIGUSR2)
        deadline = time.monotonic() + DUMP_SECONDS
        while time.monotonic() < deadline and log.stat().st_size == size:
            time.sleep(0.05)
        time.sleep(0.2)  # the stacks are several writes
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
