"""A bridge from a topic to a topic, as a process that tests may kill: ``python -m tests.support.kafka.copy JSON``.

It prints ``reading`` when its source is open. The JSON has bootstrap, read, written, group, transactional and window,
and may have settings of the target and the type of the group.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any

from bridge.endpoint import Source
from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget, TransactionalTarget
from bridge.endpoints.kafka.consumer.share import ShareSource
from bridge.endpoints.topics import TopicDestination
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from tests.support.bridge.behaviour import router_to
from tests.support.waiting import find_limit

SOON_MISSED = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500}
"""Settings of a member whose death is noticed sooner than other brokers than `kafka_broker` allow."""


class Journal:
    """Prints what happens to connections."""

    def __init__(self, name: str) -> None:
        self._name = name

    def connected(self, name: str) -> None:
        print("reading" if name == self._name else f"connected {name}", flush=True)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        print(f"disconnected {name}: {error}; again in {wait:.1f} s", flush=True)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


async def copy(job: dict[str, Any]) -> None:
    """Run a pump until SIGTERM."""
    settings = {"bootstrap.servers": job["bootstrap"], "client.id": "copy"}
    transactional, window = job["transactional"], job["window"]
    source: Source
    if job.get("group_type") == "share":
        source = ShareSource("read", {**settings, "group.id": job["group"]}, [job["read"]], window=window)
    else:
        group = {**settings, **SOON_MISSED, "group.id": job["group"]}
        source = KafkaSource("read", group, [job["read"]], window=window, transactional=transactional)
    make = TransactionalTarget if transactional else KafkaTarget
    own = {**settings, "message.timeout.ms": 0, **job.get("settings", {})}
    target = make("written", own, {"queue": TopicDestination(job["written"])})
    policy = Policy(window, reconnect=Backoff(0.05, 0.5), drain=20.0)
    pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Journal("read"), policy)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, pump.stop)
    await pump.run()


class Copying:
    """The process. It prints to a file: with a pipe that is not read it would wait until it is."""

    def __init__(self, job: dict[str, Any]) -> None:
        # Opened to append, as both share one position in it: the process writes at the end, wherever is being read.
        self._output = TemporaryFile("a+")  # noqa: SIM115  closed with the process
        command = [sys.executable, "-m", "tests.support.kafka.copy", json.dumps(job)]
        self._process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT)

    def read_output(self) -> str:
        """Return all that it has printed."""
        self._output.seek(0)
        return self._output.read()

    def check(self) -> None:
        """Assert that it has not ended."""
        assert self._process.poll() is None, self.read_output()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._output.close()

    def stop(self) -> None:
        """End it with SIGTERM, and assert that all was well."""
        self._process.terminate()
        code, output = self._process.wait(find_limit()), self.read_output()
        self._output.close()
        assert code == 0, output


if __name__ == "__main__":
    asyncio.run(copy(json.loads(sys.argv[1])))
