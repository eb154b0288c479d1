"""Where a group stands in its queues: kept by brokers, or in a file of its own where each member reads all.

The file is that of the Java client, which goes on from ours and we from its. It is no JSON, as its keys are objects:
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

from bindings.sources.files import replacing
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.remoting.errors import BrokerError, RemotingError
from exchange.errors import InputError

__all__ = ["BrokerOffsets", "ConsumeFrom", "LocalOffsets", "Offsets", "parse_table", "start_offset", "written"]

RETRY_PREFIX: Final = "%RETRY%"

JSON: Final = json.JSONDecoder(strict=False)


class ConsumeFrom(Enum):
    """Where a group begins to read a queue it has never read (`ConsumeFromWhere`)."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    """At its end; but from the first message on, while that is in the broker's memory: then the topic is new."""
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    """At its first message."""
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    """At the first message stored at or after a time."""


class Offsets(Protocol):
    """Where a group stands."""

    async def read(self, queue: TopicQueue) -> int | None:
        """Where in a queue; None if that is not known. Raises RemotingError if it cannot be known now."""

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> Mapping[TopicQueue, Exception]:
        """Keep where it stands; gives what could not be kept, and why."""

    def pulls_may_tell(self, queue: TopicQueue) -> bool:
        """Whether a pull may bring along where the group stands in the queue."""


async def start_offset(
    queue: TopicQueue, offsets: Offsets, queues: BrokerQueues, where: ConsumeFrom, time: int = 0
) -> int:
    """From where on a queue is read that was assigned just now (`RebalancePushImpl.computePullFromWhere...`).

    ``time`` is for TIMESTAMP, in milliseconds since 1970. Raises RemotingError.
    """
    known = await offsets.read(queue)
    if known is not None:
        return known
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if where is ConsumeFrom.FIRST or (where is ConsumeFrom.LAST and is_retry):
        return 0  # the broker says where it begins, if it is not there
    if where is ConsumeFrom.LAST or is_retry:
        return await queues.max_offset(queue)
    return await queues.search_offset(queue, time)


class BrokerOffsets:
    """Kept by the brokers (`RemoteBrokerOffsetStore`).

    What a broker is told first of a topic it is told alone: told two offsets at once of a topic in which the group
    stood nowhere, brokers up to 5.5.0 may forget one of them (`ConsumerOffsetManager.commitOffset`).
    """

    def __init__(self, queues: BrokerQueues) -> None:
        self._queues = queues
        self._turns: defaultdict[TopicQueue, asyncio.Lock] = defaultdict(asyncio.Lock)
        """An answer may be late, and an older offset must not be the last that is told."""
        self._firsts: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._begun: set[tuple[str, str]] = set()
        """Broker and topic: where the broker has heard the first."""

    async def read(self, queue: TopicQueue) -> int | None:
        return await self._queues.committed(queue)

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> Mapping[TopicQueue, Exception]:
        by_place: defaultdict[tuple[str, str], dict[TopicQueue, int]] = defaultdict(dict)
        for queue, offset in offsets.items():
            by_place[queue.broker, queue.topic][queue] = offset
        failed = await asyncio.gather(*[self._persist_at(*each) for each in by_place.items()])
        return {queue: error for each in failed for queue, error in each.items()}

    async def _persist_at(
        self, place: tuple[str, str], offsets: dict[TopicQueue, int]
    ) -> dict[TopicQueue, RemotingError]:
        failed: dict[TopicQueue, RemotingError] = {}
        async with self._firsts[place]:
            while offsets and place not in self._begun:
                queue, offset = offsets.popitem()
                error = await self._persist(queue, offset)
                if error is None:
                    self._begun.add(place)
                    break
                failed[queue] = error
                if not isinstance(error, BrokerError):  # there may be no answer to the others, either
                    return failed | dict.fromkeys(offsets, error)
        told = await asyncio.gather(*[self._persist(queue, offset) for queue, offset in offsets.items()])
        return failed | {queue: error for queue, error in zip(offsets, told, strict=True) if error is not None}

    async def _persist(self, queue: TopicQueue, offset: int) -> RemotingError | None:
        try:
            async with self._turns[queue]:
                await self._queues.commit(queue, offset)
        except RemotingError as error:
            return error
        return None

    def pulls_may_tell(self, queue: TopicQueue) -> bool:
        return (queue.broker, queue.topic) in self._begun


class LocalOffsets:
    """Kept in a file, ``offsets.json`` (`LocalFileOffsetStore`); the one before it is ``offsets.json.bak``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, client_id: str, group: str, folder: Path | None = None) -> LocalOffsets:
        """Where the Java client has it: ``~/.rocketmq_offsets/CLIENT_ID/GROUP``."""
        return cls((folder or Path.home() / ".rocketmq_offsets") / client_id / group / "offsets.json")

    def load(self) -> dict[TopicQueue, int]:
        """What the file says, or the one before it; nothing if there is none. Raises InputError."""
        for path in (self.path, Path(f"{self.path}.bak")):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
                if text:
                    return parse_table(text)
            except FileNotFoundError:
                continue
            except OSError as error:
                trouble: Exception = error
            except InputError as error:
                trouble = error
            if path != self.path:
                raise InputError(f"{path}: {trouble}; remove it and offsets.json to begin anew")
        return {}

    async def read(self, queue: TopicQueue) -> int | None:
        return self.load().get(queue)

    async def persist(self, offsets: Mapping[TopicQueue, int]) -> Mapping[TopicQueue, Exception]:
        if not offsets:
            return {}
        try:
            self._write(written({**self.load(), **offsets}))
        except (OSError, InputError) as error:
            return dict.fromkeys(offsets, error)
        return {}

    def pulls_may_tell(self, queue: TopicQueue) -> bool:
        return False

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as file:
            file.write(text.encode())
            file.flush()  # the old file goes only when the new one is written
            if self.path.exists():
                self.path.replace(f"{self.path}.bak")


def written(offsets: Mapping[TopicQueue, int]) -> str:
    """The text of a file (`OffsetSerializeWrapper.toJson`)."""
    rows = [
        f"\t\t{json.dumps(queue.to_json(), separators=(',', ':'))}:{offsets[queue]}"
        for queue in sorted(offsets, key=lambda queue: queue.order)
    ]
    return '{\n\t"offsetTable":{\n' + ",\n".join(rows) + "\n\t}\n}"


def parse_table(text: str) -> dict[TopicQueue, int]:
    """What a text of that kind says, a broker's request to reset offsets as well. Raises InputError."""
    offsets: dict[TopicQueue, int] = {}
    try:
        at = _after(text, 0, "{")
        while not text.startswith("}", at):
            name, at = _value(text, at)
            at = _after(text, at, ":")
            if name != "offsetTable":
                _, at = _value(text, at)
            else:
                at = _after(text, at, "{")
                while not text.startswith("}", at):
                    queue, at = _value(text, at)
                    offset, at = _value(text, _after(text, at, ":"))
                    key = TopicQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))
                    offsets[key] = int(offset)
                    at = _after(text, at, ",") if text.startswith(",", at) else at
                at = _after(text, at, "}")
            at = _after(text, at, ",") if text.startswith(",", at) else at
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InputError(f"no table of offsets: {type(error).__name__} {error}") from None
    return offsets


def _value(text: str, at: int) -> tuple[Any, int]:
    value, at = JSON.raw_decode(text, at)
    return value, _blank(text, at)


def _after(text: str, at: int, sign: str) -> int:
    at = _blank(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"{sign!r} is missing at {at}")
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at
