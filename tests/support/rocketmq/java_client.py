"""RocketMQ's own Java client, for tests that compare with it: `RocketmqProbe.java`."""

from __future__ import annotations

import asyncio
import shutil
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

from tests.recorders.jvm import PROGRAMS, QUICK, ask, find_classpath
from tests.support.servers import missing

LATEST: Final = "5.5.0"
SOURCE: Final = Path(__file__).parents[2] / "support" / "java" / "RocketmqProbe.java"
OPEN: Final = ("--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED")


def probe(namesrv: str, group: str, *, version: str = LATEST, **asked: Any) -> dict[str, Any]:
    """Return the answers of a client's version; without Java or Maven the test is skipped, or fails."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"no {program} on this machine")
    jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}")
    answers: dict[str, Any] = ask(SOURCE, jars, {"namesrv": namesrv, "group": group, **asked}, *QUICK, *OPEN)
    return answers


async def probe_async(namesrv: str, group: str, *, version: str = LATEST, **asked: Any) -> dict[str, Any]:
    """Do as `probe`, while the event loop goes on."""
    return await asyncio.to_thread(probe, namesrv, group, version=version, **asked)


def encode_body(body: bytes) -> str:
    """Return a body in the form of the probe's input and output."""
    return b64encode(body).decode()
