"""Access tokens as passwords of RabbitMQ: at the login, and on a connection that stays open longer than a token lives.

The broker closes a connection when its token expires, unless the client has sent a newer one by then
(connection.update-secret).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pika
import pika.exceptions

from bridge.aside import call_aside
from bridge.endpoint import Disconnected
from bridge.tokens import AccessToken, Tokens
from exchange.errors import BrokerError

LEAST_WAIT: Final = 0.5
"""Minimum number of seconds between two looks for a newer token."""
REFUSED: Final = re.compile("credential expired|[Ss]ecret |refused for user|refuses the access token")
"""Found in the broker's text when it refuses a token: at the login, on an open connection, or as it has expired."""


class TokenCredentials(pika.PlainCredentials):  # type: ignore[misc]
    """The token of a connection. The user is the one that the token names: the broker asks for no other."""

    def __init__(self, tokens: Tokens, token: AccessToken) -> None:
        super().__init__("", token.text)
        self.tokens: Final = tokens
        self.token: Final = token


def find_tokens(parameters: pika.URLParameters) -> Tokens | None:
    """Return the tokens with which these parameters log in; None if they have a password."""
    credentials = parameters.credentials
    return credentials.tokens if isinstance(credentials, TokenCredentials) else None


def forget_refused_token(parameters: pika.URLParameters, reason: str) -> None:
    """Forget the token of these parameters if the broker ends the connection because of it: the next one is another."""
    credentials = parameters.credentials
    if isinstance(credentials, TokenCredentials) and REFUSED.search(reason):
        credentials.tokens.forget(credentials.token.text)


async def keep_token_fresh(wire: Any, send: Callable[[str], Awaitable[object]]) -> None:
    """Send the broker each newer token, until the connection ends; ``send`` waits for the broker's answer.

    Where no newer token can be had, this tries again: `Tokens.trouble` has the reason.
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
            try:
                await send(token.text)
            except (Disconnected, BrokerError, pika.exceptions.AMQPError):  # the end of the connection is reported
                return
