"""The offset id of a message: at which byte of which broker's commit log it is stored.

Its hexadecimal digits do not tell it from the unique id that a producer gives, which is as long.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from exchange.errors import InputError

__all__ = ["OffsetId", "format_host", "parse_id", "format_id"]

SIZES: Final = (16, 28)
"""Bytes of an id, with an address of IPv4 and of IPv6."""
PORTS: Final = range(1 << 16)


class OffsetId(NamedTuple):
    """Where a message is stored (`org.apache.rocketmq.common.message.MessageId`)."""

    host: IPv4Address | IPv6Address
    port: int
    log_offset: int

    @classmethod
    def parse(cls, text: str) -> OffsetId:
        """`MessageDecoder.decodeMessageId`. Raises InputError."""
        raw = parse_id(text, "an offset id")
        port = int.from_bytes(raw[-12:-8], "big")
        if port > PORTS[-1]:  # as Java's InetSocketAddress does; which most unique ids fail
            raise InputError(f"{text!r} is not an offset id: {port} is no port")
        return cls(ip_address(raw[:-12]), port, int.from_bytes(raw[-8:], "big", signed=True))

    @property
    def text(self) -> str:
        """`MessageDecoder.createMessageId`."""
        return format_id(self.host.packed + self.port.to_bytes(4, "big"), self.log_offset)


def format_id(address: bytes, log_offset: int) -> str:
    """The offset id of what a broker, whose address and port these bytes are, has at a byte of its log."""
    return (address + log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def format_host(address: bytes) -> str:
    """``ADDRESS:PORT`` of the 4 or 16 bytes of an address and 4 of a port."""
    host, port = ip_address(address[:-4]), int.from_bytes(address[-4:], "big")
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


def parse_id(text: str, what: str) -> bytes:
    """The bytes of an id, with an address of IPv4 or IPv6. Raises InputError, which says ``what`` it is not."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in SIZES or len(text) != 2 * len(raw):
        raise InputError(f"{text[:60]!r} is not {what}, 32 or 56 hexadecimal digits")
    return raw
