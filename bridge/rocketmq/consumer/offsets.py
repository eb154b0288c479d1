"""The offsets of a group: kept by brokers, or, when broadcasting, by each member in a file of its own.

The file has the Java client's format, so each client can continue from the other's file. It is not JSON, because its
keys are objects:
``{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:42}}``.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol

from bridge.aside import call_aside
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.remoting.errors import BrokerError, RemotingError
from exchange.errors import InputError
from exchange.files.replacing import replace_file
from exchange.values.json_text import scan_value

RETRY_PREFIX: Final = "%RETRY%"


class ConsumeFrom(Enum):
    """The offset at which a group begins a queue that it has never read (`ConsumeFromWhere`)."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    """At its end; but at its first message while the broker has that in memory, since it takes the topic for new."""
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    """At its first message."""
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    """At the first message stored at or after a time."""


class OffsetStore(Protocol):
    """The store of a group's offsets. All messages of a queue before its offset are acknowledged."""

    async def read(self, queue: TopicQueue) -> int | None:
        """Return the group's offset in a queue; None if there is none. Raises RemotingError, InputError."""

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> Mapping[TopicQueue, Exception]:
        """Store offsets; return the queues whose offset could not be stored, each with the reason."""

    def may_commit_with_pull(self, queue: TopicQueue) -> bool:
        """Return whether a pull of the queue may also commit the group's offset."""


async def start_offset(
    queue: TopicQueue, offsets: OffsetStore, queues: BrokerQueues, where: ConsumeFrom, time: int = 0
) -> tuple[int, bool]:
    """Return the offset at which to begin a queue just assigned (`RebalancePushImpl.computePullFromWhere...`).

    With it, whether that is the group's own. ``time`` is for TIMESTAMP, in milliseconds since 1970. Raises
    RemotingError, InputError.
    """
    known = await offsets.read(queue)
    if known is not None:
        return known, True
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if where is ConsumeFrom.FIRST or (where is ConsumeFrom.LAST and is_retry):
        return 0, False  # where the queue begins later, the broker answers the first pull with that offset
    if where is ConsumeFrom.LAST or is_retry:
        return await queues.max_offset(queue), False
    return await queues.search_offset(queue, time), False


