"""``hashstar bridge run`` as a process that is killed and started again, and asked how it is."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

__all__ = ["Daemon"]

TOPOLOGY: Final = 'vhost "/"\nexchange chaos: fanout\nqueue out\nchaos -> out\n'

BRIDGE: Final = """\
topology = "chaos.bindings"
log_format = "json"
http = "127.0.0.1:{port}"
[policy]
window = {window}
reconnect_most = "1 s"
[sources.from]
exchange = "chaos"
{source}
[targets.to]
{target}"""

SECONDS: Final = 60.0


class Daemon:
    """The bridge of a run. Each of its processes has a log of its own in ``folder``."""

    def __init__(self, folder: Path, source: str, target: str, window: int) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        (folder / "chaos.bindings").write_text(TOPOLOGY)
        self._config = folder / "bridge.toml"
        self._config.write_text(BRIDGE.format(port=self._port, window=window, source=source, target=target))
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0
        """How many processes there were."""

    def start(self) -> None:
        """Start it."""
        self.started += 1
        with (self._folder / f"bridge-{self.started:03}.log").open("wb") as log:
            command = [sys.executable, "-m", "bridge.cli", "bridge", "run", str(self._config)]
            self._process = subprocess.Popen(command, stderr=log)

    def kill(self) -> None:
        """End it with SIGKILL; if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Have it drain and end; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(SECONDS)

    @property
    def code(self) -> int | None:
        """The exit code if it has ended, which it should not by itself."""
        return None if self._process is None else self._process.poll()

    def unsettled(self) -> int | None:
        """How many messages it has read and not settled; None: it does not answer."""
        status = self._status()
        return None if status is None else int(status["unsettled"])

    @property
    def is_ready(self) -> bool:
        """Whether it is connected on all sides, as far as it knows."""
        status = self._status()
        return status is not None and bool(status["ready"])

    def _status(self) -> dict[str, Any] | None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/status")
            told: dict[str, Any] = json.load(connection.getresponse())
        except (OSError, HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return told
