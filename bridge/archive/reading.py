"""An archive as a source: its records as deliveries, and what is settled of them kept in a file.

All of it is one lane, as files are read one after the other; the records of the next chunk are made while those before
are on their way. A file is kept as settled as a whole when the last of its deliveries is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bindings.archive.detect import detect
from bridge.archive.replay import Chunk, Done, Item, Replay, Settled, Window
from bridge.archive.rows import restored
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Source
from bridge.mapping import IDENTITY
from exchange.errors import InputError

__all__ = ["ArchiveSource"]

LOG: Final = logging.getLogger(__name__)


class ArchiveSource(Source):
    """An archive: a file or folder of any format that `bindings.archive.detect` knows.

    ``speed`` None: as fast as it is taken; 1.0: as its times say, 10.0: ten times as fast; a record that is earlier
    than the one before comes at once. ``follow``: it does not end, but goes on when there is more. ``settled`` is the
    file that says how far it is settled, without which each replay begins at the beginning. Records of which the
    archive has no body are given only ``without_bodies``.

    ``unreadable`` and ``skipped`` count records by why they were not given.
    """

    shared = False

    def __init__(
        self,
        name: str,
        path: str,
        settled: Path | None,
        *,
        speed: float | None = None,
        window: Window = Window(),  # noqa: B008  a value
        follow: bool = False,
        without_bodies: bool = False,
    ) -> None:
        self.name = name
        self.unreadable: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._path = path
        self._settled_path = settled
        self._speed = speed
        self._window = window
        self._follow = follow
        self._without_bodies = without_bodies
        self._prefix: Final = f"archive/{quote(name, safe='')}"
        self._lane = 0
        self._settled: Settled | None = None
        self._replay: Replay | None = None
        self._items: Iterator[Item] = iter(())
        self._loading: asyncio.Task[Item | None] | None = None
        self._ready: deque[Delivery] = deque()
        self._given = 0
        """Deliveries of this lane, which are numbered from 1."""
        self._settled_number = 0
        self._read_to_end: deque[tuple[int, Done]] = deque()
        """Files, each with the number of its last delivery, that are not settled yet."""
        self._keeping: asyncio.Task[None] | None = None
        self._began: tuple[float, int] | None = None
        """A moment of the loop's clock, in seconds, and the time of the record that was given then."""

    async def open(self) -> None:
        self._lane += 1
        if not await asyncio.to_thread(Path(self._path).exists):
            raise InputError(f"{self._path}: there is no such file or folder")
        if self._settled is None or self._settled_path is not None:
            self._settled = await asyncio.to_thread(Settled.read, self._settled_path)
        if self._settled.files:
            count = sum([records for records, _ in self._settled.files.values()])
            LOG.info("%s: goes on behind %s records, as %s says", self.name, f"{count:,}", self._settled_path)
        if not self._follow:
            await asyncio.to_thread(detect, self._path)  # raises if it is none, which reading could only try again
        self._replay = Replay(self._path, self._window, self._settled.files, grows=self._follow)
        self._items = self._replay.items()
        self._given = self._settled_number = 0
        self._began = None

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of files that were read to their end, and of all files, as far as they are known."""
        return (0, 0) if self._replay is None else self._replay.progress

    async def read(self, limit: int) -> Sequence[Delivery]:
        while not self._ready:
            item = await self._next()
            if isinstance(item, Chunk):
                self._take(item)
            elif isinstance(item, Done):
                self._read_to_end.append((self._given, item))
                self._note()
            elif self._follow:
                await asyncio.sleep(LOOK_AGAIN)
            else:
                raise EndOfStream
        if self._speed is not None:
            limit = await self._due(limit, self._speed)
        ready = self._ready
        return [ready.popleft() for _ in range(min(limit, len(ready)))]

    async def _next(self) -> Item | None:
        """What the archive has next; None at its end. May be cancelled, losing nothing."""
        if self._replay is None:
            raise Disconnected(f"{self.name}: closed")
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(next, self._items, None))
        try:
            item = await asyncio.shield(self._loading)
        except (OSError, InputError) as error:
            self._loading = None
            raise Disconnected(f"{self._path}: cannot be read: {error}") from None
        self._loading = None
        if item is None:
            self._items = self._replay.items()
        else:
            self._loading = asyncio.create_task(asyncio.to_thread(next, self._items, None))
        return item

    def _take(self, chunk: Chunk) -> None:
        for bad in chunk.unreadable:
            self.unreadable[bad.reason] += 1
            if self.unreadable[bad.reason] <= TOLD:
                LOG.warning("%s: %s at %s: %s: left out", self.name, bad.source, bad.offset, bad.reason)
        for reason, count in chunk.skipped:
            self.skipped[reason] += count
        lane, prefix, file = self._lane, f"{self._prefix}/{quote(chunk.file)}", chunk.file
        for number, record in chunk.records:
            if not (record.has_body or self._without_bodies):
                self.unreadable[NO_BODY] += 1
                if self.unreadable[NO_BODY] == 1:
                    LOG.warning("%s: %s at %s: %s: left out", self.name, file, number, NO_BODY)
                continue
            message = restored(record.message)
            carried = message.headers.get(IDENTITY)
            identity = carried if isinstance(carried, str) else f"{prefix}/{number}"
            self._given += 1
            self._ready.append(
                Delivery(
                    message, lane, (self._given, file, number), identity, record.time, False,
                    len(message.body) + FIXED_BYTES, f"{file} at {number}",
                )
            )  # fmt: skip

    async def _due(self, limit: int, speed: float) -> int:
        """How many of those that are ready have their time; waits for the first."""
        loop, ready = asyncio.get_running_loop(), self._ready
        if self._began is None:
            first = next((delivery.time for delivery in ready if delivery.time is not None), None)
            if first is None:
                return limit
            self._began = loop.time(), first
        began, first = self._began

        def due(delivery: Delivery) -> float:
            return began if delivery.time is None else began + (delivery.time - first) / (1_000_000 * speed)

        wait = due(ready[0]) - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        now = max(loop.time(), due(ready[0]))
        return next((n for n, each in enumerate(islice(ready, limit)) if due(each) > now), limit)

    def settle(self, delivery: Delivery) -> None:
        if delivery.lane != self._lane or self._settled is None:
            return
        self._settled_number, file, number = delivery.position
        self._settled.files[file] = number + 1, None
        self._note()

    def _note(self) -> None:
        """Files whose last delivery is settled are settled; and it is kept how far that is, a moment later."""
        assert self._settled is not None  # noqa: S101  it is open
        while self._read_to_end and self._read_to_end[0][0] <= self._settled_number:
            _, (file, records, size) = self._read_to_end.popleft()
            if records >= self._settled.files.get(file, (0, None))[0]:  # else it has grown since
                self._settled.files[file] = records, size
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        await asyncio.sleep(KEEP_AFTER)
        await self._write_settled()

    async def _write_settled(self) -> None:
        assert self._settled is not None  # noqa: S101  it is open
        try:
            await asyncio.to_thread(self._settled.write, dict(self._settled.files))
        except OSError as error:
            LOG.warning("%s: %s: cannot be written: %s", self.name, self._settled_path, error.strerror)

    async def close(self) -> None:
        self._lane += 1
        replay, self._replay = self._replay, None
        if replay is None:
            return
        if self._loading is not None:
            await asyncio.wait([self._loading])  # a thread reads, and cannot be stopped
            self._loading.exception()
            self._loading = None
        self._items = iter(())
        self._ready.clear()
        self._read_to_end.clear()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
            self._keeping = None
            await self._write_settled()


NO_BODY: Final = "the archive has no body of it, or only its beginning"
TOLD: Final = 3
"""So many unreadable records are told one by one, for each reason."""
LOOK_AGAIN: Final = 0.25
"""Seconds between looks for more."""
KEEP_AFTER: Final = 0.1
"""Seconds until it is kept how far a replay is settled."""
FIXED_BYTES: Final = 1_024
"""What a delivery takes beside its body, about."""
