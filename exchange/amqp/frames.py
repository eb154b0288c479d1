"""What frames of AMQP 0-9-1 consist of: a head, a payload, an end."""

from __future__ import annotations

from struct import Struct
from typing import Final

__all__ = ["BODY", "END", "HEAD", "HEADER", "HEARTBEAT", "METHOD", "PROTOCOL"]

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8

HEAD: Final = Struct(">BHI")
"""Type, channel and payload size of a frame."""
END: Final = 0xCE
"""The octet after its payload."""

PROTOCOL: Final = b"AMQP\x00\x00\x09\x01"
"""What a client sends before its first frame."""
