"""Which names a server answers to: the names that the Host header of a request may have.

A page of an attacker can make its own name resolve to 127.0.0.1, and then has the same origin as this server (DNS
rebinding). But then the Host header has the attacker's name, never an address.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

from exchange.text.numbers import is_digits


class HostCheck:
    """The names that a Host header may have: addresses, ``localhost``, the host of the server, and ``names``.

    ``"*"`` among the names allows any.
    """

    def __init__(self, host: str, names: Collection[str] = ()) -> None:
        self._any = "*" in names
        self._names = {"localhost", *[_plain(name) for name in (host, *names)]}

    def allows(self, header: str) -> bool:
        """Return whether a Host header, with or without a port, has one of these names."""
        if self._any:
            return True
        if header.startswith("["):
            name, bracket, port = header[1:].partition("]")
            port = port.removeprefix(":") if port.startswith(":") or not port else "x"
            return bool(bracket) and _is_address(name) and (not port or is_digits(port))
        name, colon, port = header.partition(":")
        return (is_digits(port) if colon else True) and (_plain(name) in self._names or _is_address(name))


def is_local(host: str) -> bool:
    """Return whether a host to listen at can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
