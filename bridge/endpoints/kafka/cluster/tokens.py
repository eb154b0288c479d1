"""Access tokens for clients of Kafka, which ask for one by a callback (``OAUTHBEARER``)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from bridge.endpoint import Disconnected
from bridge.tokens import AccessToken, Tokens

TOKENS: Final = "oauth_cb"
"""Setting of confluent-kafka: the function that gives access tokens."""
NO_TOKEN: Final = "none"  # noqa: S105
"""Given where there has not been any token yet."""
ASKED_AT: Final = 0.8
"""Share of the life of a token, as it is given to librdkafka, after which librdkafka asks for another one."""
LEAST_WAIT: Final = 1.0
"""Minimum number of seconds until librdkafka asks again; it looks once a second whether it is time."""


class TokenLogin:
    """The callback by which librdkafka asks for an access token: as a client is made, and then when it is time."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens: Final = tokens
        self._given = AccessToken(NO_TOKEN, 0.0, 0.0)

    def __call__(self, _: str) -> tuple[str, float]:
        """Return a token, and a time in seconds since 1970 by which librdkafka asks when a newer one may be there.

        librdkafka takes that time for the end of the token, and uses it for nothing else. It logs in again on an open
        connection after 0.9 of what the broker says that the token lives; a newer one must be there by then, as brokers
        refuse a further login within a second. An exception here would have whatever makes the client wait for 10 s,
        and then lose the reason. Where no token lives any more, brokers refuse the last one.
        """
        with suppress(Disconnected):
            self._given = self.tokens.current()
        return self._given.text, time.time() + max(self.tokens.find_wait(self._given), LEAST_WAIT) / ASKED_AT

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
