"""An archive as a source: its records as deliveries, and a file that keeps how far they are settled.

The archive is one lane, since its files are read one after the other. The next chunk is read while the records of the
one before are under way: two chunks are in memory, each bounded by its number of records and by their bytes. A file is
settled as a whole when the last of its deliveries is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bindings.archive.figures import format_position
from bindings.archive.formats.detect import detect
from bridge.aside import call_aside
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Finding, Place, Source
from bridge.endpoints.archive.checking import check_source
from bridge.endpoints.archive.files import RecordPosition
from bridge.endpoints.archive.replay import CHUNK_BYTES, EVERYTHING, Chunk, Done, Item, Replay, ReplaySelection, Settled
from bridge.endpoints.archive.rows import restore_message
from bridge.interop import choose_identity
from exchange.errors import InputError
from exchange.values.message import Message

LOG: Final = logging.getLogger(__name__)


class ArchiveSource(Source):
    """An archive: a file or folder of any format that `bindings.archive.formats.detect` knows.

    ``speed`` is relative to the times of the records: 1.0 replays as fast as they were recorded, 10.0 ten times as
    fast, None as fast as the pump reads; a record with an earlier time than the one before comes at once. With
    ``follow`` the stream does not end, and continues when the archive grows. ``settled`` is the file that keeps how far
    the replay is settled; without it each replay begins at the beginning. ``selection`` decides which records are
    delivered. About ``chunk_bytes`` of bodies are prepared at once, and the same amount waits to be read.

    ``unreadable`` and ``skipped`` count the records that were not delivered, by reason.
    """

    shared = False

    def __init__(
        self,
        name: str,
        path: str,
        settled: Path | None,
        *,
        speed: float | None = None,
        selection: ReplaySelection = EVERYTHING,
        follow: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.name = name
        self.unreadable: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._path = path
        self._settled_path = settled
        self._speed = speed
        self._selection = selection
        self._follow = follow
        self._chunk_bytes = chunk_bytes
        self._prefix: Final = f"archive/{quote(name, safe='')}"
        self._lane = 0
        self._settled: Settled | None = None
        self._replay: Replay | None = None
        self._items: Iterator[Item] = iter(())
        self._loading: asyncio.Task[Item | None] | None = None
        self._ready: deque[Delivery] = deque()
        self._given = 0
        """Number of deliveries of this lane; they are numbered from 1."""
        self._settled_number = 0
        self._read_to_end: deque[tuple[int, Done]] = deque()
        """Files, each with the number of its last delivery, that are not settled yet."""
        self._keeping: asyncio.Task[None] | None = None
        self._keep_now = asyncio.Event()
        self._has_news = False
        """Whether something was settled that is not being written yet."""
        self._unkept: str | None = None
        """Why the file does not keep what was settled last; None if it does. Nothing is read until it does: else a
        crash would let far more than a window come again."""
        self._began: tuple[float, int] | None = None
        """Time of the first record by the loop's clock, in seconds, and by the record itself, in microseconds."""

    @property
    def places(self) -> frozenset[Place]:
        return frozenset([Place("archive", str(Path(self._path).absolute()), "archive")])

    @property
    def settled_in(self) -> str | None:
        return None if self._settled_path is None else str(self._settled_path)

    @property
    def lost(self) -> Disconnected | None:
        return None if self._unkept is None else Disconnected(self._unkept)

    def follows(self, folder: Path) -> bool:
        """Return whether it would read what is written to a folder."""
        path = Path(self._path).resolve()
        return self._follow and (path == folder or path in folder.parents or folder in path.parents)

    async def check(self) -> Sequence[Finding]:
        return await call_aside(check_source, self._path, self._selection, self._settled_path, follow=self._follow)

    async def open(self) -> None:
        self._lane += 1
        try:
            await self._load_settled()
        except (OSError, InputError) as error:  # what a disk has may change at any time
            raise Disconnected(str(error)) from None
        assert self._settled is not None  # noqa: S101  as loaded
        self._replay = Replay(
            self._path, self._selection.window, self._settled.files, grows=self._follow,
            mapping=self._selection.mapping, chunk_bytes=self._chunk_bytes,
        )  # fmt: skip
        self._items = self._replay.read_items()
        self._given = self._settled_number = 0
        self._began = None
        self._keep_now.clear()

    async def _load_settled(self) -> None:
        """Check that there is an archive, and read how far it is settled. Raises OSError, InputError."""
        if not await call_aside(Path(self._path).exists):
            raise InputError(f"{self._path}: there is no such file or folder")
        if self._settled is not None and self._unkept is not None:
            await self._write_settled()
            if self._unkept is not None:
                raise InputError(self._unkept)
        elif self._settled is None or self._settled_path is not None:
            self._settled = await call_aside(Settled.read, self._settled_path, self._selection)
        if self._settled.files:
            count = sum([records for records, _ in self._settled.files.values()])
            LOG.info("%s: continues after %s records, as %s says", self.name, f"{count:,}", self._settled_path)
        if not self._follow:
            await call_aside(detect, self._path, self._selection.mapping)  # raises if it is none

    @property
    def progress(self) -> tuple[int, int]:
        """Size of the files that were read to their end, and of all files that are known, in bytes."""
        return (0, 0) if self._replay is None else self._replay.progress

    async def read(self, limit: int) -> Sequence[Delivery]:
        if self.lost is not None:
            raise self.lost
        while not self._ready:
            item = await self._next()
            if isinstance(item, Chunk):
                self._take(item)
            elif isinstance(item, Done):
                self._read_to_end.append((self._given, item))
                self._note_settled()
            elif self._follow:
                await asyncio.sleep(LOOK_AGAIN)
            else:
                self._note_empty()
                raise EndOfStream
        if self._speed is not None:
            limit = await self._wait_until_due(limit, self._speed)
        ready = self._ready
        return [ready.popleft() for _ in range(min(limit, len(ready)))]

    def _note_empty(self) -> None:
        """Count an archive without any record, readable or not, as one unreadable record."""
        settled = self._settled.files.values() if self._settled is not None else ()
        if not (self._given or self.unreadable or self.skipped or any(records for records, _ in settled)):
            self._leave_out(EMPTY, self._path)

    async def _next(self) -> Item | None:
        """Return the next item of the archive; None at its end. May be cancelled, losing nothing."""
        if self._replay is None:
            raise Disconnected("closed")
        if self._loading is None:
            self._loading = asyncio.create_task(call_aside(next, self._items, None))
        try:
            item = await asyncio.shield(self._loading)
        except Exception as error:  # a mistake of a format's reader ends the connection, too
            self._loading = None
            if not isinstance(error, (OSError, InputError)):
                LOG.exception("%s: %s: cannot be read", self.name, self._path)
            raise Disconnected(f"{self._path}: cannot be read: {str(error) or type(error).__name__}") from None
        self._loading = None
        if item is None:
            self._items = self._replay.read_items()
        else:
            self._loading = asyncio.create_task(call_aside(next, self._items, None))
        return item

    def _take(self, chunk: Chunk) -> None:
        """Make deliveries of the records of a chunk, and count those that are left out."""
        for bad in chunk.unreadable:
            self._leave_out(bad.reason, format_position(bad.source, bad.offset))
        for reason, count in chunk.skipped:
            self.skipped[reason] += count
        lane, file = self._lane, chunk.file.name
        prefix = f"{self._prefix}/{quote(file)}"
        for number, record in chunk.records:
            if record.lacks_body and not self._selection.without_bodies:
                self._leave_out(NO_BODY, f"{file} at {number}")
                continue
            try:
                message = restore_message(record.message)
            except Exception as error:  # noqa: BLE001  archives come from anywhere, and one record is to stop nothing
                self._leave_out(f"cannot be restored: {str(error) or type(error).__name__}", f"{file} at {number}")
                continue
            key = message.routing_key.encode("utf-8", "surrogateescape")
            identity = choose_identity(partial(_read_text, record.message), f"{prefix}/{number}", key, message.body)
            self._given += 1
            self._ready.append(
                Delivery(
                    message, lane, RecordPosition(self._given, chunk.file, number), identity, record.time, False,
                    len(message.body) + FIXED_BYTES, f"{file} at {number}",
                )
            )  # fmt: skip

    def _leave_out(self, reason: str, origin: str) -> None:
        """Count a record that cannot be given, and log the first few."""
        reason = reason if reason in self.unreadable or len(self.unreadable) < REASONS else OTHER
        self.unreadable[reason] += 1
        if self.unreadable[reason] <= LOGGED:
            way_out = "; with without_bodies = true it is read all the same" if reason == NO_BODY else ""
            LOG.warning("%s: %s: %s: left out%s", self.name, origin, reason, way_out)

    async def _wait_until_due(self, limit: int, speed: float) -> int:
        """Wait until the first delivery that is ready is due, and return how many are."""
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
        self._note_settled()

    def _note_settled(self) -> None:
        """Note the files whose last delivery is settled, and have the progress written to its file a moment later."""
        assert self._settled is not None  # noqa: S101  it is open
        while self._read_to_end and self._read_to_end[0][0] <= self._settled_number:
            _, (file, records, size) = self._read_to_end.popleft()
            if records >= self._settled.files.get(file, (0, None))[0]:  # else it has grown since
                self._settled.files[file] = records, size
        self._has_news = True
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while self._has_news:  # what is settled while the file is written waits for no other settling
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_AFTER):
                    await self._keep_now.wait()
            self._has_news = False
            await self._write_settled()

    async def _write_settled(self) -> None:
        assert self._settled is not None  # noqa: S101  it is open
        try:
            await call_aside(self._settled.write, dict(self._settled.files))
        except Exception as error:  # noqa: BLE001  whatever it is, it may pass
            reason = str(error) or type(error).__name__
            self._unkept = f"{self._settled_path}: how far the replay is settled cannot be kept: {reason}"
            LOG.warning("%s: %s", self.name, self._unkept)
        else:
            self._unkept = None

    async def close(self) -> None:
        self._lane += 1
        replay, self._replay = self._replay, None
        if replay is None:
            return
        if self._loading is not None:
            await asyncio.wait([self._loading])  # a thread reads, and cannot be stopped
            if not self._loading.cancelled():
                self._loading.exception()
            self._loading = None
        self._items = iter(())
        self._ready.clear()
        self._read_to_end.clear()
        if self._keeping is not None:
            self._keep_now.set()  # not cancelled: its thread may be writing the file, and two must not
            await asyncio.wait([self._keeping])
            self._keeping = None
            await self._write_settled()


EMPTY: Final = "there are no records in it"
NO_BODY: Final = "the archive has no body of it, or only its beginning"
LOGGED: Final = 3
"""Maximum number of unreadable records that are logged one by one, for each reason."""
REASONS: Final = 100
"""Maximum number of reasons counted separately: they are labels of a metric, and may quote what was read."""
OTHER: Final = "for another reason"
LOOK_AGAIN: Final = 0.25
"""Seconds between looks for new records."""
KEEP_AFTER: Final = 0.1
"""Seconds until it is written down how far a replay is settled."""
FIXED_BYTES: Final = 1_024
"""Memory that a delivery takes beside its body, in bytes, about."""


def _read_text(message: Message, name: str) -> bytes | None:
    """Return a header of an archived message in bytes if it is text; else None."""
    value = message.headers.get(name)
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else None
