"""``hashstar bridge run`` as a process that can be killed and started again, and whose state can be read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from tests.support.unique import free_port
from tests.support.waiting import find_limit

TOPOLOGY: Final = 'vhost "/"\nexchange chaos: fanout\nqueue out\nchaos -> out\n'

BRIDGE: Final = """\
topology = "chaos.bindings"
log_format = "json"
http = "127.0.0.1:{port}"
[policy]
window = {window}
reconnect_most = "1 s"
{policy}
[sources.from]
exchange = "chaos"
{source}
[targets.to]
{target}
{rest}"""

LOOK: Final = 0.25


class Daemon:
    """A bridge. Each of its processes has its own log in ``folder``.

    ``policy`` and ``rest`` are more lines of the policy's table, and more tables.
    """

    def __init__(
        self,
        folder: Path,
        source: str,
        target: str,
        window: int,
        *,
        policy: str = "",
        rest: str = "",
        topology: str = TOPOLOGY,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._port = free_port()
        self.config = folder / "bridge.toml"
        self._source, self._target, self._window = source, target, window
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0
        """Number of processes that were started."""
        self._has_answered = False  # whether the present process has
        self.is_frozen = False
        """Whether it is between `suspend` and `resume`."""
        self.environment: Mapping[str, str] | None = None
        """Environment of the next process; None for that of this one."""
        self.log: int | None = None
        """Descriptor that the next process writes its log to; None for a file in the folder."""
        self.configure(policy=policy, rest=rest, topology=topology)

    def configure(
        self, *, policy: str = "", rest: str = "", topology: str = TOPOLOGY, source: str = "", target: str = ""
    ) -> None:
        """Write the configuration of the next process; an empty ``source`` or ``target`` leaves its table as it is."""
        self._source, self._target = source or self._source, target or self._target
        (self.folder / "chaos.bindings").write_text(topology)
        self.config.write_text(
            BRIDGE.format(
                port=self._port, window=self._window, source=self._source, target=self._target, policy=policy, rest=rest
            )
        )

    def start(self) -> None:
        """Start a process."""
        self.started += 1
        self._has_answered = self.is_frozen = False
        with (self.folder / f"bridge-{self.started:03}.log").open("wb") as log:
            command = [sys.executable, "-m", "bridge.cli", "bridge", "run", str(self.config)]
            stderr = log if self.log is None else self.log
            self._process = subprocess.Popen(command, stderr=stderr, env=self.environment)

    def kill(self) -> None:
        """End the process with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Let it drain and end, and return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(find_limit())

    def suspend(self) -> None:
        """Freeze it with SIGSTOP; its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self.is_frozen = True

    def resume(self) -> None:
        """Let it continue after `suspend`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def pause(self) -> None:
        """Let it read nothing more, with SIGUSR1."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)

    def unpause(self) -> None:
        """Let it read again, with SIGUSR2."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR2)

    def reload(self) -> None:
        """Let it read its configuration again, with SIGHUP."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    @property
    def code(self) -> int | None:
        """The exit code if the process has ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def peak_memory(self) -> int:
        """Maximum memory that the running process has used, in bytes (VmHWM)."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))

    def count_unsettled(self) -> int | None:
        """Return the number of messages that it has read and not settled; None if it does not answer."""
        status = self.status()
        return None if status is None else int(status["unsettled"])

    @property
    def is_ready(self) -> bool:
        """Whether it reports that it is ready."""
        status = self.status()
        return status is not None and bool(status["ready"])

    def status(self) -> dict[str, Any] | None:
        """Return the answer of ``/status``; None if there is none."""
        answer = self.get("/status")
        try:
            return None if answer is None else dict(json.loads(answer[1]))
        except ValueError:
            return None

    def metrics(self) -> str:
        """Return the answer of ``/metrics``; "" of a process that has answered nothing yet, is frozen or has ended.

        Others are slow, on a busy machine: what they have counted is not 0.
        """
        deadline = time.monotonic() + find_limit()
        while (answer := self.get("/metrics")) is None and self._has_answered and not self.is_frozen:
            assert self._process is not None
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK)
            if self.code is not None or time.monotonic() > deadline:
                break
        return "" if answer is None else answer[1]

    def get(self, path: str) -> tuple[int, str] | None:
        """Return code and body of an answer on HTTP; None if there is none."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            found = answer.status, answer.read().decode()
        except (OSError, HTTPException, ValueError):
            return None
        finally:
            connection.close()
        self._has_answered = True
        return found

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events in the logs of all its processes."""
        for log in sorted(self.folder.glob("bridge-*.log")):
            for line in log.read_text(errors="replace").splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event
