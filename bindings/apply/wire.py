"""AMQP methods whose arguments `exchange.amqp` encodes, in place of pika.

pika chooses the widths of integers and floats by itself and rewrites decimals. But the types must stay: they decide
what a headers binding matches, and which binding an unbind removes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from exchange.amqp import encode_table

__all__ = ["with_arguments"]

NONE: Final = b"\0\0\0\0"
"""An empty table as pika encodes it: only its length, 0."""


def with_arguments(method: Any, arguments: Mapping[str, Any]) -> Any:
    """Return one of pika's methods with these arguments in the table at its end.

    Raises ValueError for arguments that AMQP cannot carry.
    """
    table = encode_table(arguments)
    encode = method.encode

    def encode_with_table() -> list[bytes]:
        pieces: list[bytes] = encode()
        if pieces[-1] != NONE:
            raise ValueError(f"{method.NAME} does not end in an empty table of arguments")
        return [*pieces[:-1], struct.pack(">I", len(table)) + table]

    method.encode = encode_with_table
    return method
