"""What not every operating system has, and what takes its place: flags and locks of files, signals, closed pipes.

Windows has neither fcntl nor resource, only the basic flags, no folders that can be opened, no positional reads, and of
the signals SIGINT, SIGTERM and SIGBREAK only. No other module asks which system it is on.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TextIO

NOT_INHERITED: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags of `os.open` for a file of bytes that programs which are started do not get."""

NOT_WAITING: Final = getattr(os, "O_NONBLOCK", 0)
"""Flag of `os.open` that returns at once where another program would have to open a pipe, too."""

LOCKED_BYTE: Final = 1 << 40
"""Where Windows, which locks bytes and not files, is to lock one: behind all that is written."""


def _find_module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl: Any = _find_module("fcntl")
_msvcrt: Any = _find_module("msvcrt")
_resource: Any = _find_module("resource")


def find_signals(*names: str) -> tuple[signal.Signals, ...]:
    """Return those of the signals that the system has; names as ``SIGUSR1``."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def block_signals(*numbers: signal.Signals) -> list[signal.Signals]:
    """Have signals wait until `unblock_signals`, on this thread and in the programs that it starts meanwhile.

    Returns those that did not wait before. Where signals cannot wait, as on Windows, none do.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    return [number for number in numbers if number not in before]


def unblock_signals(*numbers: signal.Signals) -> None:
    """Deliver signals that wait by `block_signals`, and from now on at once."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def lock_file(file: int, *, wait: bool) -> bool:
    """Lock a file for this descriptor alone; return False if another one has the lock. Raises OSError.

    With ``wait``, wait until the other one gives it up: on Windows for ten seconds at most. The lock ends when the
    descriptor is closed.
    """
    try:
        if _fcntl is not None:
            _fcntl.flock(file, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
        else:
            _lock_byte(file, _msvcrt.LK_LOCK if wait else _msvcrt.LK_NBLCK)
    except (BlockingIOError, PermissionError):
        if wait:
            raise
        return False
    return True


def unlock_file(file: int) -> None:
    """Give up the lock of `lock_file`."""
    if _fcntl is not None:
        _fcntl.flock(file, _fcntl.LOCK_UN)
    else:
        _lock_byte(file, _msvcrt.LK_UNLCK)


def _lock_byte(file: int, mode: int) -> None:
    position = os.lseek(file, 0, os.SEEK_CUR)
    os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
    try:
        _msvcrt.locking(file, mode, 1)
    finally:
        os.lseek(file, position, os.SEEK_SET)


def set_mode(file: int, mode: int) -> None:
    """Set the permissions of an open file, where it has some. Raises OSError."""
    if hasattr(os, "fchmod"):
        os.fchmod(file, mode)


def read_at(file: int, size: int, position: int) -> bytes:
    """Read at most ``size`` bytes at a position of a file that no other thread reads. Raises OSError."""
    if hasattr(os, "pread"):
        return os.pread(file, size, position)
    os.lseek(file, position, os.SEEK_SET)
    return os.read(file, size)


def sync_data(file: int) -> None:
    """Make what was written to a file survive a power cut. Raises OSError."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(file)
    elif hasattr(_fcntl, "F_FULLFSYNC"):  # macOS, where fsync leaves the data in the drive's cache
        _fcntl.fcntl(file, _fcntl.F_FULLFSYNC)
    else:
        os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where a program can ask for that. Raises OSError."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read_file_limit() -> float:
    """Return how many files this process may have open at once; infinite if the system has no limit, or names none."""
    if _resource is None:
        return float("inf")
    soft, _ = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    return float("inf") if soft == _resource.RLIM_INFINITY else soft


def raise_file_limit(wanted: int) -> None:
    """Raise the number of files that this process may have open at once, as far as allowed; never lower it."""
    if _resource is None:
        return
    soft, hard = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    most = wanted if hard == _resource.RLIM_INFINITY else min(wanted, hard)
    if soft != _resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # macOS refuses more than the kernel's own limit
            _resource.setrlimit(_resource.RLIMIT_NOFILE, (most, hard))


def is_closed_by_reader(stream: TextIO) -> bool:
    """Return whether a stream is a pipe or a socket whose reader has closed it; False where that cannot be asked."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # no file, or closed
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
