"""Read the entries of text logs of RabbitMQ's tracing plugin (`rabbit_tracing_consumer.erl`).

The characters of an entry are written in one of three ways, depending on the release, which no entry names:

====  ==================================================  ===========================  =========================
      how terms are printed                               names and the body           characters are written
====  ==================================================  ===========================  =========================
3.10  ``~p``: no ``/utf8``, so binaries are Latin-1        as their bytes               in Latin-1
4.0   ``~tp``: ``<<"ü"/utf8>>`` where a binary is UTF-8    as UTF-8, else as Latin-1    in Latin-1
4.3   as 4.0                                              as 4.0                       in UTF-8
====  ==================================================  ===========================  =========================

So an entry is in Latin-1 if its head is not UTF-8, and also if its head has no ``/utf8`` (then its keys are those of
3.10); any other entry is in UTF-8. A body that is not ASCII may stand for more than one, so it is unknown unless it has
a character beyond Latin-1. 4.0 cannot write such characters: an entry with one in its body or a name is lost, with up
to 99 others that it would have written at once, and the broker logs nothing. The body of the last entry of a file may
have been cut at the end of a line.

A body can look like the beginning of the next entry, and is then read as one: the format has no escape for it. Lines
between entries belong to bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from bindings.archive.rabbitmq import firehose
from bindings.archive.rabbitmq.objects import ReadValue
from bindings.archive.reading import SAMPLE_BYTES, Skipped, Split
from bindings.archive.record import Rows
from bindings.archive.times import parse_time_text, to_microseconds
from bindings.archive.unpacking import read_pieces
from exchange.errors import InputError
from exchange.limits import RECORD_BYTES
from exchange.values.erlang_parser import parse
from exchange.values.field_values import Typed

TIME: Final = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d\d):(\d\d)(?:[:.](\d{1,3}))?", re.ASCII)
HEAD: Final = re.compile(
    rb"\n={80}\n(?P<time>[0-9][^\n]{0,40}): Message (?P<type>published|received)\n\n"
    rb"Node:         (?P<node>[^\n]*)\nConnection:   (?P<connection>[^\n]*)\n"
    rb"Virtual host: (?P<vhost>[^\n]*)\nUser:         (?P<user>[^\n]*)\n"
    rb"Channel:      (?P<channel>[^\n]*)\nExchange:     (?P<exchange>[^\n]*)\nRouting keys: (?=\[)"
)
"""The lines of an entry before its terms: routing keys, routed queues, properties."""
BEHIND_KEYS: Final = re.compile(rb"\]\n(?:Queue:        [^\n]*\n)?(?P<next>Routed queues: |Properties:   )(?=\[)")
BEHIND_ROUTED: Final = re.compile(rb"\]\n(?P<next>Properties:   )(?=\[)")
BEHIND_PROPERTIES: Final = re.compile(rb"\]\nPayload: \n")
BEGIN: Final = re.compile(rb"\n={80}\n[0-9][^\n]{0,40}: Message (?:published|received)(?=\n)")
RULE: Final = b"\n" + b"=" * 80 + b"\n"
BEGIN_BYTES: Final = 200
"""Maximum length of a match of `BEGIN`, in bytes."""


def read_entries(split: Split) -> Iterator[ReadValue]:
    """Yield the entries that begin in a split: each with whether it ends the file, or the reason for damage.

    The end of the file's last entry may be the beginning of another one. Each byte is searched once for the beginning
    of an entry, even if entries are long.
    """
    data, place = bytearray(), split.start
    if split.start == 0:  # the first entry may have no empty line before it: add one
        data, place = bytearray(b"\n"), -1
    begun = False
    """Whether an entry begins at the first byte of ``data``; else these belong to the split before, or to no entry."""
    searched = 0
    is_whole_file = split.start == 0
    """Whether text before the first entry must still be reported."""
    for piece in read_pieces(split.path, split.start):
        if isinstance(piece, str):
            if begun:
                yield _build_value(place, bytes(data), is_last=True)
            yield ReadValue(place + len(data), piece, b"")
            return
        data += piece
        starts = [match.start() for match in BEGIN.finditer(data, searched)]
        searched = max(len(data) - BEGIN_BYTES, 0)  # the beginning of an entry may continue in the next piece
        if starts and not begun:
            if is_whole_file and data[: starts[0]].strip():
                yield ReadValue(0, "what stands before the first entry is none", b"")
            is_whole_file = False
        ends = ([0, *starts] if begun and starts[:1] != [0] else starts) if starts else []
        for start, end in pairwise(ends):
            if split.end is not None and place + start >= split.end:
                return
            yield _build_value(place + start, bytes(data[start:end]), is_last=False)
        if ends:
            place += ends[-1]
            del data[: ends[-1]]
            searched, begun = max(len(data) - BEGIN_BYTES, 1), True
        elif not begun:
            if is_whole_file and data.strip():
                yield ReadValue(0, "what stands before the first entry is none", b"")
                is_whole_file = False
            place += searched
            del data[:searched]
            searched = 0
        if split.end is not None and place >= split.end:
            return
        if begun and len(data) > RECORD_BYTES:
            yield ReadValue(place, f"an entry of more than {RECORD_BYTES >> 20} MiB", b"")
            place += searched
            del data[:searched]
            searched, begun = 0, False
    if begun:
        yield _build_value(place, bytes(data), is_last=True)


def _build_value(place: int, entry: bytes, *, is_last: bool) -> ReadValue:
    return ReadValue(place, (entry, is_last), entry[len(RULE) : len(RULE) + SAMPLE_BYTES])


def add_text_entry(rows: Rows, entry: tuple[bytes, bool], place: int) -> Skipped | None:
    """Add the record of an entry that begins at byte ``place``. Raises InputError if it is no whole entry."""
    data, is_last = entry
    start = HEAD.match(data)
    if start is None:
        raise InputError("an entry that is not whole")
    # A printed term has "]" at the end of a line only at its own end, so the first match is the right one.
    behind_keys = BEHIND_KEYS.search(data, start.end())
    if behind_keys is None:
        raise InputError("an entry that is not whole")
    if start["type"] == b"received":
        return firehose.DELIVERY
    if behind_keys["next"].startswith(b"Properties"):
        raise InputError("no routed queues")
    behind_routed = BEHIND_ROUTED.search(data, behind_keys.end())
    behind_properties = BEHIND_PROPERTIES.search(data, behind_routed.end()) if behind_routed is not None else None
    if behind_routed is None or behind_properties is None:
        raise InputError("an entry that is not whole")
    head = data[: behind_properties.end()]
    encoding = _Encoding.detect(head)
    keys, routed, properties = (
        parse(head[begin : end.start() + 1].decode(encoding.codec))
        for begin, end in (
            (start.end(), behind_keys), (behind_keys.end(), behind_routed), (behind_routed.end(), behind_properties)
        )
    )  # fmt: skip
    body = data[len(head) :]
    published = firehose.build_record(
        encoding.decode_name(start["exchange"]), _decode_names(keys), _read_table(properties), body.removesuffix(b"\n"),
        encoding.decode_name(start["vhost"]), _decode_names(routed),
    )  # fmt: skip
    is_open = is_last and BEGUN.search(body, max(len(body) - BEGIN_BYTES, 0)) is not None
    if not body.endswith(b"\n") and not is_open:
        raise InputError("the file ends in the middle of an entry")
    rows.add(
        published.message, parse_trace_time(_decode(start["time"])), published.vhost,
        has_body=not is_open and _is_certain(body), routed_queues=published.routed_queues, offset=place + 1,
    )  # fmt: skip
    return None


BEGUN: Final = re.compile(rb"\n\n(?:={1,80}(?:\n[^\n]*)?)?\Z")
"""The end of a file that may be the beginning of the next entry, or a body that ends with an empty line."""


def _is_certain(body: bytes) -> bool:
    """Return whether a printed body can only come from one published body."""
    try:
        return body.isascii() or any(ord(character) > 0xFF for character in body.decode())
    except UnicodeDecodeError:
        return False


class _Encoding(NamedTuple):
    """The encoding of an entry's characters."""

    codec: str
    is_unicode: bool
    """Whether names were certainly printed as text, not as their bytes."""

    @classmethod
    def detect(cls, head: bytes) -> _Encoding:
        """Return the encoding of an entry, by the table in the head of this module."""
        is_unicode = b'"/utf8>>' in head
        try:
            head.decode()
        except UnicodeDecodeError:
            return cls("latin-1", is_unicode)
        return cls("utf-8" if is_unicode else "latin-1", is_unicode)

    def decode_name(self, data: bytes) -> str:
        """Return a name that is printed without quotes; names are UTF-8, so other bytes are text in Latin-1."""
        if not self.is_unicode or self.codec == "utf-8":
            try:
                return data.decode()
            except UnicodeDecodeError:
                pass
        return data.decode("latin-1")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _decode_names(term: Any) -> list[str]:
    if type(term) is not list or not all(type(item) is bytes for item in term):
        raise InputError("not a list of names")
    return [_decode(item) for item in term]


