"""What a fuzz target is, and how its bytes become texts, parts and files."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

from exchange.errors import HashstarError

PART: Final = b"\n%%%%\n"
"""Separates the parts of an input that stands for several files or texts."""


class Target(NamedTuple):
    """A reader under test."""

    run: Callable[[bytes], object]
    """Reads any bytes. An AssertionError is a law that does not hold."""
    weight: int = 1
    """Share of the time, relative to the others."""
    raises: tuple[type[Exception], ...] = (HashstarError,)
    """Errors that are an answer. All others are findings."""

    def check(self, data: bytes) -> None:
        """Run the target; raise what is a finding."""
        try:
            self.run(data)
        except self.raises:
            return


def text_of(data: bytes) -> str:
    """Return the text of bytes as the engine keeps names: what is not UTF-8 as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def cut(data: bytes, count: int) -> list[bytes]:
    """Return exactly this many parts; those that are missing are empty."""
    parts = data.split(PART, count - 1)
    return parts + [b""] * (count - len(parts))


def is_same(one: Any, other: Any) -> bool:
    """Return whether values are equal, NaN being equal to itself."""
    return bool(one == other) or repr(one) == repr(other)


MEMORY: Final = Path("/dev/shm")  # noqa: S108  folders are made by mkdtemp
PLACE: Final = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
"""Holds the folders of targets: in memory where there is such a file system."""


@cache
def folder() -> Path:
    """Return a folder of this process for files of targets."""
    path = tempfile.mkdtemp(prefix=f"hashstar-fuzz-{os.getpid()}-", dir=PLACE)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def remove_folder(pid: int) -> None:
    """Remove the folder of a process that ended without its exit handlers."""
    for path in PLACE.glob(f"hashstar-fuzz-{pid}-*"):
        shutil.rmtree(path, ignore_errors=True)


def write(name: str, data: bytes) -> Path:
    """Write a file in `folder`, replacing the one of the input before."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@contextmanager
def offline() -> Iterator[None]:
    """Refuse every connection and every look-up of a host: inputs name random hosts."""

    def refuse(*_: object, **__: object) -> Any:
        raise OSError("fuzzing is offline")

    with (
        mock.patch.object(socket.socket, "connect", refuse),
        mock.patch.object(socket, "getaddrinfo", refuse),
        mock.patch.object(socket, "create_connection", refuse),
    ):
        yield
