"""Run the proxy until it is to stop, and write the recording every few seconds and at the end.

The file is replaced as a whole, so it is a complete recording at any time: a process that is killed loses the last
seconds. Traffic goes on if the file cannot be written.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bindings.recording.ledger import Ledger
from bindings.recording.proxy import Proxy
from bindings.sources.files import replacing
from bindings.sources.recording.file import recording_lines
from bindings.sources.recording.model import Recording

__all__ = ["run_proxy", "save_recording"]

SAVE_SECONDS: Final = 5.0
"""Minimum number of seconds between two saves of a recording that has changed."""
SAVE_SHARE: Final = 20
"""A save that took long is followed by a pause that is this many times as long."""


async def run_proxy(
    proxy: Proxy,
    ledger: Ledger,
    path: Path,
    address: tuple[str, int],
    *,
    tls: ssl.SSLContext | None = None,
    stop: asyncio.Event,
    listening: Callable[[int], None],
    warn: Callable[[OSError], None],
) -> None:
    """Serve until ``stop`` is set; ``listening`` is called with the port, ``warn`` for each save that failed.

    Raises OSError if the address cannot be served, or the file not be written at the beginning or the end.
    """
    save_recording(ledger.recording(), path)
    listening(await proxy.start(*address, tls))
    saved, pause = ledger.changes, SAVE_SECONDS
    try:
        while not await _is_set(stop, pause):
            if saved != ledger.changes:
                saved, begun = ledger.changes, time.monotonic()
                try:
                    await asyncio.to_thread(save_recording, ledger.recording(), path)  # traffic goes on
                except OSError as error:
                    warn(error)
                pause = max(SAVE_SECONDS, (time.monotonic() - begun) * SAVE_SHARE)
    finally:
        await proxy.stop()
        save_recording(ledger.recording(), path)


def save_recording(recording: Recording, path: Path) -> None:
    """Write a recording. Raises OSError."""
    with replacing(path) as file:
        file.writelines(recording_lines(recording))


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Return whether an event is set before the seconds are over."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
