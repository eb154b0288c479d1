"""The messages in the answer to a pull: records of the broker's commit log, in line (`MessageDecoder.decodes`).

A record that is damaged ends the answer for Java's client, which then asks for the same again. Here it is an error.
"""

from __future__ import annotations

import struct
from typing import Final

from bindings.archive.rocketmq_record import (
    BATCH,
    LEAST,
    MAGICS,
    PACKED,
    START,
    host_bytes,
    messages_in,
    pieces_at,
    unpacked,
)
from bridge.rocketmq.message import StoredMessage
from bridge.rocketmq.properties import decoded
from exchange.errors import InputError

__all__ = ["stored_messages"]

TIME: Final = struct.Struct(">q")
END: Final = struct.Struct(">iq")
"""Reconsume times, offset of the prepared half of a transaction."""


def stored_messages(data: bytes, broker: str) -> list[StoredMessage]:
    """The messages in an answer of a broker of this name; those of a batch in one record are told apart.

    Raises InputError for what is no record, and for a body that cannot be unpacked.
    """
    found: list[StoredMessage] = []
    place = 0
    while place < len(data):
        place += _add(found, data, place, broker)
    return found


def _add(found: list[StoredMessage], data: bytes, place: int, broker: str) -> int:
    """Add the messages of the record at a byte, and give its size."""
    if place + LEAST > len(data):
        raise InputError(f"byte {place} of an answer of {broker}: it ends within a record")
    size, magic, _, queue, flag, offset, log_offset, system_flag, born_time = START.unpack_from(data, place)
    if magic not in MAGICS or size < LEAST or place + size > len(data):
        raise InputError(f"byte {place} of an answer of {broker}: there is no record")
    pieces = pieces_at(data, place, size, magic, system_flag)
    if pieces is None:
        raise InputError(f"byte {place} of an answer of {broker}: a record whose parts do not fit in it")
    body, topic, properties = pieces
    born, kept = host_bytes(system_flag)
    at = place + START.size
    born_address = data[at : at + born]
    at += born
    store_time = TIME.unpack_from(data, at)[0]
    at += 8
    store_address = data[at : at + kept]
    reconsumed, prepared = END.unpack_from(data, at + kept)
    if body:
        body = unpacked(body, system_flag)
        system_flag &= ~PACKED
    message = StoredMessage(
        topic.decode("utf-8", "surrogateescape"), body, decoded(properties), flag, broker, queue, offset, log_offset,
        system_flag, born_time, born_address, store_time, store_address, reconsumed, prepared, size,
    )  # fmt: skip
    if system_flag & BATCH != BATCH:
        found.append(message)
    else:
        for ahead, part in enumerate(messages_in(body)):
            own = decoded(part.properties)
            found.append(message._replace(body=part.body, properties=own, flag=part.flag, queue_offset=offset + ahead))
    return int(size)
