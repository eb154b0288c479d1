"""Records that were consumed, as deliveries."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote
from zlib import crc32

from bridge.endpoint import GREATEST_TIME, Delivery
from bridge.endpoints.kafka.cluster.lazy import convert_record
from bridge.interop import IDENTITY, Record, Unmappable, identify_record, to_amqp
from bridge.interop.amqp_guest import MARK
from bridge.interop.identity import KEPT_KEYS
from bridge.interop.marks import HOPS
from bridge.interop.record import is_showable
from exchange.values.message import Message

FIXED_BYTES: Final = 512
"""Memory that a delivery takes beside its value, in bytes, about."""

REMEMBERED_CHARACTERS: Final = 256
"""Maximum length of a header's name that is remembered."""

REMEMBERED: Final = 65_536
"""Maximum number of header names remembered for a partition."""

SPECIAL: Final = frozenset({IDENTITY, HOPS, MARK, *KEPT_KEYS})
"""Headers of records that are guests from another system, or that have an identity or a key from elsewhere."""

GREATEST_MS: Final = GREATEST_TIME // 1_000

_make_record: Final = tuple.__new__
"""Makes a named tuple without calling a function written in Python."""


class LaneReader:
    """Makes deliveries of the records of one partition."""

    __slots__ = ("_identity", "_origin", "_partition", "_plain", "_source", "_topic")

    def __init__(self, source: str, topic: str, partition: int) -> None:
        self._source = source
        self._topic = topic
        self._partition = partition
        self._identity = "/".join(["kafka", *[quote(text, safe="") for text in (source, topic, str(partition))], ""])
        self._origin = f"{topic}-{partition} at "
        self._plain: set[str] = set()
        """Names of headers that were met and are not special."""

    def make_delivery(self, consumed: Any, lane: Any, problem: Exception | None = None) -> Delivery:
        """Return the delivery of a `confluent_kafka.Message` that is no error.

        With the ``problem`` of one that could not be read, it is refused for that, and has no headers.
        """
        kind, time = consumed.timestamp()
        offset, key, value = consumed.offset(), consumed.key(), consumed.value()
        headers = consumed.headers() or () if problem is None else ()
        if not kind:
            time = None
        record = _make_record(Record, (self._topic, key, value, headers, time, kind == 2, self._partition, offset))
        at = str(offset)
        # As `bind_identity` and `validate_time`, without their calls.
        check = crc32(key + value) if key and value else crc32(value or key or b"")
        identity: str = f"{self._identity}{at}/{check.to_bytes(4).hex()}"
        if time is not None:
            time = time * 1_000 if -GREATEST_MS <= time <= GREATEST_MS else None
        refusal = None if problem is None else f"it cannot be read: {problem}"
        plain = self._plain
        for name, _ in headers:
            if name not in plain and not self._is_plain(name):
                identity = identify_record(self._source, record) or identity
                try:
                    message = to_amqp(record)
                except Unmappable as error:
                    message, refusal = _showable_message(record), str(error)
                break
        else:
            message = convert_record(record)
        size = FIXED_BYTES if value is None else FIXED_BYTES + len(value)
        return Delivery(message, lane, offset, identity, time, False, size, self._origin + at, refusal)

    def _is_plain(self, name: str) -> bool:
        """Return whether a name needs no look at its value."""
        if name in SPECIAL:
            return False
        if len(self._plain) < REMEMBERED and len(name) < REMEMBERED_CHARACTERS:
            self._plain.add(name)
        return True


def _showable_message(record: Record) -> Message:
    """Return what AMQP can hold of a record: for dead letters, which name the place where the whole record is."""
    headers = [(name, value) for name, value in record.headers if is_showable(name)]
    return to_amqp(record._replace(headers=headers), None, "")
