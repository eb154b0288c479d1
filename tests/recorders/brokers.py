"""Brokers that a recorder runs on this machine, of any version, with what starts those in our images."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.unique import free_ports

IMAGES: Final = Path(__file__).parent.parent.parent / ".ci" / "images.d"


@contextmanager
def install(name: str, version: str) -> Iterator[Path]:
    """Yield a folder with a version of a server: its jars in ``libs``, and its scripts."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / name
        shutil.copytree(IMAGES / name, home)
        subprocess.run([home / "prepare", version], check=True, timeout=900)
        yield home


def find_rocketmq_ports() -> tuple[str, str]:
    """Return free ports of a name server and of a broker, which listens two below and one above its own, too."""
    namesrv, _, _, broker, _ = map(str, free_ports(5))
    return namesrv, broker


@contextmanager
def run_server(command: list[str], environment: Mapping[str, str], log: Path, ready: bytes) -> Iterator[None]:
    """Run a server, from the line of its log that shows that it is ready until it has ended. Raises TimeoutError."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=output)
    try:
        for _ in range(600):
            time.sleep(0.5)
            if ready in log.read_bytes():
                break
        else:
            raise TimeoutError(log.read_text(errors="replace"))
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
