"""The ledger of a replay: a file of lines, by which a second run knows what an earlier one has published.

Each line is a JSON object, written before and after a message: ``{"sent": DIGEST, "queue": NAME, "header": BASE64}``,
with the content header that the dead letter had, and ``{"done": DIGEST}``, once the broker has confirmed it;
``{"undone": DIGEST}`` once it was taken back. A line that is torn, as its writer was killed, is cut off. The file is
locked while it is in use. It needs no more care than that: a message leaves its queue only after it is confirmed, and
a line that was lost makes it at most be published once more.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable
from json import dumps
from pathlib import Path
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.files.operating_system import NOT_INHERITED, lock_file, sync_data
from exchange.values.json_text import parse_leniently

__all__ = ["Ledger", "Sent"]


class Sent(NamedTuple):
    """What was published again."""

    digest: str
    queue: str
    """The queue that it was published to; "" if an exchange was."""
    header: bytes
    """The content header of the dead letter."""
    body: bytes | None = None
    """Its body, if another one was published."""


class Ledger:
    """A ledger that is open, and locked; ``place`` names the queue of dead letters, and must be that of the file."""

    def __init__(self, path: Path, place: str) -> None:
        self.path: Final = path
        self.done: Final[dict[str, Sent]] = {}
        """Digest -> what was published and confirmed, and not taken back."""
        self.undone: Final[dict[str, str]] = {}
        """Digest of what was taken back -> the queue that it was published to, and may be left in."""
        self.unsure: Final[set[str]] = set()
        """Digests of what was published, of which it is not known whether the broker has it."""
        self._file: Final = _open_locked(path)
        try:
            if not self._read(place):
                self._write([{"ledger": place}])
        except BaseException:
            os.close(self._file)
            raise

    def _read(self, place: str) -> bool:
        """Read the file, and return whether it has begun. Raises InputError."""
        sent: dict[str, Sent] = {}
        size = begun = 0
        with open(self._file, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                size += len(line)
                try:
                    self._take(parse_leniently(line), sent, place, is_first=number == 1)
                except (ValueError, KeyError, TypeError, Error, AttributeError):
                    raise InputError(f"{self.path}:{number}: not a line of a ledger") from None
                begun = number
        os.truncate(self._file, size)
        self.unsure.update(sent.keys() - self.done.keys())
        return bool(begun)

    def _take(self, entry: dict[str, Any], sent: dict[str, Sent], place: str, *, is_first: bool) -> None:
        if is_first:
            if entry["ledger"] != place:
                raise InputError(f"{self.path}: the ledger of {entry['ledger']}, and not of {place}")
        elif (digest := entry.get("sent")) is not None:
            header, body = (
                None if text is None else b64decode(text, validate=True)
                for text in (entry["header"], entry.get("body"))
            )
            sent[digest] = Sent(str(digest), str(entry["queue"]), header or b"", body)
        elif (digest := entry.get("done")) is not None:
            self._remember(sent[digest])
        else:
            self._forget(entry["undone"])
            del sent[entry["undone"]]

    def note_sent(self, messages: Iterable[Sent]) -> None:
        """Take note that messages are about to be published."""
        self._write([
            {"sent": each.digest, "queue": each.queue, "header": b64encode(each.header).decode()}
            | ({} if each.body is None else {"body": b64encode(each.body).decode()})
            for each in messages
        ])  # fmt: skip

    def note_done(self, messages: Iterable[Sent]) -> None:
        """Take note that messages are confirmed."""
        confirmed = [*messages]
        for each in confirmed:
            self._remember(each)
        self._write([{"done": each.digest} for each in confirmed])

    def note_undone(self, digests: Iterable[str]) -> None:
        """Take note that messages are dead letters again."""
        taken = [*digests]
        for each in taken:
            self._forget(each)
        self._write([{"undone": each} for each in taken])

    def _remember(self, sent: Sent) -> None:
        self.done[sent.digest] = sent
        self.undone.pop(sent.digest, None)

    def _forget(self, digest: str) -> None:
        if (sent := self.done.pop(digest, None)) is not None:
            self.undone[digest] = sent.queue

    def _write(self, entries: Iterable[dict[str, str]]) -> None:
        data = b"".join([dumps(entry).encode() + b"\n" for entry in entries])
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Make what was written survive a power cut, and unlock the file."""
        try:
            sync_data(self._file)
        finally:
            os.close(self._file)


def _open_locked(path: Path) -> int:
    """Return the descriptor of a file that only this process uses. Raises InputError."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NOT_INHERITED, 0o600)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not lock_file(file, wait=False):
        os.close(file)
        raise InputError(f"{path}: another replay is using it")
    return file
