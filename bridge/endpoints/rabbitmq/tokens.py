"""Access tokens as passwords of RabbitMQ: at the login, and on a connection that is open longer than a token lives.

The broker closes a connection when its token expires, unless the client has sent a newer one by then
(connection.update-secret).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pika
import pika.exceptions

from bridge.aside import call_aside
from bridge.endpoint import Disconnected
from bridge.oauth import AccessToken, Tokens
from exchange.errors import BrokerError

LEAST_WAIT: Final = 0.5
"""Minimum number of seconds between two looks for a newer token."""
REFUSED: Final = re.compile("credential expired|[Ss]ecret |refused for user|refuses the access token")
"""Found in what a broker says when it refuses a token: at the login, a newer one, or one that has expired."""
REASON: Final = "the token was renewed"
"""Reason that the broker is given for a newer token."""


class TokenCredentials(pika.PlainCredentials):  # type: ignore[misc]
    """The token that a connection has. Its user is the one that the token names: the broker asks for no other."""

    def __init__(self, tokens: Tokens, token: AccessToken) -> None:
        super().__init__("", token.text)
        self.tokens: Final = tokens
        self.token: Final = token


def find_tokens(parameters: pika.URLParameters) -> Tokens | None:
    """Return the tokens by which these parameters log in; None if it is by a password."""
    credentials = parameters.credentials
    return credentials.tokens if isinstance(credentials, TokenCredentials) else None


def forget_refused_token(parameters: pika.URLParameters, reason: str) -> None:
    """Forget the token of these parameters if that is why the broker ends the connection: the next one has another."""
    credentials = parameters.credentials
    if isinstance(credentials, TokenCredentials) and REFUSED.search(reason):
        credentials.tokens.forget(credentials.token.text)


async def keep_token_fresh(wire: Any, answer: Callable[[asyncio.Future[Any], str], Awaitable[Any]]) -> None:
    """Send the broker each newer token, until the connection ends; ``answer`` waits for what the broker answers.

    One that cannot be had is tried again: `Tokens.trouble` has the reason.
    """
    while True:
        held: TokenCredentials = wire.params.credentials
        await asyncio.sleep(max(held.tokens.find_wait(held.token), LEAST_WAIT))
        try:
            token = await call_aside(held.tokens.current)
        except Disconnected:
            continue
        wire.params.credentials = TokenCredentials(held.tokens, token)  # which is forgotten if the broker refuses it
        if token.text != held.token.text:
            updated: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            try:
                wire.update_secret(token.text, REASON, partial(_fulfil, updated))
                await answer(updated, "connection.update-secret")
            except (Disconnected, BrokerError, pika.exceptions.AMQPError):  # the end of the connection is reported
                return


def _fulfil(updated: asyncio.Future[Any], frame: Any) -> None:
    if not updated.done():
        updated.set_result(frame)
