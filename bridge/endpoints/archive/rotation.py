"""From spools to the parts of an archive: rows of its schema, by folder and day, in Parquet.

Parts are made in a hidden folder, synced, and only then named, each after its spool: ``day=2026-11-21/part-TOKEN-00000
.parquet``. The spool goes last. Whoever finds it again, because a crash came between, makes the same parts under the
same names, and leaves those that are there as they are: no message is in two. A spool of which no parts can be made,
whatever the disk does, stays where it is and is reported (`BadSpool`): it must not keep others from becoming parts.

It is done by a process beside the one that moves messages, which it would keep from its work (`Rotator`).
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.names import unescape
from bindings.archive.reading import Bias
from bindings.sources.files import PRIVATE_FOLDER, make_folders
from bridge.endpoint import Disconnected
from bridge.endpoints.archive.rows import rows_of
from bridge.endpoints.archive.spool import DAMAGED, frames_of, locked, sync_folder, token_of
from exchange.errors import InputError

__all__ = ["BadSpool", "Rotated", "Rotator", "rotate"]


class BadSpool(Exception):
    """No parts can be made of a spool, and trying again is of no use."""


class Rotated(NamedTuple):
    """What became of a spool."""

    rows: int
    torn: int = 0
    """Bytes at its end that were no whole batch."""
    damaged: int = 0
    """Bytes in the midst of it that were no batch: the spool is kept, under another name."""


def rotate(path: Path, *, copies: bool = False) -> Rotated | None:
    """Turn a spool into parts; None if it is somebody's, or gone. Raises OSError and InputError, leaving the spool.

    ``copies``: parts say that a message may be in them once for each of several queues.
    """
    file = locked(path)
    if file is None:
        return None
    try:
        return _rotated(path, file, copies)
    finally:
        os.close(file)


def _rotated(path: Path, file: int, copies: bool) -> Rotated:
    root, token = path.parent, token_of(path)
    making = root / f".making-{token}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(PRIVATE_FOLDER)
    try:
        told = _made(path, making, copies)
        _named(making, root, token)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    if told.damaged:
        path.rename(path.with_name(f"{DAMAGED}{token}.arrow"))
    else:
        os.ftruncate(file, 0)  # for its writer, should he miss it: nobody took it away, its rows are parts
        path.unlink()
    sync_folder(root)
    return told


def _made(path: Path, making: Path, copies: bool) -> Rotated:
    rows = other = torn = 0
    with ExitStack() as stack:
        writers: dict[str, ParquetWriter] = {}
        for batch, size in frames_of(path):
            if batch is None:
                torn = size
                continue
            other, torn = other + torn, 0
            rows += batch.num_rows
            for folder, made in _by_folder(batch):
                writer = writers.get(folder)
                if writer is None:
                    made_there = ParquetWriter(making / folder, Bias.SURVIVORS, copies=copies)
                    writer = writers[folder] = stack.enter_context(made_there)
                writer.write(made)
    return Rotated(rows, torn, other)


def _named(making: Path, root: Path, token: str) -> None:
    """Give all parts their names, when all of them are safe."""
    parts = sorted(making.rglob("*.parquet"))
    for part in parts:
        with part.open("rb") as file:
            os.fsync(file.fileno())
    folders: dict[Path, None] = {}
    for part in parts:
        folder = root / part.parent.relative_to(making)
        make_folders(folder)
        wanted = folder / f"part-{token}-{part.stem.removeprefix('part-')}.parquet"
        if not wanted.exists():
            part.rename(wanted)
        while folder != root:
            folders[folder] = None
            folder = folder.parent
    for folder in folders:
        sync_folder(folder)
    sync_folder(root)


def _by_folder(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows for each folder, in their order."""
    folders = batch.column("folder")
    distinct = folders.unique().to_pylist()
    for folder in distinct:
        own = batch if len(distinct) == 1 else batch.filter(pc.equal(folders, folder))
        yield unescape(folder), rows_of(own)


class Rotator:
    """A process that rotates spools; ``rotate`` may be called again after it failed. ``copies`` as `rotate`."""

    def __init__(self, *, copies: bool = False) -> None:
        self._copies = copies
        self._process: asyncio.subprocess.Process | None = None

    async def rotate(self, path: Path) -> Rotated | None:
        """As `rotate`; one at a time. Raises Disconnected, as nobody's disk is full for ever; BadSpool."""
        if self._process is None:
            # Of a group of its own, as Ctrl-C is for the bridge, which drains first.
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101  pipes, as asked for
        line = b""
        with suppress(ConnectionError):
            self._process.stdin.write(json.dumps([os.fsencode(path).decode("latin-1"), self._copies]).encode() + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        if not line:
            await self.close()
            raise Disconnected(f"{path}: the process that makes parts of it has died")
        answer = json.loads(line)
        if "error" in answer:
            raise BadSpool(answer["error"]) if answer["bad"] else Disconnected(answer["error"])
        return None if answer["rotated"] is None else Rotated(*answer["rotated"])

    def kill(self) -> None:
        """End the process whatever it does; the parts it was making are no part of the archive."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """End the process, when it has done what it was asked."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        await process.wait()


def main() -> None:
    """Rotate the spools that are named on standard input, until it ends; answer each with a line."""
    for line in sys.stdin.buffer:
        name, copies = json.loads(line)
        path = Path(os.fsdecode(name.encode("latin-1")))
        answer: dict[str, Any]
        try:
            answer = {"rotated": rotate(path, copies=copies)}
        except InputError as error:
            answer = {"error": str(error), "bad": _is_bad(error)}
        except Exception as error:  # noqa: BLE001  whoever asked tells it
            reason = str(error) or type(error).__name__
            answer = {"error": f"{path}: parts cannot be made of it: {reason}", "bad": _is_bad(error)}
        try:
            os.write(1, json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:  # whoever asked was killed
            return


def _is_bad(error: BaseException | None) -> bool:
    """Whether the spool is to blame and not the disk or the machine, of which another try may find more."""
    while error is not None:
        if isinstance(error, OSError):  # pyarrow raises it, too; a folder's name is of the spool
            return error.errno == errno.ENAMETOOLONG
        if isinstance(error, MemoryError):
            return False
        error = error.__cause__ or error.__context__
    return True


if __name__ == "__main__":
    main()
