"""Make calls that may block, of the file system or a resolver, on threads of their own beside the event loop.

The loop serves all endpoints, the health and the signals, so no call on it may block. Reading a password or a
certificate, or writing a file of offsets, takes a moment, and hours where the file is on a network drive that hangs.

Each thread is a daemon, and not one of the few of the loop's executor: a call that hangs neither keeps the process from
ending nor delays other calls. An endpoint waits for each call before the next one, and all that look a host up wait for
one thread, so hanging calls are few. Tasks of the loop that linger are cancelled again, or left.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Addresses: TypeAlias = Sequence[tuple[Any, ...]]
"""What `socket.getaddrinfo` returns."""

ASIDE: Final = "hashstar-aside"
"""Name of the threads."""
AGAIN: Final = 1.0
"""Seconds after which a cancelled task that has not ended is cancelled again."""
LOOK_UP_SECONDS: Final = 1.0
"""Seconds in which name servers are to answer."""


async def call_aside(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function on a thread of its own, and return its result. Raises what it raises.

    Cancelling it does not end the call, whose result is then lost.
    """
    run, future = prepare_call(partial(function, *arguments, **named))
    _start(run)
    return await future


def _start(run: Callable[[], None]) -> None:
    Thread(target=run, name=ASIDE, daemon=True).start()


def prepare_call(function: Callable[[], T]) -> tuple[Callable[[], None], asyncio.Future[T]]:
    """Return a function that makes the call, for another thread to run, and the future of its result on this loop."""
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


async def look_up(host: str, port: int) -> Addresses:
    """Return the addresses of a host for TCP. Raises OSError, UnicodeError."""
    return await asyncio.wrap_future(_look_up(host, port))


def is_look_up_hanging(host: str) -> bool:
    """Return whether name servers do not answer about a host; that they do not know it is an answer, too.

    Use it with `call_aside`, after a connection was not made in time: it blocks for `LOOK_UP_SECONDS` at most.
    """
    return bool(wait([_look_up(host, None)], LOOK_UP_SECONDS).not_done)


_looking_up: Final[dict[tuple[str, int | None], Future[Addresses]]] = {}
"""Host and port -> what name servers have not answered yet."""
_changing: Final = Lock()


def _look_up(host: str, port: int | None) -> Future[Addresses]:
    """Look a host up, or wait for the answer that others wait for: a resolver may hang for longer than its askers."""
    with _changing:
        future = _looking_up.get((host, port))
        if future is None:
            future = _looking_up[host, port] = Future()
            future.set_running_or_notify_cancel()  # who waits for it cannot cancel it
            _start(partial(_resolve, host, port, future))
        return future


def _resolve(host: str, port: int | None, future: Future[Addresses]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        outcome = partial(future.set_result, found)
    except BaseException as error:  # noqa: BLE001  it is raised where the future is awaited
        outcome = partial(future.set_exception, error)
    with _changing:
        del _looking_up[host, port]
    outcome()


async def run_within(seconds: float, work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at the same time, and cancel those that take longer."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=AGAIN)


async def cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended, again and again: a library may swallow a cancellation and continue."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN)
