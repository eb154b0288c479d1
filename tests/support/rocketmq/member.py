"""Java's client beside ours: a process that sends, or is a member of a group, and reports what happens line by line."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from bridge.rocketmq.remoting.message import StoredMessage
from tests.recorders.jvm import PROGRAMS, QUICK, TRIES, find_classpath, make_command
from tests.support.servers import missing

SOURCE: Final = Path(__file__).parents[2] / "support" / "java" / "RocketmqMember.java"
VERSIONS: Final = ("5.5.0", "4.9.7")
"""Versions of the Java client; the second is for brokers of 4.x."""


def java(broker_version: str) -> str:
    """Return the class path of a client for brokers of this version; without Maven and a JDK the test is skipped."""
    for tool in PROGRAMS:
        if shutil.which(tool) is None:
            missing(f"{tool} is not installed")
    version = VERSIONS[broker_version.startswith("4.")]
    jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{version}")
    make_command(SOURCE, jars)  # compiles it
    return jars


class Member:
    """A consumer in Java."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.got: list[dict[str, Any]] = []
        """Messages that it consumed, in this order."""
        self._reads = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "topic" in told:
                self.got.append(told)

    async def leave(self) -> None:
        """Shut it down, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reads


@asynccontextmanager
async def _process(jars: str, told: Mapping[str, Any], *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process that has made its client; it is killed if the block ends before it."""
    running = make_command(SOURCE, jars, *QUICK, *options)
    with TemporaryFile() as log:
        for _ in range(TRIES):
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*running, stdin=pipe, stdout=pipe, stderr=log, limit=1 << 24)
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(told).encode() + b"\n")
                if await process.stdout.readline():
                    yield process
                    if not process.returncode:
                        return
                    break
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
        log.seek(0)
        raise RuntimeError(log.read().decode(errors="replace")[-4000:])


@asynccontextmanager
async def member(jars: str, *options: str, **told: Any) -> AsyncIterator[Member]:
    """Start a member of a group, or with ``transactions`` a transactional producer, until the block ends.

    ``namesrv``, ``group``, ``topic`` and ``tags`` or ``sql``; ``orderly``, ``broadcasting``, ``fails``, ``instance``,
    ``ip``; ``popped``: its queues are assigned by the broker, and popped messages are hidden for so many milliseconds;
    ``polls``: it is a lite pull consumer.
    """
    async with _process(jars, told, *options) as process:
        there = Member(process)
        yield there
        if process.returncode is None:
            await there.leave()


async def send_with_java(jars: str, namesrv: str, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Send these with Java's producer, each with ``topic``, ``body`` and other fields; return their ids and queues."""
    plain = {"flag": 0, "properties": {}}
    rows = [{**plain, **each, "body": base64.b64encode(each["body"]).decode()} for each in messages]
    async with _process(jars, {"namesrv": namesrv, "group": "java-sends", "messages": rows}) as process:
        out, _ = await process.communicate()
    *sent, end = [json.loads(line) for line in out.splitlines()]
    assert end == {"ended": True}
    return sent


def transact_with_java(
    jars: str, namesrv: str, group: str, rows: Sequence[tuple[str, bytes, str]], check: str
) -> AbstractAsyncContextManager[Member]:
    """Send transactions with Java's producer, each a topic, a body and the state of its local transaction.

    What the broker asks it about, and it answers with the state ``check``, is in the member's ``got``.
    """
    told = [{"topic": topic, "body": base64.b64encode(body).decode(), "state": state} for topic, body, state in rows]
    return member(jars, namesrv=namesrv, group=group, transactions=told, check=check)


ADDED: Final = ("MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME")
"""Properties that Java's consumer adds for itself."""


def fields_of(message: StoredMessage | Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of a message, in a form that both clients have."""
    if not isinstance(message, StoredMessage):
        properties = {name: value for name, value in message["properties"].items() if name not in ADDED}
        body = base64.b64decode(message["body"])
        return {**message, "properties": properties, "body": body, "system flag": message["system flag"] & ~PACKED}
    return {
        "topic": message.topic,
        "body": message.body,
        "properties": dict(message.properties),
        "flag": message.flag,
        "broker": message.broker,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "log offset": message.log_offset,
        "system flag": message.system_flag & ~PACKED,
        "born": message.born_time,
        "born host": message.born_host,
        "stored": message.store_time,
        "store host": message.store_host,
        "reconsumed": message.reconsume_times,
        "id": message.message_id,
    }


PACKED: Final = 0x701
"""Bits of the flag of a body that was compressed, and how, which Java leaves when it has unpacked the body."""
