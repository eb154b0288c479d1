"""The offset up to which a stream was read: the broker does not keep it for a stream, so the reader must.

The offset of the last settled message is kept in a file, if one is named. A file that is behind costs duplicates; one
that is ahead would cost messages. So it is written after messages are settled, and replaced as a whole.

A stream that is deleted and declared again counts from 0 again, and an offset of the old stream would skip messages of
the new one. So a fingerprint of the message at the offset is kept with it, and reading continues there only if that is
still the same message.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bindings.sources.files import open_file
from bridge.aside import call_aside
from exchange.amqp import get_content
from exchange.amqp.streams import fingerprint_message, is_offset, read_offset
from exchange.errors import InputError
from exchange.files.replacing import replace_file
from exchange.values.message import Message

FILE_BYTES: Final = 200
"""Maximum number of bytes of the file that are read: it has an offset and a fingerprint."""

WRITE_SECONDS: Final = 1.0
"""Seconds from settling until the file is written."""


def _parse_offset(text: str) -> int:
    """Return an offset as a file has it. Raises ValueError."""
    if not is_offset(text):
        raise ValueError(text)
    return int(text)


class StreamOffsets:
    """The last settled offset of a stream. ``path`` is a file for this reader alone; None: it is kept in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._last: int | None = None
        self._fingerprint: Callable[[], str] = lambda: ""
        self._written = self._fingerprint
        """Fingerprint of what the file has: another stream's message may have the same offset."""
        self._writing: asyncio.Task[None] | None = None
        self._hurry: Final = asyncio.Event()
        """Set while what is settled is to be written at once."""

    @property
    def has_file(self) -> bool:
        """Whether the offset outlives the process."""
        return self.path is not None

    @property
    def problem(self) -> str | None:
        """Reason why the file cannot be written, as far as that is known before writing; None if there is none."""
        if self.path is None:
            return None
        folder = self.path.parent
        if not folder.is_dir():
            return f"{self.path} cannot be written: there is no folder {folder}; make it"
        if self.path.is_dir():
            return f"{self.path} cannot be written: it is a folder"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"{self.path} cannot be written: {folder} is read-only, or this user may not write to it"
        return None

    @property
    def last(self) -> int | None:
        """Last settled offset; None if nothing was settled yet. Raises InputError for an invalid file."""
        if self._last is None and self.path is not None:
            try:
                with open_file(self.path) as file:  # a named pipe would be waited for
                    text = file.read(FILE_BYTES).decode("ascii")
                offset, _, fingerprint = text.strip().partition(" ")
                self._last = _parse_offset(offset)
                self._fingerprint = self._written = lambda: fingerprint
            except FileNotFoundError:
                return None
            except OSError as error:
                raise InputError(f"{self.path}: cannot be read: {error.strerror}") from None
            except ValueError:
                raise InputError(f"{self.path}: must hold the last offset that was settled, a number") from None
        return self._last

    @property
    def way_out(self) -> str:
        """What to do so that the stream is read from its beginning again."""
        return "start the bridge again" if self.path is None else f"remove {self.path}"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the message at the last offset; "" if unknown, as in a file of an earlier release."""
        return self._fingerprint()

    def settle(self, offset: int, fingerprint: Callable[[], str]) -> None:
        """Remember that all messages up to this offset are settled, without writing it yet."""
        self._last = offset
        self._fingerprint = fingerprint

    def settle_message(self, message: Message, failed: Callable[[OSError], None]) -> None:
        """Remember the offset of a message that is settled, and write it soon; see `write_soon`."""
        offset = read_offset(get_content(message))
        if offset is not None:
            self.settle(offset, lambda: fingerprint_message(message.exchange, message.routing_key, message.body))
            self.write_soon(failed)

    def forget(self) -> None:
        """Forget what was settled since the process began; what stands in the file is still known."""
        self._last = None
        self._fingerprint = self._written = lambda: ""

    @property
    def is_unwritten(self) -> bool:
        """Whether something was settled that the file does not have."""
        return self.path is not None and self._last is not None and self._fingerprint is not self._written

    def write_soon(self, failed: Callable[[OSError], None]) -> None:
        """Write what is settled, in a task, until all is written, or a write has ``failed``: one write at a time."""
        if self.is_unwritten and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._keep_writing(failed))

    async def write_now(self, failed: Callable[[OSError], None]) -> None:
        """Write what is settled at once, and wait for it."""
        self.write_soon(failed)
        if self._writing is not None:
            self._hurry.set()
            await asyncio.wait([self._writing])
            self._hurry.clear()

    async def _keep_writing(self, failed: Callable[[OSError], None]) -> None:
        while self.is_unwritten:
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._hurry.wait()
            try:
                await self.write()
            except OSError as error:
                failed(error)
                return

    async def write(self) -> None:
        """Write the offset, if it has changed since the last time. Raises OSError."""
        path, fingerprint = self.path, self._fingerprint
        if path is None or not self.is_unwritten:
            return
        line = f"{self._last} {fingerprint()}\n".encode()

        def replace() -> None:
            with replace_file(path, durable=True) as file:
                file.write(line)

        await call_aside(replace)
        self._written = fingerprint
