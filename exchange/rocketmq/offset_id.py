"""Encode and decode offset ids: the broker of a message, and its position in that broker's commit log.

An offset id has as many hexadecimal digits as a producer's unique id, so the two look alike.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from exchange.errors import InputError

SIZES: Final = (16, 28)
"""Sizes of an id in bytes, with an IPv4 and with an IPv6 address."""
PORTS: Final = range(1 << 16)


class OffsetId(NamedTuple):
    """The position of a stored message (`org.apache.rocketmq.common.message.MessageId`)."""

    host: IPv4Address | IPv6Address
    port: int
    log_offset: int

    @classmethod
    def parse(cls, text: str) -> OffsetId:
        """Return the position in an offset id (`MessageDecoder.decodeMessageId`). Raises InputError."""
        raw = parse_id(text, "an offset id")
        port = int.from_bytes(raw[-12:-8], "big")
        if port > PORTS[-1]:  # as Java's InetSocketAddress checks; most unique ids fail here
            raise InputError(f"{text!r} is not an offset id: {port} is no port")
        return cls(ip_address(raw[:-12]), port, int.from_bytes(raw[-8:], "big", signed=True))

    @property
    def text(self) -> str:
        """The offset id (`MessageDecoder.createMessageId`)."""
        return format_id(self.host.packed + self.port.to_bytes(4, "big"), self.log_offset)


def format_id(address: bytes, log_offset: int) -> str:
    """Return the offset id of a position in a broker's log; ``address`` has the bytes of its address and port."""
    return (address + log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def format_host(address: bytes) -> str:
    """Return ``ADDRESS:PORT`` for the 4 or 16 bytes of an address, then 4 bytes of a port."""
    host, port = ip_address(address[:-4]), int.from_bytes(address[-4:], "big")
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


def parse_id(text: str, what: str) -> bytes:
    """Return the bytes of an id in hexadecimal. Raises InputError, saying that the text is not ``what``."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in SIZES or len(text) != 2 * len(raw):
        raise InputError(f"{text[:60]!r} is not {what}, 32 or 56 hexadecimal digits")
    return raw
