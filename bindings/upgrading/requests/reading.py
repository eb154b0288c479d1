"""Read what applications ask: a recording of `hashstar record`, or an archive of published messages.

A tracing log of RabbitMQ, or any other archive that `hashstar audit` reads, has messages and no declarations: it shows
to which exchanges is published, and how large bodies are.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from bindings.sources.files import decode_text, gunzip, open_file, read_whole
from bindings.sources.recording.file import is_recording, read_recording
from bindings.sources.recording.model import RecordedClient, RecordedPublishing, Recording, UnreadConnections
from exchange.errors import InputError
from exchange.text.site import how_to_install

__all__ = ["read_asked"]

HEAD: Final = 200
"""Number of bytes at the beginning of a file that show whether it is a recording."""
UNKNOWN: Final = ""
"""Time of what an archive does not tell."""


def read_asked(path: str) -> Recording:
    """Return what a file has recorded. Raises InputError, which names the file."""
    try:
        with open_file(path) as file:
            is_pipe = not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            head = file.read(HEAD)
            may_be_recording = is_pipe or b'"recording"' in head or head.startswith(b"\x1f\x8b")
            data = head + read_whole(file, path) if may_be_recording else b""
    except (OSError, ValueError) as error:  # a text with a NUL is no path
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if may_be_recording:
        text = decode_text(gunzip(data, path), path)
        if is_recording(text):
            return read_recording(text, path)
    if is_pipe:
        raise InputError(f"{path}: no recording of hashstar record; an archive is a file that stays, not a pipe")
    try:
        return _read_archive(path)
    except ImportError:
        raise InputError(f"{path}: no recording of hashstar record; archives need {how_to_install('audit')}") from None


def _read_archive(path: str) -> Recording:
    from bindings.archive.formats.detect import detect  # needs pyarrow, which a recording does not
    from bindings.archive.reading import Bad, Skipped

    try:
        archive = detect(path)
    except InputError as error:
        raise InputError(f"{error}; and it is no recording of hashstar record: that begins with its kind") from None
    recording = Recording(path, UNKNOWN, UNKNOWN)
    client = RecordedClient(name=f"publishers in {', '.join(archive.names)}")
    rows: dict[tuple[str, str], RecordedPublishing] = {}
    for form, split in archive.plan():
        for item in form.read(split, ("vhost", "exchange", "body_size")):
            if isinstance(item, Skipped):
                continue
            if isinstance(item, Bad):
                recording.unread[UnreadConnections("archive", item.reason)] += 1
                continue
            columns = (item.column(name).to_pylist() for name in ("vhost", "exchange", "body_size"))
            for vhost, exchange, size in zip(*columns, strict=True):
                key = (vhost or "/", exchange)
                row = rows.get(key)
                if row is None:
                    row = rows[key] = RecordedPublishing(client, *key, False, False, UNKNOWN, UNKNOWN)
                row.messages += 1
                row.max_bytes = max(row.max_bytes, size or 0)
    recording.connections[client] += 1
    recording.publishing = [*rows.values()]
    return recording
