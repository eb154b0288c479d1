"""The table ``oauth`` of an endpoint: access tokens in place of a password, from a server or from a file.

The server is an authorization server of OAuth 2; the file is renewed by another program::

    oauth = { token_url = "https://HOST/token", client_id = "bridge", client_secret = { env = "SECRET" } }
    oauth = { token = { file = "/var/run/secrets/tokens/rabbitmq" } }

The first is the grant of client credentials (RFC 6749, 4.4). Neither tokens nor secrets are ever printed.
"""

from __future__ import annotations

import logging
import re
import ssl
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast
from urllib.parse import quote_plus, urlencode
from urllib.request import Request

from bindings.sources.access_token import TOKEN, check_token, read_life, read_seconds
from bindings.sources.address import Address
from bindings.sources.http_answer import HttpAnswer, HttpFailure, read_answer
from bridge.endpoint import Disconnected
from bridge.keys import FILE, MAYBE_TEXT, SECRET, Key, Keys, accept_choice, accept_matching, accept_table, reading_whole
from bridge.table import Secret, Table, read_address
from bridge.tls import make_context
from bridge.tokens import READ_EVERY, Tokens
from exchange.errors import InputError
from exchange.files.names import WEB
from exchange.limits import TOKEN_BYTES, TOKEN_SECONDS
from exchange.values.json_text import parse_leniently

LOG: Final = logging.getLogger(__name__)

ERROR: Final = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]{1,200}")
"""An error of RFC 6749, 5.2, and its description, if they are short enough to be shown."""
MASK: Final = "***"

EXAMPLE: Final = "https://HOST/PATH"
GRANT_EXAMPLE: Final = f'token_url = "{EXAMPLE}", client_id = "...", client_secret = {{ env = "NAME" }}'
TOKEN_URL: Final = Key(
    "token_url",
    accept_matching(MAYBE_TEXT, r"https?://[^@#]+"),
    "the token endpoint of the authorization server",
    otherwise="`token`",
)
CLIENT_ID: Final = Key("client_id", MAYBE_TEXT, "the bridge's client ID at that server", otherwise="`token`")
CLIENT_SECRET: Final = Key("client_secret", SECRET, "the client's secret", otherwise="`token`")
CLIENT_AUTH: Final = Key(
    "client_auth", accept_choice("basic", "post"), 'how both are sent: in a header, or `"post"`, in the body', "basic"
)
SCOPE: Final = Key("scope", MAYBE_TEXT, "scopes of the token, separated by spaces", otherwise="the server's default")
AUDIENCE: Final = Key("audience", MAYBE_TEXT, "audience of the token, where the server asks for it", otherwise="none")
CA_FILE: Final = Key("ca_file", FILE, "authorities that sign the server's certificate, PEM", otherwise="the system's")
GIVEN_TOKEN: Final = Key(
    "token", SECRET, "in place of a server: a token in a file that another program renews", otherwise="none"
)
_GRANT: Final = (TOKEN_URL, CLIENT_ID, CLIENT_SECRET)
_OPTIONAL: Final = (CLIENT_AUTH, SCOPE, AUDIENCE, CA_FILE)
KEYS: Final = Keys(
    (*_GRANT, *_OPTIONAL, GIVEN_TOKEN),
    ({"oneOf": [{"required": [key.name for key in _GRANT]}, {"required": ["token"], "maxProperties": 1}]},),
)

OAUTH: Final = Key(
    "oauth",
    accept_table(KEYS),
    "[tokens of OAuth 2](bridge-configuration.md#tokens-of-oauth-2) in place of user and password",
    otherwise="none",
)


class TokenError(Disconnected):
    """No token can be had: the reason, and the key of the table that it is about."""

    def __init__(self, key: str, problem: str) -> None:
        path = f"{OAUTH.name}.{key}"
        super().__init__(f"{path}: {problem}", path)


def read_tokens(table: Table, address: Address, login: Collection[str]) -> Tokens | None:
    """Read the table ``oauth`` in the table of an endpoint, which keeps the tokens, too; None if there is none.

    Nothing is asked yet. Raises InputError, also for a login in the endpoint's address or under one of the keys
    ``login``.
    """
    within = OAUTH.read(table)
    if within is not None:
        table.tokens = _read_oauth(table, within, address, login)
    return cast("Tokens | None", table.tokens)


def _read_oauth(table: Table, within: Table, address: Address, login: Collection[str]) -> Tokens:
    """Read the table ``oauth`` itself. Raises InputError."""
    with reading_whole(within, KEYS):
        return _read_keys(table, within, address, login)


