"""An archive below the real target, in a real folder: its disk is full, or fails, as files are written and renamed.

Spools are turned into parts in this process, not in one of their own. When the bridge is killed, what it was appending
is torn; so is what was being turned into parts; and a byte of what is on the disk may flip.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from bridge.endpoint import Disconnected
from bridge.endpoints.archive import rotation, spool, writing
from bridge.endpoints.archive.rotation import BadSpool, Rotated, rotate
from bridge.endpoints.archive.spool import HEADER, MARK, Spool, find_spools, read_frames
from bridge.endpoints.archive.writing import ArchiveTarget
from exchange.amqp import ContentHeader
from exchange.errors import InputError
from tests.simulation.disk import Disk
from tests.simulation.sources import Client
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

ROTATE_BYTES: Final = 4_000
ROTATE_SECONDS: Final = 20.0


class ModelArchive(Client):
    """An archive, as the target of one process sees it."""

    running: Final[dict[Path, ModelArchive]] = {}
    """Folder -> the archive of the process that runs now."""
    synced: Disk
    """What is safe on the disk of all archives; each life has its own."""

    def __init__(self, name: str, world: World, disk: Path) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.root = disk / name
        self.spools: list[_Spool] = []
        self.endpoint = ArchiveTarget(
            name, self.root, {"" if name == "dead" else name: ""}, rotate_bytes=ROTATE_BYTES,
            rotate_seconds=ROTATE_SECONDS, clock=lambda: 1,
        )  # fmt: skip

    def take_over(self, before: Client | None) -> None:
        super().take_over(before)
        self.running[self.root] = self

    def check(self, fault: str) -> None:
        """Raise OSError if the disk has this fault, or the process is dead."""
        if self.is_dead or self.has(fault):
            raise OSError(errno.EIO, "the disk fails")

    def store(self, batch: pa.RecordBatch) -> None:
        """Take note of what is synced."""
        for body, content in zip(*[batch.column(each).to_pylist() for each in ("body", "content")], strict=True):
            queue = "" if self.name == "dead" else self.name
            dead_queue = "" if queue else str(ContentHeader(content).header("hashstar-queue"))
            self.world.store(queue, int(body), dead_queue)
            self.world.synced[self.name][int(body)] += 1

    def lose(self) -> None:
        """Do nothing: there is no connection."""

    def kill(self) -> None:
        self.is_dead = True
        state = self.endpoint._state
        if state is not None and state.task is not None:
            state.task.cancel()
        for each in self.spools:
            with suppress(OSError):
                os.close(each._file)
        if not self.root.exists():
            return
        left = find_spools(self.root)
        random = self.world.random
        if left and random.random() < 0.3:
            _rotate_in_part(left[0], random.randrange(4))
        if random.random() < 0.5:
            self.synced.lose_power(self.root)
        left = find_spools(self.root)
        if left and random.random() < 0.5:
            _tear(left[-1], random.randrange(60))
        elif left and random.random() < 0.5:
            self._flip(random.choice(left))

    def _flip(self, path: Path) -> None:
        """Flip a byte. What cannot be read any more is not promised."""
        before = _count([path])
        data = bytearray(path.read_bytes())
        if not data:  # it became parts, and was not removed yet
            return
        data[self.world.random.randrange(len(data))] ^= 1
        path.write_bytes(data)
        self.world.flipped[self.name] += before - _count([path])

    def judge(self) -> None:
        """Judge whether the archive has all that was synced, each copy once."""
        found = _count(find_spools(self.root) if self.root.exists() else [])
        for path in self.root.rglob("*.parquet"):
            if not any(each.name.startswith(".") for each in path.relative_to(self.root).parents):
                found.update([int(body) for body in pq.ParquetFile(path).read(["body"]).column("body").to_pylist()])
        stored = self.world.synced[self.name] - self.world.flipped[self.name]
        if found != stored:
            self.world.breaks("archive", f"{self.name} lacks {stored - found}, and has {found - stored} too many")


class _Spool(Spool):
    """A spool on this disk."""

    writing: ModelArchive
    """The archive of the spool that is written now."""

    def __init__(self, folder: Path) -> None:
        archive = self._archive = ModelArchive.running[folder]
        archive.check("read-only")
        _Spool.writing = archive
        super().__init__(folder)
        archive.spools.append(self)

    def append(self, batch: pa.RecordBatch) -> None:
        if self._archive.is_dead:
            raise OSError(errno.EIO, "dead")
        _Spool.writing = self._archive
        super().append(batch)
        self._archive.store(batch)

    def close(self) -> None:
        with suppress(ValueError):
            self._archive.spools.remove(self)
        super().close()


class _Rotator:
    """Takes the place of `rotation.Rotator`: it turns spools into parts in this process."""

    def __init__(self, *, copies: bool = False) -> None:
        self._copies = copies

    async def rotate(self, path: Path) -> Rotated | None:
        archive = ModelArchive.running[path.parent]
        await pass_time(archive.world.delay(0.2))
        try:
            archive.check("read-only")
            if archive.has("rename"):
                _rotate_in_part(path, archive.numbers["rename"] % 3, copies=self._copies)
                archive.check("rename")
            return rotate(path, copies=self._copies)
        except (OSError, InputError) as error:  # as `rotation.main` and `Rotator.rotate` tell them apart
            raise (BadSpool if rotation._is_bad(error) else Disconnected)(str(error)) from None

    def kill(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def _count(spools: Sequence[Path]) -> Counter[int]:
    """Return the messages of spools."""
    bodies: Counter[int] = Counter()
    for path in spools:
        for batch, _ in read_frames(path):
            if batch is not None:
                bodies.update([int(body) for body in batch.column("body").to_pylist()])
    return bodies


def _tear(path: Path, size: int) -> None:
    """Append what is left of a frame that was being written."""
    with path.open("ab") as file:
        file.write((HEADER.pack(MARK, 100, 1) + bytes(48))[:size])


def _rotate_in_part(path: Path, renames: int, *, copies: bool = False) -> None:
    """Turn a spool into parts until a number of renames is made; then the disk fails, or the process dies."""
    left = [None] * renames
    whole = Path.rename

    def rename(source: Path, target: Any) -> Path:
        if not left:
            raise OSError(errno.EIO, "it ends here")
        left.pop()
        return whole(source, target)

    def unlink(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "it ends here")

    with patch.object(Path, "rename", rename), patch.object(Path, "unlink", unlink), suppress(OSError, InputError):
        rotate(path, copies=copies)


def _fail_to_write(file: int, buffers: list[Any]) -> None:
    """Write as `spool._write` does, or a part of it if the disk is full."""
    archive = _Spool.writing
    for buffer in buffers:
        view = memoryview(buffer)
        if archive.has("full"):
            os.write(file, view[: archive.world.random.randrange(len(view) + 1)])
            raise OSError(errno.ENOSPC, "the disk is full")
        while view:
            view = view[os.write(file, view) :]


def _fail_to_sync(file: int) -> None:
    """Sync a batch. Raise OSError if the disk fails."""
    _Spool.writing.check("sync")
    ModelArchive.synced.sync(file)


@contextmanager
def archive_simulated() -> Iterator[None]:
    """Have the target use this disk."""
    disk = ModelArchive.synced = Disk()
    with ExitStack() as stack:
        for module, name, replaced in (
            (writing, "Spool", _Spool), (writing, "Rotator", _Rotator), (spool, "_write", _fail_to_write),
            (spool, "sync_data", _fail_to_sync), (spool, "sync_folder", disk.sync_folder),
            (rotation, "sync_folder", disk.sync_folder), (os, "fsync", disk.sync),
        ):  # fmt: skip
            stack.enter_context(patch.object(module, name, replaced))
        yield
    ModelArchive.running.clear()
