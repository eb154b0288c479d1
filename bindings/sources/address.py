"""Parse all addresses of servers, ``SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST ...][/PATH][?QUERY]``.

An address may contain a password, so no error contains any part of an address. A part of an unescaped password would be
read as host, port or path, which later messages show. So an address with an ``@`` after the host is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv6Address
from typing import Final
from urllib.parse import unquote

from exchange.errors import InputError
from exchange.text.numbers import is_digits

UNSEEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]")
"""Characters that no valid address contains."""
PARTS: Final = re.compile(r"([^:/?#]+)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
"""Scheme, authority, path, query and fragment (RFC 3986, appendix B).

Not `urllib.parse.urlsplit`: what it refuses in brackets differs among releases of Python, and it knows one host only.
"""

DELIMITERS: Final = frozenset(b"/?#@:[]")


@dataclass(frozen=True, slots=True)
class Address:
    """An address, with user and password unescaped; its repr shows neither."""

    scheme: str
    """In lower case."""
    hosts: str
    """``HOST:PORT``, or several with commas between, as they were written."""
    path: str = ""
    query: str = ""
    fragment: str = ""
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    login: str = field(default="", repr=False)
    """``USER:PASSWORD@`` as it was written."""

    @property
    def host(self) -> str:
        """The first host, in brackets if it is an address of IPv6."""
        return _split(self.hosts.partition(",")[0])[0]

    @property
    def port(self) -> int | None:
        """The port of the first host."""
        return _split(self.hosts.partition(",")[0])[1]


def has_scheme(text: str, schemes: Collection[str]) -> bool:
    """Return whether a text begins with one of these schemes and ``://``."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.lower() in schemes


def is_address(text: str, schemes: Collection[str]) -> bool:
    """Return whether a text is an address with one of these schemes."""
    try:
        _parse(text, schemes)
    except _Wrong:
        return False
    return True


def parse_address(text: str, schemes: Collection[str], example: str) -> Address:
    """Parse an address. Raises InputError, which contains no part of the text, only an example."""
    try:
        return _parse(text, schemes)
    except _Wrong as error:
        raise InputError(f"{error}; write {example}") from None


class _Wrong(Exception):
    """An error in an address; the message contains no part of the address."""


def _parse(text: str, schemes: Collection[str]) -> Address:
    if not has_scheme(text, schemes):
        raise _Wrong("not an address")
    if UNSEEN.search(text):
        raise _Wrong("not an address: it has a blank or a control character; escape it, %20")
    matched = PARTS.fullmatch(text)
    if matched is None:
        raise _Wrong("not an address")
    scheme, authority, path, query, fragment = matched.groups(default="")
    login, at, hosts = authority.rpartition("@")
    if "@" in path + query + fragment:
        raise _Wrong("not an address: in a password, @ / ? # are written %40 %2F %3F %23, and @ so everywhere")
    if not hosts.strip(":"):
        raise _Wrong("an address without a host")
    for host in hosts.split(","):
        _split(host)
    user, colon, password = login.partition(":")
    return Address(
        scheme.lower(), hosts, path, query, fragment,
        unquote(user) if user else None, unquote(password) if colon else None, login + at,
    )  # fmt: skip


def _split(text: str) -> tuple[str, int | None]:
    """Return host and port. Raises _Wrong."""
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, ""
    if port and not (is_digits(port) and len(port) <= 5 and int(port) < 1 << 16):
        raise _Wrong("not an address: its port is a number up to 65535, and a : in a password is escaped, %3A")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host.strip("[]") or (":" in host) != bracketed:
        raise _Wrong("not an address")
    try:
        if bracketed:
            IPv6Address(unquote(host[1:-1]))
        elif not DELIMITERS.isdisjoint(host.encode("idna")):  # some letters are written out with them
            raise _Wrong("not an address")
    except UnicodeError:
        raise _Wrong("not an address: a part of its host is empty or has more than 63 characters") from None
    except AddressValueError:
        raise _Wrong("not an address: what stands in brackets is no address of IPv6") from None
    return host, int(port) if port else None


LOOPBACK: Final = re.compile(r"(?i:localhost)(?=:|$)|127\.0\.0\.1(?=:|$)|\[::1\](?=:|$)|::1(?=:[0-9]+(?:/|$)|$)")
"""The names of this machine at the beginning of an address."""


def name_cluster(address: str) -> str:
    """Return an address as bridges tell clusters apart: ``localhost``, ``127.0.0.1`` and ``::1`` are one host."""
    return LOOPBACK.sub("localhost", address, count=1) if LOOPBACK.match(address) else address
