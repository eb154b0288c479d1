"""Read RocketMQ's commit log: the messages of all topics of a broker (`MessageExtEncoder`, `MessageDecoder`).

A record contains its own position in the whole log, so the next record can be found safely from any byte: files may be
split anywhere, and after damage reading continues at the next record that is at the position it states. The body has a
checksum; topic and properties have none, so the only check is that they fit exactly into the record. A file is
allocated at full length, so it ends with a blank record, with zeros, or with the remains of a killed broker.

A `bindings.archive.mapping.FieldMapping` names the fields of a message that become its exchange and routing key.
Headers are the user properties, TAGS, KEYS and the lite topic; a priority that AMQP can have is a property. Messages of
RocketMQ's own topics (retries, delays, halves of transactions) are skipped: they are no publishings, or not yet. Topics
of the type BatchCQ keep a producer's batch in one record; each of its messages becomes a row, with the position of that
record.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple

from bindings.archive.mapped import Bytes, Effort, Mapped, is_copied, is_zero
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place, to_path
from bindings.archive.reading import (
    SPLIT_BYTES,
    Bad,
    Bias,
    CompletePart,
    Format,
    Item,
    Skipped,
    Split,
    plan_ranges,
    take_sample,
)
from bindings.archive.record import Rows
from bindings.archive.routing_keys import rename
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.priority import PRIORITY, parse_priority
from exchange.rocketmq.stored_record import (
    BATCH,
    LEAST,
    START,
    V1,
    V2,
    BatchMessage,
    parse_properties,
    split_batch,
    split_record,
    unpack_body,
)
from exchange.values.message import Message

NAME: Final = re.compile(r"[0-9]{20}(?:\.gz)?")
FOLDER: Final = "commitlog"
MAGICS: Final = re.compile(b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (V1, V2)))
WHOLE_CRC: Final = re.compile(rb"__CRC32#\x01([0-9]{10})\x02\Z")
BLANK: Final = 0xCBD43194
BLANK_BYTES: Final = 8
"""Minimum number of bytes behind the last record of a file (`CommitLog.END_FILE_MIN_BLANK_LENGTH`)."""

ESCAPED: Final = "x-rocketmq-property-"
"""The same as in `bridge.interop`."""
TRANSACTION: Final = 0xC
COMMITTED: Final = (0x0, 0x8)

OWN_TOPICS: Final = (
    "%RETRY%", "%DLQ%", "RMQ_SYS_", "rmq_sys_", "SCHEDULE_TOPIC_XXXX", "TBW102", "%SYS%", "TRANS_CHECK_MAX_TIME_TOPIC",
    "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "CHECKPOINT_TOPIC",
)  # fmt: skip
"""Prefixes of the names of RocketMQ's own topics (`TopicValidator`)."""
OWN: Final = Skipped("a message of RocketMQ's own: a retry, a delay, a half of a transaction")
SYSTEM: Final = frozenset({
    "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CHECK_IMMUNITY_TIME_IN_SECONDS", "CLUSTER",
    "CONSUME_START_TIME", "CORRECTION_FLAG", "CORRELATION_ID", "DELAY", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC",
    "DUP_INFO", "EXTEND_UNIQ_INFO", "INNER_BASE", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "INNER_NUM",
    "INSTANCE_ID", "MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG", "MSG_REGION", "MSG_TYPE",
    "ORIGIN_GROUP", "ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK", "POP_CK_OFFSET", "PROPERTY_FORWARD_QUEUE_ID",
    "PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME", "REDIRECT", "REPLY_TO_CLIENT", "RETRY_TOPIC",
    "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY",
    "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_LABEL", "TIMER_ROLL_TIMES", "TRACE_CONTEXT",
    "TRACE_ON", "TRANSACTION_CHECK_TIMES", "TRANSFER_FLAG", "TRANS_OFFSET", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET",
    "TTL", "UNIQ_KEY", "WAIT", "__BORNHOST", "__CRC32#", "__transactionId__",
})  # fmt: skip
"""Properties that only clients and brokers set (`MessageConst`), without priority and lite topic."""
GREATEST_PRIORITY: Final = 255
"""Greatest priority of AMQP; a greater one of RocketMQ stays a header."""
CHUNK: Final = 1 << 20
"""Number of zero bytes that mark the end of what was written; at the end of the file fewer are enough."""


class LogRecord(NamedTuple):
    """A record in the log."""

    size: int
    born: int
    flag: int
    body: bytes
    topic: bytes
    properties: bytes


