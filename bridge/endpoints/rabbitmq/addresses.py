"""The brokers of a URL or table: hosts, user, virtual host, TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Final, overload
from urllib.parse import quote, unquote

import pika

from bindings.sources.access_token import TokenVariable, find_token
from bindings.sources.address import Address, is_address, parse_address
from bindings.sources.management import find_login
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq import keys
from bridge.endpoints.rabbitmq.tokens import TokenCredentials
from bridge.endpoints.rabbitmq.wire import OPEN_SECONDS
from bridge.oauth import read_tokens
from bridge.table import STAND_IN, Secret, Table, read_address, refuse_second_login
from bridge.tls import make_context
from bridge.tokens import READ_EVERY, Tokens
from exchange.errors import InputError
from exchange.files.names import AMQP, WEB

EXAMPLE: Final = "amqp://USER@HOST:PORT/VHOST"

PIKA: Final = "what stands behind its ? is nothing that pika can use"

HEARTBEAT: Final = 10
"""Heartbeat in seconds; a connection is lost after two heartbeats of silence."""


def parse_broker(
    url: str, name: str = "hashstar", user: str | None = None, password: Secret | None = None
) -> pika.URLParameters:
    """Parse an AMQP URL, ``amqp://USER:PASSWORD@HOST:PORT/VHOST``; ``name`` is our connection's name at the broker.

    Without a path the virtual host is ``/``. Raises InputError, which never shows a password.
    """
    address = _parse_url(url)
    query = f"?{address.query}" if address.query else ""
    try:
        # Without user and password, which are set below: pika accepts no user without a password.
        parameters = pika.URLParameters(f"{address.scheme}://{address.hosts}{address.path}{query}")
    except (ValueError, TypeError, KeyError, AttributeError, OSError):
        raise InputError(f"not an AMQP address: {PIKA}; write {EXAMPLE}") from None
    parameters.virtual_host = unquote(address.path[1:]) or "/"
    parameters.credentials = pika.PlainCredentials(
        user or address.user or "guest", str(password) if password else address.password or "guest"
    )
    parameters.client_properties = {"connection_name": name, "product": "hashstar"}
    parameters.connection_attempts = 1
    parameters.stack_timeout = parameters.socket_timeout = OPEN_SECONDS
    if "heartbeat" not in address.query:
        parameters.heartbeat = HEARTBEAT
    return parameters


def _parse_url(url: str) -> Address:
    """Return the parts of an AMQP URL with one host. Raises InputError."""
    try:
        address = parse_address(url, AMQP, EXAMPLE)
    except InputError as error:
        raise InputError(str(error).replace("not an address", "not an AMQP address")) from None
    if "," in address.hosts:
        raise InputError(f'not an AMQP address: further hosts are hosts = ["..."]; write {EXAMPLE}')
    return address


def make_login(user: str, password: Secret | Tokens) -> pika.PlainCredentials:
    """Return the login with the password of now, or with a token. Raises Disconnected if there is none."""
    if isinstance(password, Tokens):
        return TokenCredentials(password, password.current())
    return pika.PlainCredentials(user, password.current())


class Brokers(Sequence[pika.URLParameters]):
    """The hosts of one cluster, in the order in which they are tried.

    Each connect iterates over them, and each iteration reads the password and the files of certificates again, or takes
    the newest access token: new ones need no restart. Iterating raises Disconnected if one cannot be read.
    """

    def __init__(
        self,
        hosts: Sequence[pika.URLParameters],
        password: Secret | Tokens | None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._hosts = hosts
        self._password = password
        self._tls = tls

    def __iter__(self) -> Iterator[pika.URLParameters]:
        if self._password is not None:
            login = make_login(self._hosts[0].credentials.username, self._password)
            for host in self._hosts:
                host.credentials = login
        if self._tls is not None:
            try:
                context = self._tls()
            except InputError as error:
                raise Disconnected(str(error)) from None
            for host in self._hosts:
                host.ssl_options = pika.SSLOptions(context, host.ssl_options.server_hostname)
        return iter(self._hosts)

    @overload
    def __getitem__(self, index: int) -> pika.URLParameters: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[pika.URLParameters]: ...

    def __getitem__(self, index: int | slice) -> pika.URLParameters | Sequence[pika.URLParameters]:
        return self._hosts[index]

    def __len__(self) -> int:
        return len(self._hosts)


def find_broker(url: str, name: str) -> Sequence[pika.URLParameters]:
    """Return the broker of a command's address. Raises InputError.

    Where the address has no login, it is the access token or the user and password of the environment, as it is for the
    management API (`bindings.sources.management`), else guest.
    """
    parameters, address = parse_broker(url, name), _parse_url(url)
    if not address.login and (token := find_token()) is not None:
        return Brokers([parameters], Tokens(partial(_read_token, token), READ_EVERY))
    if (login := find_login(address)) is not None:
        parameters.credentials = pika.PlainCredentials(*login)
    return [parameters]


def _read_token(token: TokenVariable) -> tuple[str, float | None]:
    try:
        return token.read_with_life()
    except InputError as error:
        raise Disconnected(str(error)) from None


def read_brokers(name: str, url: str, table: Table) -> Sequence[pika.URLParameters]:
    """Read the brokers of an endpoint's table, in the order in which they are tried. Raises InputError."""
    try:
        login = _parse_url(url)
    except InputError as error:
        table.keep(table.error("url", str(error)))
        url = f"{url.partition(':')[0]}://{STAND_IN}"
        login = _parse_url(url)
    refuse_second_login(table, login)
    tokens = read_tokens(table, login, (keys.USER.name, keys.PASSWORD.name))
    user, password, hosts = keys.USER.read(table), keys.PASSWORD.read(table), keys.HOSTS.read(table)
    ca_file, cert_file, key_file = keys.CA_FILE.read(table), keys.CERT_FILE.read(table), keys.KEY_FILE.read(table)
    server_name = keys.SERVER_NAME.read(table)
    try:
        first = parse_broker(url, f"hashstar {name}", user, password)
    except InputError as error:
        raise table.error("url", str(error)) from None
    tls: Callable[[], ssl.SSLContext] | None = None
    if url.startswith("amqps:"):
        tls = partial(make_context, table, ca_file, cert_file, key_file)
        first.ssl_options = pika.SSLOptions(tls(), server_name or first.host)
    elif ca_file or cert_file or key_file or server_name:
        table.keep(table.error("url", "files for TLS are given, but the URL does not begin with amqps:"))
    parameters = [first]
    for host in hosts:
        address = keys.HOST.fullmatch(host)
        if address is None or not is_address(f"amqp://{host}", AMQP):
            text = f"must be HOST, HOST:PORT or [IPV6]:PORT, with a port up to 65535, and is {host!r}"
            table.keep(table.error("hosts", text), host)
            continue
        other = copy(first)
        other.host = address["ipv6"] or address["name"]
        other.port = int(address["port"] or first.port)
        if first.ssl_options is not None:
            other.ssl_options = pika.SSLOptions(first.ssl_options.context, server_name or other.host)
        parameters.append(other)
    return Brokers(parameters, password if tokens is None else tokens, tls)


def read_cluster_name(parameters: pika.URLParameters) -> str:
    """Return the name by which clusters are distinguished, ``HOST:PORT/VHOST``; see `bridge.endpoint.Place`."""
    return f"{parameters.host}:{parameters.port}/{quote(parameters.virtual_host, safe='')}"


def read_management(table: Table) -> str | None:
    """Read the address of the management API; None if the table has none. Raises InputError."""
    url = keys.MANAGEMENT.read(table)
    if url is None:
        return None
    example = "http://HOST:PORT or https://HOST:PORT; user and password are AMQP's"
    address = read_address(table, url, WEB, example, "management")
    if address.login or "," in address.hosts:
        raise table.error("management", f"must be {example}")
    return url.rstrip("/")
