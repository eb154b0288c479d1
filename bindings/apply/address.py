"""The two addresses of one broker: its management API and its AMQP port."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from bindings.management import Management, is_address
from exchange.errors import InputError

__all__ = ["Addresses"]

AMQP_PORTS = {"http": ("amqp", 5672), "https": ("amqps", 5671)}
MANAGEMENT_PORTS = {"amqp": ("http", 15672), "amqps": ("https", 15671)}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a broker is; user and password are those of the management API."""

    management: Management
    amqp: str = field(repr=False)
    """``amqp://host:5672``, without user and password."""

    @classmethod
    def of(cls, address: str, other: str | None = None) -> Addresses:
        """From the address of either, and that of the other where it is not at its usual port of the same host.

        Raises InputError for what is no address, or when nobody gives a password.
        """
        web, wire = (address, other) if is_address(address) else (other, address)
        if wire is not None and not _is_amqp(wire):
            raise InputError(f"{_shown(wire)}: an address is wanted, http://HOST:15672 or amqp://HOST:5672")
        if web is not None and not is_address(web):
            raise InputError(f"{_shown(web)}: the address of a management API is wanted, http://HOST:15672")
        try:
            if web is None:
                web = _beside(address, MANAGEMENT_PORTS)
            if wire is None:
                wire = _beside(address, AMQP_PORTS)
            parts = urlsplit(wire)
            if not urlsplit(web).path.strip("/"):  # the virtual host may be in either
                web = urlsplit(web)._replace(path=parts.path).geturl()
            host = parts.netloc.rpartition("@")[2]
        except ValueError as error:
            raise InputError(f"not an address: {error}") from None
        if not host:
            raise InputError("an address without a host; write http://HOST:15672 or amqp://HOST:5672")
        query = f"?{parts.query}" if parts.query else ""
        return cls(Management.at(web), f"{parts.scheme}://{host}/{query}")


def _is_amqp(address: str) -> bool:
    return address.lower().startswith(("amqp://", "amqps://"))


def _beside(address: str, ports: dict[str, tuple[str, int]]) -> str:
    """The same host, user, password and virtual host at the other's usual port."""
    parts = urlsplit(address)
    scheme, port = ports[parts.scheme.lower()]
    login, at, place = parts.netloc.rpartition("@")
    host = place.rpartition(":")[0] if parts.port is not None else place.rstrip(":")
    return f"{scheme}://{login}{at}{host}:{port}{parts.path}"


def _shown(address: str) -> str:
    return unquote(address.rpartition("@")[2])