@dataclass(frozen=True)
class RocketmqLog(Format):
    """The format of files of RocketMQ's commit log."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "RocketMQ commit log"
    grows: ClassVar[bool] = True
    in_place: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = "exchange and routing key of messages are taken from where --exchange and --routing-key point"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file begins with a record or a blank, or was allocated in advance by a broker."""
        if NAME.fullmatch(path.name) and not any(head):
            return True
        if len(head) < START.size:
            return False
        size, magic = START.unpack_from(head)[:2]
        return magic in (V1, V2, BLANK) and size >= 8

    def expects(self, path: AnyPath) -> bool:
        return path.parent.name == FOLDER and NAME.fullmatch(path.name) is not None

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return _find_first_base(head) is not None

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return [Split(path)] if is_copied(path) else plan_ranges(path, split_bytes)

    def plan_complete(self, path: Place, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """Return all records up to the last whole one; the whole file if it ends with a blank."""
        with Mapped(path) as data:
            base = _find_base(path, data)
            # Beginnings of the splits, of the last record, and where the search is.
            starts, last, place, is_open = [start], -1, start, False
            while place < len(data):
                size = START.unpack_from(data, place)[0] if _claims_place(data, base, place) else 0
                if size < LEAST or place + size > len(data):
                    if _ends_in_blank(data, base, place):
                        size = len(data) - place
                    elif not any(data[place : place + CHUNK]):
                        break  # the log is not written further yet
                    else:
                        size = _find_claimed(data, base, place + 1) - place
                        if place + size >= len(data):
                            is_open = True
                            break
                if place - starts[-1] >= split_bytes:
                    starts.append(place)
                last, place = place, place + size
            if (
                last >= 0
                and _claims_place(data, base, last)
                and (not data[place - 1] or isinstance(read_record(data, base, last), str))
            ):  # it may be incomplete (zeros are not written yet); once a record follows, damage is reported
                place, is_open = last, True
            splits = [Split(path, *pair, exact=True) for pair in pairwise([*starts, place]) if pair[0] < pair[1]]
            return CompletePart(splits, place, is_open)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        rows = Rows(split.source, columns)
        mapped = Mapped(split.path)
        with mapped as data:
            base = _find_base(split.path, data)
            for place, record in read_log(data, base, split):
                if isinstance(record, str):
                    yield Bad(split.source, base + place, record, take_sample(data[place : place + 100]))
                    continue
                topic = record.topic.decode("utf-8", "surrogateescape")
                if topic.startswith(OWN_TOPICS) or record.flag & TRANSACTION not in COMMITTED:
                    yield OWN
                    continue
                try:
                    messages = _split_messages(record)
                except InputError as error:
                    yield Bad(split.source, base + place, str(error), take_sample(data[place : place + 100]))
                    continue
                for body, properties, _ in messages:
                    try:
                        self._add(rows, topic, body, parse_properties(properties), record.born, base + place)
                    except HashstarError as error:
                        yield Bad(split.source, base + place, str(error), take_sample(data[place : place + 100]))
                if rows.is_full:
                    yield rows.batch()
            if mapped.problem:
                yield Bad(split.source, base + len(data), mapped.problem, records=None)
        if len(rows):
            yield rows.batch()

    def _add(self, rows: Rows, topic: str, body: bytes, properties: dict[str, str], born: int, place: int) -> None:
        """Add a message. Raises InputError for one without the fields that are to be exchange and routing key."""
        texts = []
        for wanted, what in ((self.mapping.exchange, "exchange"), (self.mapping.routing_key, "routing key")):
            text = _find_field(wanted, topic, properties)
            if text is None and what == "routing key" and self.mapping.allows_no_key:
                text = ""
            if text is None:
                raise InputError(f"a message without {wanted}, which is to be its {what}")
            texts.append(text)
        headers = {name: value for name, value in properties.items() if name not in SYSTEM}
        known: dict[str, str | int] = {"message_id": properties["UNIQ_KEY"]} if "UNIQ_KEY" in properties else {}
        priority = parse_priority(headers.get(PRIORITY, ""))
        if priority is not None and priority <= GREATEST_PRIORITY:
            known["priority"] = priority
            del headers[PRIORITY]
        message = Message(texts[0], texts[1], rename(headers, ESCAPED), known, body)
        rows.add(message, born * 1000 if born > 0 else None, offset=place)


def _find_field(wanted: str, topic: str, properties: dict[str, str]) -> str | None:
    """Return what a `FieldMapping` points to, such as ``tag`` or ``header:region``; None if the message lacks it."""
    if wanted == "topic":
        return topic
    if wanted.startswith("="):
        return wanted[1:]
    if wanted == "tag":
        return properties.get("TAGS")
    if wanted == "key":
        return properties["KEYS"].split(" ")[0] if properties.get("KEYS") else None
    return properties.get(wanted.removeprefix("header:"))


def _split_messages(record: LogRecord) -> list[BatchMessage]:
    """Return the message of a record, or the messages of a batch. Raises InputError."""
    body = unpack_body(record.body, record.flag)
    return split_batch(body) if record.flag & BATCH == BATCH else [BatchMessage(body, record.properties, 0)]


def _find_base(path: Place, data: Bytes) -> int:
    """Return the position in the whole log at which the file begins, by its name, else by its first sound record."""
    name = to_path(path).name
    if NAME.fullmatch(name):
        return int(name[:20])
    return _find_first_base(data) or 0


def _find_first_base(data: Bytes) -> int | None:
    """Return the position in the whole log at which the data begin, by the first sound record; None without one."""
    effort, place = Effort(0), -1
    while (place := _find_magic(data, place + 1)) < len(data):
        if place + LEAST <= len(data):
            base = START.unpack_from(data, place)[6] - place
            if base >= 0 and isinstance(read_record(data, base, place, effort), LogRecord):
                return int(base)
    return None


def read_log(data: Bytes, base: int, split: Split) -> Iterator[tuple[int, LogRecord | str]]:
    """Yield byte and record for the records that begin in a split; for a damaged one, the reason as a text.

    Damage after a record is reported by the split of that record, so a split skips damage at its beginning. A record
    that claims to begin in a split, sound or not, is read or reported by that split.
    """
    end = len(data) if split.end is None else split.end
    place = split.start if split.start == 0 or split.exact else _find_claimed(data, base, split.start)
    if place >= end:
        return
    effort = Effort(place)
    while place < len(data):
        if place >= end and (split.exact or _claims_place(data, base, place)):
            return
        record = read_record(data, base, place, effort)
        if isinstance(record, LogRecord):
            yield place, record
            place += record.size
            continue
        is_unwritten = is_zero(data, place) and len(data) - place >= BLANK_BYTES
        if is_unwritten or _ends_in_blank(data, base, place):
            return
        following = _find_following(data, base, place)
        yield place, record if following < len(data) else f"{record}, and the file ends with it"
        if following >= end:
            return
        place = following


def _find_following(data: Bytes, base: int, place: int) -> int:
    """Return the byte at which the next record begins after a damaged one.

    If the size of the damaged record is right, that is its end, so that no bytes in its body are read as a record.
    """
    if _claims_place(data, base, place):
        size: int = START.unpack_from(data, place)[0]
        if size >= LEAST and _claims_place(data, base, place + size):
            return place + size
    return _find_claimed(data, base, place + 1)


def read_record(data: Bytes, base: int, place: int, effort: Effort | None = None) -> LogRecord | str:
    """Return the record at ``place``, or what is wrong with it. ``effort`` bounds the hashing over a whole file."""
    if place + LEAST > len(data):
        return "not a record"
    size, magic, crc, _, _, _, log_place, flag, born = START.unpack_from(data, place)
    if magic not in (V1, V2) or log_place != base + place or size < LEAST:
        return "not a record"
    if place + size > len(data):
        return "a record that is not whole"
    if effort is not None and not effort.allows(place + size, size):
        return "a record among too many that overlap: it is not looked at"
    pieces = split_record(data, place, size, magic, flag)
    if pieces is None:
        return "a record whose parts do not fit in it"
    body, topic, properties = pieces
    if zlib.crc32(body) & 0x7FFFFFFF != crc & 0x7FFFFFFF:
        return "a body whose checksum is wrong"
    if not _is_checked(data, place, size, properties):
        return "a record whose checksum is wrong"
    if properties.endswith(b"\0"):  # they come last and have no checksum: zeros at the end were not written
        return "a record that is not whole"
    return LogRecord(size, born, flag, body, topic, properties)


def _is_checked(data: Bytes, place: int, size: int, properties: bytes) -> bool:
    """Return whether the checksum at the end of a record is right or missing.

    Brokers write it since 5.1.1 with ``enabledAppendPropCRC``. It covers all bytes before it, and has ten digits in
    reverse order (`MessageDecoder.createCrc32`).
    """
    match = WHOLE_CRC.search(properties)
    if match is None:
        return True
    return int(match[1][::-1]) == zlib.crc32(data[place : place + size - len(match[0])]) & 0x7FFFFFFF


def _find_claimed(data: Bytes, base: int, place: int) -> int:
    """Return the next byte at which a record claims to begin, sound or not; the end of the data if there is none."""
    while (place := _find_magic(data, place)) < len(data):
        if _claims_place(data, base, place):
            return place
        place += 1
    return len(data)


def _find_magic(data: Bytes, place: int) -> int:
    """Return the next position with the magic of a record 4 bytes after it; the end of the data if there is none."""
    match = MAGICS.search(data, place + 4)
    return len(data) if match is None else match.start() - 4


def _claims_place(data: Bytes, base: int, place: int) -> bool:
    """Return whether the bytes at ``place`` claim to be a record that begins there."""
    if place + START.size > len(data):
        return False
    head = START.unpack_from(data, place)
    return head[1] in (V1, V2) and head[6] == base + place


def _ends_in_blank(data: Bytes, base: int, place: int) -> bool:
    """Return whether a blank fills the rest of the file, so that the log continues in the next file."""
    return data[place + 4 : place + 8] == BLANK.to_bytes(4, "big") and _find_claimed(data, base, place + 8) == len(data)