class BrokerOffsets:
    """Offsets kept by the brokers (`RemoteBrokerOffsetStore`).

    Until a broker has stored a first offset of the group in a topic, the offsets of that topic are committed one by
    one: of two first commits at the same time, brokers up to 5.5.0 may lose one
    (`ConsumerOffsetManager.commitOffset`).
    """

    def __init__(self, queues: BrokerQueues) -> None:
        self._queues = queues
        self._turns: defaultdict[TopicQueue, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Queue -> the lock by which its commits are sent one at a time: else a late commit of an older offset could
        replace a newer one."""
        self._firsts: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        """Broker and topic -> the lock under which the first offset of the topic is committed."""
        self._begun: set[tuple[str, str]] = set()
        """Brokers and topics with a commit that the broker has confirmed."""

    async def read(self, queue: TopicQueue) -> int | None:
        return await self._queues.committed_offset(queue)

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> Mapping[TopicQueue, Exception]:
        by_topic: defaultdict[tuple[str, str], dict[TopicQueue, int]] = defaultdict(dict)
        for queue, offset in offsets.items():
            by_topic[queue.broker, queue.topic][queue] = offset
        failed = await asyncio.gather(*[self._persist_topic(*each) for each in by_topic.items()])
        return {queue: error for each in failed for queue, error in each.items()}

    async def _persist_topic(
        self, topic: tuple[str, str], offsets: dict[TopicQueue, int]
    ) -> dict[TopicQueue, RemotingError]:
        """Commit the offsets of a broker's topic: one after the other until the first is stored, then all at once."""
        failed: dict[TopicQueue, RemotingError] = {}
        async with self._firsts[topic]:
            while offsets and topic not in self._begun:
                queue, offset = offsets.popitem()
                error = await self._persist(queue, offset)
                if error is None:
                    self._begun.add(topic)
                    break
                failed[queue] = error
                if not isinstance(error, BrokerError):  # no answer: do not wait for a timeout with each of the others
                    return failed | dict.fromkeys(offsets, error)
        errors = await asyncio.gather(*[self._persist(queue, offset) for queue, offset in offsets.items()])
        return failed | {queue: error for queue, error in zip(offsets, errors, strict=True) if error is not None}

    async def _persist(self, queue: TopicQueue, offset: int) -> RemotingError | None:
        try:
            async with self._turns[queue]:
                await self._queues.commit(queue, offset)
        except RemotingError as error:
            return error
        return None

    def may_commit_with_pull(self, queue: TopicQueue) -> bool:
        return (queue.broker, queue.topic) in self._begun


class LocalOffsets:
    """Offsets kept in a file, ``offsets.json`` (`LocalFileOffsetStore`); the one before it is ``offsets.json.bak``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = asyncio.Lock()

    @classmethod
    def for_group(cls, client_id: str, group: str, folder: Path | None = None) -> LocalOffsets:
        """Take the Java client's path: ``~/.rocketmq_offsets/CLIENT_ID/GROUP/offsets.json``."""
        return cls((folder or Path.home() / ".rocketmq_offsets") / client_id / group / "offsets.json")

    def load(self) -> dict[TopicQueue, int]:
        """Return the offsets in the file, else in the one before it; none if neither exists. Raises InputError."""
        for path in (self.path, Path(f"{self.path}.bak")):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
                if not text:
                    continue
                return parse_table(text)
            except FileNotFoundError:
                continue
            except OSError as error:
                problem: Exception = error
            except InputError as error:
                problem = error
            if path != self.path:
                raise InputError(f"{path}: {problem}; remove it and offsets.json to begin anew")
        return {}

    async def read(self, queue: TopicQueue) -> int | None:
        return (await call_aside(self.load)).get(queue)

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> Mapping[TopicQueue, Exception]:
        if not offsets:
            return {}
        try:
            async with self._turn:
                await call_aside(lambda: self._write(format_table({**self.load(), **offsets})))
        except (OSError, InputError) as error:
            return dict.fromkeys(offsets, error)
        return {}

    def may_commit_with_pull(self, queue: TopicQueue) -> bool:
        return False

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(self.path) as file:
            file.write(text.encode())
            file.flush()  # first the new file must be complete, then the old one is renamed
            if self.path.exists():
                self.path.replace(f"{self.path}.bak")


def format_table(offsets: Mapping[TopicQueue, int]) -> str:
    """Return the text of a file with these offsets (`OffsetSerializeWrapper.toJson`)."""
    rows = [
        f"\t\t{json.dumps(queue.to_json(), separators=(',', ':'))}:{offsets[queue]}"
        for queue in sorted(offsets, key=lambda queue: queue.order)
    ]
    return '{\n\t"offsetTable":{\n' + ",\n".join(rows) + "\n\t}\n}"


def parse_table(text: str) -> dict[TopicQueue, int]:
    """Return the offsets in the text of a file, or of a broker's request to reset offsets. Raises InputError."""
    offsets: dict[TopicQueue, int] = {}
    try:
        at = _skip(text, 0, "{")
        while not text.startswith("}", at):
            name, at = _read_value(text, at)
            at = _skip(text, at, ":")
            if name != "offsetTable":
                _, at = _read_value(text, at)
            else:
                at = _skip(text, at, "{")
                while not text.startswith("}", at):
                    queue, at = _read_value(text, at)
                    offset, at = _read_value(text, _skip(text, at, ":"))
                    key = TopicQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))
                    offsets[key] = int(offset)
                    at = _skip(text, at, ",") if text.startswith(",", at) else at
                at = _skip(text, at, "}")
            at = _skip(text, at, ",") if text.startswith(",", at) else at
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"no table of offsets: {type(error).__name__} {error}") from None
    return offsets


def _read_value(text: str, at: int) -> tuple[Any, int]:
    """Read the JSON value at an index; return it and the index of what follows."""
    value, at = scan_value(text, at)
    return value, _skip_blanks(text, at)


def _skip(text: str, at: int, sign: str) -> int:
    """Return the index of what follows a sign. Raises ValueError where the sign is missing."""
    at = _skip_blanks(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"{sign!r} is missing at {at}")
    return _skip_blanks(text, at + 1)


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at
