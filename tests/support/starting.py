"""Wait until a service answers; one that does not is named within a minute, with the reason and the end of its log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tests.support.waiting import stretch

START_SECONDS: Final = 60.0
"""Maximum time until a service answers that was started, in seconds, where a processor is to spare."""
PAUSE: Final = 0.25
CHARACTERS: Final = 3_000
"""Maximum number of characters shown of a log."""

Answer = TypeVar("Answer")


class Unavailable(Exception):
    """There is no server; the message has the reason."""


def wait_for_service(
    name: str,
    ask: Callable[[], Answer],
    read_log: Callable[[], str] = str,
    *,
    has_ended: Callable[[], bool] = lambda: False,
    seconds: float = START_SECONDS,
    began: float | None = None,
) -> Answer:
    """Return the answer of a service as soon as it gives one: `ask` raises an exception until then.

    Raises Unavailable with name, reason and the end of its log if it has ended, or does not answer within `seconds`
    since it `began` (by `time.monotonic`; now unless given), or more on a busy machine.
    """
    began = time.monotonic() if began is None else began
    while True:
        try:
            return ask()
        except Exception as error:  # noqa: BLE001  whatever a starting server or its client comes up with
            last = error
        if has_ended():
            raise Unavailable(f"{name} ended before it answered{_show(read_log)}")
        if (passed := time.monotonic() - began) > stretch(seconds):
            reason = f"did not answer in {passed:.0f} s ({type(last).__name__}: {last})"
            raise Unavailable(f"{name} {reason}{_show(read_log)}") from last
        time.sleep(PAUSE)


def has_ended(container: Any) -> bool:
    """Return whether a container of testcontainers runs no more."""
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return wrapped.status in ("exited", "dead")


def read_log(container: Any) -> str:
    """Return what a container of testcontainers has written."""
    return b"".join(container.get_logs()).decode(errors="replace")


def _show(read_log: Callable[[], str]) -> str:
    log = read_log().strip()[-CHARACTERS:]
    return f"; its log ends:\n{log}" if log else ""
