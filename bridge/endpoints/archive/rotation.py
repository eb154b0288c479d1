"""Turns spools into parts of an archive: Parquet files of its rows, by folder and day.

Parts are made in a hidden folder, synced, and only then given their names, each after its spool:
``day=2026-11-21/part-TOKEN-00000.parquet``. The spool is removed last. If a crash comes between, the next run makes the
same parts under the same names, and leaves those that exist as they are: no message is in two parts. A spool of which
no parts can be made, whatever the disk does, stays where it is and is reported (`BadSpool`); the others become parts.

A process of its own does it (`Rotator`), as it would keep the process that moves messages from its work.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
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
from bridge.aside import call_aside
from bridge.endpoint import Disconnected
from bridge.endpoints.archive.rows import to_rows
from bridge.endpoints.archive.spool import DAMAGED, lock_spool, read_frames, read_token
from exchange.concurrency.processes import build_command, build_environment
from exchange.errors import InputError
from exchange.files.operating_system import sync_folder
from exchange.values.json_text import parse_leniently


class BadSpool(Exception):
    """No parts can be made of a spool, and trying again is of no use."""


class Rotated(NamedTuple):
    """A spool that was turned into parts."""

    rows: int
    torn: int = 0
    """Number of bytes at its end that were no whole batch."""
    damaged: int = 0
    """Number of bytes before its end that were no batch: the spool is kept, under another name."""


def rotate(path: Path, *, copies: bool = False) -> Rotated | None:
    """Turn a spool into parts; return None if it has an owner, or is gone. Raises OSError, InputError: the spool stays.

    With ``copies``, the parts note that a message may be in them once for each of several queues.
    """
    file = lock_spool(path)
    if file is None:
        return None
    try:
        return _rotate(path, file, copies)
    finally:
        os.close(file)


def _rotate(path: Path, file: int, copies: bool) -> Rotated:
    root, token = path.parent, read_token(path)
    making = root / f".making-{token}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(PRIVATE_FOLDER)
    try:
        rotated = _write_parts(path, making, copies)
        _name_parts(making, root, token)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    if rotated.damaged:
        path.rename(path.with_name(f"{DAMAGED}{token}.arrow"))
    else:
        os.ftruncate(file, 0)  # by which its writer sees that it became parts, and was not just removed
        path.unlink()
    sync_folder(root)
    return rotated


def _write_parts(path: Path, making: Path, copies: bool) -> Rotated:
    """Write the rows of a spool to parts in a hidden folder."""
    rows = damaged = torn = 0
    with ExitStack() as stack:
        writers: dict[str, ParquetWriter] = {}
        for batch, size in read_frames(path):
            if batch is None:
                torn = size
                continue
            damaged, torn = damaged + torn, 0  # bytes that a whole batch follows are not torn, but damaged
            rows += batch.num_rows
            for folder, own in _split_by_folder(batch):
                writer = writers.get(folder)
                if writer is None:
                    new = ParquetWriter(making / folder, Bias.SURVIVORS, copies=copies)
                    writer = writers[folder] = stack.enter_context(new)
                writer.write(own)
    return Rotated(rows, torn, damaged)


def _name_parts(making: Path, root: Path, token: str) -> None:
    """Sync all parts, and only then give them their names.

    A part that is there already was named before a crash, and has the same rows: it is not replaced, as a reader may
    have it open.
    """
    parts = sorted(making.rglob("*.parquet"))
    for part in parts:
        with part.open("r+b") as file:  # Windows syncs only what it may write
            os.fsync(file.fileno())
    folders: dict[Path, None] = {}
    for part in parts:
        folder = root / part.parent.relative_to(making)
        make_folders(folder)
        path = folder / f"part-{token}-{part.stem.removeprefix('part-')}.parquet"
        if not path.exists():
            part.rename(path)
        while folder != root:
            folders[folder] = None
            folder = folder.parent
    for folder in folders:
        sync_folder(folder)
    sync_folder(root)


def _split_by_folder(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield each folder with its rows, in their order."""
    folders = batch.column("folder")
    distinct = folders.unique().to_pylist()
    for folder in distinct:
        own = batch if len(distinct) == 1 else batch.filter(pc.equal(folders, folder))
        yield unescape(folder), to_rows(own)


class Rotator:
    """A process that rotates spools; it is started again after it died. ``copies`` as for `rotate`."""

    def __init__(self, *, copies: bool = False) -> None:
        self._copies = copies
        # Not asyncio's: on Windows the event loop that pika can use starts no processes.
        self._process: subprocess.Popen[bytes] | None = None

    async def rotate(self, path: Path) -> Rotated | None:
        """Rotate a spool as `rotate` does; one at a time. Raises BadSpool, or Disconnected for what may pass."""
        if self._process is None:
            self._process = _start()
        request = json.dumps([os.fsencode(path).decode("latin-1"), self._copies]).encode() + b"\n"
        line = await call_aside(_ask, self._process, request)
        if not line:
            await self.close()
            raise Disconnected(f"{path}: the process that makes parts of it has died")
        answer = parse_leniently(line)
        if "error" in answer:
            raise BadSpool(answer["error"]) if answer["bad"] else Disconnected(answer["error"])
        return None if answer["rotated"] is None else Rotated(*answer["rotated"])

    def kill(self) -> None:
        """End the process at once; parts that it has not named yet stay hidden."""
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """End the process when it is done with its spool."""
        process, self._process = self._process, None
        if process is not None:
            await call_aside(_end, process)


def _start() -> subprocess.Popen[bytes]:
    """Start a process that rotates, in a process group of its own: Ctrl-C is for the bridge, which drains first."""
    return subprocess.Popen(  # noqa: S603  this very module
        build_command("bridge.endpoints.archive.rotation"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=build_environment(),
    )  # fmt: skip


def _ask(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Send a line to a process, and return the line that it answers; nothing if it has ended."""
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101  pipes, as asked for
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except OSError:
        return b""
    return process.stdout.readline()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process, and wait until it ends."""
    with suppress(OSError):
        process.communicate()


def main() -> None:
    """Rotate the spools whose paths come on standard input; answer each with a line of JSON."""
    for line in sys.stdin.buffer:
        name, copies = parse_leniently(line)
        path = Path(os.fsdecode(name.encode("latin-1")))
        answer: dict[str, Any]
        try:
            answer = {"rotated": rotate(path, copies=copies)}
        except InputError as error:
            answer = {"error": str(error), "bad": _is_bad(error)}
        except Exception as error:  # noqa: BLE001  the bridge reports it
            reason = str(error) or type(error).__name__
            answer = {"error": f"{path}: parts cannot be made of it: {reason}", "bad": _is_bad(error)}
        try:
            os.write(1, json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:  # the bridge was killed
            return


def _is_bad(error: BaseException | None) -> bool:
    """Return whether the spool is at fault, and not the disk or memory, which another try may find free."""
    while error is not None:
        if isinstance(error, OSError):  # pyarrow raises it, too; the name of a folder comes from the spool
            return error.errno == errno.ENAMETOOLONG
        if isinstance(error, MemoryError):
            return False
        error = error.__cause__ or error.__context__
    return True


class _WithoutPandas:
    """Finds no pandas: pyarrow imports it with its first array, half of the time until the first spool, for nothing."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("the process that rotates spools does without pandas", name=fullname)


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas())
    main()
