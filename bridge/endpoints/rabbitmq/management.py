"""Ask a broker's management API about queues, exchanges, policies and permissions, for `hashstar bridge check`.

The requests carry the user and password of the AMQP connection, or its access token, so by default they use TLS
wherever AMQP does. Redirects are not followed. A broker without this API, or a user without a tag for it, is no error.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import Request

import pika

from bindings.sources.http_answer import HttpFailure, read_answer
from bridge.aside import call_aside
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.tokens import find_tokens
from exchange.limits import CHECK_BYTES, CHECK_SECONDS
from exchange.values.json_text import parse_leniently

PORTS: Final = {"http": 15672, "https": 15671}


class Unknown(Exception):
    """The API gives no answer; the message has the reason."""


class ManagementClient:
    """The management API of a broker."""

    def __init__(self, parameters: pika.URLParameters, url: str | None = None) -> None:
        has_tls = parameters.ssl_options is not None
        scheme = "https" if has_tls else "http"
        host = f"[{parameters.host}]" if ":" in parameters.host else parameters.host
        self.url: Final = url or f"{scheme}://{host}:{PORTS[scheme]}"
        parts = urlsplit(self.url)
        server = parts.netloc if parts.port is not None else f"{parts.netloc}:{PORTS[parts.scheme]}"
        self._base: Final = f"{parts.scheme}://{server}{parts.path.rstrip('/')}"
        self._tls: ssl.SSLContext | None = parameters.ssl_options.context if has_tls else None
        credentials = parameters.credentials
        self._tokens: Final = find_tokens(parameters)
        self.user: Final = str(credentials.username)
        self._login: Final = b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()
        self._vhost: Final = quote(parameters.virtual_host, safe="")

    async def check_cluster(self, cluster: object) -> None:
        """Raise Unknown unless the API belongs to the cluster of this name, which the AMQP handshake has named."""
        overview = await self._get("overview")
        if not isinstance(overview, dict) or overview.get("cluster_name") != cluster:
            raise Unknown(f"{self.url} is the management API of another cluster")

    async def queue(self, name: str) -> Mapping[str, Any]:
        """Return what the API knows about a queue. Raises Unknown."""
        return self._table(await self._get("queues", self._vhost, quote(name, safe="")))

    async def exchange(self, name: str) -> Mapping[str, Any]:
        """Return what the API knows about an exchange. Raises Unknown."""
        return self._table(await self._get("exchanges", self._vhost, quote(name, safe="")))

    async def bindings(self, exchange: str) -> Sequence[Mapping[str, Any]]:
        """Return the bindings of an exchange. Raises Unknown."""
        bindings = await self._get("exchanges", self._vhost, quote(exchange, safe=""), "bindings", "source")
        return [self._table(each) for each in bindings] if isinstance(bindings, list) else []

    async def rights(self) -> Mapping[str, Any]:
        """Return the patterns of the names that the user may configure, write and read. Raises Unknown."""
        if self._tokens is not None:
            raise Unknown("they are in the scopes of the access token")
        return self._table(await self._get("permissions", self._vhost, quote(self.user, safe="")))

    async def product(self, connection: str) -> object:
        """Return the product name that the client of a connection has given. Raises Unknown."""
        known = self._table(await self._get("connections", quote(connection, safe="")))
        return self._table(known.get("client_properties")).get("product")

    def _table(self, value: object) -> Mapping[str, Any]:
        return value if isinstance(value, dict) else {}

    async def _get(self, *path: str) -> Any:
        """Return the JSON of an answer. Raises Unknown."""
        return await call_aside(self._ask, "/api/" + "/".join(path))

    def _ask(self, path: str) -> Any:
        try:
            login = f"Basic {self._login}" if self._tokens is None else f"Bearer {self._tokens.current().text}"
        except Disconnected as error:
            raise Unknown(str(error)) from None
        headers = {"Authorization": login, "Accept": "application/json"}
        request = Request(self._base + path, headers=headers)  # noqa: S310  http and https only: see config
        try:
            answer = read_answer(request, CHECK_SECONDS, CHECK_BYTES, self._tls)
        except HttpFailure as error:
            raise Unknown(f"the management API at {self.url} {error}") from None
        if answer.status in {401, 403}:
            who = f"user {self.user!r}" if self._tokens is None else "this access token"
            raise Unknown(f"the management API at {self.url} does not answer {who} ({answer.status})")
        if answer.status != 200:
            raise Unknown(f"the management API at {self.url} answers {answer.status} {answer.reason}")
        try:
            return parse_leniently(answer.body)
        except ValueError:
            raise Unknown(f"what answers at {self.url} is no management API") from None
