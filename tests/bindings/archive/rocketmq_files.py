"""Records of RocketMQ's commit log written plainly, as `MessageExtEncoder` lays them out."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

__all__ = ["blank", "message", "part"]


def message(
    place: int,
    topic: str,
    properties: Mapping[str, str],
    body: bytes = b"",
    *,
    version: int = 1,
    flag: int = 0,
    born: int = 1000,
) -> bytes:
    """A record that stands at a byte of the log."""
    hosts = [struct.pack(">16si" if flag & bit else ">4si", b"\x7f" * (16 if flag & bit else 4), 9) for bit in (16, 32)]
    tail = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode("utf-8", "surrogateescape")
    name = topic.encode("utf-8", "surrogateescape")
    rest = (
        struct.pack(">Iiiqqiq", zlib.crc32(body) & 0x7FFFFFFF, 3, 0, 7, place, flag, born)
        + hosts[0] + struct.pack(">q", born + 1) + hosts[1] + struct.pack(">iqi", 0, 0, len(body)) + body
        + struct.pack(">B" if version == 1 else ">h", len(name)) + name + struct.pack(">h", len(tail)) + tail
    )  # fmt: skip
    magic = {1: 0xDAA320A7, 2: 0xDAA320AB}[version]
    return struct.pack(">iI", 8 + len(rest), magic) + rest


def part(body: bytes, properties: str) -> bytes:
    """A message in a batch that is kept in one record, as `MessageDecoder.encodeMessage` lays it out."""
    tail = properties.encode()
    rest = struct.pack(">IIii", 0, 0, 0, len(body)) + body + struct.pack(">h", len(tail)) + tail
    return struct.pack(">i", 4 + len(rest)) + rest


def blank(size: int) -> bytes:
    """What fills a file up to its end."""
    return struct.pack(">iI", size, 0xCBD43194) + bytes(size - 8)
