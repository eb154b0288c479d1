"""An archive as a target: confirmed when synced to a spool, seen by others as parts of Parquet.

One task writes batches to a spool, all that came while the last one was synced; another has spools that are large or
old enough turned into parts, by a process beside this one. A full disk is a lost connection: nothing is answered that
is not synced, and opening it again begins with what spools there are.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridge.archive.columns import FRAME_BYTES, FRAME_ROWS, microseconds, spooled
from bridge.archive.rotation import Rotator
from bridge.archive.spool import Spool, spools_in
from bridge.endpoint import Disconnected, Outgoing, Receiver, Target
from exchange.errors import InputError

__all__ = ["ArchiveTarget"]

LOG: Final = logging.getLogger(__name__)

FEW: Final = 256
"""Fewer messages than these wait for more, for as long as `ArchiveTarget` is told."""
BEHIND: Final = 4
"""So many spools may wait to become parts; then writing waits too."""
CLOSING: Final = 60.0
"""Seconds that the last spool may take to become parts; else it is left to whoever opens the archive next."""


@dataclass(slots=True, eq=False)
class _Writing:
    """The state of an open target."""

    receiver: Receiver
    rotator: Rotator
    waiting: deque[Outgoing] = field(default_factory=deque)
    """Not in a spool yet."""
    full: deque[Path] = field(default_factory=deque)
    """Spools that become parts, the oldest first."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """For who writes."""
    handed_on: asyncio.Event = field(default_factory=asyncio.Event)
    """For who rotates."""
    closing: bool = False
    trouble: Disconnected | None = None
    task: asyncio.Task[None] | None = None

    @property
    def ends(self) -> bool:
        """Whether nothing more is to be written."""
        return self.closing or self.trouble is not None


class ArchiveTarget(Target):
    """A folder. ``folders`` maps the topology's queues to folders below it, ``""`` being the folder itself.

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
        clock: Callable[[], int] = microseconds,
    ) -> None:
        self.name = name
        self._root = root
        self._folders = folders
        self._rotate_bytes = rotate_bytes
        self._rotate_seconds = rotate_seconds
        self._gather_seconds = gather_seconds
        self._clock = clock
        self._state: _Writing | None = None

    async def open(self, receiver: Receiver) -> None:
        state = _Writing(receiver, Rotator())
        try:
            await asyncio.to_thread(_need_folder, self._root)
            for path in await asyncio.to_thread(spools_in, self._root):
                await self._rotate(state, path)
            spool = await asyncio.to_thread(Spool, self._root)
        except OSError as error:
            await state.rotator.close()
            raise Disconnected(f"{self._root}: cannot be written: {error.strerror}") from None
        except Disconnected:
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
        if state is None or state.task is None:
            return
        state.closing = True
        state.waiting.clear()
        state.news.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(state.task, CLOSING)

    async def _work(self, state: _Writing, spool: Spool) -> None:
        rotating = asyncio.create_task(self._rotate_all(state))
        try:
            try:
                await self._write_all(state, spool)
            except OSError as error:
                state.trouble = self._trouble(error)
            state.closing = True
            state.handed_on.set()
            await rotating
        except asyncio.CancelledError:  # it took too long, or is to stop at once: parts that are not made stay hidden
            rotating.cancel()
            state.rotator.kill()
            raise
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
        """Until the target is closed; the last spool is handed on too. Raises OSError."""
        loop = asyncio.get_running_loop()
        begun = synced = loop.time()
        try:
            while not state.ends:
                if not state.waiting:
                    state.news.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(
                            state.news.wait(), begun + self._rotate_seconds - loop.time() if spool.rows else None
                        )
                elif len(state.waiting) < FEW and loop.time() < synced + self._gather_seconds:
                    await asyncio.sleep(synced + self._gather_seconds - loop.time())
                if state.waiting:
                    synced = loop.time()
                    begun = begun if spool.rows else synced
                    await self._write(state, spool, _some(state.waiting))
                if spool.size >= self._rotate_bytes or (spool.rows and loop.time() - begun >= self._rotate_seconds):
                    following = await asyncio.to_thread(Spool, self._root)
                    _hand_on(state, spool)
                    spool = following
                    while len(state.full) > BEHIND and not state.ends:
                        state.news.clear()
                        await state.news.wait()
        finally:
            _hand_on(state, spool)

    async def _write(self, state: _Writing, spool: Spool, messages: Sequence[Outgoing]) -> None:
        batch, written, refused = spooled(messages, self._folders, self._clock())
        if written:
            appending = asyncio.ensure_future(asyncio.to_thread(spool.append, batch))
            try:
                await asyncio.shield(appending)
            except asyncio.CancelledError:
                await asyncio.wait([appending])  # it uses the file, which is closed next
                raise
        if self._state is state:
            if written:
                state.receiver.confirmed(written)
            for outgoing, failure in refused:
                state.receiver.failed(outgoing, failure)

    async def _rotate_all(self, state: _Writing) -> None:
        """Until nothing more is handed on."""
        while state.trouble is None and (state.full or not state.closing):
            if not state.full:
                state.handed_on.clear()
                await state.handed_on.wait()
                continue
            try:
                await self._rotate(state, state.full[0])
            except (OSError, Disconnected) as error:
                state.trouble = self._trouble(error)
            else:
                state.full.popleft()
            state.news.set()

    async def _rotate(self, state: _Writing, path: Path) -> None:
        told = await state.rotator.rotate(path)
        if told is not None and told.torn:
            LOG.info(
                "%s: %s: the last %s bytes were written by halves and promised to nobody", self.name, path, told.torn
            )
        if told is not None and told.damaged:
            LOG.error(
                "%s: %s: %s bytes of it are damaged; what is whole is in the archive", self.name, path, told.damaged
            )

    def _trouble(self, error: OSError | Disconnected) -> Disconnected:
        if isinstance(error, Disconnected):
            return error
        return Disconnected(f"{self._root}: cannot be written: {error.strerror}")


def _hand_on(state: _Writing, spool: Spool) -> None:
    """Close a spool, and have it become parts if something is in it."""
    if spool.rows:
        spool.close()
        state.full.append(spool.path)
        state.handed_on.set()
    else:
        spool.discard()


def _some(waiting: deque[Outgoing]) -> list[Outgoing]:
    """What is written at once."""
    taken: list[Outgoing] = []
    size = 0
    while waiting and (size < FRAME_BYTES and len(taken) < FRAME_ROWS):
        outgoing = waiting.popleft()
        taken.append(outgoing)
        size += len(outgoing.message.body)
    return taken


def _need_folder(root: Path) -> None:
    """Make it, unless it is there. Raises InputError if that is not what it is, OSError if it cannot be made now."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{root}: there is a file, where the archive's folder should be") from None
    except PermissionError:
        raise InputError(f"{root}: may not be made by this user") from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise InputError(f"{root}: may not be written to by this user")
