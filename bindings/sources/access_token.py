"""Access tokens of OAuth 2 as text: when one expires, and the one that the environment has for the commands.

A command logs in to a broker with the token in a variable, or in a file that another program renews: it is read again
for each connection and each request. No message contains a token.
"""

from __future__ import annotations

import os
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Final, NamedTuple

from bindings.sources.files import open_file
from exchange.errors import InputError
from exchange.limits import TOKEN_BYTES
from exchange.text.numbers import is_digits, write_time
from exchange.values.json_text import parse_leniently

VARIABLE: Final = "HASHSTAR_RABBITMQ_TOKEN"
"""Environment variable with an access token; with ``_FILE`` behind it, the name of a file that has one."""
TOKEN: Final = re.compile(r"[\x21-\x7e]+")
"""An access token: it stands in a header of HTTP and in AMQP's answer."""
MOST_SECONDS: Final = 1e12
"""Maximum number of seconds of a life, or since 1970, that is believed."""


class TokenVariable(NamedTuple):
    """An environment variable with an access token, or with the name of a file that has one."""

    name: str
    value: str
    is_file: bool

    def __repr__(self) -> str:
        return f"TokenVariable({self.name})"

    def read(self) -> str:
        """Return the token that it has now. Raises InputError without one, or if it has expired."""
        return self.read_with_life()[0]

    def read_with_life(self) -> tuple[str, float | None]:
        """Return the token that it has now, and the seconds until it expires, None if unknown; as `read`."""
        text = self.value
        try:
            if self.is_file:
                with open_file(self.value) as file:
                    text = file.read(TOKEN_BYTES).decode()
            return text.strip(), check_token(text.strip())
        except OSError as error:
            raise InputError(f"{self.name}: the file {self.value} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise InputError(f"{self.name}: {error}" + (f" ({self.value})" if self.is_file else "")) from None


def find_token(environ: Mapping[str, str] = os.environ) -> TokenVariable | None:
    """Return where the environment has an access token; None if nowhere. Raises InputError for two places."""
    names = (VARIABLE, f"{VARIABLE}_FILE")
    given = [TokenVariable(name, environ[name], name != VARIABLE) for name in names if environ.get(name)]
    if len(given) > 1:
        raise InputError(f"{VARIABLE} and {VARIABLE}_FILE are both set; remove one of them")
    return given[0] if given else None


def check_token(text: str) -> float | None:
    """Return the seconds until a token expires, None if unknown. Raises ValueError for one that is of no use."""
    if TOKEN.fullmatch(text) is None:
        raise ValueError("the token is empty, or has spaces or other characters that no token has")
    life = read_life(text)
    if life is not None and life <= 0:
        raise ValueError(f"the access token expired at {write_time(time.time() + life)}, and no newer one is there")
    return life


def read_seconds(value: object) -> float | None:
    """Return a number of seconds, which some servers write as text; None for anything else."""
    if isinstance(value, str) and len(value) < 20 and is_digits(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST_SECONDS:
        return None
    return float(value)


def read_life(token: str, now: float | None = None) -> float | None:
    """Return the seconds until a token expires by its claim ``exp``; None if it is no JWT that has one.

    >>> read_life("e30.eyJleHAiOiAxMDB9.x", now=40.0), read_life("opaque")
    (60.0, None)
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = parse_leniently(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    expires = read_seconds(claims.get("exp")) if isinstance(claims, dict) else None
    return None if expires is None else expires - (time.time() if now is None else now)