def _read_keys(table: Table, within: Table, address: Address, login: Collection[str]) -> Tokens:
    within.check_keys(KEYS.names)
    for key in ("url",) if address.login else filter(table.has, login):
        raise table.error(key, f"{OAUTH.name} stands for user and password; remove one of them", masked=True)
    written = [key for key in (*_GRANT, *_OPTIONAL) if within.has(key.name)]
    given = GIVEN_TOKEN.read(within)
    if given is not None:
        if written:
            raise within.error(written[0].name, "is for a server, and there is a token; remove one of them")
        within.refuse_unread(KEYS.names)
        return Tokens(partial(_read_given, given), READ_EVERY)
    if (url := TOKEN_URL.read(within)) is None:
        raise _find_missing(within, TOKEN_URL)
    address = read_address(within, url, WEB, EXAMPLE, TOKEN_URL.name)
    if address.login or "," in address.hosts or address.fragment:
        raise within.error(TOKEN_URL.name, f"must be {EXAMPLE}; client and secret have keys of their own", masked=True)
    if address.scheme == "http" and address.host not in ("localhost", "127.0.0.1", "::1"):
        within.warn(TOKEN_URL.name, "sends the secret, and gets the tokens, without encryption; write https:")
    client, secret = CLIENT_ID.read(within), CLIENT_SECRET.read(within)
    if not client or not secret:
        raise _find_missing(within, CLIENT_SECRET if client else CLIENT_ID)
    post, files = CLIENT_AUTH.read(within) == "post", CA_FILE.read(within)
    asked = {key.name: value for key in (SCOPE, AUDIENCE) if (value := key.read(within)) is not None}
    within.refuse_unread(KEYS.names)
    if files is not None:
        make_context(within, files, None, None)
    return Tokens(partial(_ask, _Grant(within, url, address, client, secret, post, files, asked)))


def _find_missing(within: Table, key: Key[Any]) -> InputError:
    return within.missing(key.name, f"is missing; write {OAUTH.name} = {{ {GRANT_EXAMPLE} }}")


def _read_given(secret: Secret) -> tuple[str, float | None]:
    """Return a token that another program renews, and its life. Raises Disconnected."""
    text = secret.current().strip()
    try:
        return text, check_token(text)
    except ValueError as error:
        raise TokenError(GIVEN_TOKEN.name, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Grant:
    """A request for tokens to an authorization server."""

    table: Table
    url: str = field(repr=False)
    address: Address = field(repr=False)
    client: str
    secret: Secret = field(repr=False)
    post: bool
    """Whether client and secret are in the body."""
    ca_file: str | None
    asked: Mapping[str, str]
    """Further parameters."""

    @property
    def server(self) -> str:
        """The server as texts name it: the rest of its address may be secret."""
        return f"the authorization server at {self.address.scheme}://{self.address.hosts}"

    def error(self, problem: str, key: Key[Any] = TOKEN_URL) -> TokenError:
        """Return an error about the server."""
        return TokenError(key.name, f"{self.server} {problem}")


def _ask(grant: _Grant) -> tuple[str, float | None]:
    """Return a token of the server, and its life in seconds. Raises Disconnected."""
    secret = grant.secret.current()
    try:
        context = None if grant.address.scheme == "http" else make_context(grant.table, grant.ca_file, None, None)
    except InputError as error:
        raise Disconnected(str(error)) from None
    body = {"grant_type": "client_credentials", **grant.asked}
    quoted = [quote_plus(each, errors="surrogateescape") for each in (grant.client, secret)]  # RFC 6749, 2.3.1
    login = b64encode(":".join(quoted).encode()).decode()
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if grant.post:
        body |= {"client_id": grant.client, "client_secret": secret}
    else:
        headers["Authorization"] = f"Basic {login}"
    request = Request(grant.url, urlencode(body, errors="surrogateescape").encode(), headers, method="POST")  # noqa: S310  http and https only
    try:
        answer = read_answer(request, TOKEN_SECONDS, TOKEN_BYTES, context)
    except HttpFailure as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            key = TOKEN_URL if grant.ca_file is None else CA_FILE
            raise grant.error(f"{error}; ca_file names its authorities", key) from None
        raise grant.error(str(error)) from None
    if answer.status != 200:
        raise _refuse(grant, answer, (secret, quoted[1], login))
    return _read_answer(grant, answer)


def _read_object(answer: HttpAnswer) -> Mapping[str, Any] | None:
    """Return the JSON object of an answer; None if it is something else."""
    try:
        found = parse_leniently(answer.body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _refuse(grant: _Grant, answer: HttpAnswer, secrets: Iterable[str]) -> TokenError:
    """Return the error for an answer without a token; servers may repeat what they were sent."""
    values = _read_object(answer) or {}
    code, description = [
        found if isinstance(found := values.get(name), str) and ERROR.fullmatch(found) else ""
        for name in ("error", "error_description")
    ]
    shown = ": ".join(filter(None, [f"{answer.status}", code, description]))
    for secret in secrets:
        shown = shown.replace(secret, MASK)
    if 300 <= answer.status < 400:
        return grant.error(f"sends elsewhere ({shown}): write the address of its token endpoint")
    if code == "invalid_scope":
        return grant.error(f"does not give client {grant.client!r} this scope ({shown})", SCOPE)
    if answer.status == 401 or code in ("invalid_client", "unauthorized_client"):
        return grant.error(f"refuses client {grant.client!r} with this secret ({shown})", CLIENT_SECRET)
    return grant.error(f"gives no token ({shown})" + ("" if code else ": is this its token endpoint?"))


def _read_answer(grant: _Grant, answer: HttpAnswer) -> tuple[str, float | None]:
    """Return the token of an answer, and its life in seconds. Raises TokenError."""
    values = _read_object(answer)
    if values is None:
        raise grant.error("answers with something else than an object of JSON: is this its token endpoint?")
    text, kind = values.get("access_token"), values.get("token_type", "Bearer")
    if not isinstance(text, str) or TOKEN.fullmatch(text) is None:
        raise grant.error("answers without an access_token: is this its token endpoint?")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise grant.error("gives tokens of a type that is not Bearer")
    life = read_seconds(values.get("expires_in"))
    life = read_life(text) if life is None else life
    if life is not None and life <= 0:
        raise grant.error("gives a token that has expired already: is the clock of one of the two machines wrong?")
    return text, life
