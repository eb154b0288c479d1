"""``hashstar record`` as a process of its own, between a client and a broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bindings.sources.recording.file import read_recording
from bindings.sources.recording.model import Recording
from tests.support.waiting import find_limit

ROOT = Path(__file__).parents[2]


@dataclass
class Recorded:
    """A running proxy."""

    process: subprocess.Popen[str]
    host: str
    port: int
    path: Path
    err: str = ""
    """What it printed to standard error; empty until it has ended."""

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"

    @property
    def recording(self) -> Recording:
        """What is in the file."""
        return read_recording(self.path.read_text(encoding="utf-8"), str(self.path))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; return the exit code."""
        self.process.send_signal(number)
        _, self.err = self.process.communicate(timeout=find_limit())
        return self.process.returncode


@contextmanager
def recorded(upstream: str, path: Path, *options: str, files: tuple[int, int] | None = None) -> Iterator[Recorded]:
    """Run the proxy to a broker, ``amqp://HOST:PORT``; at the end it is stopped if it runs.

    ``files`` is how many files it may have open, and how many it may allow itself.
    """
    command = [sys.executable, "-m", "bridge.cli", "record", "--listen", "127.0.0.1:0", "--upstream", upstream]
    if files is not None:
        command = ["sh", "-c", f'ulimit -Sn {files[0]}; ulimit -Hn {files[1]}; exec "$@"', "sh", *command]
    process = subprocess.Popen(
        [*command, *options, str(path)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    running = Recorded(process, "127.0.0.1", int(address.rpartition(":")[2] or 0), path)
    try:
        yield running
    finally:
        if process.poll() is None:
            running.stop()