def _read_table(term: Any) -> dict[str, Any]:
    """Return the table of a term, a list of ``{Key, Type, Value}``."""
    if type(term) is not list or not all(type(item) is tuple and len(item) == 3 for item in term):
        raise InputError("not a table")
    return {
        _decode(key) if type(key) is bytes else str(key): _read_field(str(kind), value) for key, kind, value in term
    }


def _read_field(kind: str, value: Any) -> Any:
    try:
        if kind == "table":
            return _read_table(value)
        if kind == "array":
            return [_read_field(str(inner), item) for inner, item in value]
        if kind == "longstr":
            return _decode_longstr(_check_binary(value))
        if kind == "binary":
            return _check_binary(value)
        if kind == "void":
            return None
        if kind == "bool":
            return {"true": True, "false": False}[value]
        if kind == "decimal":
            return _read_decimal(*value)
        return Typed(kind, value)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise InputError(f"not a {kind[:MAX_QUOTED_CHARACTERS]}: {str(error)[:MAX_QUOTED_CHARACTERS]}") from None


MAX_QUOTED_CHARACTERS: Final = 80
"""Maximum number of characters of a wrong type or value that an error quotes."""


def _check_binary(value: Any) -> bytes:
    if type(value) is not bytes:  # bytes(n) would be n zeros
        raise TypeError("it is not a binary")
    return value


def _decode_longstr(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Typed("longstr", data)


def _read_decimal(scale: int, digits: int) -> Any:
    if not (type(scale) is type(digits) is int and 0 <= scale <= 0xFF and 0 <= digits <= 0xFFFFFFFF):
        raise ValueError("AMQP has a scale of one byte and digits of four")
    return Decimal(digits).scaleb(-scale)


def parse_trace_time(text: str) -> int:
    """Return the time of an entry: ISO 8601; brokers before 3.8 wrote ``2026-11-21 6:00:05:123``, in UTC."""
    match = TIME.fullmatch(text)
    if match is None:
        return parse_time_text(text)
    try:
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        moment = datetime(year, month, day, hour, minute, second, int((match[7] or "0").ljust(3, "0")) * 1000, UTC)
    except ValueError:
        raise InputError("timestamp is not a time") from None
    return to_microseconds(moment)
