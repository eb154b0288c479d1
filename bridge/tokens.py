"""Access tokens of one endpoint: each is kept as long as it is of use, and renewed before it expires."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import random
from threading import Lock
from typing import Final

from bridge.endpoint import Disconnected
from exchange.text.numbers import write_time

LOG: Final = logging.getLogger(__name__)

RENEWED_AT: Final = 0.6, 0.7
"""Share of a token's life after which another one is asked for: chosen between these, so that endpoints which began
together do not ask together. A server that takes all its time to answer is in time for a token of a minute: librdkafka
logs in again at 0.9."""
UNKNOWN_LIFE: Final = 300.0
"""Life of a token in seconds if neither its server nor the token itself states it."""
READ_EVERY: Final = 5.0
"""Seconds after which a token that another program renews is read again."""
BACKOFF: Final = 0.5, 5.0
"""Seconds from the first failure to the next try, which double with each failure, and their maximum."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token, and until when it serves; times are of one monotonic clock, in seconds."""

    text: str = field(repr=False)
    renew_at: float
    """Time from which a newer one is asked for."""
    expires_at: float
    """Time at which it expires; infinite if it is not known."""


class Tokens:
    """The tokens of one endpoint: the last one, and how to get the next. It may be used by several threads.

    ``fetch`` returns a token and its life in seconds, None if that is not known. With ``read_every``, the token is
    fetched anew after this number of seconds, whatever its life is: another program renews it.
    """

    def __init__(
        self,
        fetch: Callable[[], tuple[str, float | None]],
        read_every: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random,
    ) -> None:
        self._fetch = fetch
        self._read_every = read_every
        self._clock = clock
        self._chance = chance
        self._asking: Final = Lock()
        self._token: AccessToken | None = None
        self._error: Disconnected | None = None
        self.trouble: str | None = None
        """Why no newer token could be had, when that was tried last, and when the present one expires; else None."""
        self._failures = 0
        self._again_at = float("-inf")

    def __deepcopy__(self, _: object) -> Tokens:  # pika copies the credentials that have it
        return self

    def find_wait(self, held: AccessToken) -> float:
        """Return the number of seconds until the holder of this token should call `current`; negative if it is due."""
        return max(held.renew_at, self._again_at) - self._clock()

    def current(self) -> AccessToken:
        """Return a token that has not expired; one that is due for renewal is replaced.

        To be called aside: it asks the server, or reads the file. Raises Disconnected if there is no token; after a
        failure, nothing is asked until its back-off is over. While a token lives, no thread waits for the one that
        asks.
        """
        known, now = self._token, self._clock()
        if known is not None and now < known.renew_at:
            return known
        if not self._asking.acquire(blocking=known is None or now >= known.expires_at):
            assert known is not None  # noqa: S101  it would have waited
            return known
        try:
            return self._renew()
        finally:
            self._asking.release()

    def forget(self, text: str) -> None:
        """Forget a token that was refused, so that the next call of `current` asks for another one."""
        known = self._token
        if known is not None and known.text == text:
            self._token = None

    def _renew(self) -> AccessToken:
        """Return the token that another thread has got meanwhile, or ask for one. Raises Disconnected."""
        known, now = self._token, self._clock()
        if known is not None and now < known.renew_at:
            return known
        if now >= self._again_at:
            try:
                known = self._token = self._make(*self._fetch())
            except Disconnected as error:
                first, most = BACKOFF
                wait = min(first * 2 ** min(self._failures, 10), most) * (1 + self._chance()) / 2
                self._error, self._failures, self._again_at = error, self._failures + 1, self._clock() + wait
                self.trouble = f"{error}; tried last at {write_time(time.time())}, {self._describe_rest()}"
                LOG.warning("%s", self.trouble)
            else:
                self.trouble, self._error, self._failures, self._again_at = None, None, 0, float("-inf")
        if known is None or self._clock() >= known.expires_at:
            assert self._error is not None  # noqa: S101  else there would be a token
            raise self._error.with_traceback(None)
        return known

    def _describe_rest(self) -> str:
        """Return how long the present token serves."""
        if self._token is None:
            return "and there is no token"
        left = self._token.expires_at - self._clock()
        if left == float("inf"):
            return "and when the token expires is not known"
        return f"and the token {'expires' if left > 0 else 'expired'} at {write_time(time.time() + left)}"

    def _make(self, text: str, life: float | None) -> AccessToken:
        now = self._clock()
        expires_at = float("inf") if life is None else now + life
        if self._read_every is not None:
            return AccessToken(text, now + self._read_every, expires_at)
        early, late = RENEWED_AT
        share = early + (late - early) * self._chance()
        return AccessToken(text, now + (UNKNOWN_LIFE if life is None else life) * share, expires_at)
