"""Calls that may block for as long as a file system or a resolver likes, made aside from the event loop.

The loop serves all endpoints, the health and the signals, so no call on it may block. Reading a password or a
certificate, or writing a file of offsets, takes a moment, and hours where the file is on a network drive that hangs.

The thread is a daemon of its own, and none of the loop's executor: one that hangs neither keeps the process from
ending nor takes the place of other calls.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import Final, TypeVar

__all__ = ["call_aside", "is_look_up_hanging", "prepare_call"]

T = TypeVar("T")

LOOK_UP_SECONDS: Final = 1.0
"""Seconds in which name servers are to answer."""


async def call_aside(function: Callable[[], T]) -> T:
    """Call a function on a thread of its own, and return its result. Raises what it raises.

    It can be cancelled; the call then goes on, and nobody learns its result.
    """
    run, future = prepare_call(function)
    _start(run)
    return await future


def _start(run: Callable[[], None]) -> None:
    Thread(target=run, name="hashstar-aside", daemon=True).start()


def prepare_call(function: Callable[[], T]) -> tuple[Callable[[], None], asyncio.Future[T]]:
    """Return what calls the function, for another thread, and the future of its result on the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def resolve(set_outcome: Callable[[], None]) -> None:
        if not future.done():
            set_outcome()

    def run() -> None:
        try:
            outcome = partial(future.set_result, function())
        except BaseException as error:  # noqa: BLE001  it is raised where the future is awaited
            outcome = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(resolve, outcome)

    return run, future


def is_look_up_hanging(host: str) -> bool:
    """Return whether name servers give no answer about a host; that they do not know it is an answer.

    To be called aside, when a connection was not made in time: it waits for `LOOK_UP_SECONDS` at most.
    """
    answered = Event()

    def look_up() -> None:
        with suppress(OSError, UnicodeError):  # these are answers, too
            socket.getaddrinfo(host, None)
        answered.set()

    _start(look_up)
    return not answered.wait(LOOK_UP_SECONDS)
