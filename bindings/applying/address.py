"""The two addresses of one broker: its management API and its AMQP port."""

from __future__ import annotations

from dataclasses import dataclass, field

from bindings.sources.address import Address, has_scheme, parse_address
from bindings.sources.management import Management, is_address
from exchange.errors import InputError
from exchange.limits import ANSWER_SECONDS

AMQP_PORTS = {"http": ("amqp", 5672), "https": ("amqps", 5671)}
MANAGEMENT_PORTS = {"amqp": ("http", 15672), "amqps": ("https", 15671)}
SCHEMES = (*AMQP_PORTS, *MANAGEMENT_PORTS)
EXAMPLE = "http://HOST:15672 or amqp://HOST:5672"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of one broker; user and password are those of the management API."""

    management: Management
    amqp: str = field(repr=False)
    """``amqp://host:5672``, without user and password."""

    @classmethod
    def parse(cls, address: str, other: str | None = None, *, seconds: float = ANSWER_SECONDS) -> Addresses:
        """Return both addresses, given one; ``other`` is needed only if it is not at the usual port of the same host.

        Raises InputError for a text that is no address, or when no password is given.
        """
        web, wire = (address, other) if is_address(address) else (other, address)
        if wire is not None and not has_scheme(wire, MANAGEMENT_PORTS):
            raise InputError(f"an address is wanted; write {EXAMPLE}")
        if web is not None and not is_address(web):
            raise InputError("the address of a management API is wanted; write http://HOST:15672")
        given = parse_address(address, SCHEMES, EXAMPLE)
        if web is None:
            web = _counterpart(given, MANAGEMENT_PORTS)
        if wire is None:
            wire = _counterpart(given, AMQP_PORTS)
        of_web, of_wire = parse_address(web, SCHEMES, EXAMPLE), parse_address(wire, SCHEMES, EXAMPLE)
        path = of_web.path if of_web.path.strip("/") else of_wire.path  # as the login, it may be in either
        web = f"{of_web.scheme}://{of_web.login or of_wire.login}{of_web.hosts}{path}"
        query = f"?{of_wire.query}" if of_wire.query else ""
        return cls(Management.at(web, seconds=seconds), f"{of_wire.scheme}://{of_wire.hosts}/{query}")


def _counterpart(given: Address, ports: dict[str, tuple[str, int]]) -> str:
    """Return the address for the other protocol: same host, user, password and virtual host, the usual port."""
    scheme, port = ports[given.scheme]
    return f"{scheme}://{given.login}{given.host}:{port}{given.path}"
