"""Access tokens for clients of Kafka, which ask for one by a callback (``OAUTHBEARER``)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from bridge.endpoint import Disconnected
from bridge.oauth import UNKNOWN_LIFE, AccessToken, Tokens

TOKENS: Final = "oauth_cb"
"""Setting of confluent-kafka: the function that gives access tokens."""
NO_TOKEN: Final = "none"  # noqa: S105
"""Given where there has not been any token yet."""
AGAIN: Final = 5.0
"""Seconds that librdkafka takes a token to live that has expired; it asks for another one before."""


class TokenLogin:
    """What librdkafka asks for an access token: as a client is made, and at about four fifths of the life of each."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens: Final = tokens
        self._given = AccessToken(NO_TOKEN, 0.0, 0.0)

    def __call__(self, _: str) -> tuple[str, float]:
        """Return a token, and when it expires, in seconds since 1970.

        An exception here would have whatever makes the client wait for 10 s, and then lose the reason. Where no token
        lives any more, brokers refuse the last one, and librdkafka asks again in a moment.
        """
        with suppress(Disconnected):
            self._given = self.tokens.current()
        return self._given.text, time.time() + min(max(self._given.expires_at - time.monotonic(), AGAIN), UNKNOWN_LIFE)

    def forget(self) -> None:
        """Forget the last token, as the brokers refuse it."""
        self.tokens.forget(self._given.text)


def prepare_login(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings with which a client is made now, after an access token was got, where it logs in with these.

    To be called aside. Raises Disconnected if there is none.
    """
    login = settings.get(TOKENS)
    if isinstance(login, TokenLogin):
        login.tokens.current()
    return settings
