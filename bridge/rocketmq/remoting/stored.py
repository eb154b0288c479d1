"""The messages in the answer to a pull: records of the broker's commit log, in line (`MessageDecoder.decodes`).

A record that is damaged ends the answer for Java's client, which goes on behind all that the answer had. Here it is an
error. A body that cannot be unpacked, which Java's client takes for the same, stays as it came, and so does the bit of
the system flag that says that it is packed. Of one that was unpacked that bit is cleared, and those that say how are
left, as Java's client does since 5.3.2. Whatever goes wrong with the body of one record is the `problem` of that
message: producers choose what is in it, and the messages behind it must not wait for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from bindings.archive.rocketmq.record import (
    BATCH,
    LEAST,
    MAGICS,
    PACKED,
    V1,
    parse_properties,
    split_batch,
    unpack_body,
)
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import InputError

__all__ = ["stored_messages", "stored_records"]

INNER_MOST: Final = (1 << 15) - 1
"""Maximum number of messages of a batch in one record: brokers count them in 16 bits with a sign."""

HEADS: Final = tuple(struct.Struct(f">iIiiiqqiq{born}sq{kept}siqI") for kept in (8, 20) for born in (8, 20))
"""All of a record before its body, by what its system flag says of its two hosts (``flag >> 4 & 3``): of IPv4 or IPv6.

Size, magic, CRC of the body, queue, flag, offset in the queue, place in the log, system flag, born time, born host,
store time, store host, reconsume times, offset of the prepared half of a transaction, size of the body.
"""
V4: Final = HEADS[0]


def stored_messages(data: bytes, broker: str) -> list[StoredMessage]:
    """Return the messages in an answer of a broker of this name; those of a batch in one record are told apart.

    Raises InputError for what is no record.
    """
    return [message for messages in stored_records(data, broker) for message in messages]


def stored_records(data: bytes, broker: str) -> Iterator[list[StoredMessage]]:
    """Yield the messages of each record in an answer, most often one. Raises InputError for what is no record."""
    place, stop = 0, len(data)
    raw_topic, topic = b"", ""
    while place < stop:
        if place + LEAST > stop:
            raise InputError(f"byte {place} of an answer of {broker}: it ends within a record")
        head = V4
        told = head.unpack_from(data, place)
        size, magic, hosts = told[0], told[1], told[7] >> 4 & 3
        end = place + size
        if magic not in MAGICS or size < LEAST or end > stop:
            raise InputError(f"byte {place} of an answer of {broker}: there is no record")
        if hosts:
            head = HEADS[hosts]
            if size < head.size:
                raise _unfit(place, broker)
            told = head.unpack_from(data, place)
        (
            _, _, _, queue, flag, offset, log_offset, system_flag, born_time, born_address, store_time, store_address,
            reconsumed, prepared, length,
        ) = told  # fmt: skip
        body_at = place + head.size
        topic_at = body_at + length
        try:  # what points beyond the data is found by this, and what points beyond the record by its end
            width = 1 if magic == V1 else 2
            names_at = topic_at + width + (data[topic_at] if width == 1 else data[topic_at] << 8 | data[topic_at + 1])
            properties_at = names_at + 2
            fits = properties_at + (data[names_at] << 8 | data[names_at + 1]) == end
        except IndexError:
            fits = False
        if not fits:
            raise _unfit(place, broker)
        body, problem = data[body_at:topic_at], ""
        if system_flag & PACKED and body:
            try:
                body = unpack_body(body, system_flag)
                system_flag &= ~PACKED
            except Exception as error:  # noqa: BLE001  whatever it is, it is of this body alone
                problem = _reason(error)
        if data[topic_at + width : names_at] != raw_topic:
            raw_topic = data[topic_at + width : names_at]
            topic = raw_topic.decode("utf-8", "surrogateescape")
        message = StoredMessage(
            topic, body, parse_properties(data[properties_at:end]), flag, broker, queue, offset, log_offset,
            system_flag, born_time, born_address, store_time, store_address, reconsumed, prepared, size, problem,
        )  # fmt: skip
        yield _in_batch(message) if system_flag & BATCH == BATCH and not problem else [message]
        place = end


def _in_batch(record: StoredMessage) -> list[StoredMessage]:
    """Return the messages of a batch in one record (`MessageDecoder.decodeMessage`); one, if it is no such batch."""
    first = record.queue_offset
    try:
        return [
            record._replace(
                body=part.body, properties=parse_properties(part.properties), flag=part.flag,
                queue_offset=first + ahead, size=len(part.body) + len(part.properties),
            )
            for ahead, part in enumerate(split_batch(record.body, INNER_MOST))
        ]  # fmt: skip
    except Exception as error:  # noqa: BLE001  whatever it is, it is of this record alone
        return [record._replace(problem=_reason(error))]


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"


def _unfit(place: int, broker: str) -> InputError:
    return InputError(f"byte {place} of an answer of {broker}: a record whose parts do not fit in it")
