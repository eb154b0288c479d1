"""A topic as a log of dead letters: read to where it ended when it was opened first, the oldest letter first.

Each partition, or queue, is a lane, whose letters come in the order of their offsets. Of all lanes the letter with the
least time comes next, so that those of one key stay in order though partitions were added meanwhile. Few letters of a
lane are in memory at once. Nothing is joined or committed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heappop, heappush
from typing import Final, NamedTuple

from bridge.dead.reading import Bounds, Read, RowWriter, Take
from bridge.dead.restoring import digest
from bridge.endpoint import Disconnected
from bridge.interop import Record
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.text.display import count_noun
from exchange.values.message import Message

FETCHED: Final = 500
"""Number of letters of a lane in memory from which on no more are fetched."""
FETCHED_BYTES: Final = 1 << 20
"""Size of their bodies from which on no more are fetched, in bytes."""


class Letter(NamedTuple):
    """A dead letter in a topic."""

    message: Message
    """As a bridge reads it."""
    stored: Record | StoredMessage
    time: int | None
    """When it was written, in microseconds since 1970; None if unknown."""
    lane: str
    """Name of its lane."""
    offset: int
    topic_id: str
    """What distinguishes its topic from others of the same name; "" where nothing does."""
    refusal: str | None = None
    """Why ``message`` is not all of it; None if it is."""

    def identify(self) -> str:
        """Return a digest of its position and of all that it is, in 32 hexadecimal digits.

        So a topic that is made anew has other letters, also where its brokers know no ids of topics.
        """
        parts = (self.topic_id, self.lane, str(self.offset), digest(self.message))
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


@dataclass(slots=True)
class LogLane:
    """A partition, or a queue, of a topic."""

    key: Hashable
    """The partition or queue, as its system has it."""
    name: str
    next: int
    """Offset to fetch next."""
    end: int
    """Offset before which it is read."""
    start: int = 0
    absent: int = 0
    """Number of offsets that were passed, and had no letter."""
    letters: deque[Letter] = field(default_factory=deque)
    """What was fetched and not given out."""
    size: int = 0
    """Size of their bodies, in bytes."""

    def __post_init__(self) -> None:
        self.start = self.next

    @property
    def is_full(self) -> bool:
        """Whether no more are fetched before some are given out."""
        return len(self.letters) >= FETCHED or self.size >= FETCHED_BYTES

    def rewind(self) -> None:
        """Begin anew."""
        self.next, self.absent, self.size = self.start, 0, 0
        self.letters.clear()

    def add(self, letter: Letter) -> None:
        """Take the letter at its offset, before which there are no others; one behind the end is left out."""
        self.pass_to(min(letter.offset, self.end))
        if letter.offset < self.end:
            self.next += 1
            self.letters.append(letter)
            self.size += len(letter.message.body)

    def describe_end(self, end: int) -> str:
        """Return why nothing more comes of it now, as what is read ends before it did: a replica may be behind."""
        return f"{self.name} ends at {end:,}, and ended at {self.end:,} before: is its broker behind?"

    def take(self) -> Letter:
        """Give out the next letter that was fetched."""
        letter = self.letters.popleft()
        self.size -= len(letter.message.body)
        return letter

    def pass_to(self, offset: int) -> None:
        """Go on at an offset; those before it that were not fetched have no letter."""
        self.absent += offset - self.next
        self.next = offset


class Log(ABC):
    """A topic. Its end is where it ended when it was opened first."""

    def __init__(self, url: str, topic: str) -> None:
        self.url: Final = url
        self.topic: Final = topic
        self.name: Final = f"topic {topic}"
        self.withheld = 0
        """Number of offsets behind the end that may have letters."""
        self.lanes: list[LogLane] = []
        self._heads: list[tuple[int, int]] = []
        """Time of the first letter, and the index, of each lane that has fetched some."""
        self._empty: list[int] = []
        """Indexes of lanes that are to be fetched before the next letter is known."""
        self._fetching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin at the beginning. Raises InputError if the topic is missing or another one, and Disconnected."""
        lanes = await self.connect()
        self.lanes = self.lanes or lanes
        for lane in self.lanes:
            lane.rewind()
        self._heads, self._empty = [], [*range(len(self.lanes))]

    @abstractmethod
    async def connect(self) -> list[LogLane]:
        """Connect, and return the lanes of the topic. Raises as `open`."""

    @abstractmethod
    async def fetch(self, lane: LogLane) -> None:
        """Have a lane, and maybe others, take letters that follow, or pass offsets without one. Raises Disconnected.

        Nothing else uses the lanes meanwhile.
        """

    @abstractmethod
    async def disconnect(self) -> None:
        """Disconnect. Never raises."""

    async def close(self) -> None:
        """Disconnect. Never raises."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            await asyncio.wait([fetching])
            if not fetching.cancelled():
                fetching.exception()
        await self.disconnect()

    @property
    def is_ready(self) -> bool:
        """Whether the next letter is known, so that `read` does not wait."""
        return not self._empty

    async def read(self) -> Letter | None:
        """Return the next letter; None at the end. It can be cancelled without loss. Raises Disconnected."""
        while self._empty:
            await self._fill(self._empty[-1])
        if not self._heads:
            return None
        _, number = heappop(self._heads)
        lane = self.lanes[number]
        letter = lane.take()
        self._sort(number, lane)
        return letter

    async def _fill(self, number: int) -> None:
        lane = self.lanes[number]
        if lane.next < lane.end and not lane.letters:
            self._fetching = self._fetching or asyncio.create_task(self.fetch(lane))
            await asyncio.wait([self._fetching])  # a cancellation leaves what is fetched for the next call
            fetching, self._fetching = self._fetching, None
            fetching.result()
        self._empty.pop()
        self._sort(number, lane)

    def _sort(self, number: int, lane: LogLane) -> None:
        """Put a lane where the time of its first letter has it."""
        if lane.letters:
            heappush(self._heads, (lane.letters[0].time or 0, number))
        elif lane.next < lane.end:
            self._empty.append(number)

    @property
    def left(self) -> int:
        """Number of offsets that were not read, as far as is known."""
        return self.withheld + sum([lane.end - lane.next + len(lane.letters) for lane in self.lanes])

    def describe(self) -> list[str]:
        """Return notes about what was read, and what was not."""
        notes = ["no consumer group was joined, and no offset committed"]
        if removed := sum([lane.absent for lane in self.lanes]):
            notes.append(
                f"{count_noun(removed, 'offset')} had no letter: removed by retention or compaction, or of transactions"
            )
        if self.withheld:
            notes.append(f"{count_noun(self.withheld, 'offset')} behind a transaction that is open are not read")
        return notes


async def look(log: Log, bounds: Bounds, take: Take) -> Read:
    """Read a topic within bounds, and pass on its letters as rows. Raises InputError, Disconnected."""
    read, count = Read(), 0
    try:
        deadline = asyncio.get_running_loop().time() + bounds.seconds
        await log.open()
        rows = {lane.name: RowWriter(lane.name, take, read) for lane in log.lanes}
        try:
            async with asyncio.timeout_at(deadline):
                while (bounds.messages is None or count < bounds.messages) and (letter := await log.read()) is not None:
                    rows[letter.lane].add(letter.message, letter.time, letter.offset)
                    count += 1
                    if not count % FETCHED:
                        await asyncio.sleep(0)  # the deadline
        except TimeoutError:
            pass
    finally:
        await log.close()  # what was being fetched is known then
    for writer in rows.values():
        writer.flush()
    read.left = log.left
    read.notes += log.describe()
    return read


def to_disconnected(topic: str, reason: object) -> Disconnected:
    """Return the error of a topic that cannot be read now."""
    return Disconnected(f"topic {topic!r}: {reason}")
