"""``hashstar serve``: in a process of its own, as a user starts it, or on threads of the tests, which is faster."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bindings.http.hosts import HostCheck
from bindings.http.listener import make_server
from bindings.serve.explorer import Explorer
from bindings.serve.site import make_handler
from bindings.serve.traffic import ReportTraffic
from bindings.serve.watching import WatchedSource
from bindings.sources.open import open_source
from tests.support.waiting import find_limit

ROOT: Final = Path(__file__).parents[2]
TOKEN: Final = "a-token"  # noqa: S105


@dataclass
class Served:
    """A running server."""

    address: str
    """The address of the page, with its token."""

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]

    @property
    def port(self) -> int:
        found = re.search(r":(\d+)/", self.address)
        assert found is not None
        return int(found[1])


@dataclass
class Process(Served):
    """A server in a process of its own."""

    process: subprocess.Popen[Any]

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """End it by a signal, and return its exit code and what it wrote to standard error."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=find_limit())
        return self.process.returncode, err.decode()


@contextmanager
def serve_here(path: Path, report: Path | None = None) -> Iterator[Served]:
    """Serve a file on threads of this process."""
    watched = WatchedSource(lambda: open_source(str(path)), str(path), None, None)
    explorer = Explorer(watched, None if report is None else ReportTraffic.load(str(report)))
    server = make_server("127.0.0.1", 0, make_handler(explorer, TOKEN, HostCheck("127.0.0.1")))
    watched.start()
    server.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_address[1]}/?token={TOKEN}")
    finally:
        watched.stop()
        server.close()


@contextmanager
def serve(*arguments: str) -> Iterator[Process]:
    """Start a server with these arguments, and yield it as soon as it has printed its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bridge.cli", "serve", *arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        until = time.monotonic() + find_limit()
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
            part = os.read(process.stdout.fileno(), 4096) if ready else b""
            assert part, process.communicate()[1].decode() if process.poll() is not None else "no address was printed"
            line += part
        yield Process(line.decode().strip(), process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
