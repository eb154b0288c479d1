"""The messages in the answer to a pull: records of the broker's commit log, one after the other
(`MessageDecoder.decodes`).

A damaged record is an error here; Java's client skips it and the rest of the answer. Java's client does the same at a
body that cannot be unpacked (decompressed). Here such a body is kept as it came, with the bit of the system flag for
packed bodies. For a body that was unpacked, that bit is cleared; the bits for the algorithm stay, as in Java's client
since 5.3.2. Whatever goes wrong with the body of one record is the `problem` of that message: producers choose its
content, and the messages after it must not wait for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from bridge.rocketmq.remoting.message import StoredMessage
from exchange.errors import InputError
from exchange.rocketmq.stored_record import BATCH, LEAST, MAGICS, PACKED, V1, parse_properties, split_batch, unpack_body

INNER_MOST: Final = (1 << 15) - 1
"""Maximum number of messages of a batch in one record: brokers count them in 16 bits with a sign."""

HEADS: Final = tuple(struct.Struct(f">iIiiiqqiq{born}sq{kept}siqI") for kept in (8, 20) for born in (8, 20))
"""All of a record before its body, indexed by the bits of its system flag for its two hosts (``flag >> 4 & 3``): IPv4
or IPv6.

Size, magic, CRC of the body, queue, flag, offset in the queue, offset in the log, system flag, born time, born host,
store time, store host, reconsume times, offset of the prepared half of a transaction, size of the body.
"""
V4: Final = HEADS[0]
"""The same where both hosts are IPv4."""


def parse_stored_messages(data: bytes, broker: str) -> list[StoredMessage]:
    """Return the messages in an answer of a broker of this name; a batch in one record is split into its messages.

    Raises InputError for data that is no record.
    """
    return [message for messages in parse_stored_records(data, broker) for message in messages]


def parse_stored_records(data: bytes, broker: str) -> Iterator[list[StoredMessage]]:
    """Yield the messages of each record in an answer, usually one. Raises InputError for data that is no record."""
    start, stop = 0, len(data)
    raw_topic, topic = b"", ""
    while start < stop:
        if start + LEAST > stop:
            raise InputError(f"byte {start} of an answer of {broker}: it ends within a record")
        head = V4
        values = head.unpack_from(data, start)
        size, magic, hosts = values[0], values[1], values[7] >> 4 & 3
        end = start + size
        if magic not in MAGICS or size < LEAST or end > stop:
            raise InputError(f"byte {start} of an answer of {broker}: there is no record")
        if hosts:
            head = HEADS[hosts]
            if size < head.size:
                raise _size_error(start, broker)
            values = head.unpack_from(data, start)
        (
            _, _, _, queue, flag, offset, log_offset, system_flag, born_time, born_address, store_time, store_address,
            reconsumed, prepared, length,
        ) = values  # fmt: skip
        body_at = start + head.size
        topic_at = body_at + length
        # The parts after the body are found by their lengths, and must end exactly where the record ends.
        try:  # a length that leads out of the data raises IndexError
            width = 1 if magic == V1 else 2
            names_at = topic_at + width + (data[topic_at] if width == 1 else data[topic_at] << 8 | data[topic_at + 1])
            properties_at = names_at + 2
            fits = properties_at + (data[names_at] << 8 | data[names_at + 1]) == end
        except IndexError:
            fits = False
        if not fits:
            raise _size_error(start, broker)
        body, problem = data[body_at:topic_at], ""
        if system_flag & PACKED and body:
            try:
                body = unpack_body(body, system_flag)
                system_flag &= ~PACKED
            except Exception as error:  # noqa: BLE001  whatever it is, it is of this body alone
                problem = _reason(error)
        if data[topic_at + width : names_at] != raw_topic:  # most records of an answer have the same topic
            raw_topic = data[topic_at + width : names_at]
            topic = raw_topic.decode("utf-8", "surrogateescape")
        message = StoredMessage(
            topic, body, parse_properties(data[properties_at:end]), flag, broker, queue, offset, log_offset,
            system_flag, born_time, born_address, store_time, store_address, reconsumed, prepared, size, problem,
        )  # fmt: skip
        yield _split(message) if system_flag & BATCH == BATCH and not problem else [message]
        start = end


def _split(record: StoredMessage) -> list[StoredMessage]:
    """Return the messages of a batch in one record (`MessageDecoder.decodeMessage`), or the record if it is damaged."""
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


def _size_error(start: int, broker: str) -> InputError:
    return InputError(f"byte {start} of an answer of {broker}: a record whose parts do not fit in it")
