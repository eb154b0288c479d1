"""``rocketmq://HOST:PORT,HOST:PORT`` and a table of a configuration -> a client's settings."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import unquote, urlsplit

from bridge.rocketmq.acl import Credentials
from bridge.rocketmq.channel import ChannelSettings
from bridge.rocketmq.client import ClientSettings
from bridge.table import Table
from exchange.errors import InputError

__all__ = ["settings_of"]

PORT: Final = 9876
"""Of a name server, where the address does not say one."""


def settings_of(url: str, table: Table) -> ClientSettings:
    """The settings of the client that a table describes. Raises InputError."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise table.error("url", str(error)) from None
    login, _, hosts = parts.netloc.rpartition("@")
    if not hosts or parts.path not in ("", "/") or parts.query or parts.fragment:
        told = "must be rocketmq://HOST:9876, several name servers with commas between; all else has keys of its own"
        raise table.error("url", told)
    servers = ";".join(_with_port(host) for host in hosts.split(","))
    access, _, secret = login.partition(":")
    access_key = table.maybe("access_key") or unquote(access)
    secret_key = table.secret("secret_key") or unquote(secret)
    token = table.secret("security_token")
    credentials = None
    if access_key:
        if not secret_key:
            raise table.error("secret_key", 'is missing, as there is an access_key; write { env = "NAME" }')
        credentials = Credentials(access_key, str(secret_key), None if token is None else str(token))
    settings = ClientSettings(servers, channel=ChannelSettings(tls=_tls(table), credentials=credentials))
    try:
        settings.name_servers  # noqa: B018  which looks at them
    except InputError as error:
        raise table.error("url", str(error)) from None
    return settings


def _with_port(host: str) -> str:
    bare = host.rpartition("]")[2]
    return host if ":" in bare else f"{host}:{PORT}"


def _tls(table: Table) -> ssl.SSLContext | None:
    is_on = table.flag("tls", default=False)
    verify = table.flag("verify", default=True)
    if not is_on:
        for key in ("ca_file", "cert_file", "key_file"):
            if table.has(key):
                raise table.error(key, "is for TLS, which is off; write tls = true")
        return None
    ca_file, cert_file, key_file = (table.file(key) for key in ("ca_file", "cert_file", "key_file"))
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise table.error("ca_file", f"{ca_file} cannot be read: {error}") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError) as error:
            raise table.error("cert_file", f"{cert_file} cannot be read: {error}") from None
    return context
