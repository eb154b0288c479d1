"""The ledger of a replay: a file of lines, by which a second run knows what an earlier one has published.

Each line is a JSON object:

=====================================================  ================================================================
``{"sent": DIGEST, "queue": NAME, "header": BASE64}``  a message is about to be published; with the content header of
                                                       its dead letter, and its body where that was edited
``{"done": DIGEST}``                                   the broker has confirmed it
``{"gone": DIGEST}``                                   its dead letter is about to leave its queue
``{"undone": DIGEST, "queue": NAME}``                  it is a dead letter again, as the broker has confirmed
``{"taken": DIGEST, "queue": NAME}``                   it is about to leave the queue that it was published to
``{"settled": true}``                                  all that was said to be leaving has left
=====================================================  ================================================================

Dead letters that are equal have one digest, and each of them its own lines: all is counted. A run that is killed
between ``done`` and ``gone`` has left the dead letter in its queue, and the next run only takes it out. After ``gone``
it may be there or not, and what is there is published: once too often rather than never. So the file needs no more
care than that it is written before the broker is: a line that is torn, as its writer was killed, is cut off. The file
is locked while it is in use.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from binascii import Error
from collections import Counter
from collections.abc import Iterable, Mapping
from json import dumps
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from exchange.errors import InputError
from exchange.files.operating_system import NOT_INHERITED, lock_file, sync_data
from exchange.values.json_text import parse_leniently

T = TypeVar("T")
What: TypeAlias = Literal["done", "gone", "undone", "taken"]
"""Names of lines, as above."""


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
        self.sent: Final[dict[str, Sent]] = {}
        """Digest -> what was published last."""
        self.done: Final[Counter[tuple[str, str]]] = Counter()
        """Digest and queue -> number of messages that were published to it and confirmed, and not taken back."""
        self.kept: Final[Counter[tuple[str, str]]] = Counter()
        """Digest and queue -> number of messages that were taken back, and have not left that queue."""
        self.held: Final[Counter[str]] = Counter()
        """Digest -> number of dead letters that were published, and have not left their queue."""
        self.unsure: Final[set[str]] = set()
        """Digests of what may have been published though its dead letter is in its queue; until ``settled``."""
        self._confirmed: Final[set[str]] = set()
        self._fault = ""
        """Why nothing more is written; "" if it is."""
        self._file: Final = _open_locked(path)
        try:
            if not self._read(place):
                self._write([{"ledger": place}])
        except BaseException:
            os.close(self._file)
            raise

    def _read(self, place: str) -> bool:
        """Read the file, and return whether it has begun. Raises InputError."""
        size = begun = 0
        with open(self._file, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                size += len(line)
                try:
                    entry = parse_leniently(line)
                    if number > 1:
                        self._take(entry)
                    elif entry["ledger"] != place:
                        raise InputError(f"{self.path}: the ledger of {entry['ledger']}, and not of {place}")
                except (ValueError, KeyError, TypeError, Error, AttributeError):
                    raise InputError(f"{self.path}:{number}: not a line of a ledger") from None
                begun = number
        os.truncate(self._file, size)
        return bool(begun)

    def _take(self, entry: Mapping[str, Any]) -> None:
        """Take note of what a line says."""
        if "sent" in entry:
            header, body = (
                None if text is None else b64decode(text, validate=True)
                for text in (entry["header"], entry.get("body"))
            )
            self._remember(Sent(str(entry["sent"]), str(entry["queue"]), header or b"", body))
        elif "done" in entry:
            sent = self.sent[entry["done"]]
            self.done[sent.digest, sent.queue] += 1
            self.held[sent.digest] += 1
            self._confirmed.add(sent.digest)
        elif "gone" in entry:
            _reduce(self.held, entry["gone"])
        elif "undone" in entry:
            _reduce(self.done, (entry["undone"], entry["queue"]))
            self.kept[entry["undone"], entry["queue"]] += 1
        elif "taken" in entry:
            _reduce(self.kept, (entry["taken"], entry["queue"]))
        elif entry["settled"]:
            self.unsure.difference_update(self._confirmed)
            self._confirmed.clear()

    def _remember(self, sent: Sent) -> None:
        if sent.body is None and (before := self.sent.get(sent.digest)) is not None:
            sent = sent._replace(body=before.body)  # dead letters with one digest have one body
        self.sent[sent.digest] = sent
        self.done[sent.digest, sent.queue] += 0
        self.unsure.add(sent.digest)
        self._confirmed.discard(sent.digest)

    def note_sent(self, messages: Iterable[Sent]) -> None:
        """Take note that messages are about to be published."""
        entries = []
        for each in messages:
            self._remember(each)
            entry = {"sent": each.digest, "queue": each.queue, "header": b64encode(each.header).decode()}
            entries.append(entry if each.body is None else entry | {"body": b64encode(each.body).decode()})
        self._write(entries)

    def note(self, what: What, digests: Iterable[str], queue: str | None = None) -> None:
        """Take note of what has become of messages."""
        where = {} if queue is None else {"queue": queue}
        entries: list[dict[str, str]] = [{what: each, **where} for each in digests]
        for each in entries:
            self._take(each)
        self._write(entries)

    def note_settled(self) -> None:
        """Take note that the broker has taken what was said to be leaving its queue."""
        self._take({"settled": True})
        self._write([{"settled": True}])

    def _write(self, entries: Iterable[Mapping[str, object]]) -> None:
        """Append lines. Raises InputError if that fails, or has failed: a torn line must stay the last one."""
        data = b"".join([dumps(entry).encode() + b"\n" for entry in entries])
        try:
            while data and not self._fault:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._fault = f"{self.path}: the ledger cannot be written: {error.strerror}"
        if self._fault:
            raise InputError(self._fault)

    def close(self) -> None:
        """Make what was written survive a power cut, and unlock the file. Raises InputError."""
        try:
            sync_data(self._file)
        except OSError as error:
            raise InputError(f"{self.path}: the ledger cannot be written: {error.strerror}") from None
        finally:
            os.close(self._file)


def _reduce(counts: Counter[T], key: T) -> None:
    if counts[key] > 0:
        counts[key] -= 1


def _open_locked(path: Path) -> int:
    """Return the descriptor of a file that only this process uses. Raises InputError."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: no regular file, which a ledger must be: the next run reads it")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NOT_INHERITED, 0o600)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not lock_file(file, wait=False):
        os.close(file)
        raise InputError(f"{path}: another replay is using it")
    return file
