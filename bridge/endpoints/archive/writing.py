"""An archive as a target: messages are confirmed once synced to a spool; readers see them once they are Parquet parts.

One task writes batches to a spool: each batch has the messages that came while the one before was synced. Another task
has spools that are large or old enough turned into parts, by another process. A full disk, and any other error that
ends one of these tasks, is a lost connection: nothing is confirmed that is not synced, and when the target is opened
again, the spools that are there become parts first.

The folder, or a spool in it, may be moved or removed while it is written. This is checked after each sync, before
messages are confirmed, and before a spool is given up; the file of a spool stays open until its rows are parts. If the
folder was moved, confirmed messages become parts in its new place; a spool that was removed is written again when the
target is opened again. Both are logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridge.aside import call_aside
from bridge.endpoint import (
    BridgeLayout,
    Disconnected,
    Finding,
    Misfit,
    Outgoing,
    Place,
    Receiver,
    Target,
    to_disconnected,
)
from bridge.endpoints.archive.checking import check_target, make_folder
from bridge.endpoints.archive.columns import FRAME_BYTES, FRAME_ROWS, prepare_batch, read_clock
from bridge.endpoints.archive.reading import ArchiveSource
from bridge.endpoints.archive.rotation import BadSpool, Rotated, Rotator
from bridge.endpoints.archive.spool import Spool, SpoolGone, find_spools
from exchange.text.display import count_noun

LOG: Final = logging.getLogger(__name__)

SMALL_BATCH_MESSAGES: Final = 256
"""Number of messages below which a batch waits for more, up to ``gather_seconds`` of `ArchiveTarget`."""
BEHIND: Final = 4
"""Maximum number of spools that wait to become parts; then writing waits, too."""
CLOSING: Final = 60.0
"""Seconds that the last spool may take to become parts; else it does when the archive is opened next."""


@dataclass(slots=True, eq=False)
class _Writing:
    """The state of an open target."""

    receiver: Receiver
    rotator: Rotator
    waiting: deque[Outgoing] = field(default_factory=deque)
    """Messages that are in no spool yet."""
    full: deque[Spool] = field(default_factory=deque)
    """Spools that wait to become parts, the oldest first; they are unlocked, and their files are open."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Wakes the task that writes."""
    handed_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Wakes the task that rotates."""
    closing: bool = False
    all_handed_on: bool = False
    """Whether the task that writes has ended, so that no spool follows those in `full`."""
    trouble: Disconnected | None = None
    task: asyncio.Task[None] | None = None

    @property
    def ends(self) -> bool:
        """Whether nothing more is to be written."""
        return self.closing or self.trouble is not None


class ArchiveTarget(Target):
    """A folder. ``folders`` maps the topology's queues to folders below it; ``""`` is the folder itself.

    A spool is turned into parts when it has ``rotate_bytes``, or after ``rotate_seconds``. A few messages wait up to
    ``gather_seconds`` after the last sync for others to be synced with them.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        folders: Mapping[str, str],
        *,
        rotate_bytes: int = 128 << 20,
        rotate_seconds: float = 300.0,
        gather_seconds: float = 0.01,
        clock: Callable[[], int] = read_clock,
    ) -> None:
        self.name = name
        self._root = root
        self._folders = folders
        self._rotate_bytes = rotate_bytes
        self._rotate_seconds = rotate_seconds
        self._gather_seconds = gather_seconds
        self._clock = clock
        self._state: _Writing | None = None
        self._lost: list[Spool] = []
        """Spools that were moved or removed before they became parts."""

    @property
    def trouble(self) -> str | None:
        state = self._state
        if state is not None and len(state.full) > BEHIND and state.waiting:
            return f"{self._root}: writing waits until {count_noun(len(state.full), 'spool')} became parts"
        return None

    @property
    def places(self) -> frozenset[Place]:
        """The folder of each queue: a source may read one of them alone."""
        root = self._root.absolute()
        return frozenset(
            Place("archive", str(root / folder), f"folder {folder}" if folder else "archive")
            for folder in self._folders.values()
        )

    def meet(self, layout: BridgeLayout) -> None:
        """Raise Misfit for a folder that a source of the bridge follows."""
        root = self._root.resolve()
        for source in layout.sources:
            if isinstance(source, ArchiveSource) and source.follows(root):
                raise Misfit("url", f"source {source.name} follows this folder: it would read again what is written")

    async def check(self) -> Sequence[Finding]:
        return await call_aside(check_target, self._root, self._rotate_bytes)

    async def open(self, receiver: Receiver) -> None:
        state = _Writing(receiver, Rotator(copies=len(self._folders) > 1))
        try:
            await call_aside(make_folder, self._root)
            # First our own spools that were removed, then those that earlier runs left in the folder.
            await self._rescue(state.rotator)
            for path in await call_aside(find_spools, self._root):
                await self._rotate(state.rotator, path)
            spool = await call_aside(Spool, self._root)
        except Exception as error:  # noqa: BLE001  whatever it is, another try may find it gone
            await state.rotator.close()
            raise self._disconnected(error) from None
        except asyncio.CancelledError:
            state.rotator.kill()
            await state.rotator.close()
            raise
        self._state = state
        state.task = asyncio.create_task(self._work(state, spool))

    def send(self, messages: Sequence[Outgoing]) -> None:
        state = self._state
        if state is not None:
            state.waiting += messages
            state.news.set()

    async def close(self) -> None:
        state, self._state = self._state, None
        if state is not None and state.task is not None:
            state.closing = True
            state.waiting.clear()
            state.news.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await state.task
        if self._lost:
            await self._rescue_now()

    async def _work(self, state: _Writing, spool: Spool) -> None:
        """Write and rotate until the target is closed or there is trouble, and report that."""
        rotating = asyncio.create_task(self._rotate_all(state))
        try:
            try:
                await self._write_all(state, spool)
            except Exception as error:  # noqa: BLE001  if it were not reported, the target would hang
                state.trouble = state.trouble or self._disconnected(error)
            state.all_handed_on = True
            state.handed_on.set()
            await rotating
            await self._leave(state)
        except asyncio.CancelledError:  # it took too long, or is to stop at once: parts that are not made stay hidden
            LOG.warning("%s: closed at once: what is confirmed is in a spool, and becomes parts later", self.name)
            rotating.cancel()
            state.rotator.kill()
            raise
        except Exception as error:  # noqa: BLE001  as above
            state.trouble = state.trouble or self._disconnected(error)
        finally:
            await state.rotator.close()
        if state.trouble is None:
            return
        if self._state is state:
            self._state = None
            state.receiver.lost(state.trouble)
        else:
            LOG.warning("%s: what is confirmed is in a spool, and becomes parts later: %s", self.name, state.trouble)

    async def _write_all(self, state: _Writing, spool: Spool) -> None:
        """Write until the target is closed, and hand the last spool on. Raises OSError, SpoolGone."""
        loop = asyncio.get_running_loop()
        # `begun` is when the spool got its first message, `synced` when the latest batch was taken.
        begun = synced = loop.time()
        try:
            while not state.ends:
                if not state.waiting:
                    state.news.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(begun + self._rotate_seconds if spool.rows else None):
                            await state.news.wait()
                elif len(state.waiting) < SMALL_BATCH_MESSAGES and loop.time() < synced + self._gather_seconds:
                    await asyncio.sleep(synced + self._gather_seconds - loop.time())
                if state.waiting:
                    synced = loop.time()
                    begun = begun if spool.rows else synced
                    await self._write(state, spool, _take_batch(state.waiting))
                if spool.size >= self._rotate_bytes or (spool.rows and loop.time() >= begun + self._rotate_seconds):
                    # The next spool first: if it cannot be made, this one is still handed on, once, below.
                    following = await call_aside(Spool, self._root)
                    _hand_on(state, spool)
                    spool = following
                    while len(state.full) > BEHIND and not state.ends:
                        state.news.clear()
                        await state.news.wait()
        finally:
            _hand_on(state, spool)

    async def _write(self, state: _Writing, spool: Spool, messages: Sequence[Outgoing]) -> None:
        batch, written, refused = prepare_batch(messages, self._folders, self._clock())
        if written:
            appending = asyncio.ensure_future(call_aside(spool.append, batch))
            try:
                await asyncio.shield(appending)
            except asyncio.CancelledError:
                await asyncio.wait([appending])  # its thread uses the file, which is closed next
                raise
        if self._state is state:
            if written:
                state.receiver.confirmed(written)
            for outgoing, failure in refused:
                state.receiver.failed(outgoing, failure)

    async def _rotate_all(self, state: _Writing) -> None:
        """Rotate spools until no more are handed on."""
        while state.trouble is None and (state.full or not state.all_handed_on):
            if not state.full:
                state.handed_on.clear()
                await state.handed_on.wait()
                continue
            try:
                await self._rotate_own(state, state.full[0])
            except Exception as error:  # noqa: BLE001  as in `_work`
                state.trouble = state.trouble or self._disconnected(error)
            else:
                state.full.popleft().close()
            state.news.set()

    async def _rotate_own(self, state: _Writing, spool: Spool) -> None:
        """Make parts of a spool that this target wrote. Raises SpoolGone if its rows are lost."""
        rotated = await self._rotate(state.rotator, spool.path)
        if rotated is None and await call_aside(spool.is_lost):
            raise SpoolGone(f"{spool.path}: it, or its folder, was moved or removed")

    async def _rotate(self, rotator: Rotator, path: Path) -> Rotated | None:
        """Rotate a spool, and log damage; return None for a spool that has an owner, is gone, or cannot become parts.

        Raises Disconnected.
        """
        try:
            rotated = await rotator.rotate(path)
        except BadSpool as error:
            LOG.error(  # noqa: TRY400
                "%s: %s: it stays there, and is tried again when the target is opened: %s", self.name, path, error
            )
            return None
        if rotated is not None and rotated.torn:
            LOG.info(
                "%s: %s: the last %s bytes are no whole batch, and were never confirmed", self.name, path, rotated.torn
            )
        if rotated is not None and rotated.damaged:
            LOG.error(
                "%s: %s: %s bytes of it are damaged; what is whole is in the archive", self.name, path, rotated.damaged
            )
        return rotated

    async def _leave(self, state: _Writing) -> None:
        """Close spools that did not become parts, which they do when the archive is opened again; keep those lost."""
        while state.full:
            spool = state.full.popleft()
            if await call_aside(spool.is_lost):
                self._lost.append(spool)
            else:
                spool.close()

    async def _rescue_now(self) -> None:
        """Rescue as `_rescue` when the target is closed, as it may not be opened again; log errors."""
        rotator = Rotator(copies=len(self._folders) > 1)
        try:
            await call_aside(make_folder, self._root)
            await self._rescue(rotator)
        except Exception as error:  # noqa: BLE001  the files stay open, and opening the target tries again
            rows = sum(spool.rows for spool in self._lost)
            LOG.error("%s: %s confirmed messages are in spools that were removed: %s", self.name, rows, error)  # noqa: TRY400
        finally:
            await rotator.close()

    async def _rescue(self, rotator: Rotator) -> None:
        """Make parts of spools that were moved or removed. Raises OSError, and as `Rotator.rotate`."""
        while self._lost:
            spool = self._lost[0]
            path = await call_aside(spool.find)
            if path is not None and path.name == spool.path.name:
                LOG.error(
                    "%s: %s was moved to %s: %s confirmed messages become parts there",
                    self.name, self._root, path.parent, spool.rows,
                )  # fmt: skip
            else:
                path = await call_aside(spool.copy_to, self._root)
                LOG.error(
                    "%s: %s was removed: its %s confirmed messages were written again, to %s",
                    self.name, spool.path, spool.rows, path,
                )  # fmt: skip
            self._lost.pop(0).close()
            await self._rotate(rotator, path)

    def _disconnected(self, error: Exception) -> Disconnected:
        if isinstance(error, OSError):
            return Disconnected(f"{self._root}: cannot be written: {error.strerror or error}")
        if isinstance(error, SpoolGone):
            return Disconnected(str(error))
        return to_disconnected(error)


def _hand_on(state: _Writing, spool: Spool) -> None:
    """Have a spool become parts; discard one that is empty."""
    if spool.rows:
        spool.release()
        state.full.append(spool)
        state.handed_on.set()
    else:
        spool.discard()


def _take_batch(waiting: deque[Outgoing]) -> list[Outgoing]:
    """Take the messages of the next batch."""
    taken: list[Outgoing] = []
    size = 0
    while waiting and (size < FRAME_BYTES and len(taken) < FRAME_ROWS):
        outgoing = waiting.popleft()
        taken.append(outgoing)
        size += len(outgoing.message.body)
    return taken
