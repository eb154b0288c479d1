"""``rocketmq://HOST:PORT,HOST:PORT`` and a table of a configuration -> a client's settings.

Secrets and certificates are checked when the configuration is read, and read again for each new client and after each
connection that could not be made, so the bridge need not be restarted when they change.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from bridge.endpoints.rocketmq import keys
from bridge.rocketmq.remoting.acl import Credentials
from bridge.rocketmq.remoting.channel import ChannelSettings
from bridge.rocketmq.remoting.client import ClientSettings
from bridge.table import Secret, Table, read_address
from bridge.tls import make_context
from exchange.errors import InputError

EXAMPLE: Final = "rocketmq://HOST:9876, several name servers with commas between"

PORT: Final = 9876
"""Port of a name server whose address has none."""


def read_settings(url: str, table: Table | None = None) -> ClientSettings:
    """Return the settings of the client that a table describes, or the address alone. Raises InputError."""
    table = Table({"url": url}, "the address") if table is None else table
    address = read_address(table, url, ("rocketmq",), EXAMPLE)
    if address.path not in ("", "/") or address.query or address.fragment:
        table.keep(table.error("url", f"must be {EXAMPLE}; all else has keys of its own"))
    servers = ";".join(_with_port(host) for host in address.hosts.split(","))
    secrets = [key.name for key in (keys.SECRET_KEY, keys.SECURITY_TOKEN) if table.has(key.name)]
    access_key = keys.ACCESS_KEY.read(table) or address.user
    secret_key = keys.SECRET_KEY.read(table) or address.password
    token = keys.SECURITY_TOKEN.read(table)
    if access_key and not secret_key:
        table.keep(table.error("secret_key", 'is missing, as there is an access_key; write { env = "NAME" }'))
    for name in secrets if not access_key else ():
        table.warn(name, 'does nothing without an access key; write access_key = "..."')
    tls = _tls(table)

    def channel() -> ChannelSettings:
        credentials = None
        if access_key and secret_key:
            credentials = Credentials(access_key, _current(secret_key), None if token is None else _current(token))
        return ChannelSettings(tls=tls(), credentials=credentials)

    settings = ClientSettings(servers, channel=channel(), channel_now=channel)
    try:
        settings.name_servers  # noqa: B018  the property checks them
    except InputError as error:
        table.keep(table.error("url", str(error)))
    return settings


def _with_port(host: str) -> str:
    bare = host.rpartition("]")[2]
    return host if ":" in bare else f"{host}:{PORT}"


def _current(secret: str) -> str:
    """Return a secret as it is now. Raises Disconnected where it cannot be read."""
    return secret.current() if isinstance(secret, Secret) else secret


def _tls(table: Table) -> Callable[[], ssl.SSLContext | None]:
    """Return the function that reads the settings of TLS as they are when it is called; it returns None without TLS."""
    has_verify = table.has(keys.VERIFY.name)
    is_on, verify = keys.TLS.read(table), keys.VERIFY.read(table)
    files = (keys.CA_FILE, keys.CERT_FILE, keys.KEY_FILE)
    if not is_on:
        for key in files:
            if table.has(key.name):
                table.keep(table.error(key.name, "is for TLS, which is off; write tls = true"))
                key.read(table)
        if has_verify:
            table.warn(keys.VERIFY.name, "does nothing, as TLS is off; write tls = true")
        return lambda: None
    ca_file, cert_file, key_file = (key.read(table) for key in files)

    def context_now() -> ssl.SSLContext:
        context = make_context(table, ca_file, cert_file, key_file)
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    return context_now
